// The sphere: points that can be dragged, and what each of two losses makes of them.
"use strict";
const RADIUS = 150, MIDDLE = 170;
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
const scaled = (a, s) => [a[0] * s, a[1] * s, a[2] * s];
const plus = (a, b) => [a[0] + b[0], a[1] + b[1], a[2] + b[2]];
const norm = (a) => Math.sqrt(dot(a, a));
const unit = (a) => scaled(a, 1 / norm(a));
const angleOf = (a, b) => 2 * Math.atan2(norm(plus(a, scaled(b, -1))), norm(plus(a, b)));
// Rotation about a unit axis.
const turned = (v, axis, angle) => {
  const c = Math.cos(angle), s = Math.sin(angle), side = cross(axis, v), along = dot(axis, v) * (1 - c);
  return unit([v[0] * c + side[0] * s + axis[0] * along, v[1] * c + side[1] * s + axis[1] * along, v[2] * c + side[2] * s + axis[2] * along]);
};
const axisTo = (from, to) => {
  const axis = cross(from, to), size = norm(axis);
  return size > 1e-9 ? scaled(axis, 1 / size) : unit(cross(from, Math.abs(from[0]) < 0.9 ? [1, 0, 0] : [0, 1, 0]));
};
const placed = (anchor, angle, around) => {
  const side = axisTo(anchor, [0, 1, 0]);
  return turned(turned(anchor, side, angle), anchor, around);
};
// The same points for everyone: repeatable numbers in [0, 1).
const drawer = (seed) => () => { seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0; return seed / 2 ** 32; };
const addNegative = (points, draw) => {
  // Directions a golden section apart, so that few points cover each other.
  const negative = placed(points.anchor, 0.45 + 1.1 * draw(), 2.4 * (points.negatives.length + 0.6 * draw()));
  points.negatives.push(negative);
  points.partners.push(placed(negative, 0.2 + 0.25 * draw(), 2 * Math.PI * draw()));
};
function firstPoints(count, seed = 7) {
  const draw = drawer(seed), anchor = unit([-0.15, 0.1, 1]);
  const points = { ...START, anchor, positive: placed(anchor, 0.5, -0.9), negatives: [], partners: [] };
  for (let i = 0; i < count; i++) addNegative(points, draw);
  return points;
}

const matrix = (rows) => {
  const data = new Float64Array(3 * rows.length);
  for (let i = 0; i < rows.length; i++) data.set(rows[i], 3 * i);
  return { shape: [rows.length, 3], data };
};
const list = (numbers) => ({ shape: [numbers.length], data: Float64Array.from(numbers) });
const scalar = (x) => (typeof x === "number" ? x : x === null ? NaN : x.data[0]);

