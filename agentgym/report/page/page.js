// The list of episodes with its filters, and the order in which everything is drawn.

const data = JSON.parse(document.getElementById("data").textContent);
const chosen = { outcome: "", type: "", part: "", text: "", index: -1 };

function browser() {
  const section = document.getElementById("episodes");
  if (!data.episodes.length) return;
  section.hidden = false;
  const options = (values, first, name) => [node("option", { value: "" }, first), ...values.map((v) => node("option", { value: v }, name(v)))];
  const unique = (get) => [...new Set(data.episodes.map(get))].filter(Boolean);
  const pick = (key, values, first, name = (v) => v) => (values.length < 2 ? "" :
    node("select", { "aria-label": first, onchange: (event) => choose({ [key]: event.target.value }) }, options(values, first, name)));
  const parts = unique((e) => (e.part ? e.part + "/" + e.step : ""));
  replace(section.querySelector(".tools"),
    node("div", { class: "segments", role: "group", "aria-label": "outcome" },
      [["", "all"], ["failed", "failed"], ["succeeded", "succeeded"], ["fault", "infrastructure errors"]].map(([value, name]) =>
        node("button", { "data-outcome": value, onclick: () => choose({ outcome: value }) }, name, " ", node("span", { class: "soft count" })))),
    pick("type", unique((e) => e.type).sort(), "every task type"),
    pick("env", unique((e) => e.env).sort(), "every environment"),
    pick("part", parts, "every step", (v) => partName(v.slice(0, v.indexOf("/")), v.slice(v.indexOf("/") + 1))),
    node("input", { type: "search", placeholder: "find in tasks and turns", "aria-label": "find",
      oninput: (event) => choose({ text: event.target.value.toLowerCase() }) }),
    node("p", { class: "soft sample" }, sampleNote()));
  section.querySelector(".list").addEventListener("keydown", (event) => {
    const move = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
    if (!move) return;
    event.preventDefault();
    neighbour(move);
  });
  choose({});
  follow();
  addEventListener("hashchange", follow);
}

// Go to the episode that the page's address names.
function follow() {
  const asked = /^#episode-(\d+)$/.exec(location.hash);
  const i = asked ? Number(asked[1]) : -1;
  if (!data.episodes[i]) return;
  if (!matching().includes(i)) {
    choose({ outcome: "", type: "", env: "", part: "", text: "" });
    for (const field of document.querySelectorAll("#episodes .tools select, #episodes .tools input")) field.value = "";
  }
  visit(i);
  document.querySelector("#episodes .tools").scrollIntoView();
  document.querySelector(`#episodes [data-index="${i}"]`).scrollIntoView({ block: "nearest" });
}

const haystacks = [];

// All that can be searched of an episode, made when it is first searched.
function haystack(i) {
  const e = data.episodes[i];
  return haystacks[i] ??= [e.task, e.instruction, e.final, ...e.turns.flatMap((t) => [t.observation, t.text, t.action, t.error])]
    .join("\n").toLowerCase();
}

function sampleNote() {
  const [failed, succeeded, fault] = ["failed", "succeeded", "fault"].map((name) => data.counts[name]);
  const total = failed[1] + succeeded[1] + fault[1];
  if (data.episodes.length === total) return "";
  return `A sample: ${data.episodes.length} of ${total} episodes (${failed[0]} of ${failed[1]} failed, ` +
    `${succeeded[0]} of ${succeeded[1]} succeeded, ${fault[0]} of ${fault[1]} infrastructure errors), in whole groups, spread evenly over the file.`;
}

function matching(outcome = chosen.outcome) {
  return data.episodes.map((e, i) => i).filter((i) => {
    const e = data.episodes[i];
    return (!outcome || e.outcome === outcome) && (!chosen.type || e.type === chosen.type) &&
      (!chosen.env || e.env === chosen.env) && (!chosen.part || e.part + "/" + e.step === chosen.part) &&
      (!chosen.text || haystack(i).includes(chosen.text));
  });
}

function choose(change) {
  Object.assign(chosen, change);
  const section = document.getElementById("episodes");
  for (const button of section.querySelectorAll("[data-outcome]")) {
    button.setAttribute("aria-pressed", String(button.dataset.outcome === chosen.outcome));
    replace(button.querySelector(".count"), matching(button.dataset.outcome).length);
  }
  const found = matching();
  replace(section.querySelector(".list"), found.length ? found.map(listRow) : node("p", { class: "soft empty" }, "No episode fits these filters."));
  if (!found.includes(chosen.index)) {
    chosen.index = -1;
    replace(section.querySelector(".detail"));
    if (found.length) show(found[0]);
  }
  mark();
}

function listRow(i) {
  const e = data.episodes[i];
  return node("button", { class: "row", role: "option", "data-index": i, onclick: () => visit(i) },
    node("span", { class: "mark " + e.outcome, "aria-label": OUTCOME[e.outcome] }),
    node("span", { class: "row-text" }, node("b", {}, e.instruction || e.task),
      node("span", { class: "soft" }, [e.part ? partName(e.part, e.step) : "", data.envs.length > 1 ? e.env : "", e.type, e.task].filter(Boolean).join(" · "))),
    node("span", { class: "row-end" }, node("b", {}, short(e.reward)), node("span", { class: "soft" }, e.turns.length + " turns")));
}

// A person chose an episode: besides showing it, make it the page's address.
function visit(i) {
  show(i);
  try {
    history.replaceState(null, "", "#episode-" + i);
  } catch (error) {
    // some browsers refuse this for files; the page works without it
  }
  if (matchMedia("(max-width: 60rem)").matches) document.querySelector("#episodes .detail").scrollIntoView();
}

function show(i) {
  chosen.index = i;
  const detail = document.querySelector("#episodes .detail");
  replace(detail, node("div", { class: "move" },
    node("button", { class: "back", onclick: () => document.querySelector("#episodes .tools").scrollIntoView() }, "↑ list"),
    node("button", { onclick: () => neighbour(-1) }, "← previous"), node("button", { onclick: () => neighbour(1) }, "next →")),
  episodeView(data.episodes[i], i));
  detail.scrollTop = 0;
  mark();
}

function neighbour(by) {
  const found = matching();
  const at = found.indexOf(chosen.index) + by;
  if (at < 0 || at >= found.length) return;
  visit(found[at]);
  document.querySelector(`#episodes [data-index="${found[at]}"]`).scrollIntoView({ block: "nearest" });
}

function mark() {
  for (const row of document.querySelectorAll("#episodes .row")) {
    row.setAttribute("aria-selected", String(Number(row.dataset.index) === chosen.index));
  }
}

header(data);
curves(() => chartsOf(data), [data.metrics]);
byType(data);
browser();
origin(data);
measures(data);
