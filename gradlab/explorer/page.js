// Puts the sections together: whatever changes goes through `changed`, and one frame draws it all.
"use strict";
const panels = [], maps = [];
let frame = 0, saving = 0;

const drawAll = () => {
  frame = 0;
  const { points, step } = state;
  for (const [id, value] of [["count", points.negatives.length - state.mates], ["mates", state.mates]]) {
    byId(id).value = value;
    byId(`${id}-text`).textContent = value;
  }
  byId("step").value = Math.log10(step);
  byId("step-text").textContent = show(step);
  if (panels[0].arcs.length !== points.negatives.length) panels.forEach((panel) => panel.fit());
  panels.forEach((panel) => panel.draw());
  drawPlay();
  drawLegend();
  drawPreset();
  drawCurves();
  drawMaps();
  clearTimeout(saving);
  saving = setTimeout(keep, 250);
};
// A page within a notebook has no address of its own.
const keep = () => { try { history.replaceState(null, "", writeState()); } catch { /* nothing to keep it in */ } };
// The link to what is shown. Without a clipboard, it is there to be copied by hand.
const copyLink = async () => {
  const link = location.href.split("#")[0] + writeState(), button = byId("copy");
  byId("link").hidden = true;
  try {
    await navigator.clipboard.writeText(link);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy link"; }, 1500);
  } catch {
    Object.assign(byId("link"), { hidden: false, value: link });
    byId("link").select();
  }
};
let mapsShown = "";
const drawMaps = () => {
  maps.forEach((map) => map.mark());
  const wanted = JSON.stringify([state.heat, state.panels]);
  if (wanted === mapsShown) return;
  mapsShown = wanted;
  maps.forEach((map) => map.draw());
  byId("heat-words").textContent = `${QUANTITIES[state.heat.y].words} ${HEAT.words}`;
};
function changed() { if (!frame) frame = requestAnimationFrame(drawAll); }
// Another loss has other sliders.
function refresh() { panels.forEach((panel) => panel.fit()); changed(); }

const startAll = () => {
  // A frame is a part of another page, which says what it shows.
  document.documentElement.classList.toggle("framed", window.self !== window.top);
  readState(location.hash);
  for (const index of [0, 1]) {
    panels.push(new Panel(index));
    maps.push(new HeatMap(index));
  }
  byId("panels").append(...panels.map((panel) => panel.node));
  byId("maps").append(...maps.map((map) => map.node));
  byId("count").oninput = (event) => { setCount(Number(event.target.value)); changed(); };
  byId("mates").oninput = (event) => { setMates(Number(event.target.value)); refresh(); };
  byId("step").oninput = (event) => { state.step = Number((10 ** Number(event.target.value)).toPrecision(3)); changed(); };
  byId("copy").onclick = copyLink;
  byId("shuffle").onclick = () => {
    state.preset = "";
    state.points = firstPoints(state.points.negatives.length, Math.floor(Math.random() * 2 ** 31));
    changed();
  };
  byId("play").onclick = togglePlay;
  byId("back").onclick = resetFlows;
  byId("reset").onclick = () => { readState(""); showChoices(); refresh(); };
  choices("heat-y", QUANTITIES, (value) => { state.heat.y = value; });
  choices("heat-x", SLIDERS, (value) => { state.heat.x = value; });
  startCurves();
  startPresets();
  addEventListener("hashchange", takeState);
  showChoices();
  refresh();
};
const takeState = () => { readState(location.hash); showChoices(); refresh(); };
const showChoices = () => {
  for (const [id, value] of [["curve-y", state.curve.y], ["curve-x", state.curve.x], ["heat-y", state.heat.y], ["heat-x", state.heat.x]]) byId(id).value = value;
};
startAll();
