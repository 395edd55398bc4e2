"use strict";
(function () {
  const said = document.getElementById("said");

  function say(text) {
    said.textContent = text;
  }

  // What is missing sorts last in both directions; equal rows keep their order.
  function compare(a, b, numeric, sign) {
    if (a === null || b === null) {
      return a === b ? 0 : a === null ? 1 : -1;
    }
    return sign * (numeric ? a - b : a.localeCompare(b, undefined, { numeric: true }));
  }

  function value(text, numeric) {
    if (text === undefined) {
      return null;
    }
    return numeric ? Number(text === "inf" ? "Infinity" : text === "-inf" ? "-Infinity" : text) : text;
  }

  function sort(table, header) {
    const headers = Array.from(header.parentNode.children);
    const column = headers.indexOf(header);
    const numeric = header.dataset.kind === "number";
    const order = header.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
    const sign = order === "ascending" ? 1 : -1;
    const body = table.tBodies[0];
    const rows = Array.from(body.rows, function (row) {
      return { row: row, key: value(row.cells[column].dataset.value, numeric) };
    });
    rows.sort(function (a, b) {
      return compare(a.key, b.key, numeric, sign);
    });
    for (const other of headers) {
      other.setAttribute("aria-sort", other === header ? order : "none");
    }
    body.append.apply(body, rows.map(function (entry) { return entry.row; }));
    say("sorted by " + header.textContent.trim() + ", " + order);
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    for (const header of table.tHead.rows[0].cells) {
      header.querySelector("button").addEventListener("click", function () {
        sort(table, header);
      });
    }
  }

  const group = document.getElementById("group");
  if (group) {
    group.closest("[data-needs-script]").hidden = false;
    const parts = document.querySelectorAll("[data-group]");
    const show = function () {
      const all = group.selectedOptions[0].hasAttribute("data-all");
      document.body.classList.toggle("one-group", !all);
      for (const part of parts) {
        part.hidden = !all && part.dataset.group !== group.value;
      }
    };
    group.addEventListener("change", function () {
      show();
      say("showing " + group.selectedOptions[0].textContent);
    });
    show();
  }

  const save = document.getElementById("save");
  save.hidden = false;
  save.addEventListener("click", function () {
    const text = JSON.stringify(JSON.parse(document.getElementById("data").textContent), null, 1);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    link.download = (document.title.replace(/[^\w-]+/g, "_").slice(0, 60) || "report") + ".json";
    link.click();
    URL.revokeObjectURL(link.href);
  });
})();
