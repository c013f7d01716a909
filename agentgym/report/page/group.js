// The attempts of one group side by side, and the single tokens of a turn: credit is relative, and this is where it shows.

function groupOf(i) {
  const one = data.episodes[i];
  return data.episodes.map((e, k) => k).filter((k) => data.episodes[k].env === one.env && data.episodes[k].group === one.group);
}

// A row for each attempt: outcome, reward, turns, and its advantages on one scale; then what each did, turn by turn.
function groupView(i) {
  const members = groupOf(i);
  if (members.length < 2) return "";
  const credited = members.some((k) => data.episodes[k].turns.some((turn) => isNumber(turn.advantage)));
  const size = Math.max(1e-9, ...members.flatMap((k) => data.episodes[k].turns.map((turn) => Math.abs(turn.advantage || 0))));
  const longest = Math.max(...members.map((k) => data.episodes[k].turns.length));
  const won = members.filter((k) => data.episodes[k].outcome === "succeeded").length;
  const rows = members.map((k) => {
    const e = data.episodes[k];
    return node("tr", { class: k === i ? "here" : "", onclick: () => visit(k) },
      node("th", {}, node("button", { class: "attempt", "aria-current": k === i ? "true" : null },
        node("span", { class: "mark " + e.outcome, "aria-label": OUTCOME[e.outcome] }), " attempt " + e.attempt)),
      node("td", {}, short(e.reward)), node("td", {}, e.turns.length),
      node("td", { class: "cells" }, e.turns.map((turn, t) => node("span", { class: "cell " + heat(turn.advantage, size),
        title: `turn ${t + 1}: ${turn.action.slice(0, 200)}` + (isNumber(turn.advantage) ? `, advantage ${signed(turn.advantage)}` : "") }))));
  });
  const actions = () => node("table", { class: "actions" },
    node("thead", {}, node("tr", {}, node("th", {}, "turn"), members.map((k) => node("th", {},
      node("span", { class: "mark " + data.episodes[k].outcome }), " " + data.episodes[k].attempt)))),
    node("tbody", {}, Array.from({ length: longest }, (_, t) => node("tr", {}, node("th", {}, t + 1), members.map((k) => {
      const turn = data.episodes[k].turns[t];
      return turn ? node("td", { class: heat(turn.advantage, size) + (turn.valid ? "" : " invalid"),
        title: isNumber(turn.advantage) ? "advantage " + signed(turn.advantage) : "" }, turn.action.slice(0, 300)) : node("td", {});
    })))));
  const beside = node("details", { class: "beside", open: data.beside }, node("summary", {}, "Actions side by side"));
  beside.addEventListener("toggle", () => { if (beside.open && beside.children.length < 2) append(beside, [node("div", { class: "scroll" }, actions())]); });
  return node("div", { class: "group" },
    node("p", { class: "soft" }, `Group of ${members.length} attempts at this task: ${won} succeeded.` + (credited ? " Color is the advantage of a turn." : "")),
    node("div", { class: "scroll" }, node("table", {}, node("thead", {}, node("tr", {}, node("th", {}, ""), node("th", {}, "reward"),
      node("th", {}, "turns"), node("th", { class: "cells" }, credited ? "advantage by turn" : ""))), node("tbody", {}, rows))), beside);
}

// One of nine classes: how far a number is from 0, against the largest.
function heat(value, size) {
  if (!isNumber(value) || Math.abs(value) < size * 1e-6) return "none";
  return (value > 0 ? "p" : "n") + Math.min(4, Math.ceil((4 * Math.abs(value)) / size));
}

const SHADES = [["advantage", 2], ["log-probability", 1], ["trainer minus engine", 3]];

// The sampled tokens of a turn, coloured by what is chosen; each tells its numbers.
function tokensView(turn) {
  if (!turn.pieces.length) return "";
  const known = SHADES.filter(([, at]) => turn.pieces.some((piece) => isNumber(piece[at])));
  const host = node("pre", { class: "tokens" });
  const draw = (at) => {
    const size = Math.max(1e-9, ...turn.pieces.map((piece) => Math.abs(piece[at] || 0)));
    replace(host, turn.pieces.map((piece) => node("span", { class: "token " + heat(piece[at], size), title: tokenTitle(piece) }, piece[0] || "∅")),
      turn.tokens > turn.pieces.length ? node("span", { class: "soft" }, ` … ${turn.tokens - turn.pieces.length} more`) : "");
  };
  const choice = node("select", { "aria-label": "colour of tokens", onchange: (event) => draw(Number(event.target.value)) },
    known.map(([name, at]) => node("option", { value: at }, name)));
  const view = node("details", { class: "token-view" }, node("summary", {}, "Tokens"));
  view.addEventListener("toggle", () => {
    if (!view.open || view.children.length > 1) return;
    append(view, [known.length > 1 ? choice : "", host]);
    draw(known.length ? known[0][1] : 2);
  });
  return view;
}

function tokenTitle([text, logprob, advantage, mismatch]) {
  const parts = [JSON.stringify(text)];
  if (isNumber(logprob)) parts.push(`log-probability ${logprob.toFixed(3)}`);
  if (isNumber(advantage)) parts.push(`advantage ${signed(advantage)}`);
  if (isNumber(mismatch)) parts.push(`trainer minus engine ${mismatch.toExponential(1)}`);
  return parts.join(", ");
}
