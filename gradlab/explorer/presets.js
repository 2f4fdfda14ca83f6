// Presets: scenes with a task, and what the task shows, once it is done.
"use strict";
const percent = (share) => `${Math.round(100 * share)}%`;
const titleAt = (index) => LOSSES[state.panels[index].loss].title.replace(/ \(.*\)$/, "");
const temperatureAt = (index) => state.panels[index].numbers.temperature;
const evaluatedPanels = () => state.panels.map((panel) => evaluate(panel, state.points, false));
// Both panels' words, each by `words(reading, index)`.
const both = (words) => evaluatedPanels().map((reading, index) => (reading ? words(reading, index) : "")).join(" ");
const chosenShare = (reading) => Math.abs(reading.weight[state.chosen]) / reading.size;
const forceOf = (reading) => norm(plus(reading.pull, reading.push));
const hasTemperature = (name) => LOSSES[name] && "temperature" in own(name).numbers && !LOSSES[name].batch;
const available = (...names) => names.find((name) => name in LOSSES && LOSSES[name].scene);
const withNumbers = (name, numbers) => { const panel = own(name); Object.assign(panel.numbers, numbers); return panel; };
// An anchor, and points at angles from it in degrees, each as [angle, direction].
const sceneOf = (positive, negatives) => {
  const draw = drawer(11), { anchor } = START, at = ([angle, around]) => placed(anchor, (angle * Math.PI) / 180, (around * Math.PI) / 180);
  const points = { ...structuredClone(START), positive: at(positive), negatives: negatives.map(at) };
  points.partners = points.negatives.map((point) => placed(point, 0.2 + 0.25 * draw(), 2 * Math.PI * draw()));
  return points;
};
const RING = [[62, 20], [70, 75], [58, 130], [75, 180], [64, 235], [72, 285], [60, 335]];
const playEnded = () => play.key === playKey() && play.flows.length > 0 && play.flows.every((flow) => !flow || flow.end);

// `panels` gives two losses, or null on a page without the losses that the task needs; `done` whether it is done.
const PRESETS = {
  false_negative: {
    name: "False negative",
    panels: () => { const name = NAMES.find(hasTemperature); return name ? [own(name), withNumbers(name, { temperature: 0.5 })] : null; },
    points: () => sceneOf([25, -50], [[80, 160], ...RING]),
    task: "The point with the rim means the same as the anchor in the middle, but nobody has told the loss: it is one of the orange negatives. Drag it next to the anchor.",
    done: () => angleOf(state.points.anchor, state.points.negatives[state.chosen]) < 0.35,
    shows: () => both((reading, index) => `At temperature ${show(temperatureAt(index))} this one point makes ${percent(chosenShare(reading))} of the push.`),
  },
  collapse: {
    name: "Collapse",
    panels: () => { const names = NAMES.filter((name) => LOSSES[name].scene && !LOSSES[name].taught); return names.length ? [own(names[0]), own(available("met", "mpt") ?? names[1] ?? names[0])] : null; },
    points: () => sceneOf([60, -50], RING.map(([, around], i) => [9 + 2 * i, around])),
    task: "The anchor sits in a crowd of negatives, as in an untrained encoder; its positive is far away. Press Play, and see which loss brings it farther out of the crowd.",
    done: playEnded,
    shows: () => play.flows.map((flow, index) => (flow ? `${titleAt(index)} brings it ${degrees(crowdAngle(flow.point))} away from its negatives, and ${flow.end === "stopped learning" ? "stops learning there" : "rests there"}.` : "")).join(" "),
  },
  temperature: {
    name: "Temperature",
    panels: () => { const name = NAMES.find(hasTemperature); return name ? [own(name), withNumbers(name, { temperature: 0.1 })] : null; },
    points: () => sceneOf([30, -50], [[45, 160], ...RING]),
    task: "Bars show the weights of the negatives: how the push is shared. Move the right temperature slider until the share of the hardest negative is below 0.25.",
    done: () => (evaluatedPanels()[1]?.hardest_share ?? 1) < 0.25,
    shows: () => both((reading, index) => `At temperature ${show(temperatureAt(index))} the hardest negative takes ${percent(reading.hardest_share)} of the push.`),
  },
  three_positives: {
    name: "Three positives",
    panels: () => { const names = [available("supcon"), available("mil_nce", "sincere")]; return names.every(Boolean) ? names.map(own) : null; },
    points: () => sceneOf([45, -50], [[45, 40], [45, 120], ...RING.slice(2)]),
    mates: 2,
    task: "All three green points are positives of the anchor. Drag the one with the rim close to the anchor, until SupCon pushes it away.",
    done: () => (evaluatedPanels()[0]?.shares[state.chosen + 1] ?? 0) < 0,
    shows: () => both((reading, index) => { const share = reading.shares[state.chosen + 1]; return share < 0 ? `${titleAt(index)} pushes this positive away: its share of the softmax is above 1/${state.mates + 1}.` : `${titleAt(index)} gives it ${percent(share)} of the pull.`; }),
  },
  teacher: {
    name: "Teacher",
    panels: () => {
      const name = available("kl", "embedding_distillation"), other = NAMES.find(hasTemperature), numbers = { temperature: 0.2 };
      return name && other ? [withNumbers(name, name === "kl" ? { ...numbers, teacher_temperature: 0.2 } : {}), withNumbers(other, numbers)] : null;
    },
    points: () => sceneOf([30, -50], [[45, 160], ...RING]),
    task: "The ring is where a teacher model puts the anchor. Drag the anchor, in the middle, onto the ring.",
    done: () => angleOf(state.points.anchor, state.points.teacher) < 0.07,
    shows: () => both((reading, index) => `${titleAt(index)} ${LOSSES[state.panels[index].loss].taught ? "now leaves the anchor almost alone" : "knows no teacher, and goes on moving it"} (force ${show(forceOf(reading), 2)}).`),
  },
};
const crowdAngle = (anchor) => { const { negatives } = state.points; return negatives.reduce((sum, point) => sum + angleOf(anchor, point), 0) / negatives.length; };

const HINT = "Drag a point, or choose it with Tab and move it with the arrow keys (Shift: finer). Drag the sphere to turn it. Both losses see the same points.";
const applyPreset = (key) => {
  const preset = PRESETS[key], { step } = state;
  Object.assign(state, start(), { step, preset: key, linked: false, panels: preset.panels(), points: preset.points(), mates: preset.mates ?? 0 });
  showChoices();
  refresh();
};
const startPresets = () => {
  const usable = Object.keys(PRESETS).filter((key) => PRESETS[key].panels());
  byId("presets").append(...usable.map((key) => tag("button", { type: "button", id: `preset-${key}`, textContent: PRESETS[key].name, onclick: () => applyPreset(key) })));
  byId("presets").hidden = !usable.length;
};
const drawPreset = () => {
  const preset = PRESETS[state.preset], done = Boolean(preset?.done());
  for (const button of byId("presets").querySelectorAll("button")) put(button, { "aria-pressed": button.id === `preset-${state.preset}` });
  byId("task").classList.toggle("done", done);
  write(byId("task"), preset ? (done ? `✓ ${preset.shows()}` : `Task: ${preset.task}`) : HINT);
};