// What a loss makes of the points: the compiled scene, and the bounds on the ratio.
// Of a loss given as code it was computed beforehand, at the first points and along the sweeps from there.
const textOf = (points) => [points.anchor, points.positive, ...points.negatives, ...points.partners].map(writePoint).join("_");
const stored = (loss, [what, i]) => {
  const moved = textOf(state.points) !== textOf(START) || (what === "chosen" && state.chosen !== 0);
  if (moved) return null;
  const array = (x) => (x?.data ? { shape: x.shape, data: Float64Array.from(x.data, (v) => v ?? NaN) } : x);
  return Object.fromEntries(Object.entries(loss.stored[what][i]).map(([name, x]) => [name, array(x)]));
};
function evaluate(panel, points, withBounds = true, at = ["now", 0]) {
  const loss = LOSSES[panel.loss], { anchor, positive, negatives, partners, teacher } = points, roles = negatives.map((_, i) => (i < state.mates ? 1 : -1));
  const arrays = loss.batch
    ? { anchors: matrix([anchor, ...negatives]), positives: matrix([positive, ...partners]), labels: list([0, ...roles.map((role, i) => (role > 0 ? 0 : i + 1))]), teacher: matrix([teacher, ...negatives]), step: state.step }
    : { anchors: matrix([anchor]), positives: matrix([positive]), negatives: matrix(negatives), relation: { ...list([1, ...roles]), shape: [1, 1 + roles.length] }, teacher: matrix([teacher]), step: state.step };
  let out;
  if (loss.stored) {
    out = stored(loss, at);
    if (!out) return null;
    // The step is made here, because its slider changes it.
    const moved = unit(plus(anchor, scaled(plus(out.pull.data, out.push.data), state.step)));
    Object.assign(out, { moved: list(moved), before: angleOf(anchor, positive), after: angleOf(moved, positive) });
  } else try { out = loss.scene($, arrays, panel.numbers); } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return null;
  }
  const found = { ...weighed(out, loss.batch, points), pull: [...out.pull.data], push: [...out.push.data], moved: [...out.moved.data] };
  for (const name of ["dissipation", "relative_push", "ratio", "hardest_share", "before", "after"]) found[name] = scalar(out[name]);
  const total = out.weight.data.reduce((sum, w) => sum + w, 0), step = state.step * found.dissipation;
  if (withBounds && total > 0 && step > 0 && shapeRank(out.positive_weight) === 0 && !found.tugs) {
    try {
      const bound = BOUNDS($, { anchor: list(anchor), positive: list(positive), negatives: out.negatives, weight: out.weight, step });
      found.bounds = Object.fromEntries(Object.entries(bound).map(([key, value]) => [key, scalar(value)]));
    } catch (error) { if (!(error instanceof RangeError)) throw error; }
  }
  return found;
}
// The weight of each negative, and where the column of its largest weight is. If the pull does not all go to the positive, who pulls and how much: the positive first.
const weighed = (out, batch, points) => {
  const count = points.negatives.length, pushes = apart(out.weight.data, out.negatives, batch ? 1 : 0, count);
  const found = { weight: pushes.each, targets: pushes.targets, size: pushes.size, shares: [1, ...new Array(count).fill(0)], tugs: null };
  if (out.target) return { ...found, shares: found.shares.fill(0), tugs: norm(out.target.data) > 0 ? [[1, unit(out.target.data)]] : [] };
  if (!out.pull_shares) return found;
  const own = out.pull_shares.data[0], columns = batch ? out.negatives : { data: [0, 0, 0, ...out.negatives.data] }, pulls = apart(out.pull_shares.data, columns, 1, count);
  return { ...found, shares: [own, ...pulls.each], tugs: pulls.size ? [[own, points.positive], ...pulls.each.map((share, i) => [share, pulls.targets[i]])] : null };
};
// Columns by points: a view is that of the anchor and of all others, or of these only.
const apart = (values, { data }, lead, count) => {
  const each = new Array(count).fill(0), targets = [], largest = new Array(count).fill(-1);
  let size = 0;
  values.forEach((w, column) => {
    const i = (column % (count + lead)) - lead;
    if (i < 0) return;
    each[i] += w;
    size += Math.abs(w);
    if (Math.abs(w) > largest[i]) { largest[i] = Math.abs(w); targets[i] = [...data.slice(3 * column, 3 * column + 3)]; }
  });
  return { each, targets, size };
};
const shapeRank = (x) => x?.shape?.length ?? 0;

