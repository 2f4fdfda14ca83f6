// A tap or Enter on a figure shows it whole on the screen; another tap shows it in full size.
"use strict";
const enlarge = (image) => {
  const dialog = Object.assign(document.createElement("dialog"), { className: "figure" });
  const copy = Object.assign(document.createElement("img"), { src: image.currentSrc, alt: image.alt });
  const close = Object.assign(document.createElement("button"), { type: "button", textContent: "Close" });
  copy.addEventListener("click", () => dialog.classList.toggle("full"));
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => { dialog.remove(); image.focus(); });
  dialog.append(close, copy);
  document.body.append(dialog);
  dialog.showModal();
};
addEventListener("load", () => {
  for (const image of document.querySelectorAll("article img")) {
    if (image.closest("a") || image.naturalWidth < 300) continue;
    Object.assign(image, { tabIndex: 0, title: "Enlarge" });
    image.classList.add("enlargeable");
    image.addEventListener("click", () => enlarge(image));
    image.addEventListener("keydown", (event) => { if (event.key === "Enter") enlarge(image); });
  }
});

// Text in columns keeps them on a phone, and scrolls; other lines go on in the next one.
document.addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll("article .highlight-text pre")) {
    const rows = block.textContent.split("\n").filter((line) => /\S {3,}\S/.test(line));
    block.classList.toggle("columns", rows.length > 2);
  }
});
