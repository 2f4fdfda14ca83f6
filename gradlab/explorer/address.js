// The address of the page, which Copy link copies: what is shown is written into it and read from it.
"use strict";
// Compact texts: angles in hundredths of a degree, a loss as name;path=value.
const HUNDREDTHS = 18000 / Math.PI;
const hundredth = (x) => Math.round(x * HUNDREDTHS);
const writePoint = ([x, y, z]) => `${hundredth(Math.asin(Math.max(-1, Math.min(1, y))))}.${hundredth(Math.atan2(x, z))}`;
const readPoint = (text) => {
  const [up, around] = text.split(".").map((t) => Number(t) / HUNDREDTHS);
  if (!Number.isFinite(up) || !Number.isFinite(around)) throw new RangeError("bad point");
  return [Math.cos(up) * Math.sin(around), Math.sin(up), Math.cos(up) * Math.cos(around)];
};
const writeLoss = ({ loss, numbers }) => {
  const changed = LOSSES[loss].numbers.filter((n) => numbers[n.path] !== n.value);
  return [loss, ...changed.map((n) => `${n.path}=${Number(numbers[n.path].toPrecision(6))}`)].join(";");
};
const readLoss = (text) => {
  const [name, ...settings] = text.split(";");
  if (!(name in LOSSES)) throw new RangeError("unknown loss");
  const panel = own(name);
  for (const setting of settings) {
    const [path, value] = setting.split("=");
    if (path in panel.numbers && Number.isFinite(Number(value))) panel.numbers[path] = Number(value);
  }
  return panel;
};

const writeState = () => {
  const { panels, points, curve, heat } = state;
  const query = new URLSearchParams({
    a: writeLoss(panels[0]), b: writeLoss(panels[1]),
    at: textOf(points),
    view: `${hundredth(state.camera.yaw)}.${hundredth(state.camera.pitch)}`,
    step: Number(state.step.toPrecision(4)), mates: state.mates, chosen: state.chosen, teacher: writePoint(points.teacher),
    curve: `${curve.y}.${curve.x}`, heat: `${heat.y}.${heat.x}`,
    linked: Number(state.linked), preset: state.preset,
  });
  curve.kept.forEach((panel) => query.append("keep", writeLoss(panel)));
  Object.entries(heat.frames).forEach(([key, frame]) => query.append("frame", `${key}:${frame}`));
  return `#${query}`;
};
const readState = (hash) => {
  Object.assign(state, start());
  const query = new URLSearchParams(hash.replace(/^#/, ""));
  // What is damaged is left as it is at the start.
  const read = (name, use) => { try { if (query.has(name)) use(query.get(name)); } catch { /* stays */ } };
  read("a", (text) => { state.panels[0] = readLoss(text); });
  read("b", (text) => { state.panels[1] = readLoss(text); });
  read("at", (text) => {
    const all = text.split("_").map(readPoint), count = (all.length - 2) / 2;
    if (!Number.isInteger(count) || count < 1 || count > 40) return;
    state.points = { ...state.points, anchor: all[0], positive: all[1], negatives: all.slice(2, 2 + count), partners: all.slice(2 + count) };
  });
  read("view", (text) => { const [yaw, pitch] = text.split(".").map((t) => Number(t) / HUNDREDTHS); if (Number.isFinite(yaw + pitch)) state.camera = { yaw, pitch }; });
  read("step", (text) => { if (Number(text) > 0) state.step = Number(text); });
  read("teacher", (text) => { state.points.teacher = readPoint(text); });
  read("mates", (text) => { state.mates = Math.min(Math.max(0, Math.trunc(Number(text)) || 0), 8, state.points.negatives.length - 1); });
  read("chosen", (text) => { state.chosen = Math.min(Math.max(0, Math.trunc(Number(text)) || 0), state.points.negatives.length - 1); });
  read("curve", (text) => { const [y, x] = text.split("."); if (y in HEIGHTS && x in MOVES) Object.assign(state.curve, { x, y }); });
  read("heat", (text) => { const [y, x] = text.split("."); if (y in QUANTITIES && x in SLIDERS) Object.assign(state.heat, { x, y }); });
  read("linked", (text) => { state.linked = text !== "0"; });
  read("preset", (text) => { if (text in PRESETS) state.preset = text; });
  for (const text of query.getAll("keep").slice(0, 4)) { try { state.curve.kept.push(readLoss(text)); } catch { /* left out */ } }
  for (const text of query.getAll("frame")) { const [key, frame] = text.split(":"); if (/^\d+$/.test(frame)) state.heat.frames[key] = Number(frame); }
};
