// The lists: one at a time, searched and sorted. Sentences reach the page as textContent alone, so that no markup in them acts.
const lists = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);
const STEP = 50;
const state = { list: 0, column: -1, descending: true, shown: STEP };

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== null) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function number(value) {
  if (value === null) return "–";
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return Math.abs(value) < 1e-3 ? value.toExponential(2) : String(value);
}

function selected(list) {
  const words = at("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = list.rows.filter((row) => {
    const text = row.map(String).join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  });
  const { column, descending } = state;
  if (column < 0) return rows;
  const sign = descending ? -1 : 1;
  return rows.sort((a, b) => {
    const [one, other] = [a[column], b[column]];
    if (one === null || other === null) return (one === null) - (other === null);
    const words = (value) => (Array.isArray(value) ? value[1] : String(value));
    return sign * (list.text[column] ? words(one).localeCompare(words(other)) : one - other);
  });
}

function heading(list, column) {
  const sorted = state.column === column ? (state.descending ? "descending" : "ascending") : "none";
  const attributes = { scope: "col", class: list.text[column] ? "text" : "number", "aria-sort": sorted };
  const cell = element("th", null, attributes);
  const button = element("button", list.headings[column], { type: "button" });
  button.addEventListener("click", () => {
    state.descending = state.column === column ? !state.descending : !list.text[column];
    state.column = column;
    show();
    at("list").querySelectorAll("th button")[column].focus();
  });
  cell.append(button);
  return cell;
}

function show() {
  const list = lists[state.list];
  lists.forEach((_, place) => at(`tab-${place}`).setAttribute("aria-selected", String(place === state.list)));
  at("list").setAttribute("aria-labelledby", `tab-${state.list}`);
  at("hint").textContent = list.hint;
  const rows = selected(list);
  const more = list.total > list.rows.length ? ` (the first of ${list.total.toLocaleString("en")}; all are in the CSV file)` : "";
  at("count").textContent = `${rows.length.toLocaleString("en")} of ${list.rows.length.toLocaleString("en")} rows${more}`;
  const table = element("table", null);
  const head = element("tr", null);
  head.append(...list.headings.map((_, column) => heading(list, column)));
  table.append(element("thead", null), element("tbody", null));
  table.tHead.append(head);
  for (const row of rows.slice(0, state.shown)) {
    const line = element("tr", null);
    row.forEach((value, column) => {
      const [where, text] = Array.isArray(value) ? value : ["", value];
      const kind = list.text[column] ? (where || /\s.*\s/.test(text) ? "text" : "word") : "number";
      const cell = element("td", list.text[column] ? text : number(text), { class: kind, "data-label": list.headings[column] });
      if (where) cell.append(element("small", where));
      line.append(cell);
    });
    table.tBodies[0].append(line);
  }
  at("list").replaceChildren(table);
  at("more").hidden = rows.length <= state.shown;
}

lists.forEach((_, place) => {
  const tab = at(`tab-${place}`);
  tab.addEventListener("click", () => {
    Object.assign(state, { list: place, column: -1, shown: STEP });
    show();
  });
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) at(`tab-${(place + step + lists.length) % lists.length}`).focus();
  });
});
at("search").addEventListener("input", () => { state.shown = STEP; show(); });
at("more").addEventListener("click", () => { state.shown += 4 * STEP; show(); });
if (lists.length) show();
