// Play: the anchor of each loss flows from where it stands; everything else rests.
"use strict";
const play = { running: false, key: "", flows: [], last: 0 };

// The scene at a learning rate of 1, from which `flowOf` reads the exact velocity, further terms of a loss included.
const evaluated = (panel, points, anchor) => {
  const { step } = state;
  state.step = 1;
  try { return evaluate(panel, { ...points, anchor }, false); } finally { state.step = step; }
};
const flowOf = (panel, points) => {
  if (LOSSES[panel.loss].stored || !evaluated(panel, points, points.anchor)) return null;
  const field = (anchor) => {
    const { moved } = evaluated(panel, points, anchor);
    return minus(scaled(moved, 1 / dot(moved, anchor)), anchor);
  };
  return new AnchorFlow(field, (anchor) => evaluated(panel, points, anchor).relative_push, points.anchor, LOSSES[panel.loss].gated);
};

const playKey = () => JSON.stringify([state.points, state.panels, state.mates]);
// Flows belong to the points and settings that they began with.
const beginFlows = () => {
  play.key = playKey();
  const points = structuredClone(state.points);
  play.flows = state.panels.map((panel) => flowOf(structuredClone(panel), points));
};
const resetFlows = () => { Object.assign(play, { running: false, key: "", flows: [] }); changed(); };
// Factors of e in time per second; a flow takes at most this many steps per frame.
const MOST_STEPS = 20;
const advance = (now) => {
  if (!play.running) return;
  if (play.key !== playKey()) { resetFlows(); return; }
  const seconds = Math.min(0.1, (now - play.last) / 1000), speed = Number(byId("speed").value);
  play.last = now;
  for (const flow of play.flows) {
    if (!flow) continue;
    const until = flow.time * Math.exp(speed * seconds);
    for (let i = 0; i < MOST_STEPS && !flow.end && flow.time <= until; i++) flow.step();
  }
  if (play.flows.every((flow) => !flow || flow.end)) play.running = false;
  changed();
  if (play.running) requestAnimationFrame(advance);
};
const togglePlay = () => {
  if (play.key !== playKey() || play.flows.every((flow) => !flow || flow.end)) beginFlows();
  play.running = !play.running;
  play.last = performance.now();
  if (play.running) requestAnimationFrame(advance);
  changed();
};

const flowWords = (flow) => {
  if (!flow) return "this loss cannot be played at these points";
  const angle = degrees(angleOf(flow.point, state.points.positive));
  const words = { "at rest": "at rest, pull and push balance", "stopped learning": "stopped learning, the force is gone", "still moving": "still moving after all steps" };
  return `t = ${show(flow.time)}, ${angle} from the positive${flow.end ? `: ${words[flow.end]}` : ""}`;
};
const drawPlay = () => {
  if (play.key && play.key !== playKey()) Object.assign(play, { running: false, key: "", flows: [] });
  write(byId("play"), play.running ? "Pause" : "Play");
  panels.forEach((panel, i) => {
    panel.flowing ??= (() => {
      const trail = shape("path", { class: "trail" }), dot = shape("circle", { class: "flowing", r: 6 });
      for (const node of [trail, dot]) node.style.pointerEvents = "none";
      panel.ball.append(trail, dot);
      const words = tag("p", { className: "words flow-words", ariaLive: "polite" });
      panel.sliders.before(words);
      return { trail, dot, words };
    })();
    const { trail, dot, words } = panel.flowing, flow = play.flows[i];
    const shown = Boolean(flow);
    trail.style.display = dot.style.display = shown ? "" : "none";
    write(words, play.key ? flowWords(flow) : "");
    if (!shown) return;
    const places = flow.trail.map((point) => screen(point).map(tenths).join(" "));
    put(trail, { d: `M${places.join("L")}` });
    const [x, y, deep] = seen(flow.point);
    put(dot, { cx: tenths(MIDDLE + RADIUS * x), cy: tenths(MIDDLE - RADIUS * y), class: `flowing${deep < 0 ? " behind" : ""}` });
  });
};
