// What an evaluation measured beside success: how far its numbers go, several attempts, effort, contamination.

function measures(data) {
  const summary = data.summary || {};
  if (!summary.envs || typeof summary.envs !== "object") return;
  const section = document.getElementById("measures");
  section.hidden = false;
  replace(section.querySelector(".body"),
    summary.comparable ? node("p", { class: "card" }, summary.comparable) : "",
    node("div", { class: "charts" }, attemptCharts(summary).map(chartCard)),
    effortTable(summary), contaminationTable(summary.contamination));
}

function attemptCharts(summary) {
  const byK = (name) => Object.entries(summary[name] || {}).map(([k, value]) => [Number(k), value]);
  const profile = (summary.profile || []).filter((point) => isNumber(point.value));
  const band = profile.every((point) => isNumber(point.low)) ? profile.map((point) => [point.above, point.low, point.high]) : [];
  const whole = (value) => percent(value, 0);
  const mean = summary.iqm ? `interquartile mean ${percent(summary.iqm.value)}` +
    (isNumber(summary.iqm.low) ? ` (${percent(summary.iqm.low)} to ${percent(summary.iqm.high)})` : "") +
    `; ${summary.iqm.runs} attempts x ${summary.iqm.columns} environments or task types` : "";
  const charts = [];
  if (byK("pass_at").length > 1) charts.push({ title: "Several attempts at a task", note: "one of k, the average, all of k", unit: "k =",
    bottom: 0, top: 1, format: whole, series: [
      { name: "pass@k", points: byK("pass_at"), mark: "s3", dots: true },
      { name: "avg@k", points: byK("avg_at"), mark: "s1", dots: true },
      { name: "pass^k", points: byK("pass_hat"), mark: "s2", dots: true }] });
  if (profile.length && summary.iqm && summary.iqm.runs * summary.iqm.columns > 1) charts.push({ title: "Performance profile",
    note: mean, unit: "above", bottom: 0, top: 1, format: whole, across: whole,
    series: [{ name: "share of scores above", points: profile.map((point) => [point.above, point.value]), band, mark: "s1", dots: true }] });
  return charts;
}

// Ways of a reply to end other than by itself.
const ENDS = [["length", "cut"], ["filter", "filtered"], ["refusal", "declined"]];

function effortTable(summary) {
  const k = Object.keys(summary.pass_at || {}).reduce((most, one) => Math.max(most, Number(one)), 1);
  const columns = [
    ["success", (row) => percent(row.success.mean)],
    ["95 % interval", (row) => (isNumber(row.success.low) ? `${percent(row.success.low, 0)} to ${percent(row.success.high, 0)}` : "–")],
    ...(k > 1 ? [[`pass@${k}`, (row) => percent(row.pass_at[k])], [`pass^${k}`, (row) => percent(row.pass_hat[k])]] : []),
    ["reward", (row) => hundredths(row.reward)], ["turns", (row) => hundredths(row.turns)], ["tokens", (row) => short(row.tokens)],
    ["seconds", (row) => short(row.seconds)], ["invalid", (row) => percent(row.invalid)], ["unparsed", (row) => percent(row.unparsed)],
    ...ENDS.filter(([end]) => (summary.finish || {})[end]).map(([end, name]) => [name, (row) => percent((row.finish || {})[end])]),
    ["tasks", (row) => row.success.tasks], ["episodes", (row) => row.success.episodes], ["infrastructure errors", (row) => row.success.faults],
    ["their share", (row) => percent(row.fault_share)],
  ];
  const line = (name, row, kind) => node("tr", { class: kind }, node("th", { scope: "row" }, name),
    columns.map(([, cell]) => node("td", {}, cell(row))));
  const levels = (row) => Object.entries(row.by_difficulty || {});
  const lines = Object.entries(summary.envs).flatMap(([env, row]) => [line(env, row, "whole"),
    ...Object.entries(row.by_type || {}).map(([name, part]) => line(name, part, "part")),
    ...(levels(row).length > 1 ? levels(row).map(([name, part]) => line("difficulty " + name, part, "part")) : [])]);
  if (lines.length > 1) lines.push(line("all", summary, "whole"));
  return node("div", { class: "card scroll", tabindex: 0, role: "region", "aria-label": "measures by environment" }, node("table", {},
    node("thead", {}, node("tr", {}, node("th", {}, "environment"), columns.map(([name]) => node("th", { scope: "col" }, name)))),
    node("tbody", {}, lines)));
}

const hundredths = (value) => (isNumber(value) ? value.toFixed(2) : "–");

function contaminationTable(found) {
  if (!found || typeof found !== "object") return "";
  const checks = [["split_overlap", "are also in the training split"], ["answer_in_prompt", "show the answer at once"]];
  const lines = Object.entries(found).flatMap(([env, row]) => checks.filter(([key]) => row[key]).map(([key, what]) => {
    const one = row[key];
    const said = one.checked ? `${one.found} of ${one.checked} tasks ${what}` : `not checked whether tasks ${what}`;
    const more = [one.checked ? one.how : "", one.examples.length ? "such as " + one.examples.join(", ") : "", one.why].filter(Boolean);
    return node("li", { class: one.found ? "wrong" : "" }, node("b", {}, env), ": ", said, more.length ? ` (${more.join("; ")})` : "");
  }));
  const envs = Object.values(found);
  const sum = (key, part) => envs.reduce((total, row) => total + (row[key] ? row[key][part] : 0), 0);
  return node("details", { class: "card", open: checks.some(([key]) => sum(key, "found")) },
    node("summary", {}, "Contamination: ", checks.map(([key, what]) => `${sum(key, "found")} of ${sum(key, "checked")} tasks ${what}`).join(", ")), node("ul", {}, lines));
}
