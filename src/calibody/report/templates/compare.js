"use strict";
// Two fits of one channel, one over the other.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent), byId = (id) => document.getElementById(id);
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

  function unpack(text) {
    const raw = atob(text), bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
    return new Float32Array(bytes.buffer);
  }

  function choices(select, names) {
    select.replaceChildren(...names.map((name) => new Option(name, name)));
    select.parentElement.hidden = names.length < 2;
  }

  function draw() {
    const c = data.channels.find((x) => x.run === byId("run").value && x.channel === byId("channel").value) || data.channels[0], narrow = innerWidth < 600;
    const of = (side, k, tone) => [
      { x: unpack(side.time), y: unpack(side.fitted), name: data.names[k], mode: "lines", line: { width: 2 - 0.4 * k, dash: k ? "dash" : "solid", color: tone } },
      { x: unpack(side.time), y: unpack(side.residual), name: `residual, ${data.names[k]}`, mode: "markers", marker: { size: 3, color: tone }, yaxis: "y2", showlegend: false },
    ];
    const axis = { gridcolor: color("grid"), linecolor: color("line"), zerolinecolor: color("line"), automargin: true };
    Plotly.react("series-plot", [
      { x: unpack(c.first.time), y: unpack(c.first.measured), name: "measured", mode: "markers", marker: { size: 3.5, color: color("measured") } },
      ...of(c.first, 0, color("fitted")), ...of(c.second, 1, color("ghost")),
    ], {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", margin: { l: narrow ? 44 : 64, r: 12, t: 30, b: 48 }, font: { size: 12.5, color: color("ink") }, hovermode: "x unified",
      dragmode: narrow ? false : "zoom", legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom" }, hoverlabel: { bgcolor: color("panel"), font: { color: color("ink") } },
      xaxis: { ...axis, title: { text: "time since the start of the run [s]" }, anchor: "y2" }, yaxis: { ...axis, title: { text: `${c.channel} [${c.unit}]` }, domain: [0.4, 1] },
      yaxis2: { ...axis, title: { text: `residual [${c.unit}]` }, domain: [0, 0.32] },
      shapes: [{ type: "rect", xref: "paper", yref: "y2", x0: 0, x1: 1, y0: -2 * c.sd, y1: 2 * c.sd, fillcolor: color("fitted"), opacity: 0.12, line: { width: 0 }, layer: "below" }],
    }, { displaylogo: false, responsive: true, displayModeBar: narrow ? false : "hover" });
  }

  if (!data.channels.length) {
    byId("series").hidden = true;
    return;
  }
  choices(byId("run"), [...new Set(data.channels.map((c) => c.run))]);
  const names = () => choices(byId("channel"), data.channels.filter((c) => c.run === byId("run").value).map((c) => c.channel));
  names();
  byId("run").addEventListener("change", () => { const was = byId("channel").value; names(); byId("channel").value = was; draw(); });
  byId("channel").addEventListener("change", draw);
  document.addEventListener("themechange", draw);
  draw();
})();