// The camera: world to screen. z points at the reader.
const seen = ([x, y, z]) => {
  const { yaw, pitch } = state.camera;
  const across = x * Math.cos(yaw) - z * Math.sin(yaw), deep = x * Math.sin(yaw) + z * Math.cos(yaw);
  return [across, y * Math.cos(pitch) - deep * Math.sin(pitch), y * Math.sin(pitch) + deep * Math.cos(pitch)];
};
const unseen = ([x, y, z]) => {
  const { yaw, pitch } = state.camera;
  const up = y * Math.cos(pitch) + z * Math.sin(pitch), deep = z * Math.cos(pitch) - y * Math.sin(pitch);
  return [x * Math.cos(yaw) + deep * Math.sin(yaw), up, deep * Math.cos(yaw) - x * Math.sin(yaw)];
};
const screen = (v) => { const [x, y] = seen(v); return [MIDDLE + RADIUS * x, MIDDLE - RADIUS * y]; };
const tenths = (x) => Math.round(10 * x) / 10;
// The circle of a point about an axis: on the screen an ellipse.
const orbit = (from, axis, angle, pieces) => {
  const [a, b] = screen(from), [c, d] = screen(cross(axis, from)), [u, v] = screen(scaled(axis, dot(axis, from)));
  let text = `M${tenths(a)} ${tenths(b)}`;
  for (let i = 1; i <= pieces; i++) {
    const x = Math.cos((angle * i) / pieces), y = Math.sin((angle * i) / pieces);
    text += `L${tenths(u + (a - u) * x + (c - MIDDLE) * y)} ${tenths(v + (b - v) * x + (d - MIDDLE) * y)}`;
  }
  return text;
};
const arc = (from, to) => {
  const angle = angleOf(from, to);
  return orbit(from, axisTo(from, to), angle, Math.ceil(angle / 0.2) || 1);
};
const circle = (axis, from) => orbit(from, axis, 2 * Math.PI, 48);

// In the order of painting; the Tab key follows it.
const POINTS = () => [...state.points.partners.map((_, i) => ["partner", i]), ...state.points.negatives.map((_, i) => ["negative", i]), ["positive", 0], ["teacher", 0], ["anchor", 0]];
const getPoint = ([kind, index]) => (kind === "negative" ? state.points.negatives[index] : kind === "partner" ? state.points.partners[index] : state.points[kind]);
const setPoint = ([kind, index], v) => {
  if (kind === "negative") state.points.negatives[index] = v;
  else if (kind === "partner") state.points.partners[index] = v;
  else state.points[kind] = v;
};
const isMate = ([kind, index]) => kind === "negative" && index < state.mates;
const others = (index) => (index < state.mates ? `positive ${index + 2}` : `negative ${index - state.mates + 1}`);
const called = ([kind, index]) => ({ anchor: "anchor", positive: "positive of the anchor", teacher: "where the teacher puts the anchor", negative: others(index), partner: `other view of ${others(index)}` })[kind];
// What only some losses look at.
const isHidden = ([kind], loss) => (kind === "partner" && !loss.batch) || (kind === "teacher" && !loss.taught);

class Panel {
  constructor(index) {
    this.index = index;
    this.choice = tag("select", { ariaLabel: `Loss ${index + 1}`, onchange: () => { state.panels[index] = own(this.choice.value); refresh(); } },
      ...NAMES.map((name) => tag("option", { value: name, textContent: LOSSES[name].title })));
    this.formula = tag("p", { className: "formula-text" });
    this.ball = shape("svg", { class: "ball", viewBox: "0 0 340 340", role: "group", "aria-label": "Anchor, positive and negatives on a sphere" });
    this.layers = Object.fromEntries(["globe", "lines", "points", "arrows"].map((name) => [name, this.ball.appendChild(shape("g"))]));
    this.sliders = tag("div", { className: "sliders" });
    this.reading = tag("div", { className: "reading" });
    this.node = tag("div", { className: "panel" }, this.choice, this.formula, tag("div", { className: "body" }, this.ball, this.reading), this.sliders);
    this.build();
    this.ball.addEventListener("pointerdown", (event) => this.grab(event));
  }

