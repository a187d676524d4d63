"use strict";
// A long table: its rows, and those that are kept as text beside it. A search and a choice say which
// rows count, a click on a column's head sorts them; the first ones are shown. A word of the search
// stands anywhere in a row, in one column ("by:APGD"), or compares a number ("distance<0.1").
const SHOWN = 200;
const number = (text) => {
  const amount = text.replace(/^over /, "").replace(/\s%$/, "");
  return /^[-+\d.,e]+$/i.test(amount) ? parseFloat(amount.replaceAll(",", "")) : NaN;
};
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells].map((c) => c.textContent.trim().toLowerCase());
  const rows = [...body.rows].map((row) => ({ row, cells: [...row.cells].map((c) => c.textContent.trim()) }));
  const read = (part) => {
    const kept = document.getElementById(`${table.id}-${part}`);
    return kept && JSON.parse(kept.content.textContent);
  };
  const kept = read("further"), wholes = read("whole");
  if (kept) {  // a column at a time; values that come again are said once
    const columns = kept.map((c) => Array.isArray(c) ? c.map(String) : c.at.map((k) => String(c.values[k])));
    columns[0].forEach((_, k) => rows.push({ row: null, cells: columns.map((c) => c[k]) }));
  }
  const fields = wholes ? wholes.fields.map((name) => name.toLowerCase().replaceAll(" ", "-")) : [];
  if (wholes) wholes.rows.forEach((values, k) => { rows[k].whole = values; rows[k].changed = wholes.changed[k] || {}; });
  const add = (parent, tag, text, kind) => {
    const made = parent.appendChild(document.createElement(tag));
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };
  const listed = (parent, pairs) => {
    const list = add(parent, "dl");
    for (const [name, value] of pairs) {
      const pair = add(list, "div");
      add(pair, "dt", name);
      add(pair, "dd", value);
    }
  };
  // What the attack changed: features before and after, pictures, or words.
  const differences = (cell, { changes, pictures, words }) => {
    if (changes && changes.length) {
      const lines = add(add(cell, "div"), "table").appendChild(document.createElement("tbody"));
      for (const [name, before, after, unit, rules] of changes) {
        const line = lines.insertRow();
        add(line, "td", name);
        add(add(line, "td", undefined, "n"), "del", `${before} ${unit}`.trim());
        add(add(line, "td", undefined, "n"), "ins", `${after} ${unit}`.trim());
        add(line, "td", rules ? `held by ${rules}` : "", "soft");
      }
    }
    for (const [name, address] of pictures || []) {
      const figure = add(cell, "figure"), image = add(figure, "img");
      image.src = address;
      image.alt = name;
      add(figure, "figcaption", name);
    }
    if (words) {
      const text = add(cell, "p");
      for (const [a, b] of words) {
        if (a === b) text.append(a + " ");
        else { add(text, "del", a); text.append(" "); add(text, "ins", b); text.append(" "); }
      }
    }
  };
  // A click on a row's name opens its whole record below it, and a second one closes it.
  const unfold = (item) => {
    const button = document.createElement("button");
    button.className = "whole";
    button.textContent = item.cells[0];
    button.setAttribute("aria-expanded", "false");
    button.addEventListener("click", () => {
      const open = button.getAttribute("aria-expanded") === "true";
      button.setAttribute("aria-expanded", String(!open));
      if (open) return item.below.remove();
      item.below = document.createElement("tr");
      item.below.className = "whole";
      const cell = item.below.insertCell();
      cell.colSpan = heads.length;
      differences(cell, item.changed);
      listed(cell, wholes.fields.map((name, k) => [name, item.whole[k]]).filter(([, value]) => value !== ""));
      if (wholes.same.length) {
        const others = add(cell, "details");
        add(others, "summary", `${wholes.same.length} fields that are the same in all these rows`);
        listed(others, wholes.same);
      }
      item.row.after(item.below);
    });
    item.row.cells[0].replaceChildren(button);
  };
  for (const item of rows) if (item.whole && item.row) unfold(item);
  const made = (item) => {
    if (item.row) return item.row;
    item.row = document.createElement("tr");
    item.cells.forEach((text, j) => {
      const cell = item.row.insertCell();
      cell.textContent = text;
      cell.className = table.tHead.rows[0].cells[j].className;
    });
    if (item.whole) unfold(item);
    return item.row;
  };
  const input = document.querySelector(`input[data-filter="${table.id}"]`);
  const choices = [...document.querySelectorAll(`select[data-choose="${table.id}"]`)];
  const count = document.getElementById(table.id + "-count");
  // A test of a row for a word of the search: of a column that is shown, of a field of the whole record, of any cell.
  const asked = (word) => {
    const parts = word.match(/^([^:<>=]+)([:<>=])(.*)$/);
    const column = parts ? heads.findIndex((name) => name.replaceAll(" ", "-") === parts[1]) : -1;
    const field = parts && column < 0 ? fields.indexOf(parts[1]) : -1;
    const same = parts && wholes && column < 0 && field < 0
      ? wholes.same.find(([name]) => name.toLowerCase().replaceAll(" ", "-") === parts[1]) : undefined;
    if (column < 0 && field < 0 && !same) return ({ cells }) => cells.some((text) => text.toLowerCase().includes(word));
    const [, , sign, value] = parts, bound = number(value);
    const text = (item) => column >= 0 ? item.cells[column] : !item.whole ? "" : same ? same[1] : item.whole[field];
    if (sign === ":") return (item) => text(item).toLowerCase().includes(value);
    if (sign === "=") return (item) => text(item).toLowerCase() === value;
    return (item) => sign === "<" ? number(text(item)) < bound : number(text(item)) > bound;
  };
  const chosen = ({ value, dataset }) => !value ? () => true : dataset.how === "has"
    ? ({ cells }) => cells[dataset.column].split(", ").includes(value)
    : ({ cells }) => cells[dataset.column] === value;
  let left = rows;
  const show = () => {
    const words = input ? input.value.toLowerCase().split(/\s+/).filter(Boolean).map(asked) : [];
    const tests = [...words, ...choices.map(chosen)];
    const found = rows.filter((item) => tests.every((test) => test(item)));
    left = found;
    for (const button of body.querySelectorAll("button.whole")) button.setAttribute("aria-expanded", "false");
    body.replaceChildren(...found.slice(0, SHOWN).map(made));
    if (!count) return;
    const rest = found.length > SHOWN ? `, the first ${SHOWN} shown` : "";
    count.textContent = `${found.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")} rows${rest}`;
  };
  table.querySelectorAll("th button").forEach((button, column) => {
    button.addEventListener("click", () => {
      const down = button.dataset.down !== "1";
      button.dataset.down = down ? "1" : "0";
      const head = button.parentElement;
      for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      rows.sort((a, b) => {
        const x = a.cells[column], y = b.cells[column], u = number(x), v = number(y);
        if ((x === "–") !== (y === "–")) return x === "–" ? 1 : -1;  // without a value: last
        const order = isNaN(u) || isNaN(v) ? x.localeCompare(y) : u - v;
        return down ? -order : order;
      });
      show();
    });
  });
  if (input) input.addEventListener("input", show);
  for (const choice of choices) choice.addEventListener("change", show);
  if (input || kept) show();
  // The rows that the search leaves, as a file. A spreadsheet would run a cell that begins like a formula.
  const save = document.querySelector(`[data-save="${table.id}"]`);
  if (!save) continue;
  const plain = (text) => /^\s*[=+@\t\r-]/.test(text) && isNaN(number(text)) ? "'" + text : text;
  const quoted = (text) => `"${plain(text).replaceAll('"', '""')}"`;
  // Of rows that can be opened, every field that is not shown as a column goes along.
  const further = fields.map((_, k) => k).filter((k) => !heads.includes(wholes.fields[k].toLowerCase()));
  const names = [...heads, ...further.map((k) => wholes.fields[k])];
  const line = ({ cells, whole }) => [...cells, ...further.map((k) => whole ? whole[k] : "")];
  const makers = {
    CSV: ["text/csv", () => [names, ...left.map(line)].map((cells) => cells.map(quoted).join(",")).join("\r\n")],
    JSON: ["application/json", () => JSON.stringify(left.map((item) => Object.fromEntries(line(item).map((v, j) => [names[j], v]))))],
  };
  for (const [name, [kind, write]] of Object.entries(makers)) {
    const button = save.appendChild(document.createElement("button"));
    button.className = "small";
    button.textContent = name;
    button.addEventListener("click", () => {
      const file = document.createElement("a");
      file.href = URL.createObjectURL(new Blob([write()], { type: kind }));
      file.download = `${table.id}.${name.toLowerCase()}`;
      file.click();
      URL.revokeObjectURL(file.href);
    });
    save.append(" ");
  }
}
// What is to be typed again can be copied.
for (const code of document.querySelectorAll("code.copied")) {
  const button = document.createElement("button");
  button.className = "small";
  button.textContent = "copy";
  button.addEventListener("click", () => {
    const range = document.createRange();
    range.selectNodeContents(code);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    if (navigator.clipboard) navigator.clipboard.writeText(code.textContent).then(() => { button.textContent = "copied"; }, () => {});
  });
  code.parentElement.after(button);
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
const shown = new Set();
const watch = new IntersectionObserver((entries) => {
  for (const entry of entries) shown[entry.isIntersecting ? "add" : "delete"](entry.target.id);
  const read = [...links.keys()].find((id) => shown.has(id));  // of two side by side the first
  if (!read) return;
  for (const [id, a] of links) a.toggleAttribute("aria-current", id === read);
  links.get(read).setAttribute("aria-current", "true");
}, { rootMargin: "-10% 0px -80% 0px" });
for (const section of document.querySelectorAll("main section")) watch.observe(section);
