// Values under the finger or pointer: the nearest step of each chart.
for (const svg of document.querySelectorAll("svg[data-series]")) {
  const series = JSON.parse(svg.dataset.series);
  const card = svg.closest(".card");
  const tip = Object.assign(document.createElement("div"), { className: "tip", hidden: true });
  const guide = document.createElementNS(svg.namespaceURI, "line");
  guide.setAttribute("class", "guide");
  card.append(tip);
  const points = series.flatMap((one) => one.points);
  const show = (event) => {
    const box = svg.getBoundingClientRect();
    const scale = box.width / svg.viewBox.baseVal.width;
    const at = (event.clientX - box.left) / scale;
    const nearest = points.reduce((a, b) => (Math.abs(b[1] - at) < Math.abs(a[1] - at) ? b : a));
    const lines = series.map((one) => {
      const point = one.points.find((p) => p[0] === nearest[0]);
      return point ? `${one.label}: ${point[2]}` : null;
    });
    tip.textContent = [`step ${nearest[0]}`, ...lines.filter(Boolean)].join("\n");
    tip.hidden = false;
    const x = box.left - card.getBoundingClientRect().left + nearest[1] * scale;
    const right = card.clientWidth - tip.offsetWidth - 6;
    tip.style.left = `${Math.max(6, Math.min(x + 10, right))}px`;
    tip.style.top = `${box.top - card.getBoundingClientRect().top + 6}px`;
    for (const [name, value] of [["x1", nearest[1]], ["x2", nearest[1]], ["y1", 8], ["y2", 166]]) guide.setAttribute(name, value);
    svg.append(guide);
  };
  const hide = () => { tip.hidden = true; guide.remove(); };
  svg.addEventListener("pointermove", show);
  svg.addEventListener("pointerdown", show);
  svg.addEventListener("pointerleave", hide);
}
// Folds: a link opens the one that it leads into; open ones stay open when the page is loaded again; paper shows all.
const folds = [...document.querySelectorAll("details.fold")];
const opened = new Set(JSON.parse(sessionStorage.getItem("folds") || "[]"));
folds.forEach((fold, i) => {
  fold.open = opened.has(i);
  fold.addEventListener("toggle", () => {
    opened[fold.open ? "add" : "delete"](i);
    sessionStorage.setItem("folds", JSON.stringify([...opened]));
  });
});
const follow = () => { const at = document.getElementById(location.hash.slice(1)); if (at) { at.closest("details").open = true; at.scrollIntoView(); } };
addEventListener("hashchange", follow);
follow();
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((one) => { one.open = true; }));
