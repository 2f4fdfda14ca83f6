// Sliders of a loss's settings. Where both losses have a setting of one meaning, their sliders can be linked.
"use strict";
// The same setting of the other loss; undefined if it has none.
const partnerOf = (index, number) => LOSSES[state.panels[1 - index].loss].numbers.find(
  (other) => other.label === number.label && other.angle === number.angle && (other.text === number.text || number.label === "temperature"));
const within = ({ low, high }, value) => Math.max(low, Math.min(high, value));
// Also the other loss's setting, if their sliders are linked.
const setNumber = (index, number, value) => {
  state.panels[index].numbers[number.path] = value;
  const partner = state.linked && partnerOf(index, number);
  if (partner) state.panels[1 - index].numbers[partner.path] = within(partner, value);
};

class Setting {
  constructor(index, number) {
    Object.assign(this, { index, number });
    this.text = tag("output");
    this.range = tag("input", { type: "range", min: 0, max: 1, step: 0.001, title: number.text, ariaLabel: number.text || number.label });
    this.range.addEventListener("input", () => {
      const { low, high, log } = number, at = Number(this.range.value), value = log ? low * (high / low) ** at : low + (high - low) * at;
      setNumber(index, number, Number(value.toPrecision(3)));
      changed();
    });
    this.link = tag("button", { type: "button", className: "link", onclick: () => {
      state.linked = !state.linked;
      if (state.linked) setNumber(index, number, state.panels[index].numbers[number.path]);
      changed();
    } });
    const label = tag("label", { title: number.text }, number.label, this.text, this.range);
    this.node = tag("div", { className: "setting" }, label, this.link);
  }

  draw() {
    const { number, index } = this, { low, high, log } = number, value = state.panels[index].numbers[number.path];
    const at = log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
    if (Math.abs(Number(this.range.value) - at) > 5e-4) this.range.value = at;
    write(this.text, showNumber(number, value));
    this.link.hidden = !partnerOf(index, number);
    write(this.link, state.linked ? "linked" : "link");
    put(this.link, { "aria-pressed": state.linked, title: state.linked ? `Both losses have this ${number.label}. Click to set them apart.` : `Give both losses this ${number.label}.` });
  }
}
