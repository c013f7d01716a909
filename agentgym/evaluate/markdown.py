"""Evaluation results as a Markdown page, for an issue or a paper's notes."""

import html
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentgym.core.screen import printable
from agentgym.episodes.confidence import sentence as calibrated
from agentgym.evaluate import choosing, exploiting
from agentgym.evaluate.regret import sentence
from agentgym.evaluate.replies import COLUMN, UNFINISHED, cut_warning
from agentgym.evaluate.summary import divided

Row = Mapping[str, Any]
OPTIONS = (
    "suite",
    "model",
    "weights",
    "policy",
    "agent",
    "prompt",
    "prompt_hash",
    "tools",
    "temperature",
    "turn_tokens",
    "attempts",
    "seed",
)
_MARKUP = re.compile(r"([\\`*_\[\]|~#@])")


def as_markdown(summary: Row, manifest: Row) -> str:
    """Return a page with the options, the results and their comparability.

    `summary` and `manifest` are the contents of an evaluation's files. Names from them are escaped.
    """
    options: Row = manifest["options"]
    versions: Row = manifest["sessions"][-1] if manifest["sessions"] else {}
    facts = {name: options[name] for name in OPTIONS if options.get(name) is not None}
    facts |= {name: versions[name] for name in ("agentgym", "commit") if versions.get(name)}
    lines = ["# Evaluation", "", *(f"- {plain(name)}: {plain(value)}" for name, value in facts.items()), ""]
    warning = cut_warning(summary, options)
    lines += [f"**{plain(warning)}**", ""] if warning else []
    lines += [f"**{plain(summary['comparable'])}**", "", *_table(summary), ""]
    if summary["iqm"] is not None and summary["iqm"]["runs"] * summary["iqm"]["columns"] > 1:
        mean = summary["iqm"]
        size = f"{mean['runs']} attempts x {mean['columns']} environments or task types"
        lines += [f"Interquartile mean: {_rate({**mean, 'mean': mean['value']})} of {size}.", ""]
    skipped: Row = summary.get("skipped", {})
    lines += [f"- {plain(env)} was skipped: {plain(reason)}" for env, reason in skipped.items()] + [""] * bool(skipped)
    lines += ["## Contamination", ""]
    for env, checks in summary["contamination"].items():
        lines += [f"- {plain(env)}, {plain(name.replace('_', ' '))}: {_check(check)}" for name, check in checks.items()]
    if part := summary.get("regret"):
        lines += ["", "## Regret", "", *(f"- {sentence(env, row, plain)}" for env, row in part.items())]
    if part := summary.get("calibration"):
        lines += ["", "## Calibration", "", f"- {calibrated(part)}"]
    if part := summary.get("votes"):
        lines += ["", "## Votes", "", *(f"- {choosing.sentence(env, row, plain)}" for env, row in part.items())]
    if part := summary.get("exploitability"):
        lines += ["", "## Exploitability", "", *(f"- {exploiting.sentence(env, row, plain)}" for env, row in part.items())]
    return "\n".join(lines) + "\n"


def faults(rate: Row) -> str:
    """Return a text with the number of infrastructure errors and their share of all episodes."""
    return f"{rate['faults']} ({100 * rate['faults'] / max(rate['faults'] + rate['episodes'], 1):.1f} %)"


def plain(value: object) -> str:
    """Return a value as text with all Markdown and HTML escaped."""
    return _MARKUP.sub(r"\\\1", html.escape(" ".join(printable(str(value)).split()), quote=False))


def _table(summary: Row) -> list[str]:
    k = max(summary["pass_at"], key=int, default="1")
    columns: dict[str, Callable[[Row], str]] = {
        "success [95 %]": lambda row: _rate(row["success"]),
        "tasks": lambda row: str(row["success"]["tasks"]),
        "episodes": lambda row: str(row["success"]["episodes"]),
        "infrastructure errors": lambda row: faults(row["success"]),
    }
    if k != "1":
        columns[f"pass@{k}"] = lambda row: _percent(row["pass_at"].get(k))
        columns[f"pass^{k}"] = lambda row: _percent(row["pass_hat"].get(k))
    columns |= {name: _number(name) for name in ("reward", "turns", "tokens", "seconds")}
    columns |= {name: _share(name) for name in ("invalid", "unparsed")}
    columns |= {COLUMN[end]: _ended(end) for end in UNFINISHED if summary["finish"].get(end)}
    lines = [_line(["environment", *columns]), _line([":--", *("--:" for _ in columns)])]
    for env, row in summary["envs"].items():
        lines.append(_line([f"**{plain(env)}**", *(cell(row) for cell in columns.values())]))
        lines += [_line([plain(name), *(cell(part) for cell in columns.values())]) for name, part in divided(row)]
    return [*lines, _line(["**all**", *(cell(summary) for cell in columns.values())])]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _rate(rate: Row) -> str:
    if rate["mean"] is None:
        return "-"
    bounds = "" if rate["low"] is None else f" [{100 * rate['low']:.1f}, {100 * rate['high']:.1f}]"
    return f"{100 * rate['mean']:.1f} %{bounds}"


def _number(name: str) -> Callable[[Row], str]:
    return lambda row: "-" if row[name] is None else f"{row[name]:.2f}"


def _share(name: str) -> Callable[[Row], str]:
    return lambda row: _percent(row[name])


def _ended(end: str) -> Callable[[Row], str]:
    return lambda row: _percent(row["finish"].get(end))


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _check(check: Row) -> str:
    text = f"{check['found']} of {check['checked']} tasks ({plain(check['how'])})" if check["checked"] else "not checked"
    examples = f", such as {', '.join(map(plain, check['examples']))}" if check["examples"] else ""
    return text + examples + (f"; {plain(check['why'])}" if check["why"] else "")
