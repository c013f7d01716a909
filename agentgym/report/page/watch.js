// A page that follows runs: it asks its server what is new, and draws again what has changed.

const data = { ...JSON.parse(document.getElementById("data").textContent), episodes: [], beside: true }; // the episodes of the group shown
const EVERY = 2000; // milliseconds between two questions
const GONE = "The server does not answer: `agentgym watch` has ended, or cannot be reached. This is what was last seen.";
const STATES = { waiting: "waiting", running: "running", finished: "finished", stopped: "stopped", open: "" };
const runs = data.titles.map((name) => ({ name, state: "waiting", said: "", metrics: [], about: {}, idle: "", problems: [], read: 1,
  generation: 0, about_version: 0, version: 0, known: false, episodes: { total: 0, faults: 0, groups: [], errors: [], parts: [] } }));
const shown = { run: -1, group: -1, size: 0, at: 0, beside: -1, follow: true, part: null, only: -1, note: "" };
let lost = "";

async function ask() {
  const known = runs.map((run) => (run.known ? `${run.generation}.${run.metrics.length}.${run.version}.${run.about_version}` : "-")).join(",");
  let again = EVERY;
  try {
    const answer = await fetch("state?known=" + known, { cache: "no-store", signal: AbortSignal.timeout(60000) })
      .catch((error) => { throw error instanceof TypeError ? new Error(GONE) : error; });
    if (!answer.ok) throw new Error(await answer.text());
    const news = await answer.json();
    const changed = news.runs.map((state, i) => take(runs[i], state));
    if (news.behind) again = 50;
    if (lost || changed.some(Boolean)) {
      lost = "";
      draw(...["metrics", "episodes", "about"].map((part) => changed.some((what) => what?.[part])));
    } else summary();
  } catch (error) {
    lost = error.message;
    summary();
  }
  setTimeout(() => (document.hidden ? addEventListener("visibilitychange", ask, { once: true }) : ask()), again);
}

// Take what is new of a run; say what changed, null where nothing did.
function take(run, state) {
  const before = [run.generation, run.metrics.length];
  run.metrics.length = state.generation === run.generation && run.known ? state.from : 0;
  run.metrics.push(...state.rows);
  const changed = { metrics: state.rows.length > 0 || before[0] !== state.generation || before[1] !== run.metrics.length,
    episodes: "episodes" in state, about: "about" in state };
  for (const name of ["state", "said", "idle", "problems", "read", "generation", "about_version", "version"]) run[name] = state[name];
  if (changed.episodes) run.episodes = state.episodes;
  if (changed.about) run.about = state.about;
  run.known = true;
  return changed.metrics || changed.episodes || changed.about ? changed : null;
}

function draw(metrics, episodes, about) {
  summary();
  if (metrics || about) curves(() => (runs.length === 1 ? chartsOf({ metrics: runs[0].metrics, summary: runs[0].about.summary }) : overlaid(runs)),
    runs.map((run) => run.metrics));
  if (episodes) {
    groups();
    outcomes();
    errors();
  }
  if (about) origins();
}

const last = (run, key) => {
  for (let i = run.metrics.length - 1; i >= 0; i--) if (isNumber(run.metrics[i][key])) return run.metrics[i][key];
  return null;
};

// What stands in the head of a run: [name, text, note, wrong]
function measuresOf(run) {
  const row = run.metrics[run.metrics.length - 1] || {};
  const steps = (run.about.facts || {}).steps;
  const total = run.episodes.total;
  const share = last(run, "fault_share") ?? (total ? run.episodes.faults / total : null);
  const of = row.phase !== "sft" && isNumber(steps) ? "of " + steps : row.phase === "sft" ? "of the SFT warm start" : "";
  const cells = [["step", isNumber(row.step) ? short(row.step) : "–", of]];
  const rate = (name, key) => { if (last(run, key) !== null) cells.push([name, percent(last(run, key)), ""]); };
  rate("success in training", "success_train");
  rate("success held out", "success_valid");
  const measured = run.episodes.parts[0];
  if (!run.metrics.length && measured) cells.push(["success so far", percent(successOf(measured)), `${countOf(measured)} episodes`]);
  if (share !== null) cells.push(["infrastructure errors", percent(share), share > 0.01 ? "not comparable" : `${short(run.episodes.faults)} in the file`, share > 0.01]);
  if (last(run, "tokens_per_second") !== null) cells.push(["tokens per second", short(last(run, "tokens_per_second")), isNumber(row.seconds) ? duration(row.seconds) + " a step" : ""]);
  if (run.state === "running" && isNumber(row.eta_seconds)) cells.push(["time left", duration(row.eta_seconds), ""]);
  cells.push(["episodes in the file", short(total), run.read < 1 ? `${percent(run.read, 0)} of the file read` : ""]);
  return cells;
}

