// What stands above the episodes: the run in a few numbers, its curves, its results by task type, its origin.

function header(data) {
  const summary = data.summary || {};
  const tiles = [];
  const named = new Set(data.played_with.map(([name]) => name));
  const tile = (name, value, note) => tiles.push(node("div", { class: "tile" },
    node("span", { class: "soft" }, name), node("b", {}, value), note ? node("span", { class: "soft" }, note) : ""));
  const rate = (value, name, note) => { if (isNumber(value)) tile(name, percent(value), note); };
  rate(summary.success_before, "before");
  rate(summary.success_sft, "after SFT warm start");
  const start = isNumber(summary.success_sft) ? summary.success_sft : summary.success_before; // of reinforcement learning
  rate(summary.success_after, "after training", isNumber(start)
    ? signed(100 * (summary.success_after - start)) + " points" : "");
  const found = summary.success;
  if (found && typeof found === "object") {
    tile("success", percent(found.mean), `95 % interval ${percent(found.low)} to ${percent(found.high)}`);
    tile("episodes", short(found.episodes), `${short(found.tasks)} tasks, ${short(found.faults)} infrastructure errors left out`);
    tile("turns", short(summary.turns), "mean of an episode");
    tile("reward", short(summary.reward), "mean of an episode");
    const met = Object.entries(summary.met || {});
    const least = summary.uncounted ? "at least " : "";
    if (summary.usage) tile("tokens", least + short(summary.usage.input) + " in", `${short(summary.usage.output)} out` +
      (summary.usage.cached ? `, ${short(summary.usage.cached)} cached` : "") + (summary.usage.reasoning ? `, ${short(summary.usage.reasoning)} reasoning` : ""));
    if (summary.uncounted) tile("not counted", short(summary.uncounted), `replies of ${short(summary.replies)}: the server gave no tokens`);
    if (summary.cost) tile("price", least + "$" + summary.cost.total.toPrecision(3), isNumber(summary.cost.per_success) ? `$${summary.cost.per_success.toPrecision(3)} per success` : "no success");
    if (summary.latency) tile("request", summary.latency.median.toPrecision(2) + " s", `median; 95 %: ${summary.latency.p95.toPrecision(2)} s, without waiting`);
    if (met.length) tile("server errors", short(met.reduce((sum, [, n]) => sum + n, 0)), met.map(([kind, n]) => `${n} x ${kind}`).join(", "));
  } else {
    if (isNumber(summary.episodes)) tile("episodes", short(summary.episodes));
    const tokens = isNumber(summary.tokens) ? summary.tokens : data.metrics.reduce((sum, row) => sum + (charted(row.tokens) ? row.tokens : 0), 0);
    if (tokens) tile("tokens", short(tokens), "sampled in training");
    if (isNumber(summary.train_seconds)) tile("training", duration(summary.train_seconds));
    if (summary.credit && !named.has("credit")) tile("credit", summary.credit, isNumber(summary.seed) ? "seed " + summary.seed : "");
  }
  const all = data.envs;
  const envs = all.slice(0, 4).join(", ") + (all.length > 4 ? ` and ${all.length - 4} more` : "");
  replace(document.getElementById("head"),
    node("div", { class: "title" }, node("h1", {}, data.name), named.has("environment") ? "" : node("span", { class: "soft" }, envs)),
    playedWith(data.played_with),
    data.cut ? node("p", { class: "card notice-cut" }, data.cut) : "",
    data.idle ? node("p", { class: "card notice-cut" }, withFlags(data.idle)) : "",
    tiles.length ? node("div", { class: "tiles" }, tiles) : "");
}

// A sentence in which flags can be told apart, and do not break over two lines.
function withFlags(text) {
  return text.split(/(--[a-z][a-zA-Z.-]*)/).map((part, i) => (i % 2 ? node("code", {}, part) : part));
}

// What a run was trained or evaluated with.
function playedWith(facts) {
  return facts.length ? node("dl", { class: "facts played-with" }, facts.map(([name, value]) => node("div", {}, node("dt", {}, name), node("dd", {}, value)))) : "";
}

function partName(part, step) {
  if (part === "train") return step === "" ? "training" : "training, step " + step;
  const others = { hinted: "training with hints", branched: "training, branches" };
  if (part in others) return step === "" ? others[part] : others[part] + ", step " + step;
  if (part === "eval") return /^\d+$/.test(step) ? "evaluation at step " + step : "test " + step;
  return "all episodes";
}

function byType(data) {
  if (!data.types.length) return;
  const section = document.getElementById("types");
  section.hidden = false;
  const body = section.querySelector(".body");
  const title = (table) => partName(table.part, table.step);
  const last = 0; // the newest evaluation stands first
  const table = node("div", { class: "bars card" });
  const show = (i) => replace(table, data.types[i].rows.map((row) => node("div", { class: "bar" + (row.whole ? " whole" : "") },
    node("span", { class: "name" }, row.type), rail(row),
    node("b", {}, percent(row.mean)),
    node("span", { class: "soft" }, isNumber(row.low) ? `${percent(row.low, 0)} to ${percent(row.high, 0)}` : ""),
    node("span", { class: "soft" }, `${row.episodes} episodes` + (row.faults ? `, ${row.faults} infrastructure errors` : "")))));
  const choice = node("select", { "aria-label": "which episodes", onchange: (event) => show(Number(event.target.value)) },
    data.types.map((one, i) => node("option", { value: i, selected: i === last }, title(one))));
  show(last);
  replace(body, data.types.length > 1 ? node("p", {}, choice) : "", table,
    node("p", { class: "soft" }, "The line over a bar is the 95 % interval. Infrastructure errors are left out of every rate."));
}

function rail(row) {
  const svg = drawing("svg", { class: "rail", viewBox: "0 0 100 14", preserveAspectRatio: "none", "aria-hidden": "true" });
  svg.append(drawing("rect", { class: "rail-back", x: 0, y: 2, width: 100, height: 10 }));
  if (!isNumber(row.mean)) return svg;
  svg.append(drawing("rect", { class: "fill", x: 0, y: 2, width: 100 * row.mean, height: 10 }));
  svg.append(drawing("line", { class: "whisker", x1: 100 * row.low, x2: 100 * row.high, y1: 7, y2: 7 }));
  return svg;
}

function origin(data) {
  const part = (name, text) => (text ? node("details", { class: "card" }, node("summary", {}, name), node("pre", {}, text)) : null);
  const json = (value) => (value ? JSON.stringify(value, null, 2) : null);
  const parts = [part("config.toml", data.config), part("manifest.json", json(data.manifest)), part("summary.json", json(data.summary))]
    .filter(Boolean);
  const section = document.getElementById("origin");
  section.hidden = !parts.length;
  append(section, parts);
}
