"""Self-contained HTML page of a run: curves, results by task type, episodes turn by turn.

Texts of environments and models are untrusted. They reach the page only as JSON in a script element that browsers do not
run, with every `<`, `>` and `&` escaped. The page's own script displays them by `textContent` only. A content security
policy allows this script, by its hash, and forbids everything else, including the network.
"""

import base64
import hashlib
import html
import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import numpy as np

from agentgym.core.folders import write_whole
from agentgym.core.screen import printable
from agentgym.episodes.episode import Episode, Turn
from agentgym.episodes.usage import from_extra, output_tokens
from agentgym.evaluate.replies import cut_warning
from agentgym.evaluate.statistics import Interval, mean_interval
from agentgym.evaluate.summary import level
from agentgym.report.facts import played_with
from agentgym.report.run_folder import TRAINED, Row, RunFolder, finite, open_run, place
from agentgym.report.sample import display_order, select
from agentgym.report.tokens import Decode, decoder, tokens
from agentgym.report.updates import idle

SCRIPTS = ("nodes.js", "charts.js", "curves.js", "tables.js", "measures.js", "group.js", "episode.js", "page.js")
LONGEST = 8_000  # maximum characters of one text; a longer one loses its middle
LARGEST = 20_000_000  # maximum characters of all episodes on one page


def write_report(path: str | Path, *, limit: int = 300) -> Path:
    """Write the page of a run folder (or a file of episodes) and return its path.

    At most `limit` episodes are embedded, as whole groups spread evenly over the run. Groups with faults and failures are
    preferred; the page states how many episodes it shows.
    """
    run = open_run(path)
    rows = list(run.rows())
    ordered, episodes = _embed(run, rows, limit)
    data = {
        "name": run.name,
        "config": run.config,
        "manifest": run.manifest,
        "summary": run.summary,
        "cut": cut_warning(run.summary or {}, (run.manifest or {}).get("options", {})) if not run.config else "",
        "played_with": played_with(run.config, run.manifest),
        "idle": idle(run.metrics),
        "metrics": run.metrics,
        "envs": list(dict.fromkeys(row.env for row in rows)),
        "types": _by_type(rows, 2_000 if run.config else 10_000),
        "counts": {name: [_count(ordered, name), _count(rows, name)] for name in ("failed", "succeeded", "fault")},
        "episodes": episodes,
    }
    write_whole(run.page, page(run.name, data))
    return run.page


def page(
    title: str,
    data: Mapping[str, object],
    *,
    body: str = "run.html",
    scripts: tuple[str, ...] = SCRIPTS,
    served: bool = False,
) -> str:
    """Return a page with its data, style and script; `body` is the template that the scripts fill.

    A `served` page may only send requests to its own server.
    """
    folder = files("agentgym.report") / "page"
    style = (folder / "page.css").read_text(encoding="utf-8")
    code = "\n".join((folder / name).read_text(encoding="utf-8") for name in scripts)
    script = f'(() => {{\n"use strict";\n{code}}})();\n'
    parts = {
        "title": html.escape(printable(title)),
        "style_hash": _hash(style),
        "script_hash": _hash(script),
        "connect": "; connect-src 'self'" if served else "",
        "style": style,
        "script": script,
        "data": embed(data),
        "body": (folder / body).read_text(encoding="utf-8"),
    }
    text = (folder / "page.html").read_text(encoding="utf-8")
    pieces = text.split("%%")  # odd entries are names of parts, so inserted parts are never searched
    return "".join(parts[piece] if i % 2 else piece for i, piece in enumerate(pieces))


