"""Training steps that change nothing: the reason, and advice after several of them in a row."""

import math
from collections.abc import Mapping, Sequence
from itertools import takewhile

PATIENCE = 3
"""Number of consecutive steps without an update before advice is given."""

EASIER = (
    "no attempt succeeded: choose easier tasks (--sampler window), a longer SFT warm start (--sft-episodes), more attempts "
    "per task (--group-size) or hints (--select guide)"
)
HARDER = "every attempt succeeded: choose harder tasks (--sampler difficulty_range), or stop here"
WIDER = (
    "the attempts at each task end alike: play more of them (--group-size), sample at a higher --temperature, or choose "
    "tasks of medium difficulty (--sampler window, or prioritized for tasks from a file)"
)
LOST = "infrastructure errors leave no group with two attempts: look at the errors in episodes.jsonl"
SELECTION = "the selection keeps no group: loosen its options (--select.NAME), or use --select drop"


def no_update(row: Mapping[str, object]) -> str:
    """Return the reason why the step of a `metrics.jsonl` row changed nothing; empty if the model was updated.

    Rows of older versions lack the necessary numbers, so the result is empty. A step that trained only on groups of equal
    returns (selection `keep`) counts as no update if its gradient was zero.
    """
    total, equal, trained = (_count(row, name) for name in ("groups", "groups_equal", "groups_trained"))
    if total is None or equal is None or trained is None:
        return ""
    if trained and (row.get("grad_norm") != 0 or equal < total):
        return ""
    what = "no gradient" if trained else "no update"
    if not total:
        return f"{what}: no attempt ended without an infrastructure error"
    if equal == total:
        return f"{what}: {'the only group' if total == 1 else f'all {total} groups'} had equal returns"
    alone = _count(row, "groups_alone") or 0
    if equal + alone == total:
        return f"{what}: of {total} groups {equal} had equal returns and {alone} only one attempt without an error"
    return f"{what}: the selection kept none of {total} groups ({equal} had equal returns)"


def advice(rows: Sequence[Mapping[str, object]]) -> str:
    """Return advice if the last `PATIENCE` or more steps made no update; otherwise empty."""
    last = [row for row in rows if row.get("phase") != "sft"]
    idle = list(takewhile(no_update, reversed(last)))
    return f"{len(idle)} steps in a row without an update; {_remedy(idle)}" if len(idle) >= PATIENCE else ""


def idle(rows: Sequence[Mapping[str, object]]) -> str:
    """Return the reason why the newest step changed nothing, with advice after several such steps; empty after an update."""
    reason = no_update(rows[-1]) if rows else ""
    return f"step {rows[-1]['step']:g}: {'. '.join(filter(None, (reason, advice(rows))))}" if reason else ""


def _remedy(idle: Sequence[Mapping[str, object]]) -> str:
    totals = [sum(_count(row, name) or 0 for row in idle) for name in ("groups", "groups_equal", "groups_alone")]
    if totals[2] >= totals[0] / 2:
        return LOST
    if totals[1] < totals[0] / 2:
        return SELECTION
    rates = {row["success_train"] for row in idle if isinstance(row.get("success_train"), int | float)}
    return EASIER if rates == {0} else HARDER if rates == {1} else WIDER


def _count(row: Mapping[str, object], name: str) -> int | None:
    value = row.get(name)
    return int(value) if isinstance(value, int | float) and math.isfinite(value) else None
