"use strict";
// Sorting by a click on a column's head; numbers as numbers.
for (const table of document.querySelectorAll("table.sortable")) {
  table.querySelectorAll("th button").forEach((button, column) => {
    button.addEventListener("click", () => {
      const body = table.tBodies[0];
      const down = button.dataset.down !== "1";
      button.dataset.down = down ? "1" : "0";
      const head = button.parentElement;
      for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => row.cells[column].textContent.trim();
      const number = (text) => /^[-+\d.,e]+$/i.test(text) ? parseFloat(text.replaceAll(",", "")) : NaN;
      const rows = [...body.rows].sort((a, b) => {
        const x = key(a), y = key(b), u = number(x), v = number(y);
        const order = isNaN(u) || isNaN(v) ? x.localeCompare(y) : u - v;
        return down ? -order : order;
      });
      body.append(...rows);
    });
  });
}
// Filtering, by text and by outcome: other rows are hidden, and the count says how many are left.
for (const input of document.querySelectorAll("input[data-filter]")) {
  const table = document.getElementById(input.dataset.filter);
  const left = document.getElementById(input.dataset.filter + "-count");
  const choice = document.querySelector(`select[data-choose=${input.dataset.filter}]`);
  const apply = () => {
    const wanted = input.value.toLowerCase();
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      const kind = choice ? row.cells[choice.dataset.column].textContent : "";
      row.hidden = !row.textContent.toLowerCase().includes(wanted)
        || Boolean(choice && choice.value && kind !== choice.value);
      if (!row.hidden) shown += 1;
    }
    left.textContent = shown + " of " + table.tBodies[0].rows.length + " rows";
  };
  input.addEventListener("input", apply);
  if (choice) choice.addEventListener("change", apply);
  apply();
}
// A click on a legend hides its line, or shows it again.
for (const key of document.querySelectorAll("g.legend")) {
  const line = key.parentElement.querySelector(`g[data-series="${key.dataset.for}"]`);
  const turn = () => {
    const off = line.classList.toggle("off");
    key.classList.toggle("off", off);
    key.setAttribute("aria-pressed", String(!off));
  };
  key.addEventListener("click", turn);
  key.addEventListener("keydown", (e) => {
    if (e.key === "Enter" || e.key === " ") { e.preventDefault(); turn(); }
  });
}
// Tooltips: a mark's <title>, at once and also under a finger. As text, never as markup.
const tip = document.body.appendChild(document.createElement("div"));
tip.id = "tip";
tip.hidden = true;
const point = (event) => {
  const mark = event.target.closest && event.target.closest("svg rect, svg circle");
  const title = mark && mark.querySelector("title");
  tip.hidden = !title;
  if (!title) return;
  tip.textContent = title.textContent;
  const right = Math.min(event.pageX + 12, scrollX + document.documentElement.clientWidth - tip.offsetWidth - 8);
  tip.style.left = Math.max(8, right) + "px";
  tip.style.top = event.pageY + 16 + "px";
};
document.addEventListener("pointermove", point);
document.addEventListener("pointerdown", point);
// The section one reads is marked in the bar.
const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a]));
const watch = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    for (const a of links.values()) a.removeAttribute("aria-current");
    links.get(entry.target.id).setAttribute("aria-current", "true");
  }
}, { rootMargin: "-10% 0px -80% 0px" });
for (const section of document.querySelectorAll("main section")) watch.observe(section);
