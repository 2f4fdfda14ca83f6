// Curves: the scene of the sphere, swept along one angle.
"use strict";
const MOVES = { negatives: "all negatives", chosen: "the chosen point", positive: "the positive" };
const HEIGHTS = {
  relative_push: { name: "relative push", of: (found) => found.relative_push, unit: true, words: "Push over the largest push as the positive moves. 1: all of it is alive; 0: the anchor is left alone; below 0: its negatives attract it." },
  weight: { name: "share of the chosen negative in the weight", of: (found) => Math.abs(found.weight[state.chosen]) / found.size, unit: true, words: "How much of the push comes from the one negative that is marked on the sphere. Drag or focus another to choose it." },
  shares: { name: "share of the chosen point in the pull", of: (found) => found.shares[state.chosen + 1], words: "With further positives or a teacher: how much of the pull goes to the point that is marked on the sphere. Below 0 it is pushed away." },
  hardest: { name: "share of the hardest negative in the weight", of: (found) => found.hardest_share, unit: true, words: "Near 1 the push is against the hardest negative only; near 1/K it is against all alike." },
  ratio: { name: "ratio", of: (found) => found.ratio, limit: 4, words: "Pull on the positive over push from the negatives; cut at 4." },
  pull: { name: "pull", of: (found) => Math.hypot(...found.pull), words: "Length of the tangent part of the pull, dissipation included: what the anchor feels." },
  push: { name: "push", of: (found) => Math.hypot(...found.push), words: "Length of the tangent part of the push, dissipation included: what the anchor feels." },
  change: { name: "change of the angle to the positive", of: (found) => ((found.after - found.before) * 180) / Math.PI, words: "By one step of gradient descent, in degrees; below 0 the anchor gets closer." },
};
const SAMPLES = 61;
// In pixels of the screen, so that its words keep their size on a phone.
const BOX = { left: 46, right: 694, top: 12, bottom: 266, height: 310 };
const fitChart = (svg) => {
  const width = Math.max(260, svg.clientWidth);
  BOX.right = width - 16;
  put(svg, { viewBox: `0 0 ${width} ${BOX.height}` });
};

const angleNow = () => {
  const { anchor, positive, negatives } = state.points;
  if (state.curve.x === "positive") return angleOf(anchor, positive);
  if (state.curve.x === "chosen") return angleOf(anchor, negatives[state.chosen]);
  const others = negatives.slice(state.mates);
  return others.reduce((sum, v) => sum + angleOf(anchor, v), 0) / others.length;
};
// The points with one of them, or all negatives, at an angle from the anchor; their own positives go along.
const swept = (points, what, angle) => {
  const at = (v) => turned(points.anchor, axisTo(points.anchor, v), angle);
  if (what === "positive") return { ...points, positive: at(points.positive) };
  const negatives = [...points.negatives], partners = [...points.partners];
  negatives.forEach((v, i) => {
    if (what === "chosen" ? i !== state.chosen : i < state.mates) return;
    negatives[i] = at(v);
    partners[i] = turned(partners[i], axisTo(points.anchor, v), angle - angleOf(points.anchor, v));
  });
  return { ...points, negatives, partners };
};

const chart = { series: [], work: null, stale: false };
// The sweep runs in slices between frames, to its end, and once more if something has changed meanwhile.
const SLICE = 1, PAUSE = 16, REST = 150; // milliseconds: of work, between slices, between sweeps
const drawCurves = () => {
  chart.stale = true;
  if (!chart.work) nextSweep();
};
const nextSweep = () => {
  chart.stale = false;
  chart.work = sweep();
  setTimeout(workOn, 0);
};
const workOn = () => {
  const until = performance.now() + SLICE;
  while (performance.now() < until) {
    if (!chart.work.next().done) continue;
    // Still at work while it rests, so that no other sweep begins.
    setTimeout(() => { chart.work = null; if (chart.stale) nextSweep(); }, REST);
    return;
  }
  setTimeout(workOn, PAUSE);
};
function* sweep() {
  const { x, y, kept } = state.curve, height = HEIGHTS[y], points = state.points;
  const angles = Array.from({ length: SAMPLES }, (_, i) => 0.02 + ((Math.PI - 0.04) * i) / (SAMPLES - 1));
  const series = [];
  for (const panel of [...state.panels, ...kept]) {
    const values = [];
    for (const [i, angle] of angles.entries()) {
      const found = evaluate(panel, swept(points, x, angle), false, [x, i]);
      values.push(found ? height.of(found) : NaN);
      yield;
    }
    series.push({ panel, values });
  }
  Object.assign(chart, { angles, series });
  paintCurves();
}

