// Heatmaps: frames that the library computed when the page was made, one byte a cell.
"use strict";
const QUANTITIES = {
  relative_push: { name: "mean relative push", words: "By Monte Carlo, with a standard error. 1: the whole push that these negatives could give is alive; 0: the anchor is left alone; below 0: the negatives attract it. The band between is where training comes to rest. A soft gate has a wide band, a hard one is as wide as the spread of the angles. A larger margin moves it to the right, more negatives too; a lower temperature makes it narrower." },
  hardest_share: { name: "share of the hardest negative", words: "By Monte Carlo: mean of the hardest negative's share in the weight over the batches with a dissipation (of a loss given as code, a relative push) of .01 or more; hatched where there is none." },
  ratio: { name: "ratio", words: "At the mean angles themselves; over drawn angles it has no mean. Colours end at 3, values at ±15." },
};
const SLIDERS = { temperature: "temperature", margin: "margin", spread: "spread of the negatives", positive_spread: "spread of the positive", negatives: "number of negatives" };
const LEVELS = 250, ABOVE = 251, BELOW = 252, MISSING = 255;
const COLOURS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];

const colour = (share) => {
  const at = Math.max(0, Math.min(1, share)) * 4, i = Math.min(3, Math.floor(at));
  return COLOURS[i].map((c, k) => c + (COLOURS[i + 1][k] - c) * (at - i));
};
// Attraction: from a dark to a light red, which no value from 0 to 1 has.
const attraction = (share) => [110 + 125 * Math.min(1, share), 40 * Math.min(1, share), 60];
const whole = (x) => `${Math.round((x * 180) / Math.PI)}°`;
const unpacked = new Map();
// The frames of one series: deflated, each row as differences from cell to cell.
const unpack = async (series) => {
  if (!unpacked.has(series)) {
    const packed = Uint8Array.from(atob(series.cells), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    const cells = new Uint8Array(await new Response(stream).arrayBuffer());
    for (let i = 0; i < cells.length; i++) if (i % HEAT.columns) cells[i] = (cells[i] + cells[i - 1]) & 255;
    unpacked.set(series, cells);
  }
  return unpacked.get(series);
};

class HeatMap {
  constructor(index) {
    this.index = index;
    this.title = tag("h3");
    this.canvas = tag("canvas", { width: HEAT.columns, height: HEAT.rows, tabIndex: 0, ariaLabel: "Heatmap; arrow keys read cells" });
    const [left, right] = HEAT.across, [low, high] = HEAT.upwards;
    this.here = tag("span", { className: "here" }, tag("span", { textContent: "you are here" }));
    this.led = tag("span", { className: "here led" });
    this.range = tag("input", { type: "range", min: 0, step: 1 });
    this.text = tag("output");
    this.label = tag("span");
    this.slider = tag("label", {}, this.label, this.text, this.range);
    this.low = tag("span"); this.high = tag("span");
    this.bar = tag("canvas", { width: 100, height: 1, ariaHidden: "true" });
    this.scale = tag("div", { className: "scale" }, this.low, this.bar, this.high);
    this.cell = tag("p", { className: "cell", ariaLive: "polite" });
    this.plot = tag("div", { className: "plot" },
      tag("span", { className: "up" }, tag("span", { textContent: whole(low) }), tag("span", { textContent: "angle to the positive" }), tag("span", { textContent: whole(high) })),
      tag("div", { className: "cells" }, this.canvas, this.here, this.led),
      tag("span", { className: "along" }, tag("span", { textContent: whole(left) }), tag("span", { textContent: "angle to the negatives" }), tag("span", { textContent: whole(right) })));
    this.none = tag("p", { className: "note" });
    this.node = tag("div", { className: "panel map" }, this.title, this.slider, this.plot, this.scale, this.cell, this.none);
    this.range.addEventListener("input", () => { state.heat.frames[this.key()] = Number(this.range.value); changed(); });
    const read = (event) => {
      const box = this.canvas.getBoundingClientRect();
      this.read(Math.floor(((event.clientX - box.left) / box.width) * HEAT.columns), HEAT.rows - 1 - Math.floor(((event.clientY - box.top) / box.height) * HEAT.rows));
    };
    this.canvas.addEventListener("pointermove", read);
    this.canvas.addEventListener("pointerdown", read);
    this.canvas.addEventListener("pointerleave", () => this.read(null));
    this.canvas.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
      if (!by) return;
      event.preventDefault();
      const [column, row] = this.at ?? [HEAT.columns >> 1, HEAT.rows >> 1];
      this.read(Math.max(0, Math.min(HEAT.columns - 1, column + by[0])), Math.max(0, Math.min(HEAT.rows - 1, row + by[1])));
    });
  }

  loss() { return state.panels[this.index].loss; }
  // The chosen slider; a loss without it shows its own first setting, or the first slider that it has.
  slidersOf() { return HEAT.series[this.loss()]?.[state.heat.y] ?? {}; }
  choice() { const all = this.slidersOf(); return state.heat.x in all ? state.heat.x : Object.keys(all)[0]; }
  key() { return `${this.loss()}.${this.choice()}`; }
  // The frame nearest to the setting on the sphere, until the slider of the map is moved.
  frame(series) {
    const last = series.values.length - 1, moved = state.heat.frames[this.key()];
    if (moved !== undefined) return Math.min(last, moved);
    const { loss, numbers } = state.panels[this.index], number = LOSSES[loss].numbers.find(({ path }) => path.split(".").at(-1) === this.choice());
    if (!number) return series.start;
    const away = (value) => Math.abs(Math.log((value + 1e-6) / (numbers[number.path] + 1e-6)));
    return series.values.reduce((best, value, i) => (away(value) < away(series.values[best]) ? i : best), series.start);
  }

  // Where the anchor of the sphere is among the mean angles, and where Play has led it.
  mark() {
    const { points, mates } = state, negatives = points.negatives.slice(mates), flow = play.flows[this.index];
    const markAt = (node, anchor) => {
      node.hidden = !anchor;
      if (!anchor) return;
      const across = negatives.reduce((sum, v) => sum + angleOf(anchor, v), 0) / negatives.length, up = angleOf(anchor, points.positive);
      const share = (angle, [from, to]) => Math.max(0, Math.min(1, (angle - from) / (to - from)));
      node.style.left = `${100 * share(across, HEAT.across)}%`;
      node.style.bottom = `${100 * share(up, HEAT.upwards)}%`;
      node.classList.toggle("left", share(across, HEAT.across) > 0.6);
    };
    markAt(this.here, points.anchor);
    markAt(this.led, flow ? flow.point : null);
  }

  async draw() {
    const loss = this.loss(), series = this.slidersOf()[this.choice()];
    this.title.textContent = LOSSES[loss].title;
    for (const node of [this.slider, this.plot, this.scale, this.cell]) node.hidden = !series;
    this.plot.style.display = this.scale.style.display = series ? "" : "none";
    this.none.textContent = series ? "" : this.why(loss);
    this.series = series;
    if (!series) return;
    this.slider.hidden = series.values.length < 2;
    const frame = this.frame(series), name = SLIDERS[this.choice()];
    put(this.range, { max: series.values.length - 1, "aria-label": name });
    this.range.value = frame;
    this.label.textContent = name;
    this.text.textContent = series.angle ? degrees(series.values[frame]) : show(series.values[frame]);
    const cells = await unpack(series);
    if (this.series !== series) return;
    const size = HEAT.rows * HEAT.columns;
    this.cells = cells.subarray(frame * size, (frame + 1) * size);
    this.paint();
    if (this.at) this.read(...this.at);
    else this.cell.textContent = "Point at a cell, or move through them with the arrow keys.";
  }

  why(loss) {
    return HEAT.series[loss] ? "Needs the angles within a view, of which these heatmaps know nothing." : `This loss has no heatmaps: ${LOSSES[loss].why}.`;
  }

  value(cell) {
    const { low, high } = this.series;
    return { [ABOVE]: Infinity, [BELOW]: -Infinity, [MISSING]: NaN }[cell] ?? low + ((high - low) * cell) / LEVELS;
  }

  limits() { return state.heat.y === "ratio" ? [Math.min(0, this.series.low), Math.min(3, Math.max(1, this.series.high))] : [Math.min(0, this.series.low), 1]; }
  shade(v, [low, high]) { return state.heat.y === "relative_push" ? (v < 0 ? attraction(-v) : colour(v)) : colour((v - low) / (high - low)); }

  paint() {
    const context = this.canvas.getContext("2d"), image = context.createImageData(HEAT.columns, HEAT.rows);
    const limits = this.limits(), [low, high] = limits;
    const palette = Array.from({ length: 256 }, (_, cell) => { const v = this.value(cell); return Number.isNaN(v) ? [0, 0, 0, 0] : [...this.shade(v, limits), 255]; });
    for (let row = 0, at = 0; row < HEAT.rows; row++) {
      const from = (HEAT.rows - 1 - row) * HEAT.columns;
      for (let column = 0; column < HEAT.columns; column++, at += 4) image.data.set(palette[this.cells[from + column]], at);
    }
    context.putImageData(image, 0, 0);
    this.low.textContent = show(low);
    this.high.textContent = show(high) + (this.series.high > high + 1e-9 ? " and more" : "");
    const bar = this.bar.getContext("2d"), strip = bar.createImageData(100, 1);
    for (let i = 0; i < 100; i++) strip.data.set([...this.shade(low + ((high - low) * i) / 99, limits), 255], 4 * i);
    bar.putImageData(strip, 0, 0);
  }

  read(column, row) {
    this.at = column === null ? null : [Math.max(0, Math.min(HEAT.columns - 1, column)), Math.max(0, Math.min(HEAT.rows - 1, row))];
    if (!this.at || !this.cells) { this.cell.textContent = "Point at a cell, or move through them with the arrow keys."; return; }
    const [x, y] = this.at, [left, right] = HEAT.across, [bottom, top] = HEAT.upwards;
    const negative = left + ((right - left) * x) / (HEAT.columns - 1), positive = bottom + ((top - bottom) * y) / (HEAT.rows - 1);
    const value = this.value(this.cells[y * HEAT.columns + x]), { low, high, tolerance, error } = this.series;
    const beyond = value > high ? `more than ${show(high)}` : value < low ? `less than ${show(low)}` : null;
    const sampled = error ? `, standard error at most ${show(error, 2)}` : "";
    const shown = Number.isNaN(value) ? "no batch has a gradient" : (beyond ?? `${show(value)} ± ${show(tolerance, 2)}`) + sampled;
    this.cell.textContent = `positive ${degrees(positive)}, negatives ${degrees(negative)}: ${shown}`;
  }
}
