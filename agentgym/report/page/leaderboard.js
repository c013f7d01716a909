// Evaluations of the same tasks, the best first.

const data = JSON.parse(document.getElementById("data").textContent);

const points = (value) => (isNumber(value) ? (value > 0 ? "+" : value < 0 ? "−" : "") + Math.abs(100 * value).toFixed(1) : "–");

const parts = (env) => (env.startsWith("rlvr/") ? ["rlvr/", env.slice(5)] : [env]);

function head() {
  const tile = (name, value, note) => node("div", { class: "tile" }, node("span", { class: "soft" }, name), node("b", {}, value), node("span", { class: "soft" }, note));
  replace(document.getElementById("head"), node("div", { class: "title" }, node("h1", {}, data.title)),
    node("div", { class: "tiles" },
      tile("protocol", data.protocol || "none", data.protocol ? data.source : "not comparable with published numbers"),
      tile("tasks", data.tasks, `task ids ${data.task_ids}`), tile("environments", data.envs.length, data.envs.join(", ")),
      tile(data.references.length > 1 ? "references" : "reference", data.references.join(", "), "what differences are taken against")));
}

function board() {
  const several = data.envs.length > 1;
  let rank = 0;
  const line = (entry) => {
    const out = Boolean(entry.not_comparable), base = data.references.includes(entry.name);
    const against = (reference) => {
      const gap = entry.differences[reference];
      if (!gap) return node("td", { class: "soft" }, out ? "" : "reference");
      const apart = gap.low > 0 || gap.high < 0;
      return node("td", { class: apart ? (gap.mean > 0 ? "better" : "wrong") : "" }, points(gap.mean),
        node("div", { class: "soft" }, `${points(gap.low)} to ${points(gap.high)}`), node("div", { class: "soft" }, apart ? "told apart" : "not told apart"));
    };
    return node("tr", { class: out ? "out" : base ? "here" : "" },
      node("td", {}, out ? "–" : ++rank), node("th", { scope: "row" }, entry.name, entry.model ? node("div", { class: "soft" }, entry.model) : ""),
      node("td", { class: "bars" }, out ? "" : rail(entry.success)),
      node("td", {}, out ? "not comparable" : [percent(entry.success.mean), node("div", { class: "soft" }, `${percent(entry.success.low)} to ${percent(entry.success.high)}`)]),
      data.references.map(against),
      several ? data.envs.map((env) => node("td", {}, out ? "" : percent((entry.envs[env] || {}).mean))) : "",
      node("td", {}, entry.success.episodes + entry.success.faults), node("td", { class: out ? "wrong" : "" }, percent(entry.fault_share)));
  };
  replace(document.querySelector("#board .body"), node("div", { class: "card scroll", tabindex: 0, role: "region", "aria-label": "leaderboard" }, node("table", { class: "board" },
    node("thead", {}, node("tr", {}, ["", "evaluation", "", ["success", "95 % interval"], ...data.references.map((name) => [`minus ${name}`, "points; 95 % interval, paired"]),
      ...(several ? data.envs.map(parts) : []), "episodes", ["infrastructure", "errors"]].map((name) => node("th", { scope: "col" }, Array.isArray(name) ? name.map((part) => node("div", {}, part)) : name)))),
    node("tbody", {}, data.entries.map(line)))),
  node("p", { class: "soft" }, "The line over a bar is the 95 % interval over tasks. Differences are taken task by task; an entry is told apart from a reference where the paired " +
    "interval leaves 0 out. With several entries, some are told apart by chance: one in twenty that are equally good. An evaluation with more than 1 % infrastructure errors has no rank."),
  data.entries.filter((entry) => entry.not_comparable).map((entry) => node("p", { class: "notice trouble" }, `${entry.name}: ${entry.not_comparable}`)));
}

function options() {
  const found = Object.entries(data.options), names = data.entries.map((entry) => entry.name);
  if (!found.length) return;
  document.getElementById("options").hidden = false;
  const text = (value) => (value === null || value === undefined ? "–" : JSON.stringify(value));
  replace(document.querySelector("#options .body"), node("div", { class: "scroll" }, node("table", {},
    node("thead", {}, node("tr", {}, ["", ...names].map((name) => node("th", {}, name)))),
    node("tbody", {}, found.map(([name, values]) => node("tr", {}, node("th", {}, name), names.map((one) => node("td", {}, text(values[one])))))))));
}

head();
board();
options();