const ticksOf = (low, high) => {
  const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  return Array.from({ length: 12 }, (_, i) => (Math.ceil(low / step - 1e-9) + i) * step).filter((t) => t <= high * (1 + 1e-9) + 1e-12);
};
const paintCurves = () => {
  const { y, x } = state.curve, height = HEIGHTS[y], svg = byId("chart");
  fitChart(svg);
  const all = chart.series.flatMap((one) => one.values).filter(Number.isFinite);
  let low = Math.min(0, ...all), high = height.unit ? Math.max(1, ...all) : Math.max(...all, low + 1e-6);
  if (height.limit) { low = Math.max(low, -1); high = Math.min(high, height.limit); }
  if (!height.unit) { const room = 0.05 * (high - low); high += room; if (low < 0) low -= room; }
  const right = (angle) => BOX.left + ((BOX.right - BOX.left) * angle) / Math.PI;
  const up = (value) => BOX.bottom - ((BOX.bottom - BOX.top) * (value - low)) / (high - low);
  chart.right = right;
  const nodes = [];
  for (const tick of ticksOf(low, high)) {
    nodes.push(shape("line", { class: "rule", x1: BOX.left, x2: BOX.right, y1: up(tick), y2: up(tick) }), shape("text", { x: BOX.left - 8, y: up(tick) + 5, "text-anchor": "end" }, show(tick)));
  }
  for (const tick of BOX.right > 420 ? [0, 30, 60, 90, 120, 150, 180] : [0, 45, 90, 135, 180]) nodes.push(shape("text", { x: right((tick * Math.PI) / 180), y: BOX.bottom + 20, "text-anchor": "middle" }, `${tick}°`));
  nodes.push(shape("text", { x: (BOX.left + BOX.right) / 2, y: BOX.bottom + 40, "text-anchor": "middle" }, `angle between the anchor and ${MOVES[x]}`));
  const now = right(angleNow());
  nodes.push(shape("line", { class: "now", x1: now, x2: now, y1: BOX.top, y2: BOX.bottom }));
  chart.series.forEach((one, k) => {
    let text = "", pen = "M";
    one.values.forEach((value, i) => {
      if (!Number.isFinite(value)) { pen = "M"; return; }
      text += `${pen}${right(chart.angles[i]).toFixed(1)} ${up(Math.min(Math.max(value, low), high)).toFixed(1)}`;
      pen = "L";
    });
    nodes.push(shape("path", { class: `series k${k}`, d: text, ...(k === 1 ? { "stroke-dasharray": "9 4" } : {}) }));
  });
  svg.replaceChildren(...nodes);
  put(svg, { "aria-label": `${height.name} against the angle between the anchor and ${MOVES[x]}` });
  byId("chart-legend").replaceChildren(...chart.series.map((one, k) => {
    const remove = k < 2 ? [] : [tag("button", { type: "button", textContent: "×", ariaLabel: `Remove ${titleOf(one.panel)}`, onclick: () => { state.curve.kept.splice(k - 2, 1); changed(); } })];
    return tag("li", {}, tag("i", { className: `k${k}` }), titleOf(one.panel), ...remove);
  }));
  byId("curve-words").textContent = height.words;
};

const readCurves = (index) => {
  const svg = byId("chart"), tip = byId("chart-tip");
  svg.querySelector(".guide")?.remove();
  tip.hidden = index === null;
  chart.at = index;
  if (index === null || !chart.series.length) return;
  const angle = chart.angles[index], at = chart.right(angle);
  svg.append(shape("line", { class: "guide", x1: at, x2: at, y1: BOX.top, y2: BOX.bottom }));
  tip.textContent = [degrees(angle), ...chart.series.map((one) => `${titleOf(one.panel)}: ${show(one.values[index])}`)].join("\n");
  const room = svg.parentElement.clientWidth - tip.offsetWidth - 6;
  tip.style.left = `${Math.max(6, Math.min(at + 18, room))}px`;
  tip.style.top = "14px";
};
const startCurves = () => {
  choices("curve-y", HEIGHTS, (value) => { state.curve.y = value; });
  choices("curve-x", MOVES, (value) => { state.curve.x = value; });
  for (const index of [0, 1]) {
    byId(`keep-${index}`).onclick = () => {
      if (state.curve.kept.length === 4) state.curve.kept.shift();
      state.curve.kept.push(structuredClone(state.panels[index]));
      changed();
    };
  }
  const svg = byId("chart");
  const read = (event) => {
    const box = svg.getBoundingClientRect(), x = event.clientX - box.left;
    const share = (x - BOX.left) / (BOX.right - BOX.left);
    readCurves(Math.min(SAMPLES - 1, Math.max(0, Math.round(share * (SAMPLES - 1)))));
  };
  new ResizeObserver(() => { if (chart.series.length) paintCurves(); }).observe(svg);
  svg.onpointermove = read;
  svg.onpointerdown = read;
  svg.onpointerleave = () => readCurves(null);
  svg.onblur = () => readCurves(null);
  svg.onkeydown = (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    readCurves(Math.min(SAMPLES - 1, Math.max(0, (chart.at ?? Math.round((angleNow() / Math.PI) * SAMPLES)) + by)));
  };
};