const countOf = (part) => (part.succeeded || 0) + (part.failed || 0);
const successOf = (part) => (countOf(part) ? (part.succeeded || 0) / countOf(part) : null);

function stateBadge(run) {
  const state = lost ? "lost" : run.state;
  return [STATES[run.state] || lost ? node("span", { class: "state " + state }, lost ? "not followed" : STATES[run.state]) : "",
    node("span", { class: "soft" }, " ", run.said)];
}

function summary() {
  const told = runs.map((run) => [run, measuresOf(run)]);
  const facts = ({ about }) => ["env", "model", "credit"].map((name) => (about.facts || {})[name]).filter(Boolean).join(" · ");
  const problems = [lost, ...runs.flatMap((run) => [run.idle, ...run.problems].filter(Boolean).map((what) => (runs.length > 1 ? run.name + ": " : "") + what))].filter(Boolean);
  const tiles = (cells) => node("div", { class: "tiles" }, cells.map(([name, value, note, wrong]) => node("div", { class: "tile" },
    node("span", { class: "soft" }, name), node("b", { class: wrong ? "wrong" : null }, value), note ? node("span", { class: "soft" }, note) : "")));
  const names = [...new Set(told.flatMap(([, cells]) => cells.map(([name]) => name)))];
  const table = () => node("div", { class: "runs card scroll" }, node("table", {},
    node("thead", {}, node("tr", {}, node("th", {}, "run"), node("th", {}, ""), names.map((name) => node("th", {}, name)))),
    node("tbody", {}, told.map(([run, cells], i) => node("tr", {}, node("th", { class: "key " + colour(i), title: facts(run) }, node("i"), run.name),
      node("td", {}, stateBadge(run)), names.map((name) => {
        const [, value, , wrong] = cells.find(([other]) => other === name) || [name, "–"];
        return node("td", { class: wrong ? "wrong" : null }, value);
      }))))));
  const one = runs.length === 1;
  replace(document.getElementById("head"),
    node("div", { class: "title" }, node("h1", {}, one ? runs[0].name : `${runs.length} runs`),
      one ? [node("span", {}, stateBadge(runs[0]))] : ""),
    one ? playedWith(runs[0].about.played_with || []) : "",
    node("p", { class: "notice trouble", role: "status" }, withFlags(problems.join(" · "))),
    one ? tiles(told[0][1]) : table());
}

function trained(group) {
  return ["train", "hinted", "branched"].includes(group.part);
}

// The groups that fit the filters, those of several runs by turns.
function listed() {
  return runs.flatMap((run, r) => (shown.only < 0 || shown.only === r ? run.episodes.groups : [])
    .filter((group) => !shown.part || trained(group) === (shown.part === "train")).map((group, place) => ({ ...group, run: r, place })))
    .sort((a, b) => a.place - b.place);
}

