// What stands above the episodes: the run in a few numbers, its curves, its results by task type, its origin.

function header(data) {
  const summary = data.summary || {};
  const tiles = [];
  const tile = (name, value, note) => tiles.push(node("div", { class: "tile" },
    node("span", { class: "soft" }, name), node("b", {}, value), note ? node("span", { class: "soft" }, note) : ""));
  const rate = (value, name, note) => { if (isNumber(value)) tile(name, percent(value), note); };
  rate(summary.success_before, "before");
  rate(summary.success_sft, "after SFT warm start");
  rate(summary.success_after, "after training", isNumber(summary.success_sft)
    ? signed(100 * (summary.success_after - summary.success_sft)) + " points" : "");
  const found = summary.success;
  if (found && typeof found === "object") {
    tile("success", percent(found.mean), `95 % interval ${percent(found.low)} to ${percent(found.high)}`);
    tile("episodes", short(found.episodes), `${short(found.tasks)} tasks, ${short(found.faults)} infrastructure errors apart`);
    tile("turns", short(summary.turns), "mean of an episode");
    tile("reward", short(summary.reward), "mean of an episode");
    const met = Object.entries(summary.met || {});
    if (summary.usage) tile("tokens", short(summary.usage.input) + " in", `${short(summary.usage.output)} out` +
      (summary.usage.cached ? `, ${short(summary.usage.cached)} cached` : "") + (summary.usage.reasoning ? `, ${short(summary.usage.reasoning)} reasoning` : ""));
    if (summary.cost) tile("price", "$" + summary.cost.total.toPrecision(3), isNumber(summary.cost.per_success) ? `$${summary.cost.per_success.toPrecision(3)} per success` : "no success");
    if (summary.latency) tile("request", summary.latency.median.toPrecision(2) + " s", `median; 95 %: ${summary.latency.p95.toPrecision(2)} s, without waiting`);
    if (met.length) tile("server errors", short(met.reduce((sum, [, n]) => sum + n, 0)), met.map(([kind, n]) => `${n} x ${kind}`).join(", "));
  } else {
    if (isNumber(summary.episodes)) tile("episodes", short(summary.episodes));
    if (isNumber(summary.train_seconds)) tile("training", duration(summary.train_seconds));
    if (summary.credit) tile("credit", summary.credit, isNumber(summary.seed) ? "seed " + summary.seed : "");
  }
  const all = data.envs;
  const envs = all.slice(0, 4).join(", ") + (all.length > 4 ? ` and ${all.length - 4} more` : "");
  replace(document.getElementById("head"),
    node("div", { class: "title" }, node("h1", {}, data.name), node("span", { class: "soft" }, envs)),
    playedWith(data),
    data.cut ? node("p", { class: "card notice-cut" }, data.cut) : "",
    tiles.length ? node("div", { class: "tiles" }, tiles) : "");
}

// What an evaluation was played with, from its manifest.
function playedWith(data) {
  const options = data.manifest && data.manifest.options;
  if (data.config || !options) return "";
  const text = (value) => (value && typeof value === "object" ? [...new Set(Object.values(value))].join(", ") : value);
  const sessions = data.manifest.sessions || [];
  const facts = [["model", options.model || options.policy], ["agent", options.agent], ["prompt", options.prompt], ["tools", options.tools],
    ["temperature", options.temperature], ["tokens a reply", options.turn_tokens], ["attempts", options.attempts], ["seed", options.seed],
    ["date", ((sessions[0] || {}).started || "").slice(0, 10)], ["agentgym", (sessions[sessions.length - 1] || {}).agentgym]]
    .map(([name, value]) => [name, text(value)]).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return node("dl", { class: "facts played-with" }, facts.map(([name, value]) => node("div", {}, node("dt", {}, name), node("dd", {}, value))));
}

