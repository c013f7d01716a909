// Which charts a run has: every number of metrics.jsonl, in the order in which people look, and how its axes are drawn.

const view = { smooth: 0, time: false, log: false }; // as the reader chose it, for all charts
const SECTIONS = ["Success and reward", "Health", "Curriculum", "Speed", "Loss, credit and all other numbers", "SFT warm start"];
const PLACES = new Set(["step", "phase", "x"]); // what says where a row belongs
const MOST = { charts: 200, curves: 8, name: 80, size: 1e100 };
const whole = (value) => percent(value, 0);
const tenth = (value) => percent(value);

// Charts of known names: [section, title, note, [[name, key, mark, dots], …], how it is drawn]
const KNOWN = [
  [0, "Success", "", [["training", "success_train", "s2"], ["held out", "success_valid", "s1", true]],
    { wide: true, bottom: 0, top: 1, format: whole }],
  [0, "Success of other episodes", "begun inside a demonstration; with a hint", [["started", "success_started", "s3"], ["hinted", "success_hinted", "s4"]],
    { bottom: 0, top: 1, format: whole }],
  [0, "Reward", "mean of an episode", [["reward", "reward", "s1"]]],
  [0, "Turns", "mean of an episode", [["turns", "turns", "s1"]], { bottom: 0 }],
  [1, "Infrastructure errors", "share of a step's episodes; above 1 % nothing is comparable", [["share", "fault_share", "s2"]], { bottom: 0, flat: 0.02, format: tenth }],
  [1, "Groups", "of a step", [["trained", "groups_trained", "s3"], ["equal returns", "groups_equal", "s2"], ["left out", "groups_dropped", "s4"],
    ["one attempt", "groups_alone", "s8"], ["played", "groups", "s1"]], { bottom: 0 }],
  [1, "Valid actions, parsed replies", "shares of the turns", [["valid", "valid", "s1"], ["parsed", "parsed", "s3"]], { bottom: 0, top: 1, format: whole }],
  [1, "Replies cut by length", "share of the replies", [["cut", "cut", "s2"]], { bottom: 0, flat: 0.02, format: tenth }],
  [1, "Length of replies", "tokens", [["tokens", "reply_tokens", "s1"]], { bottom: 0 }],
  [1, "KL, policy to reference", "nats a token", [["KL", "reference_kl", "s4"]], { bottom: 0 }],
  [1, "KL, before to after the update", "nats a token", [["KL", "approx_kl", "s4"]], { bottom: 0 }],
  [1, "KL, engine to trainer", "same weights, nats a token", [["KL", "mismatch_kl", "s4"]], { bottom: 0 }],
  [1, "Entropy", "nats a token", [["entropy", "entropy", "s4"]], { bottom: 0 }],
  [1, "Gradient norm", "before clipping", [["norm", "grad_norm", "s4"]], { bottom: 0 }],
  [1, "Clipped tokens", "share of the tokens", [["share", "clip_fraction", "s4"]], { bottom: 0, format: tenth }],
  [1, "Training-inference mismatch", "|difference| of log-probabilities", [["mean", "mismatch_mean", "s4"], ["99.9 %", "mismatch_q999", "s2"]], { bottom: 0 }],
  [2, "Level of hints", "mean of the hinted episodes", [["level", "hint_level", "s1"]], { bottom: 0, top: 1 }],
  [2, "Episodes that are not whole", "a step", [["started", "started", "s3"], ["hinted", "hinted", "s4"]], { bottom: 0 }],
  [3, "Tokens per second", "sampled", [["tokens/s", "tokens_per_second", "s3"]], { bottom: 0 }],
  [3, "Seconds a step", "", [["seconds", "seconds", "s3"]], { bottom: 0 }],
  [3, "Time left", "as estimated", [["time", "eta_seconds", "s3"]], { bottom: 0, format: duration }],
  [3, "Prefix caches of servers", "share of prompt tokens found in them", [["share", "prefix_hits", "s3"]], { bottom: 0, top: 1, format: whole }],
  [3, "Tokens", "sampled in a step", [["tokens", "tokens", "s3"]], { bottom: 0 }],
  [4, "Loss", "", [["loss", "loss", "s4"]]],
  [4, "Learning rate", "", [["rate", "lr", "s1"]], { bottom: 0 }],
  [4, "Anchor groups", "turns that share a state", [["mean size", "anchor_size", "s3"]], { bottom: 0 }],
  [4, "Anchors of one turn", "", [["share", "anchor_singletons", "s3"]], { bottom: 0, top: 1, format: whole }],
];
const IMITATION = [
  [5, "Loss of imitation", "nats a token", [["loss", "nll", "s4"], ["loss", "loss", "s4"]]],
  [5, "Success in the SFT warm start", "held out", [["held out", "success_valid", "s1", true]], { bottom: 0, top: 1, format: whole }],
];
const SHARES = [["rollout", "share_rollout", "s1"], ["training", "share_train", "s2"], ["environment", "share_env", "s3"]];

