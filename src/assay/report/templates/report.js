"use strict";
// Sorting by a click on a column's head; numbers as numbers.
for (const table of document.querySelectorAll("table.sortable")) {
  table.querySelectorAll("th button").forEach((button, column) => {
    button.addEventListener("click", () => {
      const body = table.tBodies[0];
      const down = button.dataset.down !== "1";
      button.dataset.down = down ? "1" : "0";
      const key = (row) => row.cells[column].textContent.trim();
      const rows = [...body.rows].sort((a, b) => {
        const x = key(a), y = key(b), u = parseFloat(x), v = parseFloat(y);
        const order = isNaN(u) || isNaN(v) ? x.localeCompare(y) : u - v;
        return down ? -order : order;
      });
      body.append(...rows);
    });
  });
}
// Filtering: rows that do not hold the text are hidden, and the count says how many are left.
for (const input of document.querySelectorAll("input[data-filter]")) {
  const table = document.getElementById(input.dataset.filter);
  const left = document.getElementById(input.dataset.filter + "-count");
  const apply = () => {
    const wanted = input.value.toLowerCase();
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      row.hidden = !row.textContent.toLowerCase().includes(wanted);
      if (!row.hidden) shown += 1;
    }
    left.textContent = shown + " of " + table.tBodies[0].rows.length + " rows";
  };
  input.addEventListener("input", apply);
  apply();
}