def embed(data: object) -> str:
    """Return data as ASCII JSON that cannot end the script element that contains it."""
    text = json.dumps(finite(data), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _embed(run: RunFolder, rows: list[Row], limit: int) -> tuple[list[Row], list[dict[str, object]]]:
    """Return the rows that fit on the page, and their episodes for the page's script."""
    decode = decoder(run)
    while True:
        ordered, size, episodes = display_order(select(rows, limit)), 0, list[dict[str, object]]()
        for row, episode in zip(ordered, run.read(ordered), strict=True):
            entry = episode_entry(row, episode, decode)
            size += len(json.dumps(finite(entry)))
            if size > LARGEST and len(ordered) > 1:
                break
            episodes.append(entry)
        if len(episodes) == len(ordered):
            return ordered, episodes
        limit = max(1, min(limit - 1, len(episodes)))


def episode_entry(row: Row, episode: Episode, decode: Decode | None) -> dict[str, object]:
    """Return an episode as the page's script expects it."""
    part, step = (row.part, place(episode.group_id)[1]) if row.part else ("", "")
    return {
        "env": episode.env,
        "task": episode.task_id,
        "group": episode.group_id,
        "type": row.type,
        "difficulty": row.difficulty,
        "part": part,
        "step": step,
        "outcome": row.outcome,
        "reason": episode.reason,
        "split": episode.split,
        "seed": str(episode.seed),  # a JavaScript number would be rounded
        "attempt": episode.attempt,
        "branch": episode.forks[-1][:2] if episode.forks else [],
        "horizon": episode.horizon,
        "instruction": cut(episode.instruction),
        "reward": episode.reward,
        "metrics": episode.metrics,
        "roles": episode.final_rewards if len(episode.final_rewards) > 1 else {},
        "error": cut(episode.error or ""),
        "hint": cut(episode.hint.text) if episode.hint else "",
        "final": cut(episode.final_observation),
        "turns": [_turn(turn, decode, first=i == 0 or bool(turn.notes)) for i, turn in enumerate(episode.turns)],
    }


def _turn(turn: Turn, decode: Decode | None, *, first: bool) -> dict[str, object]:
    messages = [(str(m.get("role", "")), cut(_text(m.get("content")))) for m in turn.messages] if first else []
    counted = from_extra(turn.extra)
    return {
        "observation": cut(turn.observation),
        "text": cut(turn.text),
        "reasoning": cut(turn.reasoning),
        "action": cut(turn.action),
        "parsed": turn.parsed,
        "valid": turn.valid,
        "error": cut(turn.error or ""),
        "finish": turn.finish,
        "role": turn.role,
        "reward": turn.reward,
        "rewards": turn.rewards,
        "advantage": _advantage(turn),
        "tokens": output_tokens(turn.sampled, turn.extra),
        "prompt": len(turn.prompt_ids) or (counted.input if counted else 0),
        "logprob": float(np.mean(turn.logprobs)) if turn.logprobs else None,
        "version": turn.policy_version,
        "messages": messages,
        "pieces": tokens(turn, decode) if decode else [],
    }


def _advantage(turn: Turn) -> float | None:
    """Return a turn's advantage, averaged over its tokens if there is one per token; None if it was not stored."""
    stored = turn.extra.get("advantage")
    if stored is None:
        return None
    values = np.asarray(stored, dtype=np.float64)
    return float(values.mean()) if values.size else None


def _text(content: object) -> str:
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, default=str)


def cut(text: str) -> str:
    """Return a text; if it is longer than `LONGEST` characters, cut its middle."""
    if len(text) <= LONGEST:
        return text
    half = LONGEST // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"


def _by_type(rows: list[Row], resamples: int) -> list[dict[str, object]]:
    """Return tables of success by environment, task type and difficulty: newest evaluation first, training last.

    Each table has `part`, `step` and `rows`.

    `resamples` is the number of bootstrap resamples for intervals. An evaluation's page uses the number of its summary, so
    that both show the same intervals.
    """
    parts: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        parts.setdefault((row.part, row.step if row.part == "eval" else ""), []).append(row)
    several = len({row.env for row in rows}) > 1
    tables: list[dict[str, object]] = []
    for (part, step), members in sorted(reversed(parts.items()), key=lambda pair: pair[0][0] in TRAINED):
        lines: list[dict[str, object]] = []
        for env in dict.fromkeys(row.env for row in members):
            mine = [row for row in members if row.env == env]
            lines.append({**_line(env if several else "all", mine, resamples), "whole": True})
            lines += [_line(name, rows_of_part, resamples) for name, rows_of_part in _divided(mine)]
        tables.append({"part": part, "step": step, "rows": lines})
    return tables


def _divided(rows: list[Row]) -> list[tuple[str, list[Row]]]:
    """Return (name, rows) for each task type of an environment, and for each difficulty if there are several."""
    types = sorted({row.type for row in rows if row.type})
    levels = sorted({row.difficulty for row in rows if row.difficulty}, key=level)
    parts = [(name, [row for row in rows if row.type == name]) for name in types]
    if len(levels) > 1:
        parts += [(f"difficulty {n}", [row for row in rows if row.difficulty == n]) for n in levels]
    return parts


def _line(name: str, rows: list[Row], resamples: int) -> dict[str, object]:
    values: dict[str, list[float]] = {}
    for row in rows:
        if row.outcome != "fault":
            values.setdefault(row.task_id, []).append(float(row.outcome == "succeeded"))
    rate: Interval = mean_interval(values, resamples=resamples)
    counted = sum(len(outcomes) for outcomes in values.values())
    interval = {"mean": rate.mean, "low": rate.low, "high": rate.high, "tasks": rate.units}
    return {"type": name, **interval, "episodes": counted, "faults": len(rows) - counted}


def _count(rows: list[Row], outcome: str) -> int:
    return sum(row.outcome == outcome for row in rows)


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