  build() {
    const { globe, arrows } = this.layers;
    globe.append(shape("circle", { class: "globe", cx: MIDDLE, cy: MIDDLE, r: RADIUS }), ...Array.from({ length: 5 }, () => shape("path", { class: "grid" })));
    this.parts = { pair: shape("path", { class: "pair" }), track: shape("path", { class: "track" }), push: shape("path", { class: "arrow push" }), pull: shape("path", { class: "arrow pull" }), moved: shape("path", { class: "moved" }) };
    this.layers.lines.before(this.parts.pair);
    arrows.append(this.parts.track, this.parts.push, this.parts.pull, this.parts.moved);
    for (const part of Object.values(this.parts)) part.style.pointerEvents = "none";
    this.rows = {};
    const row = (key, name, hint, ...nodes) => {
      const number = tag("span", { className: nodes.length ? "number" : "wide" });
      this.rows[key] = tag("div", { className: "row", title: hint }, tag("span", { textContent: name }), number, ...nodes);
      this.reading.append(this.rows[key]);
      return number;
    };
    const meter = (...children) => shape("svg", { class: "meter", viewBox: "0 0 200 18", preserveAspectRatio: "none", "aria-hidden": "true" }, shape("rect", { class: "back", width: 200, height: 18, rx: 3 }), ...children);
    const fill = () => shape("rect", { class: "fill", height: 18, rx: 3 });
    this.fills = { relative_push: fill(), hardest_share: fill() };
    this.ratio = { band: shape("rect", { class: "band", height: 18 }), tick: shape("line", { class: "tick", y1: 0, y2: 18 }), mark: shape("rect", { class: "mark", width: 4, height: 18, rx: 2 }) };
    const bars = () => shape("svg", { class: "meter bars", viewBox: "0 0 200 34", preserveAspectRatio: "none", "aria-hidden": "true" });
    [this.bars, this.pulls] = [bars(), bars()];
    this.numbers = {
      relative_push: row("relative_push", "relative push", "How much of the push is alive. 1: the anchor learns at full strength; 0: the loss leaves it alone.", meter(this.fills.relative_push)),
      hardest_share: row("hardest_share", "share of the hardest negative", "How much of the push comes from the one negative with the largest weight.", meter(this.fills.hardest_share)),
      weight: row("weight", "weights of the negatives", "One bar for each negative, as a share of the total, the chosen one in the colour of the text.", this.bars),
      shares: row("shares", "pull shares of positives", "One bar for each point, the anchor's own positive first, the chosen one in the colour of the text.", this.pulls),
      ratio: row("ratio", "ratio, pull over push", "Green: ratios with which the next step brings the anchor closer to its positive. Dashed: the published bound of Lemma 1.", meter(this.ratio.band, this.ratio.tick, this.ratio.mark)),
      bound: row("bound", "closer if", "The ratios with which the next step brings the anchor closer to its positive."),
      forces: row("forces", "pull, push", "Lengths of the tangent parts of pull and push, dissipation included."),
      step: row("step", "next step", "The angle to the positive before and after one step of gradient descent."),
    };
  }

  // Dots and sliders follow what there is of them.
  fit() {
    const panel = state.panels[this.index], loss = LOSSES[panel.loss];
    this.choice.value = panel.loss;
    this.formula.innerHTML = loss.formula;
    const points = POINTS();
    this.dots = points.map((which) => {
      const r = { anchor: 9, positive: 8, teacher: 7, negative: 7, partner: 5 }[which[0]];
      const node = shape("circle", { class: `point ${which[0]}`, r, tabindex: 0, role: "button", "aria-label": called(which) });
      const hit = shape("circle", { class: "hit", r: 16 });
      if (isHidden(which, loss)) node.style.display = hit.style.display = "none";
      node.addEventListener("keydown", (event) => this.press(event, which));
      node.addEventListener("focus", () => choose(which));
      return { which, node, hit };
    });
    this.layers.points.replaceChildren(...this.dots.flatMap(({ hit, node }) => [hit, node]));
    this.arcs = state.points.negatives.map(() => shape("path", { class: "arc" }));
    this.ties = state.points.negatives.map(() => shape("path", { class: "tie" }));
    this.tugs = ["", ...this.arcs].map(() => shape("path", { class: "tug" }));
    this.layers.lines.replaceChildren(...this.arcs, ...this.tugs, ...this.ties);
    const bars = (node, count) => {
      const all = Array.from({ length: count }, () => shape("rect", { class: "share" }));
      node.replaceChildren(shape("rect", { class: "back", width: 200, height: 34, rx: 3 }), ...all);
      return all;
    };
    this.shares = bars(this.bars, state.points.negatives.length);
    this.pullShares = bars(this.pulls, 1 + state.points.negatives.length);
    this.rows.shares.hidden = !state.mates && !loss.taught;
    this.settings = loss.numbers.map((number) => new Setting(this.index, number));
    this.sliders.replaceChildren(...this.settings.map((setting) => setting.node));
  }

