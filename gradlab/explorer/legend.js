// The legend of the spheres: what they show now, and nothing else.
"use strict";
const shownAnywhere = (kind) => state.panels.some(({ loss }) => !isHidden([kind], LOSSES[loss]));
const LEGEND = [
  ["anchor", "anchor", () => true],
  ["positive", "its positive, and the pull", () => !state.mates],
  ["positive", "positives, and the pull (thicker: a larger share)", () => state.mates > 0],
  ["negative", "negatives, and the push (thicker: more weight)", () => true],
  ["negative chosen", "chosen (black bar)", () => state.chosen >= state.mates],
  ["positive chosen", "chosen (black bar)", () => state.chosen < state.mates],
  ["partner", "a negative's own positive", () => shownAnywhere("partner")],
  ["teacher", "where the teacher puts the anchor", () => shownAnywhere("teacher")],
  ["moved", "where the next step takes the anchor", () => state.panels.some(({ loss }) => LOSSES[loss].scene || textOf(state.points) === textOf(START))],
  ["flowing", "where Play has led it", () => play.flows.some(Boolean)],
];
const sampleOf = (kind) => shape("svg", { class: "sample", viewBox: "0 0 16 16", "aria-hidden": "true" }, kind === "moved" ? shape("path", { class: kind, d: "M3 3 13 13M13 3 3 13" }) : shape("circle", { class: `point ${kind}`, cx: 8, cy: 8, r: 6 }));
const legendEntries = () => LEGEND.filter(([, , isShown]) => isShown());
const drawLegend = () => {
  const entries = legendEntries();
  const key = entries.map(([kind, text]) => kind + text).join();
  if (byId("legend").dataset.key === key) return;
  byId("legend").dataset.key = key;
  byId("legend").replaceChildren(...entries.map(([kind, text]) => tag("li", {}, sampleOf(kind), text)));
};
