"""Episodes and turns as table rows for pandas and Parquet: outcome, tokens, seconds, finish reasons and cost."""

import importlib
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agentgym.episodes.episode import Episode, Turn
from agentgym.episodes.usage import SECONDS, amount
from agentgym.errors import BadConfig, MissingExtra, no_such
from agentgym.evaluate.manifest import read_object
from agentgym.evaluate.replies import replies
from agentgym.evaluate.spending import Price, cost_of, price_in, usage_of
from agentgym.logs.foreign import read_place

if TYPE_CHECKING:
    import pandas  # pyright: ignore[reportMissingTypeStubs]

Row = dict[str, Any]
FORMS = ("episodes", "turns")
COUNTS = ("input", "output", "cached", "reasoning")


def episode_rows(episodes: Iterable[Episode], price: Price | None = None) -> list[Row]:
    """Return a row for each episode.

    Tokens, seconds and cost are sums over the turns, and `finish` is the finish reason of the last reply.
    `request_seconds` excludes waiting; unknown numbers are None.
    """
    rows: list[Row] = []
    for episode in episodes:
        answered = [_request_values(turn, price) for turn in replies(episode)]
        last = next((turn.finish for turn in reversed(list(replies(episode)))), None)
        row = {**_about(episode), "success": episode.success, "reason": episode.reason, "reward": episode.reward}
        row |= {"turns": len(episode.turns), "seconds": math.fsum(turn.seconds for turn in episode.turns), "finish": last}
        names = [f"{name}_tokens" for name in COUNTS]
        rows.append({**row, **{name: _sum(one[name] for one in answered) for name in (*names, SECONDS, "cost")}})
    return rows


def turn_rows(episodes: Iterable[Episode], price: Price | None = None) -> list[Row]:
    """Return a row for each turn. If a reply has several calls, only the first row has the reply's tokens, time and cost."""
    rows: list[Row] = []
    for episode in episodes:
        begun = {id(turn) for turn in replies(episode)}
        for place, turn in enumerate(episode.turns):
            row = {**_about(episode), "turn": place, "role": turn.role, "finish": turn.finish, "parsed": turn.parsed}
            row |= {"valid": turn.valid, "reward": turn.reward, "action": turn.action, "error": turn.error}
            rows.append({**row, "seconds": turn.seconds, **_request_values(turn if id(turn) in begun else Turn(""), price)})
    return rows


def to_pandas(
    source: str | Path | Sequence[Episode], what: Literal["episodes", "turns"] = "episodes", price: Price | None = None
) -> "pandas.DataFrame":
    """Return a `pandas.DataFrame` of the episodes or turns of an evaluation's folder, a file of episodes, or a list.

    `price` defaults to the price in the folder's `summary.json`. Without a price, only costs that the server reported
    are known.

    Raises:
        BadConfig: `what` is neither `episodes` nor `turns`.
        MissingExtra: pandas is not installed.
    """
    if what not in FORMS:
        raise BadConfig(no_such("form of a table", what, FORMS))
    try:
        frame = importlib.import_module("pandas").DataFrame
    except ImportError as error:
        raise MissingExtra("to_pandas needs pandas: pip install pandas") from error
    if isinstance(source, str | Path):
        path = Path(source)
        summary = (path if path.is_dir() else path.parent) / "summary.json"
        price = price or (price_in(read_object(summary)) if summary.exists() else None)
        source = read_place(path)
    return frame((episode_rows if what == "episodes" else turn_rows)(source, price))


def _about(episode: Episode) -> Row:
    names = ("env", "task_id", "group_id", "attempt", "seed", "split")
    labels = {name: episode.labels.get(name) for name in ("type", "difficulty")}
    return {**{name: getattr(episode, name) for name in names}, **labels}


def _request_values(turn: Turn, price: Price | None) -> Row:
    """Return the tokens, seconds and cost of a turn's request."""
    usage = usage_of(turn)
    counts = {f"{name}_tokens": None if usage is None else getattr(usage, name) for name in COUNTS}
    cost = None if usage is None else cost_of(usage, price)
    return {**counts, SECONDS: amount(turn.extra.get(SECONDS)), "cost": cost}


def _sum(values: Iterable[float | None]) -> float | None:
    """Return the sum; None if any value is None or there are no values."""
    known = list(values)
    return None if not known or any(value is None for value in known) else sum(value for value in known if value is not None)