  at(event) {
    const box = this.ball.getBoundingClientRect(), scale = 340 / box.width;
    return [((event.clientX - box.left) * scale - MIDDLE) / RADIUS, (MIDDLE - (event.clientY - box.top) * scale) / RADIUS];
  }

  grab(event) {
    if (event.button > 0) return;
    const [x, y] = this.at(event);
    const near = this.dots
      .filter(({ which }) => !isHidden(which, LOSSES[state.panels[this.index].loss]))
      .map(({ which, node }) => { const [a, b, deep] = seen(getPoint(which)); return { which, node, deep, away: Math.hypot(a - x, b - y) + (deep < 0 ? 0.04 : 0) }; })
      .filter(({ away }) => away < 0.13).sort((p, q) => p.away - q.away)[0];
    if (near) event.preventDefault();
    this.ball.setPointerCapture(event.pointerId);
    const camera = { ...state.camera };
    const move = (next) => {
      const [a, b] = this.at(next);
      if (near) {
        const size = Math.hypot(a, b), inside = size < 1 ? Math.sqrt(1 - size * size) : 0;
        const on = size < 1 ? [a, b, near.deep < 0 ? -inside : inside] : [a / size, b / size, 0];
        moveTo(near.which, unseen(on));
      } else {
        state.camera.yaw = camera.yaw - 1.2 * (a - x);
        state.camera.pitch = Math.max(-1.5, Math.min(1.5, camera.pitch - 1.2 * (b - y)));
        changed();
      }
    };
    const end = () => {
      this.ball.removeEventListener("pointermove", move);
      for (const name of ["pointerup", "pointercancel"]) this.ball.removeEventListener(name, end);
    };
    this.ball.addEventListener("pointermove", move);
    for (const name of ["pointerup", "pointercancel"]) this.ball.addEventListener(name, end);
    if (near) { near.node.focus({ preventScroll: true }); choose(near.which); }
  }