const charted = (value) => isNumber(value) && Math.abs(value) < MOST.size;
const cut = (name) => (name.length > MOST.name ? name.slice(0, MOST.name - 1) + "…" : name || "(no name)");

// All charts of a training run; those without a point are left out.
function chartsOf({ metrics, summary }) {
  const placed = metrics.filter((row) => charted(row.x));
  const rows = placed.filter((row) => row.phase !== "sft"), imitation = placed.filter((row) => row.phase === "sft");
  const clock = view.time ? clockOf(rows) : null;
  const at = clock ? (row, i) => clock[i] : (row) => row.x;
  const points = (key) => rows.map((row, i) => [at(row, i), row[key]]).filter(([, y]) => charted(y));
  const steps = (key) => imitation.filter((row) => charted(row[key]) && charted(row.step)).map((row) => [row.step, row[key]]);
  const axis = clock ? { unit: "after", across: (value) => `${short(value)} ${view.unit.name}`, domain: range(clock, 0, null) }
    : { domain: rows.length > 1 ? range(rows.map((row) => row.x), null, null) : undefined }; // all curves share the axis of RL
  const seen = new Set(PLACES);
  const made = [...withEnvironments(rows, summary || {}).map((spec) => drawn(spec, points, axis, seen)), timeShares(rows, at, axis, seen),
    ...drawnOthers(numbersOf(rows, seen), points, axis),
    ...IMITATION.map((spec) => drawn(spec, steps, { unit: "update" }, PLACES))];
  const own = new Set([...PLACES, ...IMITATION.flatMap(([, , , curves]) => curves.map(([, key]) => key))]);
  made.push(...drawnOthers(numbersOf(imitation, own), steps, { unit: "update" }, 5));
  return made.filter((chart) => chart.series.length).map((chart, place) => ({ chart, place }))
    .sort((a, b) => a.chart.section - b.chart.section || a.place - b.place).map(({ chart }) => chart);
}

function drawn([section, title, note, curves, options = {}], points, axis, seen) {
  const series = curves.map(([name, key, mark, dots]) => ({ name, key, mark, dots, points: points(key) })).filter((one) => one.points.length);
  for (const [, key] of curves) if (seen !== PLACES) seen.add(key);
  return { id: `${section} ${title}`, section, title, note: [note, series.map(({ key }) => cut(key)).filter((key) => key !== title).join(", ")].filter(Boolean).join(" · "), ...axis, ...options, series };
}

