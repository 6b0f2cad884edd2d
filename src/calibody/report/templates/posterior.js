"use strict";
// The figures of the posterior: draws in pairs, and bands.
(() => {
  const { data, unpack, color, byId, choices, plot, overTime, titled, follow } = report;

  function corner() { // draws of pairs of parameters, about the estimate
    if (!data.posterior || !byId("corner")) return;
    const c = data.posterior.corner, n = c.names.length, gap = 0.02, size = 1 / n, traces = [], axes = {}, tones = [color("fitted"), color("predicted"), color("good"), color("third"), color("mind"), color("bad")];
    byId("corner").style.minWidth = `${Math.min(150 * n, 1000)}px`; // narrower its labels run into each other: it is scrolled
    const width = byId("corner").clientWidth || 900;
    byId("corner").style.height = `${Math.max(Math.min(width, 190 * n), 260)}px`;
    const shades = c.mode.map((m) => tones[(m - 1) % tones.length]), short = (name) => name.split(".").slice(-2).join(".");
    const small = (text) => ({ title: { text, standoff: 6, font: { size: 11 } } });
    const ticks = c.draws.map((d, j) => { // beside zero one to either side, in every panel
      const most = 0.75 * Math.max(2.4 * (c.sds[j] || 0), ...unpack(d).map(Math.abs)), ten = 10 ** Math.floor(Math.log10(most));
      const t = most > 0 && Number((ten * [5, 2, 1].find((f) => f * ten <= most)).toPrecision(1));
      return t ? { tickvals: [-t, 0, t], ticktext: [`−${t}`, "0", `${t}`] } : { nticks: 3 };
    });
    let k = 0;
    for (let i = 0; i < n; i++) for (let j = 0; j <= i; j++) {
      k++;
      const x = unpack(c.draws[j]), y = unpack(c.draws[i]), tag = k > 1 ? k : "", last = i === n - 1;
      const base = { xaxis: `x${tag}`, yaxis: `y${tag}`, showlegend: false, hoverinfo: "skip" };
      axes[`xaxis${tag}`] = { domain: [j * size + gap, (j + 1) * size], anchor: `y${tag}`, showticklabels: last, ...ticks[j], ...(last ? small(`${short(c.names[j])}<br>− ${Number(c.estimates[j].toPrecision(4))} [${c.units[j] || "1"}]`) : {}), tickfont: { size: 10 } };
      axes[`yaxis${tag}`] = { domain: [1 - (i + 1) * size + gap, 1 - i * size], anchor: `x${tag}`, showticklabels: j === 0 && i > 0, ...(i > j ? ticks[i] : { nticks: 3 }), ...(j === 0 && i > 0 ? small(short(c.names[i])) : {}), tickfont: { size: 10 } };
      const sx = c.sds[j], sy = c.sds[i], turn = Array.from({ length: 61 }, (_, a) => (a / 60) * 2 * Math.PI);
      if (i === j) {
        traces.push({ type: "histogram", x, histnorm: "probability density", marker: { color: color("fitted") }, opacity: 0.6, ...base });
        if (sx) {
          const at = Array.from({ length: 61 }, (_, a) => (a / 10 - 3) * sx);
          traces.push({ x: at, y: at.map((v) => Math.exp((-0.5 * v * v) / sx / sx) / sx / Math.sqrt(2 * Math.PI)), mode: "lines", line: { color: color("ink"), width: 1.4 }, ...base });
        }
      } else {
        traces.push({ x, y, mode: "markers", marker: { size: 2.6, color: shades, opacity: 0.55 }, ...base });
        if (sx && sy) {
          const r = c.correlation[i][j], s = 2.448, q = Math.sqrt(Math.max(1 - r * r, 0)); // 95 % of a Gaussian of two dimensions
          traces.push({ x: turn.map((a) => s * sx * Math.cos(a)), y: turn.map((a) => s * sy * (r * Math.cos(a) + q * Math.sin(a))), mode: "lines", line: { color: color("ink"), width: 1.4 }, ...base });
        }
      }
    }
    plot("corner", traces, { ...axes, margin: { l: 60, r: 10, t: 10, b: 60 }, bargap: 0.02 }, { displayModeBar: false });
  }

  function bands() {
    const all = data.posterior ? data.posterior.bands : [];
    if (!all.length || !byId("bands-plot")) return;
    const v = all.find((b) => b.run === byId("bands-run").value && b.channel === byId("bands-channel").value) || all[0];
    const t = unpack(v.time), low = unpack(v.low), high = unpack(v.high), middle = unpack(v.middle), y = unpack(v.measured), tone = color("predicted");
    const minus = (a) => Array.from(a, (x, i) => x - middle[i]);
    const edges = (a, b, axis) => [[a, {}], [b, { fill: "tonexty", fillcolor: tone + "2e" }]].map(([z, more], k) => ({ x: t, y: z, mode: "lines", line: { width: 0, color: tone }, hoverinfo: "skip", yaxis: axis, name: "90 % band", showlegend: k === 1 && axis === "y", ...more }));
    overTime("bands-plot", v.run, [
      ...edges(high, low, "y"), ...edges(minus(high), minus(low), "y2"),
      { x: t, y, name: "measured", mode: "markers", marker: { size: 3.5, color: color("measured") } },
      { x: t, y: middle, name: "median of the draws", mode: "lines", line: { width: 1.8, color: tone } },
      { x: t, y: minus(y), name: "measured − median", mode: "markers", marker: { size: 3, color: color("measured") }, yaxis: "y2", showlegend: false },
    ], { xaxis: { ...titled("time since the start of the run", "s"), anchor: "y2" }, yaxis: { ...titled(v.channel, v.unit), domain: [0.4, 1] }, yaxis2: { ...titled("error", v.unit), domain: [0, 0.32] }, hovermode: "x unified" });
  }

  function drawAll() {
    corner(); bands();
  }

  function start() {
    document.addEventListener("themechange", drawAll);
    if (data.posterior && data.posterior.bands.length) {
      choices(byId("bands-run"), [...new Set(data.posterior.bands.map((b) => b.run))]);
      const names = () => choices(byId("bands-channel"), data.posterior.bands.filter((b) => b.run === byId("bands-run").value).map((b) => b.channel));
      names();
      byId("bands-run").addEventListener("change", () => { const was = byId("bands-channel").value; names(); byId("bands-channel").value = was; bands(); follow(byId("bands-run").value); });
      byId("bands-channel").addEventListener("change", bands);
    }
    drawAll();
  }
  start();
})();
