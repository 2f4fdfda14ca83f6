// Small helpers of all sections: nodes of the page, and numbers, angles and losses as texts.
"use strict";
const NAMESPACE = "http://www.w3.org/2000/svg";
// What is as it was is not set again: most of a frame is.
const kept = new WeakMap();
const put = (node, attributes) => {
  if (!kept.has(node)) kept.set(node, {});
  const before = kept.get(node);
  for (const key in attributes) if (before[key] !== attributes[key]) node.setAttribute(key, before[key] = attributes[key]);
  return node;
};
const write = (node, text) => { if (node.textContent !== text) node.textContent = text; };
const shape = (name, attributes = {}, ...children) => { const node = put(document.createElementNS(NAMESPACE, name), attributes); node.append(...children); return node; };
const tag = (name, properties = {}, ...children) => { const node = Object.assign(document.createElement(name), properties); node.append(...children); return node; };
const byId = (id) => document.getElementById(id);
const choices = (id, names, use) => {
  const node = byId(id);
  node.replaceChildren(...Object.entries(names).map(([value, name]) => tag("option", { value, textContent: name.name ?? name })));
  node.onchange = () => { use(node.value); changed(); };
};
const show = (x, digits = 3) => {
  if (Number.isNaN(x)) return "–";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  const size = Math.abs(x);
  if (size !== 0 && (size < 1e-3 || size >= 1e5)) return x.toExponential(1).replace("-", "−").replace("e+", "e");
  return Number(x.toPrecision(digits)).toString().replace("-", "−");
};
const degrees = (x) => `${((x * 180) / Math.PI).toFixed(1)}°`.replace("-", "−");
const showNumber = (number, value) => (number.angle ? degrees(value) : show(value));
const titleOf = ({ loss, numbers }) => {
  const set = LOSSES[loss].numbers.filter((n) => numbers[n.path] !== n.value);
  return LOSSES[loss].title + (set.length ? `, ${set.map((n) => `${n.label} ${showNumber(n, numbers[n.path])}`).join(", ")}` : "");
};
