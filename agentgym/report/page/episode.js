// One episode, turn by turn.

const OUTCOME = { failed: "failed", succeeded: "succeeded", fault: "infrastructure error" };

const FINISH = { length: "cut by length", filter: "withheld by a filter", refusal: "declined by the model", context: "context full" };

function episodeView(episode, i, alone = false) {
  const facts = [
    ["task", episode.task], ["environment", episode.env], ["type", episode.type], ["difficulty", episode.difficulty], ["split", episode.split],
    ["part", episode.part ? partName(episode.part, episode.step) : ""], ["attempt", episode.attempt],
    ["branch of", episode.branch?.length ? `attempt ${episode.branch[0]}, from turn ${episode.branch[1] + 1} on` : ""],
    ["turns", episode.turns.length + (episode.horizon ? ` of ${episode.horizon}` : "")], ["reward", short(episode.reward)],
    ...Object.entries(episode.roles).map(([role, value]) => ["reward of " + role, short(value)]),
    ...Object.entries(episode.metrics).map(([name, value]) => [name, short(value)]),
    ["seed", episode.seed],
  ].filter(([, value]) => value !== "");
  return [
    node("div", { class: "episode-head" },
      node("span", { class: "badge " + episode.outcome }, OUTCOME[episode.outcome]),
      node("span", { class: "soft" }, reasonText(episode))),
    episode.instruction ? node("h3", {}, episode.instruction) : "",
    node("dl", { class: "facts" }, facts.map(([name, value]) => node("div", {}, node("dt", {}, name), node("dd", {}, value)))),
    episode.error ? node("div", { class: "block wrong" }, node("span", { class: "label" }, "error"), node("pre", {}, episode.error)) : "",
    episode.hint ? block("hint, of training alone", episode.hint) : "",
    strip(episode),
    alone ? "" : groupView(i),
    promptView(episode.turns[0]),
    episode.turns.map((turn, i) => turnView(turn, i)),
    episode.final ? node("div", { class: "turn" }, node("div", { class: "gutter" }, "end"),
      node("div", {}, block("env", episode.final))) : "",
  ];
}

function reasonText(episode) {
  const reasons = {
    success: "the task was solved", failure: "the task can no longer be solved", horizon: "out of turns",
    context: "the prompt outgrew the model's context", timeout: "a step took too long", crash: "the environment crashed",
    engine: "the engine failed",
  };
  return reasons[episode.reason] || episode.reason;
}

// A bar per turn: its advantage where there is one, else its reward; a click goes to the turn.
function strip(episode) {
  if (episode.turns.length < 2) return "";
  const advantages = episode.turns.some((turn) => isNumber(turn.advantage));
  const of = (turn) => (advantages ? turn.advantage || 0 : turn.reward);
  const size = Math.max(1e-9, ...episode.turns.map((turn) => Math.abs(of(turn))));
  const bars = episode.turns.map((turn, i) => {
    const value = of(turn);
    const height = Math.max(2, (22 * Math.abs(value)) / size);
    const svg = drawing("svg", { viewBox: "0 0 8 48", preserveAspectRatio: "none", "aria-hidden": "true" });
    svg.append(drawing("rect", { class: value < 0 ? "minus" : value > 0 ? "plus" : "none", x: 1, width: 6, y: value < 0 ? 24 : 24 - height, height }));
    return node("button", { class: turn.valid ? "" : "invalid", title: `turn ${i + 1}: ${signed(value)}`,
      onclick: (event) => event.currentTarget.closest("article").querySelector(".turn-" + i).scrollIntoView({ behavior: "smooth", block: "center" }) }, svg);
  });
  return node("div", { class: "strip" }, node("span", { class: "soft" }, advantages ? "advantage by turn" : "reward by turn"),
    node("div", { class: "strip-bars" }, bars));
}

function promptView(turn) {
  if (!turn || !turn.messages.length) return "";
  return node("details", { class: "prompt" }, node("summary", {}, "Prompt of the first turn"),
    turn.messages.map(([role, text]) => block(role, text)));
}

function turnView(turn, i) {
  const call = !turn.text.trim() && turn.action; // a native call is what the model said
  const said = turn.text.trim() !== turn.action.trim();
  const parts = Object.entries(turn.rewards);
  const paid = parts.map(([name, value]) => chip(`${name} ${signed(value)}`, value < 0 ? "minus" : "plus"));
  const chips = [
    turn.role !== "agent" ? chip(turn.role, "") : "",
    paid.length || !turn.reward ? paid : chip("reward " + signed(turn.reward), turn.reward < 0 ? "minus" : "plus"),
    isNumber(turn.advantage) ? chip("advantage " + signed(turn.advantage), turn.advantage < 0 ? "minus" : turn.advantage > 0 ? "plus" : "") : "",
    turn.valid ? "" : chip("invalid", "minus"),
    turn.parsed ? "" : chip("no action found", "minus"),
    turn.finish === "stop" ? "" : chip(FINISH[turn.finish] || turn.finish, "minus"),
    turn.tokens ? node("span", { class: "soft" }, `${turn.tokens} of ${turn.prompt + turn.tokens} tokens`) : "",
    isNumber(turn.logprob) ? node("span", { class: "soft" }, `mean logprob ${turn.logprob.toFixed(2)}`) : "",
  ];
  return node("div", { class: `turn turn-${i}` + (turn.valid ? "" : " bad") },
    node("div", { class: "gutter" }, i + 1),
    node("div", {},
      block("env", turn.observation),
      turn.reasoning ? node("details", { class: "reasoning" }, node("summary", {}, "reasoning"), node("pre", {}, turn.reasoning)) : "",
      call ? block("model", turn.action, "model") : said ? block("model", turn.text, "model") : "",
      call ? "" : node("div", { class: "block action" }, node("span", { class: "label" }, "action"), node("pre", {}, turn.action || "(nothing)")),
      turn.error ? node("div", { class: "block wrong" }, node("span", { class: "label" }, "error"), node("pre", {}, turn.error)) : "",
      node("div", { class: "chips" }, chips), tokensView(turn)));
}

function block(label, text, kind = "") {
  return node("div", { class: "block " + kind }, node("span", { class: "label" }, label), node("pre", {}, text));
}

function chip(text, kind) {
  return node("span", { class: "chip " + kind }, text);
}