function groups() {
  const section = document.getElementById("episodes");
  section.hidden = !runs.some((run) => run.episodes.groups.length);
  if (section.hidden) return;
  const parts = new Set(runs.flatMap((run) => run.episodes.groups.map(trained)));
  if (shown.part === null) shown.part = runs.some((run) => run.episodes.groups.some((group) => trained(group) && group.outcomes.length > 1)) ? "train" : "";
  const pick = (key, label, values) => node("select", { "aria-label": label, onchange: (event) => { shown[key] = key === "only" ? Number(event.target.value) : event.target.value; groups(); } },
    values.map(([value, name]) => node("option", { value, selected: String(shown[key]) === String(value) }, name)));
  if (!section.querySelector(".tools").contains(document.activeElement) || document.activeElement.tagName !== "SELECT") replace(section.querySelector(".tools"),
    node("button", { class: "follow", "aria-pressed": String(shown.follow), onclick: () => { shown.follow = !shown.follow; groups(); } }, "Follow the newest"),
    runs.length > 1 ? pick("only", "run", [[-1, "every run"], ...runs.map((run, r) => [r, run.name])]) : "",
    parts.size > 1 || shown.part ? pick("part", "part", [["", "every part"], ["train", "training"], ["eval", "evaluations"]]) : "",
    node("span", { class: "soft" }, "The newest groups; ", node("code", {}, "agentgym view"), " writes a page with episodes of the whole run."));
  const found = listed();
  replace(section.querySelector(".list"), found.length ? found.map(groupRow) : node("p", { class: "soft empty" }, "No group fits."));
  section.querySelector(".follow").setAttribute("aria-pressed", String(shown.follow));
  const newest = found.filter((group) => group.outcomes.length > 1).concat(found)[0];
  const same = found.find((group) => group.run === shown.run && group.group === shown.group);
  if (shown.follow && newest && (newest.run !== shown.run || newest.group !== shown.group)) open(newest);
  else if (same && same.outcomes.length !== shown.size) open(same, shown.at);
}

function groupRow(group) {
  const solved = group.outcomes.filter((outcome) => outcome === "succeeded").length;
  return node("button", { class: "row", role: "option", "data-group": `${group.run}-${group.group}`,
    "aria-selected": String(group.run === shown.run && group.group === shown.group), onclick: () => { shown.follow = false; open(group); groups(); jump(); } },
  node("span", { class: "row-text" + (runs.length > 1 ? " of " + colour(group.run) : "") }, node("b", {}, group.task),
    node("span", { class: "soft" }, [group.part ? partName(group.part, group.step) : "", runs.length > 1 ? runs[group.run].name : "", group.env].filter(Boolean).join(" · "))),
  node("span", { class: "row-end" }, node("b", {}, `${solved} of ${group.outcomes.length}`),
    node("span", { class: "dots" }, group.outcomes.slice(0, 32).map((outcome) => node("span", { class: "mark " + outcome })))));
}

function jump() {
  if (matchMedia("(max-width: 60rem)").matches) document.querySelector("#episodes .detail").scrollIntoView();
}

// Fetch a group and show it.
async function open(group, at = 0) {
  Object.assign(shown, { run: group.run, group: group.group, size: group.outcomes.length, note: "" });
  for (const row of document.querySelectorAll("#episodes .row")) row.setAttribute("aria-selected", String(row.dataset.group === `${group.run}-${group.group}`));
  const host = document.querySelector("#episodes .detail");
  host.setAttribute("aria-busy", "true"); // what stands there is another group's until the answer comes
  let episodes = [], note = "";
  try {
    const answer = await fetch(`group?run=${group.run}&group=${group.group}`, { cache: "no-store" });
    if (!answer.ok) throw new Error(await answer.text());
    episodes = (await answer.json()).episodes;
    if (group.outcomes.length > episodes.length) note = `The first ${episodes.length} of ${group.outcomes.length} attempts.`;
    if (!episodes.length) note = "This group is no longer in the file: the run went on from an earlier checkpoint.";
  } catch (error) {
    note = "This group cannot be shown: " + error.message;
  }
  if (group.run !== shown.run || group.group !== shown.group) return; // another one was asked for meanwhile
  try {
    show(episodes, at, note);
  } catch (error) {
    show([], 0, "This group cannot be shown: " + error.message);
  }
  host.removeAttribute("aria-busy");
}

function show(episodes, at, note) {
  data.episodes = episodes;
  Object.assign(shown, { at: Math.min(at, Math.max(0, episodes.length - 1)), beside: -1, note });
  detail();
}

