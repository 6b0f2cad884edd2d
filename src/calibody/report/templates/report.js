"use strict";
// The figures. Data come from the element #data; arrays are float32 in base64.
const report = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const color = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
  const unpacked = new Map(), SHOWN = 3, BAND = 20; // channels of the time series at first; instants with a standard deviation from which a band is drawn

  function unpack(text) {
    if (!unpacked.has(text)) {
      const raw = atob(text), bytes = new Uint8Array(raw.length);
      for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
      unpacked.set(text, new Float32Array(bytes.buffer));
    }
    return unpacked.get(text);
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
    const box = byId(id), narrow = innerWidth < 600;
    if (!box) return;
    const options = narrow ? { ...more, margin: { l: 44, r: 10, t: 30, b: 44, ...more.margin }, dragmode: false } : more; // a finger scrolls the page
    Plotly.react(box, traces, layout(options), { displaylogo: false, responsive: true, displayModeBar: narrow ? false : "hover", modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"], ...config });
  }

  // -- one time for all ---------------------------------------------------------------------------------------------

  const timed = {}; // by id of a plot over time: the run that it shows
  let seek = () => {}, show = () => {}, now = { run: null, time: 0 };

  function overTime(id, run, traces, more) { // a plot whose cursor is the replay's
    const box = byId(id), fresh = box && !box.on;
    plot(id, traces, more);
    if (!box) return;
    timed[id] = run;
    if (fresh) {
      const mark = document.createElement("div");
      mark.className = "cursor";
      box.append(mark);
      box.on("plotly_click", (e) => { show(timed[id]); seek(e.points[0].x); });
      for (const event of ["plotly_relayout", "plotly_afterplot"]) box.on(event, () => place(id));
    }
    place(id);
  }

  function place(id) { // the cursor of a plot
    const box = byId(id), mark = box.querySelector(".cursor"), full = box._fullLayout;
    if (!mark || !full || !full.xaxis || !full.xaxis.range) return;
    const axis = full.xaxis, x = axis.l2p(now.time), inside = timed[id] === now.run && x >= 0 && x <= axis._length;
    mark.hidden = !inside;
    if (inside) Object.assign(mark.style, { left: `${full._size.l + x}px`, top: `${full._size.t}px`, height: `${full._size.h}px` });
  }

  function cursor(run, time) {
    now = { run, time };
    Object.keys(timed).forEach(place);
  }

  function follow(run) { // every section shows this run, as far as it has it
    show(run);
    for (const id of ["series-run", "bands-run", "validation-run", "torque-run", "forces-run"]) {
      const select = byId(id);
      if (select && select.value !== run && [...select.options].some((o) => o.value === run)) { select.value = run; select.dispatchEvent(new Event("change")); }
    }
  }

  function choices(select, names) {
    if (!select) return;
    select.replaceChildren(...names.map((name) => new Option(name, name)));
    if (select.parentElement.tagName === "LABEL") select.parentElement.hidden = names.length < 2;
  }

  const titled = (text, unit) => ({ title: { text: unit ? `${text} [${unit}]`.trim() : text, standoff: 8 } });

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
      text: names.length <= (innerWidth < 600 ? 5 : 16) ? matrix.map((row) => row.map((x) => (Math.abs(x) < 0.005 ? 0 : x).toFixed(2))) : undefined, texttemplate: names.length <= (innerWidth < 600 ? 5 : 16) ? "%{text}" : undefined,
      hovertemplate: "%{y}<br>%{x}<br>%{z:.3f}<extra></extra>",
    }], { xaxis: { tickangle: -40, showgrid: false }, yaxis: { autorange: "reversed", showgrid: false }, margin: { l: 10, r: 10, t: 10, b: 10 } }, { displayModeBar: false });
  }

  const picked = new Set(); // channels of the time series
  const ofRun = () => data.channels.filter((c) => c.run === byId("series-run").value);
  const chosen = () => ofRun().find((c) => c.channel === byId("residual-channel").value) || ofRun()[0];

  function chips() { // a button for every channel of the run
    const names = ofRun().map((c) => c.channel);
    if (![...picked].some((name) => names.includes(name))) { picked.clear(); names.slice(0, SHOWN).forEach((name) => picked.add(name)); }
    byId("series-channels").replaceChildren(...(names.length < 2 ? [] : names).map((name) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = name;
      button.setAttribute("aria-pressed", picked.has(name));
      button.addEventListener("click", () => {
        if (!picked.delete(name)) picked.add(name);
        if (!picked.size) picked.add(name);
        button.setAttribute("aria-pressed", picked.has(name));
        series();
      });
      return button;
    }));
    choices(byId("residual-channel"), names);
  }

  function series() {
    const shown = ofRun().filter((c) => picked.has(c.channel)), box = byId("series-plot"), n = shown.length, low = n > 1 ? 0.16 : 0.28, small = n > 2 || innerWidth < 600, gap = 0.08 / Math.max(n, 2);
    box.style.height = `${n > 1 ? Math.min(220 * n + 160, 1400) : 520}px`;
    const traces = [], shapes = [], notes = [], axes = {}, tones = [color("fitted"), color("predicted"), color("good"), color("third"), color("mind"), color("bad")];
    shown.forEach((c, k) => {
      const t = unpack(c.time), axis = k ? `y${k + 2}` : "y", share = (0.92 - low) / n, top = 1 - k * share;
      const line = (name, y, style) => ({ x: t, y: unpack(y), name, legendgroup: name, showlegend: k === 0, yaxis: axis, ...style });
      traces.push(line("measured", c.measured, { mode: "markers", marker: { size: 3.5, color: color("measured") } }));
      traces.push(line("fitted", c.fitted, { mode: "lines", line: { width: 1.8, color: color("fitted") } }));
      if (c.hasPrediction) traces.push(line("predicted freely", c.predicted, { mode: "lines", line: { width: 1.5, dash: "dash", color: color("predicted") } }));
      const residual = unpack(c.residual), unit = n > 1 ? 1 / c.sd : 1;
      traces.push({ x: t, y: n > 1 ? Array.from(residual, (r) => unit * r) : residual, name: n > 1 ? `residual of ${c.channel}` : "residual", mode: "markers",
        marker: { size: 3, color: tones[n > 1 ? k % tones.length : 0] }, yaxis: "y2", showlegend: n > 1 && innerWidth >= 600 });
      axes[k ? `yaxis${k + 2}` : "yaxis"] = { ...titled(small ? "" : c.channel, c.unit), domain: [top - share + gap, top - (small ? 0.03 : 0)] };
      if (small) notes.push({ xref: "paper", x: 1, xanchor: "right", yref: "paper", y: top - 0.03, yanchor: "bottom", text: c.channel, showarrow: false, font: { size: 11.5, color: color("soft") } });
    });
    for (const e of data.events.filter((e) => e.run === shown[0].run)) // impacts
      shapes.push({ type: "line", xref: "x", yref: "paper", x0: e.time, x1: e.time, y0: 0, y1: 1, line: { color: color("mind"), width: 1, dash: "dot" }, layer: "below" });
    const sd = n > 1 ? 1 : shown[0].sd;
    shapes.push({ type: "rect", xref: "paper", yref: "y2", x0: 0, x1: 1, y0: -2 * sd, y1: 2 * sd, fillcolor: color("fitted"), opacity: 0.12, line: { width: 0 }, layer: "below" });
    overTime("series-plot", shown[0].run, traces, {
      xaxis: { ...titled("time since the start of the run", "s"), anchor: "y2" }, ...axes, yaxis2: { ...titled(n > 1 ? "residual / sd" : "residual", n > 1 ? "" : shown[0].unit), domain: [0, low] },
      shapes, annotations: notes, hovermode: "x unified",
    });
    const thin = shown.find((c) => c.shown < c.samples), until = data.until[shown[0].run];
    byId("series-note").textContent = "The band is ±2 sd of the noise."
      + (until != null ? ` It is drawn up to ${until.toFixed(2)} s: from there it is off by more than the motion itself, as wherever small differences grow, or a controller that kept the machine on its way is not in the model.` : "")
      + (data.events.some((e) => e.run === shown[0].run) ? " Dotted lines are impacts." : "")
      + (thin ? ` Shown are ${thin.shown} of ${thin.samples} samples; the largest residuals are among them.` : "");
    residuals();
  }

  function residuals() {
    const c = chosen();
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
    const x = unpack(c.bins), width = x[1] - x[0], fine = Array.from({ length: 121 }, (_, k) => -6 + k / 10).filter((v) => v >= x[0] - width && v <= x[x.length - 1] + width);
    plot("histogram", [
      { type: "bar", x, y: unpack(c.density), name: "residual", marker: { color: color("fitted") } },
      { x: fine, y: fine.map((v) => Math.exp(-0.5 * v * v) / Math.sqrt(2 * Math.PI)), name: "noise as stated", mode: "lines", line: { color: color("predicted"), width: 2 } },
    ], { xaxis: titled("residual / sd"), yaxis: titled("density"), bargap: 0.06 });
    const normal = unpack(c.normal), ordered = unpack(c.ordered), far = Math.max(...Array.from(normal, Math.abs));
    plot("quantiles", [
      { x: [-far, far], y: [-far, far], name: "normal, of the stated size", mode: "lines", line: { color: color("predicted"), width: 2 } },
      { x: normal, y: ordered, name: "residual", mode: "markers", marker: { size: 5, color: color("fitted") } },
    ], { xaxis: titled("quantile of normal noise"), yaxis: titled("quantile of residual / sd") });
  }

  function torque() {
    if (!data.torques.length) return;
    const run = byId("torque-run").value || data.torques[0].run, shown = data.torques.filter((t) => t.run === run), n = shown.length, axes = {}, traces = [];
    byId("torque-plot").style.height = `${Math.min(150 + 170 * n, 1500)}px`;
    shown.forEach((q, k) => {
      const t = unpack(q.time), m = unpack(q.measured), f = unpack(q.model), axis = k ? `y${k + 1}` : "y", share = 1 / n;
      const line = (name, y, style) => ({ x: t, y, name, legendgroup: name, showlegend: k === 0, yaxis: axis, ...style });
      traces.push(line("measured", m, { mode: "lines", line: { width: 2.4, color: color("measured") } }));
      traces.push(line("model", f, { mode: "lines", line: { width: 1.4, color: color("fitted") } }));
      traces.push(line("measured − model", Array.from(m, (x, i) => x - f[i]), { mode: "lines", line: { width: 1, color: color("bad") } }));
      const word = q.relative === null ? "" : ` (error ${(100 * q.relative).toPrecision(2) * 1} %)`;
      axes[k ? `yaxis${k + 1}` : "yaxis"] = { ...titled(n > 1 ? "" : `joint.${q.joint}`, q.unit), domain: [1 - (k + 1) * share + 0.04 / Math.max(n, 1), 1 - k * share - 0.035] };
      axes.annotations = [...(axes.annotations || []), { xref: "paper", x: 1, xanchor: "right", yref: "paper", y: 1 - k * share - 0.03, yanchor: "bottom", text: `joint.${q.joint}${word}`, showarrow: false, font: { size: 11.5, color: color("soft") } }];
    });
    overTime("torque-plot", run, traces, { xaxis: { ...titled("time since the start of the run", "s"), anchor: n > 1 ? `y${n}` : "y" }, ...axes, hovermode: "x unified" });
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
    overTime("validation-plot", v.run, [
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
    const banded = Object.values(f.bars).some((b) => unpack(b.time).length >= BAND);
    if (banded) parts.forEach(([part], k) => { // edges first, so that lines lie on them
      const b = f.bars[part];
      if (!b) return;
      const x = unpack(b.time), sd = unpack(b.sd), y = unpack(f.parts[part]), inside = Array.from(t, (_, i) => i).filter((i) => t[i] >= x[0] && t[i] <= x[x.length - 1]);
      const half = inside.map((i) => { // the sd between its instants
        const j = Math.max(1, x.findIndex((v) => v >= t[i])), w = (t[i] - x[j - 1]) / (x[j] - x[j - 1]);
        return 1.96 * ((1 - w) * sd[j - 1] + w * sd[j]);
      });
      [1, -1].forEach((sign, edge) => traces.unshift({
        x: inside.map((i) => t[i]), y: inside.map((i, n) => y[i] + sign * half[n]), mode: "lines", line: { width: 0, color: tones[k] }, hoverinfo: "skip", name: "95 % band", showlegend: edge === 0 && k === 0,
        ...(edge === 0 ? { fill: "tonexty", fillcolor: `${tones[k]}2e` } : {}),
      }));
    });
    else parts.forEach(([part], k) => {
      const b = f.bars[part];
      if (b) traces.push({
        x: unpack(b.time), y: unpack(b.value), name: part, mode: "markers", marker: { size: 4, color: tones[k] }, showlegend: false, customdata: unpack(b.sd),
        error_y: { type: "data", array: Array.from(unpack(b.sd), (s) => 2 * s), color: tones[k], thickness: 1.4, width: 4 }, hovertemplate: "%{y:.5g} ± %{customdata:.2g} (sd)",
      });
    });
    const counted = Object.values(f.bars).map((b) => unpack(b.time).length);
    byId("forces-note").textContent = (banded ? `The band holds the truth with 95 %, if noise and memories are as stated; its sd was computed at ${Math.max(...counted)} instants.` : counted.length ? `Points with bars: ±2 sd at ${Math.max(...counted)} instants; zoom in to see them.` : "")
      + (f.open.length ? ` Not everywhere determined by the data, so without a bar there: ${f.open.map((p) => (p === "value" ? f.name : p)).join(", ")}.` : "");
    overTime("forces-plot", f.run, traces, { xaxis: titled("time since the start of the run", "s"), yaxis: titled(f.name, f.unit), hovermode: "x unified", showlegend: parts.length > 0 });
  }

  function convergence() {
    const c = data.convergence;
    plot("cost", [
      { x: c.iteration, y: c.cost, name: "cost", mode: "lines+markers", line: { color: color("fitted") }, marker: { size: 5 } },
      { x: c.iteration, y: c.change, name: "size of the step [sd]", mode: "lines+markers", line: { color: color("predicted") }, marker: { size: 5 }, yaxis: "y2" },
    ], { xaxis: titled("iteration"), yaxis: { ...titled("cost"), type: "log", nticks: 6 }, yaxis2: { ...titled("step [sd]"), type: "log", dtick: 2, overlaying: "y", side: "right", showgrid: false }, margin: { l: 64, r: 64, t: 30, b: 48 } });
    const k = c.distance.length ? Array.from(c.distance[0], (_, i) => i) : [];
    const largest = Math.max(...c.distance.flat().map(Math.abs), 1e-9);
    if (byId("path")) plot("path", c.distance.map((d, i) => ({ x: k, y: d, name: c.names[i], mode: "lines", line: { width: 1.5 }, hovertemplate: "%{y:.4f}" })),
      { xaxis: titled("iteration"), yaxis: { ...titled("(value − final) / size"), range: [-Math.min(1.1 * largest, 6), Math.min(1.1 * largest, 6)] }, showlegend: c.names.length <= 12, legend: { orientation: "h", y: -0.22, yanchor: "top", font: { size: 10.5 } } });
  }

  function impacts() { // rebound against approach, and tangential against normal impulses, contact by contact
    if (!data.events.length) return;
    const names = [...new Set(data.events.map((e) => e.contact))], tones = [color("fitted"), color("predicted"), color("good"), color("third"), color("mind"), color("bad")];
    const marks = (x, y) => names.map((name, k) => {
      const own = data.events.filter((e) => e.contact === name);
      return { x: own.map((e) => e[x]), y: own.map((e) => e[y]), name, mode: "markers", marker: { size: 7, color: tones[k % tones.length], symbol: own.map((e) => (e.mode === "stick" ? "circle-open" : "circle")) } };
    });
    const lines = (x, slope) => names.filter((name) => data.laws[name] && data.laws[name][slope] != null).map((name) => {
      const far = Math.max(...data.events.filter((e) => e.contact === name).map((e) => e[x]));
      return { x: [0, far], y: [0, far * data.laws[name][slope]], mode: "lines", line: { color: color("soft"), width: 1.2, dash: "dot" }, name: `${name}.${slope}`, showlegend: false };
    });
    plot("rebound", [...lines("approach_speed", "restitution"), ...marks("approach_speed", "separation_speed")],
      { xaxis: titled("approach speed"), yaxis: titled("separation speed") });
    if (byId("cone")) plot("cone", [...lines("normal_impulse", "friction"), ...marks("normal_impulse", "tangential_impulse")],
      { xaxis: titled("normal impulse", "N s"), yaxis: titled("tangential impulse", "N s") });
  }

  function drawAll() {
    correlation(); series(); impacts(); torque(); validation(); forces(); convergence();
  }

  // -- start --------------------------------------------------------------------------------------------------------

  function start() {
    document.addEventListener("themechange", drawAll);
    choices(byId("series-run"), data.runs);
    chips();
    byId("series-run").addEventListener("change", (e) => { const was = byId("residual-channel").value; chips(); if (ofRun().some((c) => c.channel === was)) byId("residual-channel").value = was; series(); follow(e.target.value); });
    byId("residual-channel").addEventListener("change", residuals);
    if (data.torques.length) {
      choices(byId("torque-run"), [...new Set(data.torques.map((t) => t.run))]);
      byId("torque-run").addEventListener("change", (e) => { torque(); follow(e.target.value); });
    }
    if (data.validation.length) {
      choices(byId("validation-run"), [...new Set(data.validation.map((v) => v.run))]);
      const names = () => choices(byId("validation-channel"), data.validation.filter((v) => v.run === byId("validation-run").value).map((v) => v.channel));
      names();
      byId("validation-run").addEventListener("change", () => { const was = byId("validation-channel").value; names(); byId("validation-channel").value = was; validation(); follow(byId("validation-run").value); });
      byId("validation-channel").addEventListener("change", validation);
    }
    if (data.forces.length) {
      choices(byId("forces-run"), [...new Set(data.forces.map((f) => f.run))]);
      const names = () => choices(byId("forces-name"), data.forces.filter((f) => f.run === byId("forces-run").value).map((f) => f.name));
      names();
      byId("forces-run").addEventListener("change", () => { const was = byId("forces-name").value; names(); byId("forces-name").value = was; forces(); follow(byId("forces-run").value); });
      byId("forces-name").addEventListener("change", forces);
    }
    drawAll();
  }
  start();
  return { data, unpack, color, byId, choices, plot, overTime, titled, cursor, follow, tie: (seeks, shows) => { seek = seeks; show = shows; }, get now() { return now; } };
})();
