"use strict";
// The replay: shapes and meshes as shaded facets, sorted by depth, on a plain canvas (no WebGL needed), with a floor and the shadow on it.
const replay = (() => {
  const { data, unpack, color, byId, choices } = report;
  const canvas = byId("stage"), pen = canvas.getContext("2d"), scene = data.scene;
  const SIDES = 14, RINGS = 4, TRAIL = 1.2;
  const FLASH = 0.15; // s for which an impulse is shown

  // -- vectors ------------------------------------------------------------------------------------------------------

  const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
  const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
  const minus = (a, b) => [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
  const unit = (a) => { const n = Math.hypot(...a) || 1; return a.map((x) => x / n); };

  function turn([w, x, y, z], p) {
    const t = cross([x, y, z], p).map((v) => 2 * v), u = cross([x, y, z], t);
    return [p[0] + w * t[0] + u[0], p[1] + w * t[1] + u[1], p[2] + w * t[2] + u[2]];
  }

  // -- shapes: vertices and faces around the origin, axis z -----------------------------------------------------------

  function lathe(profile) { // [radius, height] from bottom to top
    const points = [], faces = [];
    profile.forEach(([r, h]) => { for (let i = 0; i < SIDES; i++) { const a = 2 * Math.PI * i / SIDES; points.push([r * Math.cos(a), r * Math.sin(a), h]); } });
    for (let j = 0; j + 1 < profile.length; j++) for (let i = 0; i < SIDES; i++) {
      const k = (i + 1) % SIDES;
      faces.push([j * SIDES + i, j * SIDES + k, (j + 1) * SIDES + k, (j + 1) * SIDES + i]);
    }
    return { points, faces };
  }

  function dome(radius, height) { // a capsule of half-length `height`; a sphere for 0
    const profile = [];
    for (const side of [-1, 1]) for (let j = 0; j <= RINGS; j++) {
      const a = side < 0 ? (j / RINGS - 1) * Math.PI / 2 : (j / RINGS) * Math.PI / 2;
      if (side > 0 && j === 0 && height === 0) continue;
      profile.push([Math.max(radius * Math.cos(a), 1e-6 * radius), side * height + radius * Math.sin(a)]);
    }
    return lathe(profile);
  }

  const triples = (text) => { const x = unpack(text), out = []; for (let i = 0; i < x.length; i += 3) out.push([x[i], x[i + 1], x[i + 2]]); return out; };

  function swollen(points, faces, grow) { // every vertex moved outwards, along the mean of the normals around it
    const normals = points.map(() => [0, 0, 0]);
    for (const [a, b, c] of faces) {
      const n = cross(minus(points[b], points[a]), minus(points[c], points[a]));
      for (const i of [a, b, c]) for (let k = 0; k < 3; k++) normals[i][k] += n[k];
    }
    return points.map((p, i) => { const n = unit(normals[i]); return p.map((x, k) => x + grow * n[k]); });
  }

  function mesh(shape, grow) {
    if (shape.kind === "mesh") {
      const points = triples(shape.points), faces = triples(shape.faces);
      return { points: grow ? swollen(points, faces, grow) : points, faces };
    }
    const s = shape.size.map((x) => Math.max(x, 1e-6)), [a, b, c] = s;
    if (shape.kind === "sphere") return dome(a + grow, 0);
    if (shape.kind === "capsule") return dome(a + grow, b);
    if (shape.kind === "cylinder") { const r = a + grow, h = b + grow; return lathe([[1e-6 * r, -h], [r, -h], [r, h], [1e-6 * r, h]]); }
    if (shape.kind === "ellipsoid") { const m = dome(1, 0); m.points = m.points.map((p) => [p[0] * (a + grow), p[1] * (b + grow), p[2] * (c + grow)]); return m; }
    const points = [];
    for (const x of [-1, 1]) for (const y of [-1, 1]) for (const z of [-1, 1]) points.push([x * (a + grow), y * (b + grow), z * (c + grow)]);
    return { points, faces: [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]] };
  }

  function placed(shape, grow) {
    const m = mesh(shape, grow);
    const own = shape.kind === "mesh" ? shape.color.slice(0, 3).map((x) => 255 * (0.25 + 0.75 * x)) : null; // a mesh has its own colour; black would show no shape
    return { body: shape.body, faces: m.faces, own, closed: shape.closed !== false, points: m.points.map((p) => turn(shape.orientation, p).map((x, k) => x + shape.position[k])) };
  }

  function farthest(name) { // the point of a body that is drawn farthest from its origin
    let best = [0, 0, 0];
    for (const s of scene.shapes) if (s.body === name) {
      if (s.kind === "mesh") {
        for (const p of triples(s.points)) if (Math.hypot(...p) > Math.hypot(...best)) best = p;
        continue;
      }
      const half = s.kind === "capsule" || s.kind === "cylinder" ? s.size[1] : 0;
      for (const side of [-1, 1]) {
        const p = turn(s.orientation, [0, 0, side * half]).map((x, k) => x + s.position[k]);
        if (Math.hypot(...p) > Math.hypot(...best)) best = p;
      }
    }
    return best;
  }

  // -- state ----------------------------------------------------------------------------------------------------------

  const state = { run: scene.runs[0], time: 0, playing: false, last: 0, azimuth: 0, elevation: 0.3, zoom: 1, ghost: "measured", frame: 0 };
  let solid = [], halo = [], extent = { centre: [0, 0, 0], radius: 1, floor: null }, tips = [];

  const pose = (kind, body, k) => {
    const rows = unpack(state.run[kind][body]);
    return rows.subarray(7 * k, 7 * k + 7);
  };

  function place(p, at) {
    const r = turn([at[3], at[4], at[5], at[6]], p);
    return [r[0] + at[0], r[1] + at[1], r[2] + at[2]];
  }

  function blended(kind, body) { // between two frames: positions and quaternions linearly
    const times = unpack(state.run.time);
    let k = state.frame;
    const a = pose(kind, body, k), next = Math.min(k + 1, times.length - 1), b = pose(kind, body, next);
    const span = times[next] - times[k], f = span > 0 ? Math.min(1, Math.max(0, (state.time - times[k]) / span)) : 0;
    const same = a[3] * b[3] + a[4] * b[4] + a[5] * b[5] + a[6] * b[6] < 0 ? -1 : 1;
    const out = Array.from(a, (x, i) => x + f * ((i > 2 ? same : 1) * b[i] - x)), n = Math.hypot(out[3], out[4], out[5], out[6]) || 1;
    for (let i = 3; i < 7; i++) out[i] /= n;
    return out;
  }

  function measure() { // the space that the motion fills
    const low = [1e9, 1e9, 1e9], high = [-1e9, -1e9, -1e9], count = unpack(state.run.time).length;
    const step = Math.max(1, Math.floor(count / 60));
    const coarse = scene.shapes.map((s) => ({ body: s.body, points: placed(s, 0).points.filter((_, i, all) => all.length < 40 || i % 5 === 0) }));
    for (let k = 0; k < count; k += step) for (const s of coarse) {
      const at = s.body in state.run.fitted ? pose("fitted", s.body, k) : [0, 0, 0, 1, 0, 0, 0];
      for (const p of s.points) place(p, at).forEach((x, i) => { low[i] = Math.min(low[i], x); high[i] = Math.max(high[i], x); });
    }
    if (low[0] > high[0]) return { centre: [0, 0, 0], radius: 1, floor: level(-1), size: [1, 1, 1] };
    const size = minus(high, low);
    const ramps = scene.planes.filter((p) => p.body === "world" && steep(p) > 0.5).sort((p, q) => steep(q) - steep(p)); // no steeper than 60 degrees
    const floor = scene.ground != null ? level(scene.ground) : ramps.length ? framed(ramps[0], [0, 0, 0, 1, 0, 0, 0]) : level(low[2] - 0.002 * Math.hypot(...size));
    return { centre: low.map((x, i) => (x + high[i]) / 2), radius: Math.max(Math.hypot(...size) / 2, 1e-3), floor: { ...floor, plane: scene.ground == null ? ramps[0] : null }, size, low, high };
  }

  // a frame on a plane: a point, two directions along it, and its normal
  const level = (height) => ({ at: [0, 0, height], x: [1, 0, 0], y: [0, 1, 0], n: [0, 0, 1] });
  const steep = (plane) => turn(plane.orientation, [0, 0, 1])[2];
  const framed = (plane, pose) => {
    const to = (d) => turn([pose[3], pose[4], pose[5], pose[6]], turn(plane.orientation, d));
    return { at: place(plane.position, pose), x: to([1, 0, 0]), y: to([0, 1, 0]), n: to([0, 0, 1]) };
  };
  const along = (f, u, v) => f.at.map((p, k) => p + u * f.x[k] + v * f.y[k]);
  const under = (f, p) => [dot(f.x, minus(p, f.at)), dot(f.y, minus(p, f.at))];

  function reset() {
    extent = measure();
    const [x, y] = extent.size || [1, 1];
    state.azimuth = y < 0.35 * x ? -1.25 : x < 0.35 * y ? -0.3 : -0.9;
    state.elevation = 0.28;
    state.zoom = 1;
    if (!extent.low) return;
    const view = camera(), corners = [0, 1, 2, 3, 4, 5, 6, 7].map((i) => view.project([0, 1, 2].map((k) => (i >> k & 1 ? extent.high : extent.low)[k])));
    const worst = Math.max(...corners.map(([x, y]) => Math.max(Math.abs(x / view.w - 0.5), Math.abs(y / view.h - 0.5))));
    state.zoom = Math.min(1, 0.46 / worst); // what moves is in the picture, whichever way it fills its box
  }

  function choose(run) {
    state.run = run;
    state.time = 0;
    const bodies = Object.keys(run.fitted);
    solid = scene.shapes.filter((s) => s.body in run.fitted || s.body === "world").map((s) => placed(s, 0));
    reset();
    const grow = 0.012 * extent.radius;
    halo = scene.shapes.filter((s) => s.body in run.fitted).map((s) => placed(s, grow));
    tips = bodies.slice(-1).map((b) => [b, farthest(b)]);
    const kinds = ["measured", "predicted"].filter((k) => run[k]);
    choices(byId("against"), [...kinds, "nothing"]);
    if (!kinds.includes(state.ghost)) state.ghost = kinds[0] || "nothing";
    byId("against").value = state.ghost;
    const times = unpack(run.time);
    byId("scrub").max = times[times.length - 1];
  }

  // -- drawing ---------------------------------------------------------------------------------------------------------

  function camera() {
    const { azimuth: a, elevation: e } = state, back = [Math.cos(e) * Math.cos(a), Math.cos(e) * Math.sin(a), Math.sin(e)];
    const right = unit(cross([0, 0, 1], back)), up = cross(back, right);
    const ratio = devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
    if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) { canvas.width = Math.round(w * ratio); canvas.height = Math.round(h * ratio); }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const distance = 3.0 * extent.radius / state.zoom, focus = 2.1 * Math.min(w, h);
    const project = (p) => {
      const d = minus(p, extent.centre), depth = distance - dot(d, back), s = focus / Math.max(depth, 0.05 * distance);
      return [w / 2 + s * dot(d, right), h / 2 - s * dot(d, up), depth];
    };
    const from = (r, u, b) => unit([0, 1, 2].map((k) => b * back[k] + r * right[k] + u * up[k]));
    return { back, right, up, project, w, h, eye: extent.centre.map((x, k) => x + distance * back[k]), key: from(-0.5, 0.8, 0.7), fill: from(0.9, 0.1, 0.5) };
  }

  function rgb(text) {
    const n = parseInt(text.slice(1), 16);
    return [n >> 16, (n >> 8) & 255, n & 255];
  }

  function facets(meshes, kind, view, tone, list, own) {
    for (const m of meshes) {
      const at = m.body in state.run.fitted ? blended(kind, m.body) : [0, 0, 0, 1, 0, 0, 0];
      const paintwork = own && m.own ? m.own : m.body in state.run.fitted ? tone : rgb(color("measured"));
      const world = m.points.map((p) => place(p, at)), screen = world.map(view.project);
      for (const f of m.faces) {
        const [a, b, c] = f.map((i) => screen[i]), d = screen[f[f.length - 1]];
        const away = (f.length > 3 ? (c[0] - a[0]) * (d[1] - b[1]) - (c[1] - a[1]) * (d[0] - b[0]) : (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])) >= 0;
        if (away && m.closed) continue;
        const normal = unit(cross(minus(world[f[2]], world[f[0]]), minus(world[f[f.length - 1]], world[f[1]]))), side = away ? -1 : 1;
        const shade = 0.5 + 0.5 * Math.max(0, side * dot(normal, view.key)) + 0.18 * Math.max(0, side * dot(normal, view.fill));
        list.push({ depth: (a[2] + b[2] + c[2] + d[2]) / 4, points: f.length > 3 ? [a, b, c, d] : [a, b, c], fill: `rgb(${paintwork.map((x) => Math.min(255, Math.round(x * shade))).join(",")})` });
      }
    }
  }

  function hull(points) { // of points in the plane, by their x and y (Andrew's monotone chain)
    const sorted = points.slice().sort((p, q) => p[0] - q[0] || p[1] - q[1]);
    const chain = (list) => list.reduce((out, p) => {
      while (out.length > 1 && (out[out.length - 1][0] - out[out.length - 2][0]) * (p[1] - out[out.length - 2][1]) - (out[out.length - 1][1] - out[out.length - 2][1]) * (p[0] - out[out.length - 2][0]) <= 0) out.pop();
      out.push(p);
      return out;
    }, []);
    return [...chain(sorted).slice(0, -1), ...chain(sorted.reverse()).slice(0, -1)];
  }

  function shadow(view) { // of every shape on the floor, light from above; all in one path, so that shadows do not add up
    pen.beginPath();
    for (const m of solid) {
      const at = m.body in state.run.fitted ? blended("fitted", m.body) : [0, 0, 0, 1, 0, 0, 0];
      const f = extent.floor;
      const outline = hull(m.points.map((p) => { const q = place(p, at), [x, y] = under(f, q), up = dot(f.n, minus(q, f.at)); return [x + 0.12 * up, y + 0.08 * up]; }));
      outline.forEach(([x, y], i) => { const [u, v] = view.project(along(f, x, y)); if (i) pen.lineTo(u, v); else pen.moveTo(u, v); });
      pen.closePath();
    }
    pen.fillStyle = color("shadow");
    pen.fill("nonzero");
  }

  function paint(list) {
    list.sort((p, q) => q.depth - p.depth);
    for (const f of list) {
      pen.beginPath();
      f.points.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
      pen.closePath();
      pen.fillStyle = pen.strokeStyle = f.fill;
      pen.fill();
      pen.lineWidth = 0.7;
      pen.stroke();
    }
  }

  function line(view, points, style, width) {
    pen.strokeStyle = style;
    pen.lineWidth = width;
    pen.beginPath();
    points.map(view.project).forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
    pen.stroke();
  }

  function ground(view) {
    const r = extent.radius, step = 10 ** Math.floor(Math.log10(r)) * (r / 10 ** Math.floor(Math.log10(r)) > 4 ? 1 : 0.5), f = extent.floor, [cx, cy] = under(f, extent.centre);
    const x0 = Math.round(cx / step) * step, y0 = Math.round(cy / step) * step, reach = 1.6 * r, n = Math.floor(reach / step);
    pen.fillStyle = color("floor");
    pen.beginPath();
    for (let i = 0; i < 48; i++) { const a = Math.PI * i / 24, [x, y] = view.project(along(f, x0 + reach * Math.cos(a), y0 + reach * Math.sin(a))); if (i) pen.lineTo(x, y); else pen.moveTo(x, y); }
    pen.closePath();
    pen.fill();
    for (let i = -n; i <= n; i++) {
      const half = Math.sqrt(reach ** 2 - (i * step) ** 2);
      line(view, [along(f, x0 + i * step, y0 - half), along(f, x0 + i * step, y0 + half)], color("line"), 1);
      line(view, [along(f, x0 - half, y0 + i * step), along(f, x0 + half, y0 + i * step)], color("line"), 1);
    }
    shadow(view);
    const axes = scene.axes || [[1, 0, 0], [0, 1, 0], [0, 0, 1]]; // of the world, in the replay's own, whose z is up
    [["x", axes[0], "bad"], ["y", axes[1], "good"], ["z", axes[2], "fitted"]].forEach(([name, d, tone]) => {
      const x = 46 + 30 * dot(d, view.right), y = view.h - 42 - 30 * dot(d, view.up);
      pen.strokeStyle = pen.fillStyle = color(tone);
      pen.lineWidth = 2;
      pen.beginPath();
      pen.moveTo(46, view.h - 42);
      pen.lineTo(x, y);
      pen.stroke();
      pen.font = "12px sans-serif";
      pen.fillText(name, x + 3, y - 3);
    });
    pen.fillStyle = color("soft");
    pen.font = "12px sans-serif";
    pen.fillText(`grid ${step >= 0.01 ? step.toPrecision(1) * 1 + " m" : (1000 * step).toPrecision(1) * 1 + " mm"}`, view.w - 80, view.h - 12);
  }

  function planes(view, front) { // those beside the floor; all that touches one is on its front, so one that is seen from behind is drawn over it
    for (const plane of scene.planes) {
      if (plane === extent.floor.plane) continue;
      const f = framed(plane, plane.body in state.run.fitted ? blended("fitted", plane.body) : [0, 0, 0, 1, 0, 0, 0]);
      const faces = dot(f.n, minus(view.eye, f.at)) > 0;
      if (faces !== front) continue;
      const [a, b] = plane.size.map((s) => s || 0.9 * extent.radius), [x, y] = plane.size[0] ? [0, 0] : under(f, extent.centre);
      const corners = [[-a, -b], [a, -b], [a, b], [-a, b], [-a, -b]].map(([u, v]) => along(f, x + u, y + v));
      pen.fillStyle = color("floor");
      pen.globalAlpha = front ? 1 : 0.4;
      pen.beginPath();
      corners.map(view.project).forEach(([u, v], i) => (i ? pen.lineTo(u, v) : pen.moveTo(u, v)));
      pen.fill();
      line(view, corners, color("measured"), 1);
      pen.globalAlpha = 1;
    }
  }

  const rowsOf = (kind, width) => { const x = unpack(state.run.touch[kind]), out = []; for (let i = 0; i < x.length; i += width) out.push(x.subarray(i, i + width)); return out; };

  function touching() { // what is drawn at contacts now: places, [place, force], [place, impulse, age]
    const now = (row) => row[0] === state.frame, split = (r) => [Array.from(r.subarray(1, 4)), Array.from(r.subarray(4, 7))];
    const recent = rowsOf("impacts", 7).filter((r) => r[0] <= state.time + 1e-9 && state.time < r[0] + FLASH);
    return { places: rowsOf("places", 4).filter(now).map((r) => Array.from(r.subarray(1))), forces: rowsOf("forces", 7).filter(now).map(split), impulses: recent.map((r) => [...split(r), (state.time - r[0]) / FLASH]) };
  }

  function arrow(view, from, vector, width) {
    const tip = from.map((x, k) => x + vector[k]), [x0, y0] = view.project(from), [x1, y1] = view.project(tip), long = Math.hypot(x1 - x0, y1 - y0);
    if (long < 1) return;
    const [dx, dy] = [(x1 - x0) / long, (y1 - y0) / long], head = Math.min(4 * width, long);
    line(view, [from, tip], pen.fillStyle, width);
    pen.beginPath();
    [[x1, y1], [x1 - head * dx - 0.5 * head * dy, y1 - head * dy + 0.5 * head * dx], [x1 - head * dx + 0.5 * head * dy, y1 - head * dy - 0.5 * head * dx]].forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
    pen.fill();
  }

  function pushes(view) { // the weight of all is an arrow of 0.4 radii, no arrow is longer than 1.2; the largest impulse of a run 0.6
    const now = touching(), most = Math.max(1e-12, ...rowsOf("impacts", 7).map((r) => Math.hypot(r[4], r[5], r[6])));
    const scaled = (f, unit, limit) => { const n = Math.hypot(...f) || 1, size = Math.min(n / unit, limit) * extent.radius; return f.map((x) => x * size / n); };
    const largest = Math.max(1e-12, ...rowsOf("forces", 7).map((r) => Math.hypot(r[4], r[5], r[6])));
    pen.fillStyle = color("bad");
    for (const p of now.places) { const [x, y] = view.project(p); pen.beginPath(); pen.arc(x, y, 3.5, 0, 7); pen.fill(); }
    for (const [p, f] of now.forces) arrow(view, p, scaled(f, 2.5 * (scene.weight || largest), 1.2), 2.5);
    pen.fillStyle = color("third");
    for (const [p, impulse, age] of now.impulses) {
      const [x, y] = view.project(p);
      pen.globalAlpha = 1 - 0.8 * age;
      arrow(view, p, scaled(impulse, most / 0.6, 0.6), 3.5);
      pen.strokeStyle = pen.fillStyle;
      pen.lineWidth = 2;
      pen.beginPath();
      pen.arc(x, y, 5 + 12 * age, 0, 7);
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  function trails(view) {
    const times = unpack(state.run.time), first = Math.max(0, times.findIndex((t) => t >= state.time - TRAIL));
    for (const [body, tip] of tips) for (const [kind, tone] of [[state.ghost, "ghost"], ["fitted", "fitted"]]) {
      if (!state.run[kind]) continue;
      const path = [];
      for (let k = first; k <= state.frame; k++) path.push(place(tip, pose(kind, body, k)));
      path.push(place(tip, blended(kind, body)));
      pen.globalAlpha = 0.55;
      line(view, path, color(tone), kind === "fitted" ? 1.6 : 3);
      pen.globalAlpha = 1;
    }
  }

  function markers(view) {
    for (const [, text] of Object.entries(state.run.markers)) {
      const rows = unpack(text), p = Array.from(rows.subarray(3 * state.frame, 3 * state.frame + 3)), [x, y] = view.project(p);
      pen.fillStyle = color("ghost");
      pen.beginPath();
      pen.arc(x, y, 4.5, 0, 7);
      pen.fill();
    }
  }

  function draw() {
    const times = unpack(state.run.time);
    let k = Math.min(state.frame, times.length - 1);
    while (k > 0 && times[k] > state.time) k--;
    while (k + 1 < times.length && times[k + 1] <= state.time) k++;
    state.frame = k;
    const view = camera();
    pen.clearRect(0, 0, view.w, view.h);
    ground(view);
    planes(view, true);
    trails(view);
    const ghost = [], body = [];
    if (state.run[state.ghost]) facets(halo, state.ghost, view, rgb(color("ghost")), ghost);
    pen.globalAlpha = 0.8;
    paint(ghost);
    pen.globalAlpha = 1;
    facets(solid, "fitted", view, rgb(color("fitted")), body, true);
    paint(body);
    planes(view, false);
    markers(view);
    pushes(view);
    byId("clock").textContent = `${state.time.toFixed(2)} s`;
    byId("scrub").value = state.time;
    report.cursor(state.run.name, state.time);
  }

  // -- controls ---------------------------------------------------------------------------------------------------------

  function play(on) {
    state.playing = on;
    byId("play").textContent = on ? "❚❚" : "▶";
    byId("play").setAttribute("aria-label", on ? "Pause" : "Play");
    if (on) {
      const end = Number(byId("scrub").max);
      if (state.time >= end) state.time = 0;
      state.last = performance.now();
      requestAnimationFrame(tick);
    }
  }

  function tick(now) {
    if (!state.playing) return;
    state.time += Number(byId("speed").value) * Math.max(0, now - state.last) / 1000;
    state.last = now;
    const end = Number(byId("scrub").max);
    if (state.time >= end) { state.time = end; play(false); }
    draw();
    if (state.playing) requestAnimationFrame(tick);
  }

  function seek(time) {
    state.time = Math.min(Math.max(time, 0), Number(byId("scrub").max));
    draw();
  }

  function show(name) { // another run, if there is one of that name
    const run = scene.runs.find((r) => r.name === name);
    if (!run || run === state.run) return;
    play(false);
    choose(run);
    byId("replay-run").value = name;
    draw();
  }

  function beside() { // what is drawn beside the fitted motion
    if (state.ghost !== "nothing") return `${state.ghost}, drawn as a halo`;
    return Object.keys(state.run.markers).length ? "measured places" : "nothing measured is drawn";
  }

  function start() {
    choices(byId("replay-run"), scene.runs.map((r) => r.name));
    byId("replay-run").addEventListener("change", (e) => report.follow(e.target.value));
    byId("play").addEventListener("click", () => play(!state.playing));
    byId("scrub").addEventListener("input", (e) => seek(Number(e.target.value)));
    byId("against").addEventListener("change", (e) => { state.ghost = e.target.value; byId("ghost-name").textContent = beside(); draw(); });
    byId("view").addEventListener("click", () => { reset(); draw(); });
    let held = null;
    canvas.addEventListener("pointerdown", (e) => { held = [e.clientX, e.clientY]; canvas.setPointerCapture(e.pointerId); });
    canvas.addEventListener("pointerup", () => (held = null));
    canvas.addEventListener("pointermove", (e) => {
      if (!held) return;
      state.azimuth -= 0.008 * (e.clientX - held[0]);
      state.elevation = Math.min(1.5, Math.max(-1.5, state.elevation + 0.008 * (e.clientY - held[1])));
      held = [e.clientX, e.clientY];
      draw();
    });
    canvas.addEventListener("wheel", (e) => { e.preventDefault(); state.zoom = Math.min(8, Math.max(0.3, state.zoom * Math.exp(-0.001 * e.deltaY))); draw(); }, { passive: false });
    canvas.addEventListener("keydown", (e) => {
      if (e.key === " ") play(!state.playing);
      else if (e.key === "ArrowRight") seek(state.time + 0.05);
      else if (e.key === "ArrowLeft") seek(state.time - 0.05);
      else return;
      e.preventDefault();
    });
    document.addEventListener("themechange", draw);
    addEventListener("resize", draw);
    report.tie(seek, show);
    choose(scene.runs[0]);
    byId("ghost-name").textContent = beside();
    draw();
  }
  start();
  return { state, seek, play, touching, floor: () => extent.floor, facets: () => solid.reduce((n, m) => n + m.faces.length, 0) };
})();
