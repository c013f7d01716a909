// Two runs: the difference, their curves on one axis, and the tasks that one solved and the other did not, side by side.

const data = JSON.parse(document.getElementById("data").textContent);

function points(value, digits = 1) {
  return isNumber(value) ? (value > 0 ? "+" : value < 0 ? "−" : "") + Math.abs(100 * value).toFixed(digits) : "–";
}

function head() {
  const all = data.comparison.all;
  const tile = (name, value, note) => node("div", { class: "tile" }, node("span", { class: "soft" }, name), node("b", {}, value),
    node("span", { class: "soft" }, note));
  const gap = all.difference;
  replace(document.getElementById("head"),
    node("div", { class: "title" }, node("h1", {}, `${data.names.a} against ${data.names.b}`)),
    node("div", { class: "tiles" }, tile("A", percent(all.a), data.names.a), tile("B", percent(all.b), data.names.b),
      tile("B − A", points(gap.mean) + " points", `95 % interval ${points(gap.low)} to ${points(gap.high)}, ${gap.units} paired tasks`),
      tile("gained, lost", `${all.gained.length}, ${all.lost.length}`, `sign test p = ${all.p_value.toPrecision(2)}`)),
    data.notes.map((note) => node("p", { class: "soft" }, note)));
}

function differences() {
  const rows = [];
  const add = (name, row, kind) => rows.push(node("tr", { class: kind }, node("th", {}, name), node("td", {}, row.difference.units),
    node("td", {}, percent(row.a)), node("td", {}, percent(row.b)), node("td", {}, points(row.difference.mean)),
    node("td", {}, `${points(row.difference.low)} to ${points(row.difference.high)}`), node("td", {}, row.gained.length), node("td", {}, row.lost.length)));
  for (const [name, row] of Object.entries(data.comparison.envs)) {
    add(name, row, "whole");
    for (const [type, part] of Object.entries(row.by_type)) add(type, part, "part");
    const levels = Object.entries(row.by_difficulty);
    if (levels.length > 1) for (const [level, part] of levels) add("difficulty " + level, part, "part");
  }
  replace(document.querySelector("#difference .body"), node("div", { class: "card scroll" }, node("table", {},
    node("thead", {}, node("tr", {}, ["", "tasks", "A", "B", "B − A, points", "95 % interval", "gained", "lost"].map((name) => node("th", {}, name)))),
    node("tbody", {}, rows))));
}

function flips() {
  const names = data.flips.map((flip) => `${flip.gained ? "B alone" : "A alone"}: ${data.episodes[flip.a].instruction || flip.task}`);
  if (!names.length) return;
  const section = document.getElementById("flips");
  section.hidden = false;
  const side = (name, i) => node("article", { class: "card" }, node("h3", { class: "soft" }, name), episodeView(data.episodes[i], i));
  const show = (k) => replace(section.querySelector(".pair"), side("A", data.flips[k].a), side("B", data.flips[k].b));
  replace(section.querySelector(".tools"), node("select", { "aria-label": "task", onchange: (event) => show(Number(event.target.value)) },
    names.map((name, k) => node("option", { value: k }, name))),
  data.flips.length < data.flipped ? node("span", { class: "soft" }, `${data.flips.length} of ${data.flipped} tasks are shown`) : "");
  show(0);
}

function options() {
  const found = Object.entries(data.comparison.options);
  if (!found.length) return;
  document.getElementById("options").hidden = false;
  const text = (value) => (value === null || value === undefined ? "–" : JSON.stringify(value));
  replace(document.querySelector("#options .body"), node("div", { class: "scroll" }, node("table", {},
    node("thead", {}, node("tr", {}, ["", "A", "B"].map((name) => node("th", {}, name)))),
    node("tbody", {}, found.map(([name, [a, b]]) => node("tr", {}, node("th", {}, name), node("td", {}, text(a)), node("td", {}, text(b))))))));
}

head();
differences();
const sides = ["a", "b"].map((side) => ({ name: side.toUpperCase(), metrics: data.metrics[side] }));
curves(() => overlaid(sides), sides.map((side) => side.metrics));
flips();
options();