  press(event, which) {
    const by = ((event.shiftKey ? 0.5 : 3) * Math.PI) / 180;
    const way = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!way) return;
    event.preventDefault();
    const v = seen(getPoint(which));
    moveTo(which, unseen(turned(v, way[0] ? [1, 0, 0] : [0, 1, 0], by * (way[0] || way[1]))));
  }

  draw() {
    const panel = state.panels[this.index], loss = LOSSES[panel.loss], points = state.points;
    const found = evaluate(panel, points);
    this.globe();
    this.settings.forEach((setting) => setting.draw());
    this.dots.forEach(({ which, node, hit }) => {
      const [kind, index] = which;
      if (isHidden(which, loss)) return;
      const [x, y, deep] = seen(getPoint(which)), cx = tenths(MIDDLE + RADIUS * x), cy = tenths(MIDDLE - RADIUS * y);
      const isChosen = kind === "negative" && index === state.chosen;
      put(node, { cx, cy, class: `point ${isMate(which) ? "positive" : kind}${deep < 0 ? " behind" : ""}${isChosen ? " chosen" : ""}` });
      put(hit, { cx, cy });
    });
    this.ties.forEach((tie, i) => put(tie, { d: loss.batch ? arc(points.negatives[i], points.partners[i]) : "" }));
    put(this.parts.pair, { d: arc(points.anchor, points.positive) });
    if (found) this.drawFound(found, points);
    else this.drawNothing();
  }

  globe() {
    const { yaw, pitch } = state.camera, key = `${yaw},${pitch}`;
    if (this.turned === key) return;
    this.turned = key;
    const lines = [[[0, 1, 0], [0, 0, 1]], [[1, 0, 0], [0, 0, 1]], [[0, 0, 1], [1, 0, 0]], [[0, 1, 0], unit([0, 1, 1.732])], [[0, 1, 0], unit([0, -1, 1.732])]];
    lines.forEach(([axis, from], i) => put(this.layers.globe.children[i + 1], { d: circle(axis, from) }));
  }

  drawFound(found, points) {
    const size = found.size || 1;
    const line = (node, share, to, name) => put(node, { d: share < 0.001 ? "" : arc(points.anchor, to), class: name, "stroke-width": tenths(0.5 + 7 * Math.min(1, share)), "stroke-opacity": tenths(0.25 + 0.5 * Math.sqrt(Math.min(1, share))) });
    const bar = (nodes, i, share, name) => {
      const width = 200 / nodes.length, y = Math.round(100 * (33 - 32 * Math.min(1, share))) / 100;
      put(nodes[i], { class: `share${name}`, x: (i + 0.12) * width, width: 0.76 * width, y, height: Math.max(1, 33 - y) });
    };
    this.arcs.forEach((node, i) => {
      const share = Math.abs(found.weight[i]) / size;
      line(node, share, found.targets[i], "arc");
      bar(this.shares, i, share, i === state.chosen ? " chosen" : "");
    });
    const sign = (share) => (share < 0 ? " repelled" : " pulled"); // below 0 a positive is pushed away
    this.tugs.forEach((node, i) => {
      const [share, to] = found.tugs?.[i] ?? [0];
      line(node, Math.abs(share), to, `tug${sign(share)}`);
    });
    found.shares.forEach((share, i) => bar(this.pullShares, i, Math.abs(share), `${sign(share)}${i === state.chosen + 1 ? " chosen" : ""}`));
    write(this.numbers.shares, `first ${show(found.shares[0])}`);
    for (const name of ["pull", "push"]) put(this.parts[name], { d: arrow(points.anchor, scaled(found[name], 1 / size)) });
    const [x, y] = screen(found.moved);
    put(this.parts.moved, { d: `M${x - 5} ${y - 5}L${x + 5} ${y + 5}M${x + 5} ${y - 5}L${x - 5} ${y + 5}` });
    put(this.parts.track, { d: arc(points.anchor, found.moved) });
    for (const name of ["relative_push", "hardest_share"]) {
      const value = found[name];
      put(this.fills[name], { width: Number.isFinite(value) ? 200 * Math.min(1, Math.abs(value)) : 0, class: value < 0 ? "fill attracts" : "fill" });
      write(this.numbers[name], show(value));
    }
    write(this.numbers.weight, `${show(found.size)} in all`);
    write(this.numbers.ratio, show(found.ratio));
    this.drawBounds(found);
    write(this.numbers.forces, `${show(Math.hypot(...found.pull))}, ${show(Math.hypot(...found.push))}`);
    write(this.numbers.step, stepWords(found));
  }

  drawBounds({ bounds, ratio, tugs }) {
    const place = (r) => 200 * Math.max(0, Math.min(1, r / 3));
    put(this.ratio.mark, { x: Number.isFinite(ratio) ? Math.min(196, Math.max(0, place(ratio) - 2)) : -10 });
    let words = `no bound: ${tugs ? "the pull goes to several points" : "the anchor rests, or weights do not sum to more than 0"}`, band = [0, 0], tick = -10;
    if (bounds) {
      const { low, high, feasible, outside, lemma } = bounds;
      if (!feasible) words = "no ratio does it at this step";
      else if (outside) words = `ratio ≥ ${show(low)} or ≤ ${show(high)}`;
      else if (low === -Infinity && high === Infinity) words = "any ratio";
      else words = high === Infinity ? `ratio ≥ ${show(low)}` : `ratio from ${show(low)} to ${show(high)}`;
      if (feasible && !outside) band = [place(low), place(high)];
      if (Number.isFinite(lemma)) { tick = place(lemma); words += `; by Lemma 1 ≥ ${show(lemma)}`; }
    }
    put(this.ratio.band, { x: band[0], width: Math.max(0, band[1] - band[0]) });
    put(this.ratio.tick, { x1: tick, x2: tick });
    write(this.numbers.bound, words);
  }

  drawNothing() {
    for (const part of ["pull", "push", "moved", "track"]) put(this.parts[part], { d: "" });
    for (const node of [...this.arcs, ...this.tugs]) put(node, { d: "" });
    Object.values(this.fills).forEach((node) => put(node, { width: 0 }));
    Object.values(this.numbers).forEach((node) => { node.textContent = "–"; });
    const { stored: beforehand } = LOSSES[state.panels[this.index].loss];
    this.numbers.bound.textContent = beforehand ? "given as code: computed for the first points only (Start again)" : "not defined for these points and settings";
  }
}

