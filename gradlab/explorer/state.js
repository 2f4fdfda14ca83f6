// What is shown: two losses with their settings, the points, and the choices of the lower sections. The address of the page holds it (address.js).
"use strict";
const NAMES = Object.keys(LOSSES);
const state = {};

const own = (name) => ({ loss: name, numbers: Object.fromEntries(LOSSES[name].numbers.map((n) => [n.path, n.value])) });
const start = () => ({
  panels: [own(NAMES[0]), own(NAMES[Math.min(1, NAMES.length - 1)])],
  points: structuredClone(START),
  mates: 0, // further positives, the first of the negatives' points
  chosen: 0,
  linked: true, // settings that both losses have move together
  preset: "", // the task that is set
  step: 0.01,
  camera: { yaw: 0, pitch: 0.12 },
  curve: { x: "negatives", y: "relative_push", kept: [] },
  heat: { y: "relative_push", x: "temperature", frames: {} },
});
