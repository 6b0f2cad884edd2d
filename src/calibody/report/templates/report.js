"use strict";
// The figures. Data come from the element #data; arrays are float32 in base64.
const report = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const color = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
  const unpacked = new Map();

  function unpack(text) {
    if (!unpacked.has(text)) {
      const raw = atob(text), bytes = new Uint8Array(raw.length);
      for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
      unpacked.set(text, new Float32Array(bytes.buffer));
    }
    return unpacked.get(text);
  }

  function theme(name) {
    root.dataset.theme = name;
    drawAll();
    document.dispatchEvent(new Event("themechange"));
  }

  function layout(more) {
    const axis = { gridcolor: color("grid"), linecolor: color("line"), zerolinecolor: color("line"), automargin: true, exponentformat: "power" };
    const out = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", margin: { l: 64, r: 16, t: 30, b: 48 },
      font: { family: "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif", size: 12.5, color: color("ink") },
      legend: { orientation: "h", x: 0, y: 1.0, yanchor: "bottom", font: { size: 12 } }, hovermode: "closest", modebar: { bgcolor: "rgba(0,0,0,0)", color: color("line"), activecolor: color("soft") },
      hoverlabel: { bgcolor: color("panel"), bordercolor: color("line"), font: { color: color("ink") } }, ...more,
    };
    for (const key of Object.keys(out)) if (/^[xy]axis/.test(key)) out[key] = { ...axis, ...out[key] };
    return out;
  }

  function plot(id, traces, more, config) {
    const box = byId(id);
    if (box) Plotly.react(box, traces, layout(more), { displaylogo: false, responsive: true, modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"], ...config });
  }

  function choices(select, names) {
    if (!select) return;
    select.replaceChildren(...names.map((name) => new Option(name, name)));
    if (select.parentElement.tagName === "LABEL") select.parentElement.hidden = names.length < 2;
  }

  const titled = (text, unit) => ({ title: { text: unit ? `${text} [${unit}]` : text, standoff: 8 } });

  // -- figures ------------------------------------------------------------------------------------------------------

  function correlation() {
    const { names, matrix } = data.correlation;
    const box = byId("correlation");
    if (!box || names.length < 2) return;
    box.style.height = Math.max(320, 40 + 30 * names.length + 130) + "px";
    const dark = root.dataset.theme === "dark", middle = dark ? "#19212b" : "#f7f8fa";
    plot("correlation", [{
      type: "heatmap", z: matrix, x: names, y: names, zmin: -1, zmax: 1, xgap: 1, ygap: 1,
      colorscale: [[0, "#c8552b"], [0.5, middle], [1, "#1f6fd1"]], colorbar: { thickness: 12, outlinewidth: 0, title: { text: "correlation", side: "right" } },
      text: names.length <= 16 ? matrix.map((row) => row.map((x) => (Math.abs(x) < 0.005 ? 0 : x).toFixed(2))) : undefined, texttemplate: names.length <= 16 ? "%{text}" : undefined,
      hovertemplate: "%{y}<br>%{x}<br>%{z:.3f}<extra></extra>",
    }], { xaxis: { tickangle: -40, showgrid: false }, yaxis: { autorange: "reversed", showgrid: false }, margin: { l: 10, r: 10, t: 10, b: 10 } }, { displayModeBar: false });
  }

  const chosen = () => data.channels.find((c) => c.run === byId("series-run").value && c.channel === byId("series-channel").value) || data.channels[0];

  function series() {
    const c = chosen(), t = unpack(c.time);
    const line = (name, y, style) => ({ x: t, y: unpack(y), name, ...style });
    const traces = [
      line("measured", c.measured, { mode: "markers", marker: { size: 3.5, color: color("measured") } }),
      line("fitted", c.fitted, { mode: "lines", line: { width: 1.8, color: color("fitted") } }),
    ];
    if (c.hasPrediction) traces.push(line("predicted freely", c.predicted, { mode: "lines", line: { width: 1.5, dash: "dash", color: color("predicted") } }));
    traces.push(line("residual", c.residual, { mode: "markers", marker: { size: 3, color: color("fitted") }, yaxis: "y2", showlegend: false }));
    const end = t[t.length - 1];
    const band = { type: "rect", xref: "x", yref: "y2", x0: 0, x1: end, y0: -2 * c.sd, y1: 2 * c.sd, fillcolor: color("fitted"), opacity: 0.12, line: { width: 0 }, layer: "below" };
    plot("series-plot", traces, {
      xaxis: { ...titled("time since the start of the run", "s"), anchor: "y2" }, yaxis: { ...titled(c.channel, c.unit), domain: [0.36, 1] },
      yaxis2: { ...titled("residual", c.unit), domain: [0, 0.28] }, shapes: [band], hovermode: "x unified",
    });
    byId("series-note").textContent = "The band is ±2 sd of the noise." + (c.shown < c.samples ? ` Shown are ${c.shown} of ${c.samples} samples; the largest residuals are among them.` : "");
    const level = { type: "line", xref: "paper", x0: 0, x1: 1, y0: c.level, y1: c.level, line: { color: color("soft"), dash: "dot", width: 1.3 } };
    const f = unpack(c.frequency);
    plot("spectrum", [
      { x: f, y: unpack(c.measuredPower), name: "measured", mode: "lines", line: { color: color("measured"), width: 1.2 } },
      { x: f, y: unpack(c.residualPower), name: "residual", mode: "lines", line: { color: color("fitted"), width: 1.8 } },
    ], { xaxis: { ...titled("frequency", "Hz"), type: "log" }, yaxis: { ...titled(`power density`, c.unit ? `(${c.unit})²/Hz` : ""), type: "log" }, shapes: [level],
      annotations: [{ xref: "paper", x: 1, y: Math.log10(c.level), text: "white noise", showarrow: false, yanchor: "bottom", xanchor: "right", font: { size: 11, color: color("soft") } }] });
    const r = unpack(c.memory), lags = Array.from(r, (_, k) => k + 1);
    const edge = { type: "rect", xref: "paper", x0: 0, x1: 1, y0: -c.band, y1: c.band, fillcolor: color("good"), opacity: 0.16, line: { width: 0 }, layer: "below" };
    const top = Math.max(0.2, ...Array.from(r, Math.abs)) * 1.1;
    plot("memory", [{ type: "bar", x: lags, y: r, marker: { color: color("fitted") }, name: "autocorrelation", showlegend: false }],
      { xaxis: titled("lag in samples"), yaxis: { ...titled("autocorrelation of the residual"), range: [-top, top] }, shapes: [edge], bargap: 0.35 });
  }

  function validation() {
    if (!data.validation.length) return;
    const v = data.validation.find((x) => x.run === byId("validation-run").value && x.channel === byId("validation-channel").value) || data.validation[0];
    const whole = data.channels.find((c) => c.run === v.run && c.channel === v.channel);
    const t = unpack(v.time), mean = unpack(v.predicted), band = unpack(v.band), y = unpack(v.measured);
    const tone = color("predicted"), soft = tone + "2e";
    const edges = (middle, axis) => [1, -1].map((sign, k) => ({
      x: t, y: Array.from(middle, (m, i) => m + sign * band[i]), mode: "lines", line: { width: 0, color: tone }, hoverinfo: "skip", yaxis: axis,
      name: "95 % band", showlegend: k === 1 && axis === "y", ...(k === 1 ? { fill: "tonexty", fillcolor: soft } : {}),
    }));
    const marks = [[t[0], "left out from here"], ...(v.end === null ? [] : [[v.end, "judged up to here"]])];
    const end = whole ? unpack(whole.time) : t;
    plot("validation-plot", [
      ...edges(mean, "y"), ...edges(Array.from(mean, () => 0), "y2"),
      { x: end, y: whole ? unpack(whole.measured) : y, name: "measured", mode: "markers", marker: { size: 3.5, color: color("measured") } },
      { x: t, y: mean, name: "predicted without it", mode: "lines", line: { width: 1.8, color: tone } },
      { x: t, y: Array.from(y, (m, i) => m - mean[i]), name: "measured − predicted", mode: "markers", marker: { size: 3, color: color("measured") }, yaxis: "y2", showlegend: false },
    ], {
      xaxis: { ...titled("time since the start of the run", "s"), anchor: "y2" }, yaxis: { ...titled(v.channel, v.unit), domain: [0.4, 1] },
      yaxis2: { ...titled("error", v.unit), domain: [0, 0.32] }, hovermode: "x unified",
      shapes: marks.map(([x]) => ({ type: "line", x0: x, x1: x, yref: "paper", y0: 0, y1: 1, line: { color: color("soft"), dash: "dot", width: 1.3 } })),
      annotations: marks.map(([x, text]) => ({ x, xanchor: "left", yref: "paper", y: 1, yanchor: "top", text, showarrow: false, font: { size: 11, color: color("soft") } })),
    });
  }

  function forces() {
    if (!data.forces.length) return;
    const f = data.forces.find((x) => x.run === byId("forces-run").value && x.name === byId("forces-name").value) || data.forces[0];
    const t = unpack(f.time), tones = [color("fitted"), color("predicted"), color("good"), color("third"), color("mind"), color("bad")];
    const parts = Object.entries(f.parts);
    const traces = parts.map(([part, y], k) => ({ x: t, y: unpack(y), name: part, mode: "lines", line: { width: 1.4, color: tones[k] } }));
    if (parts.length === 3) {
      const [x, y, z] = parts.map(([, v]) => unpack(v));
      traces.push({ x: t, y: Array.from(x, (a, k) => Math.hypot(a, y[k], z[k])), name: "magnitude", mode: "lines", line: { width: 2, color: color("ink") } });
    }
    parts.forEach(([part], k) => {
      const b = f.bars[part];
      if (b) traces.push({
        x: unpack(b.time), y: unpack(b.value), name: part, mode: "markers", marker: { size: 4, color: tones[k] }, showlegend: false, customdata: unpack(b.sd),
        error_y: { type: "data", array: Array.from(unpack(b.sd), (s) => 2 * s), color: tones[k], thickness: 1.4, width: 4 }, hovertemplate: "%{y:.5g} ± %{customdata:.2g} (sd)",
      });
    });
    const counted = Object.values(f.bars).map((b) => unpack(b.time).length);
    byId("forces-note").textContent = (counted.length ? `Points with bars: ±2 sd at ${Math.max(...counted)} instants; zoom in to see them.` : "")
      + (f.open.length ? ` Not everywhere determined by the data, so without a bar there: ${f.open.map((p) => (p === "value" ? f.name : p)).join(", ")}.` : "");
    plot("forces-plot", traces, { xaxis: titled("time since the start of the run", "s"), yaxis: titled(f.name, f.unit), hovermode: "x unified", showlegend: parts.length > 1 });
  }

  function convergence() {
    const c = data.convergence;
    plot("cost", [
      { x: c.iteration, y: c.cost, name: "cost", mode: "lines+markers", line: { color: color("fitted") }, marker: { size: 5 } },
      { x: c.iteration, y: c.change, name: "size of the step [sd]", mode: "lines+markers", line: { color: color("predicted") }, marker: { size: 5 }, yaxis: "y2" },
    ], { xaxis: titled("iteration"), yaxis: { ...titled("cost"), type: "log", nticks: 6 }, yaxis2: { ...titled("step [sd]"), type: "log", dtick: 2, overlaying: "y", side: "right", showgrid: false }, margin: { l: 64, r: 64, t: 30, b: 48 } });
    const k = c.distance.length ? Array.from(c.distance[0], (_, i) => i) : [];
    const largest = Math.max(...c.distance.flat().map(Math.abs), 1e-9);
    plot("path", c.distance.map((d, i) => ({ x: k, y: d, name: c.names[i], mode: "lines", line: { width: 1.5 }, hovertemplate: "%{y:.4f}" })),
      { xaxis: titled("iteration"), yaxis: { ...titled("(value − final) / size"), range: [-Math.min(1.1 * largest, 6), Math.min(1.1 * largest, 6)] }, showlegend: c.names.length <= 4 });
  }

  function drawAll() {
    if (data === null) return;
    correlation(); series(); validation(); forces(); convergence();
  }

  // -- start --------------------------------------------------------------------------------------------------------

  function start() {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "dark" : "light";
    byId("theme").addEventListener("click", () => theme(root.dataset.theme === "dark" ? "light" : "dark"));
    if (data === null) return;
    choices(byId("series-run"), data.runs);
    const channels = () => choices(byId("series-channel"), data.channels.filter((c) => c.run === byId("series-run").value).map((c) => c.channel));
    channels();
    byId("series-run").addEventListener("change", () => { const was = byId("series-channel").value; channels(); byId("series-channel").value = was; series(); });
    byId("series-channel").addEventListener("change", series);
    if (data.validation.length) {
      choices(byId("validation-run"), [...new Set(data.validation.map((v) => v.run))]);
      const names = () => choices(byId("validation-channel"), data.validation.filter((v) => v.run === byId("validation-run").value).map((v) => v.channel));
      names();
      byId("validation-run").addEventListener("change", () => { const was = byId("validation-channel").value; names(); byId("validation-channel").value = was; validation(); });
      byId("validation-channel").addEventListener("change", validation);
    }
    if (data.forces.length) {
      choices(byId("forces-run"), [...new Set(data.forces.map((f) => f.run))]);
      const names = () => choices(byId("forces-name"), data.forces.filter((f) => f.run === byId("forces-run").value).map((f) => f.name));
      names();
      byId("forces-run").addEventListener("change", () => { const was = byId("forces-name").value; names(); byId("forces-name").value = was; forces(); });
      byId("forces-name").addEventListener("change", forces);
    }
    drawAll();
    let before = null;
    addEventListener("beforeprint", () => { before = root.dataset.theme; theme("light"); });
    addEventListener("afterprint", () => { if (before) theme(before); });
  }
  start();
  return { data, unpack, color, byId, choices };
})();