// All charts of a training run; those without a point are left out.
function chartsOf(data) {
  const rows = data.metrics.filter((row) => row.phase !== "sft");
  const imitation = data.metrics.filter((row) => row.phase === "sft");
  const domain = rows.length > 1 ? [rows[0].x, rows[rows.length - 1].x] : undefined; // all curves share the axis of RL
  const of = (key) => rows.filter((row) => isNumber(row[key])).map((row) => [row.x, row[key]]);
  const series = (name, key, mark, dots) => ({ name, points: of(key), mark, dots });
  const summary = data.summary || {};
  const level = (name, value) => (isNumber(value) ? [{ name, y: value }] : []);
  const whole = (value) => percent(value, 0);
  const charts = [
    { title: "Success", wide: true, bottom: 0, top: 1, format: whole,
      series: [series("training", "success_train", "s2"), series("held out", "success_valid", "s1", true)],
      levels: [...level("before", summary.success_before), ...level("SFT warm start", summary.success_sft),
        ...level("after training", summary.success_after)] },
    ...environments(rows).map((name) => ({ title: "Success, " + name, bottom: 0, top: 1, format: whole,
      series: [series("training", "success_train/" + name, "s2"), series("held out", "success_valid/" + name, "s1", true)],
      levels: [...level("before", summary["success_before/" + name]), ...level("after training", summary["success_after/" + name])] })),
    { title: "Reward", note: "mean of an episode", series: [series("reward", "reward", "s1")] },
    { title: "Turns", note: "mean of an episode", bottom: 0, series: [series("turns", "turns", "s1")] },
    { title: "Entropy", note: "nats a token", bottom: 0, series: [series("entropy", "entropy", "s4")] },
    { title: "KL, engine to trainer", note: "nats a token", bottom: 0, series: [series("KL", "mismatch_kl", "s4")] },
    { title: "Training-inference mismatch", note: "|difference| of log-probabilities", bottom: 0,
      series: [series("mean", "mismatch_mean", "s4"), series("99.9 %", "mismatch_q999", "s2")] },
    { title: "Loss", series: [series("loss", "loss", "s4")] },
    { title: "Gradient norm", bottom: 0, series: [series("norm", "grad_norm", "s4")] },
    { title: "Clipped tokens", bottom: 0, format: (value) => percent(value), series: [series("share", "clip_fraction", "s4")] },
    { title: "Groups dropped", note: "a step", bottom: 0, series: [series("groups", "groups_dropped", "s4")] },
    { title: "Anchor groups", note: "turns that share a state", bottom: 0, series: [series("mean size", "anchor_size", "s3")] },
    { title: "Anchors of one turn", bottom: 0, top: 1, format: whole, series: [series("share", "anchor_singletons", "s3")] },
    { title: "Infrastructure errors", note: "share of a step's episodes; above 1 % nothing is comparable", bottom: 0, flat: 0.02,
      format: (value) => percent(value), series: [series("share", "fault_share", "s2")] },
    { title: "Seconds a step", bottom: 0, series: [series("seconds", "seconds", "s3")] },
    { title: "Tokens per second", bottom: 0, series: [series("tokens/s", "tokens_per_second", "s3")] },
    { title: "Prefix caches of servers", note: "share of prompt tokens found in them", bottom: 0, top: 1, format: whole, series: [series("share", "prefix_hits", "s3")] },
    { title: "Where the time went", stacked: true, format: whole, ...shares(rows) },
    { title: "SFT warm start", note: "loss of imitation, its own steps", bottom: 0, own: true, unit: "update",
      series: [{ name: "loss", mark: "s4", points: imitation.flatMap((row) => [row.nll, row.loss].filter(isNumber).slice(0, 1).map((y) => [row.step, y])) }] },
    { title: "Success in the SFT warm start", note: "held out, its own steps", bottom: 0, top: 1, format: whole, own: true, unit: "update",
      series: [{ name: "held out", mark: "s1", dots: true, points: imitation.filter((row) => isNumber(row.success_valid)).map((row) => [row.step, row.success_valid]) }] },
  ];
  return charts.map((chart) => ({ domain: chart.own ? undefined : domain, ...chart, series: chart.series.filter((one) => one.points.length) }))
    .filter((chart) => chart.series.length);
}

function curves(charts) {
  const section = document.getElementById("curves");
  section.hidden = !charts.length;
  showCharts(section.querySelector(".charts"), charts);
}

// The charts of several runs laid over each other: a colour for each run, a broken line for a chart's second curve.
function overlaid(runs) {
  if (!runs.some((run) => run.metrics.length)) return [];
  const all = runs.map((run) => chartsOf(run).filter((chart) => !chart.stacked));
  const titles = [...new Set(all.flatMap((charts) => charts.map((chart) => chart.title)))];
  const first = chartsOf(runs.find((run) => run.metrics.length)).map((chart) => chart.title);
  titles.sort((a, b) => (first.indexOf(a) + 1 || 99) - (first.indexOf(b) + 1 || 99));
  return titles.map((title) => {
    const same = all.map((charts) => charts.find((chart) => chart.title === title));
    const series = same.flatMap((chart, r) => (chart ? chart.series.map((one, k) => ({ ...one, mark: colour(r) + (k ? " broken" : ""),
      name: runs[r].name + (chart.series.length > 1 ? ", " + one.name : "") })) : []));
    const places = series.flatMap((one) => one.points.map((point) => point[0]));
    const [low, high] = range(places, null, null);
    return { ...same.find(Boolean), levels: [], series, domain: low < high ? [low, high] : undefined };
  });
}

const colour = (run) => "s" + (1 + (run % 8));

function environments(rows) { // of a run in several
  const keys = rows.flatMap((row) => Object.keys(row)).filter((key) => /^success_(train|valid)\//.test(key));
  return [...new Set(keys.map((key) => key.slice(key.indexOf("/") + 1)))];
}

function shares(rows) {
  const names = [["rollout", "share_rollout", "s1"], ["training", "share_train", "s2"], ["environment", "share_env", "s3"]];
  const whole = rows.filter((row) => names.some(([, key]) => isNumber(row[key])));
  return { series: names.map(([name, key, mark]) => ({ name, mark, points: whole.map((row) => [row.x, row[key] || 0]) })) };
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