const stepWords = ({ before, after, dissipation }) => {
  if (dissipation === 0 && before === after) return "the anchor is left alone";
  const change = after - before;
  const verdict = Math.abs(change) < 1e-12 ? "no closer, no farther" : change < 0 ? "closer to its positive" : "farther from its positive";
  if (degrees(before) === degrees(after)) return `${degrees(before)}, ${change ? `less than 0.1° ${verdict}` : verdict}`;
  return `${degrees(before)} → ${degrees(after)}, ${verdict}`;
};

// An arrow in the tangent plane of the sphere at a point, not longer than 0.9.
const arrow = (from, along) => {
  const size = Math.hypot(...along);
  if (!(size > 1e-4)) return "";
  const shown = scaled(along, Math.min(1, 0.9 / size)), tip = plus(from, shown);
  const [x, y] = screen(from), [a, b] = screen(tip), flat = Math.hypot(a - x, b - y);
  if (flat < 1) return "";
  const head = Math.min(10, 0.6 * flat) / flat, back = [(x - a) * head, (y - b) * head];
  const side = (s) => `${(a + back[0] * 0.87 - s * back[1] * 0.55).toFixed(1)} ${(b + back[1] * 0.87 + s * back[0] * 0.55).toFixed(1)}`;
  return `M${x.toFixed(1)} ${y.toFixed(1)}L${a.toFixed(1)} ${b.toFixed(1)}M${side(1)}L${a.toFixed(1)} ${b.toFixed(1)}L${side(-1)}`;
};

const choose = ([kind, index]) => {
  if ((kind === "negative" || kind === "partner") && state.chosen !== index) { state.chosen = index; changed(); }
};
// A negative takes its own positive along.
const moveTo = (which, v) => {
  const before = getPoint(which);
  if (which[0] === "negative") {
    const axis = axisTo(before, v), angle = angleOf(before, v);
    state.points.partners[which[1]] = turned(state.points.partners[which[1]], axis, angle);
  }
  setPoint(which, unit(v));
  changed();
};
const setCount = (count) => {
  const { negatives, partners } = state.points;
  const draw = drawer(100 + negatives.length), all = state.mates + count;
  while (negatives.length < all) addNegative(state.points, draw);
  negatives.length = partners.length = all;
  state.chosen = Math.min(state.chosen, all - 1);
};
// Further positives stand before the negatives, at other angles around the anchor than these begin with.
const setMates = (count) => {
  const { anchor, negatives, partners } = state.points, draw = drawer(200 + state.mates), before = state.mates;
  for (; state.mates < count; state.mates++) {
    const mate = placed(anchor, 0.25 + 0.5 * draw(), 2.4 * (state.mates + 0.6 * draw()) + 0.8);
    negatives.splice(state.mates, 0, mate);
    partners.splice(state.mates, 0, placed(mate, 0.2 + 0.25 * draw(), 2 * Math.PI * draw()));
  }
  for (const all of [negatives, partners]) all.splice(count, state.mates - count);
  state.mates = count;
  state.chosen = Math.max(0, state.chosen + count - before);
};