// The known charts, and behind the first one a chart of success for each environment of a run in several.
function withEnvironments(rows, summary) {
  const level = (name, value) => (isNumber(value) ? [{ name, y: value }] : []);
  const names = new Set(rows.flatMap((row) => Object.keys(row)).filter((key) => /^success_(train|valid)\//.test(key)).map((key) => key.slice(14)));
  const [[section, title, note, curves, options], ...others] = KNOWN;
  const levels = [...level("before", summary.success_before), ...level("SFT warm start", summary.success_sft), ...level("after training", summary.success_after)];
  return [[section, title, note, curves, { ...options, levels }],
    ...[...names].slice(0, MOST.charts).map((name) => [0, "Success, " + cut(name), "", [["training", "success_train/" + name, "s2"], ["held out", "success_valid/" + name, "s1", true]],
      { ...options, wide: false, levels: [...level("before", summary["success_before/" + name]), ...level("after training", summary["success_after/" + name])] }]),
    ...others];
}

function timeShares(rows, at, axis, seen) {
  for (const [, key] of SHARES) seen.add(key);
  const known = rows.map((row, i) => [row, at(row, i)]).filter(([row]) => SHARES.some(([, key]) => charted(row[key])));
  const series = known.length ? SHARES.map(([name, key, mark]) => ({ name, mark, points: known.map(([row, x]) => [x, charted(row[key]) ? row[key] : 0]) })) : [];
  return { id: "time", section: 3, title: "Where the time went", note: "share_rollout, share_train, share_env", stacked: true, format: whole, ...axis, series };
}

// The names of numbers that no known chart shows.
function numbersOf(rows, seen) {
  const found = new Set();
  for (const row of rows) for (const key of Object.keys(row)) if (!seen.has(key) && !found.has(key) && charted(row[key])) found.add(key);
  return [...found];
}

// Charts of numbers by their names; `a/b` and `a/c` are curves of one chart, eight at most.
function drawnOthers(keys, points, axis, place) {
  const families = new Map();
  for (const key of keys) {
    const plain = key.startsWith("curriculum/") ? key.slice(11) : key;
    const section = place ?? (plain !== key ? 2 : key.startsWith("reward/") ? 0 : 4);
    const [title, name] = plain.includes("/") ? [plain.slice(0, plain.indexOf("/")), plain.slice(plain.indexOf("/") + 1)] : [plain, plain];
    const family = `${section} ${title}`;
    if (!families.has(family)) families.set(family, { section, title, curves: [] });
    families.get(family).curves.push([cut(name), key]);
  }
  const specs = [...families.values()].flatMap(({ section, title, curves }) => Array.from({ length: Math.ceil(curves.length / MOST.curves) }, (_, part) =>
    [section, cut(title), "", curves.slice(part * MOST.curves, (part + 1) * MOST.curves).map(([name, key], i) => [name, key, colour(i)]), { part }]));
  return specs.slice(0, MOST.charts).map((spec) => {
    const chart = drawn(spec, points, axis, PLACES);
    return { ...chart, id: `own ${spec[0]} ${spec[1]} ${spec[4].part}`, more: specs.length - MOST.charts };
  });
}

// When each row ended, since the first step began.
function clockOf(rows) {
  let total = 0;
  return rows.map((row) => (total += charted(row.seconds) && row.seconds > 0 ? row.seconds : 0) / view.unit.seconds);
}

function unitOf(runs) {
  const most = Math.max(0, ...runs.map((rows) => rows.filter((row) => row.phase !== "sft" && charted(row.seconds)).reduce((sum, row) => sum + Math.max(0, row.seconds), 0)));
  return most >= 7200 ? { name: "h", seconds: 3600, known: true } : most >= 180 ? { name: "min", seconds: 60, known: true } : { name: "s", seconds: 1, known: most > 0 };
}

// Draw the charts that `make` returns, by section, under the reader's choices; `runs` are the rows of each run.
function curves(make, runs) {
  const section = document.getElementById("curves");
  view.unit = unitOf(runs);
  view.time = view.time && view.unit.known;
  const charts = make().map((chart) => ({ ...chart, log: view.log && !chart.stacked, series: chart.stacked ? chart.series : chart.series.flatMap(smoothed) }));
  section.hidden = !charts.length;
  if (section.hidden) return;
  const host = section.querySelector(".charts");
  const again = (change) => { Object.assign(view, change); curves(make, runs); };
  curveTools(host, again);
  const present = SECTIONS.filter((_, i) => charts.some((chart) => chart.section === i));
  if (host.sections !== present.join()) {
    host.sections = present.join();
    const narrow = matchMedia("(max-width: 60rem)").matches;
    replace(host.querySelector(".sections"), present.map((name, i) => node("details", { class: "chart-section", "data-section": name, open: !narrow || i < 2 },
      node("summary", {}, node("h3", {}, name), node("span", { class: "soft count" })), node("div", { class: "grid-of-charts" }), node("p", { class: "soft more" }))));
  }
  for (const part of host.querySelectorAll(".chart-section")) {
    const own = charts.filter((chart) => SECTIONS[chart.section] === part.dataset.section);
    replace(part.querySelector(".count"), own.length === 1 ? "1 chart" : own.length + " charts");
    const left = Math.max(0, ...own.map((chart) => chart.more || 0));
    replace(part.querySelector(".more"), left ? `${left} more charts are left out: metrics.jsonl has all numbers.` : "");
    showCharts(part.querySelector(".grid-of-charts"), own);
  }
}

function curveTools(host, again) {
  if (!host.querySelector(".tools")) replace(host, node("div", { class: "tools curve-tools" }), node("div", { class: "sections" }));
  const tools = host.querySelector(".tools");
  if (tools.contains(document.activeElement) && document.activeElement.tagName === "SELECT" && tools.unit === view.unit.known) return; // it may be open
  tools.unit = view.unit.known;
  const focused = document.activeElement?.dataset?.axis;
  const button = (name, on, change, axis) => node("button", { "aria-pressed": String(on), "data-axis": axis, onclick: () => again(change) }, name);
  replace(tools,
    node("label", { class: "soft" }, "smoothing ", node("select", { "aria-label": "smoothing", onchange: (event) => again({ smooth: Number(event.target.value) }) },
      [0, 5, 10, 20, 50, 100].map((steps) => node("option", { value: steps, selected: steps === view.smooth }, steps ? `mean of ${steps} steps` : "none")))),
    view.unit.known ? node("div", { class: "segments", role: "group", "aria-label": "horizontal axis" },
      button("steps", !view.time, { time: false }, "steps"), button("time", view.time, { time: true }, "time")) : "",
    node("div", { class: "segments", role: "group", "aria-label": "vertical axis" },
      button("linear", !view.log, { log: false }, "linear"), button("log", view.log, { log: true }, "log")));
  if (focused) tools.querySelector(`[data-axis="${focused}"]`)?.focus();
}

// A curve, or behind its running mean the curve as it was.
function smoothed(series) {
  if (!view.smooth || series.dots || series.points.length < 3) return [series];
  const reach = Math.floor(view.smooth / 2), last = series.points.length - 1;
  const means = series.points.map(([x], i) => {
    const near = Math.min(reach, i, last - i); // as many on either side
    let sum = 0;
    for (let k = i - near; k <= i + near; k++) sum += series.points[k][1];
    return [x, sum / (2 * near + 1)];
  });
  return [{ ...series, mark: series.mark + " faint", quiet: true }, { ...series, points: means }];
}

// The charts of several runs laid over each other: a colour for each run, a broken line for a chart's second curve.
function overlaid(runs) {
  if (!runs.some((run) => run.metrics.length)) return [];
  const all = runs.map((run) => chartsOf(run).filter((chart) => !chart.stacked));
  const found = new Map(all.flat().map((chart) => [chart.id, chart]));
  const order = [...found.keys()];
  return order.map((id) => {
    const same = all.map((charts) => charts.find((chart) => chart.id === id));
    const series = same.flatMap((chart, r) => (chart ? chart.series.map((one, k) => ({ ...one, mark: colour(r) + (k ? " broken" : ""),
      name: runs[r].name + (chart.series.length > 1 ? ", " + one.name : "") })) : []));
    const places = series.flatMap((one) => one.points.map((point) => point[0]));
    return { ...found.get(id), levels: [], series, domain: places.length > 1 ? range(places, null, null) : undefined };
  }).sort((a, b) => a.section - b.section || order.indexOf(a.id) - order.indexOf(b.id));
}

const colour = (run) => "s" + (1 + (run % 8));