// One attempt, or two side by side.
function detail() {
  const host = document.querySelector("#episodes .detail");
  const pair = shown.beside >= 0;
  const numbers = data.episodes.map((episode, k) => [k, "beside attempt " + episode.attempt]).filter(([k]) => k !== shown.at);
  const choice = numbers.length ? node("select", { "aria-label": "beside", onchange: (event) => { shown.beside = Number(event.target.value); shown.follow = false; groups(); detail(); } },
    [[-1, "one attempt"], ...numbers].map(([value, name]) => node("option", { value, selected: value === shown.beside }, name))) : "";
  const back = node("button", { class: "back", onclick: () => document.querySelector("#episodes .tools").scrollIntoView() }, "↑ list");
  const side = (k) => node("article", {}, node("p", { class: "soft" }, "attempt " + data.episodes[k].attempt), episodeView(data.episodes[k], k, true));
  replace(host, shown.note ? node("p", { class: "soft" }, shown.note) : "", node("div", { class: "move" + (pair ? " still" : "") }, back, choice),
    !data.episodes.length ? "" : pair ? [groupView(shown.at), node("div", { class: "pair" }, side(shown.at), side(shown.beside))] : episodeView(data.episodes[shown.at], shown.at));
  host.scrollTop = 0;
}

// A person chose an attempt in the table of a group.
function visit(k) {
  Object.assign(shown, { at: k, beside: -1, follow: false });
  groups();
  detail();
}

function outcomes() {
  const lines = runs.flatMap((run, r) => run.episodes.parts.map((part) => ({ ...part, run: r })));
  document.getElementById("outcomes").hidden = !lines.length;
  replace(document.querySelector("#outcomes .body"), node("table", {},
    node("thead", {}, node("tr", {}, node("th", {}, "part"), ["environment", "success", "succeeded", "failed", "infrastructure errors"].map((name) => node("th", {}, name)))),
    node("tbody", {}, lines.map((part) => node("tr", {},
      node("th", { class: runs.length > 1 ? "key " + colour(part.run) : null }, runs.length > 1 ? node("i") : "", runs.length > 1 ? runs[part.run].name + ", " : "", partName(part.part, part.step)),
      node("td", {}, part.env), node("td", {}, percent(successOf(part))), node("td", {}, part.succeeded || 0), node("td", {}, part.failed || 0),
      node("td", { class: (part.fault || 0) > 0.01 * (countOf(part) + (part.fault || 0)) ? "wrong" : null }, part.fault || 0))))));
}

function errors() {
  const all = runs.flatMap((run, r) => run.episodes.errors.map((error) => ({ ...error, run: r })));
  const total = runs.reduce((sum, run) => sum + run.episodes.faults, 0);
  document.getElementById("errors").hidden = !all.length;
  replace(document.querySelector("#errors .body"),
    node("p", { class: "soft" }, `${total} episodes ended by something other than the model; the newest first. They are left out of credit and of every rate.`),
    all.map((error) => node("div", { class: "card" },
      node("p", {}, node("b", {}, reasonText(error)), " ", node("span", { class: "soft" },
        [runs.length > 1 ? runs[error.run].name : "", error.part ? partName(error.part, error.step) : "", error.env, error.task].filter(Boolean).join(" · "))),
      error.error ? node("pre", {}, error.error) : "")));
}

function origins() {
  const part = (name, text) => (text ? node("details", { class: "card" }, node("summary", {}, name), node("pre", {}, text)) : "");
  const parts = runs.flatMap((run) => [[run, "config.toml", run.about.config], [run, "summary.json", run.about.summary && JSON.stringify(run.about.summary, null, 2)]]);
  document.getElementById("origin").hidden = !parts.some(([, , text]) => text);
  replace(document.querySelector("#origin .body"), parts.map(([run, name, text]) => part((runs.length > 1 ? run.name + ", " : "") + name, text)));
}

document.querySelector("#episodes .list").addEventListener("keydown", (event) => {
  const move = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
  const found = listed();
  const to = found[found.findIndex((group) => group.run === shown.run && group.group === shown.group) + move];
  if (!to) return;
  event.preventDefault();
  shown.follow = false;
  open(to);
  groups();
  document.querySelector(`[data-group="${to.run}-${to.group}"]`).scrollIntoView({ block: "nearest" });
});
for (const kind of ["wheel", "pointerdown", "keydown"]) { // someone reads: nothing may be exchanged under their eyes
  document.querySelector("#episodes .detail").addEventListener(kind, () => {
    if (!shown.follow) return;
    shown.follow = false;
    document.querySelector("#episodes .follow")?.setAttribute("aria-pressed", "false");
  }, { passive: true });
}
summary();
ask();
