"""Credit by another credit: a credit that knows better for some tokens leaves the others to one of the package's."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from agentgym.episodes.episode import Episode, Group
from agentgym.errors import BadConfig, UnknownName
from agentgym.trainers.credit.interface import Floats, resolve
from agentgym.trainers.seam import Processes

Options = Mapping[str, object] | None
"""Hyper-parameters of the other credit: a table."""


def by_base(
    groups: Sequence[Group], name: str, options: Options, *, step: int, state: dict[str, Any], run: Processes | None
) -> list[list[Floats]]:
    """Return, per group and episode, what the credit `name` gives each output token of all turns in order.

    Its own state is kept in `state["base"]`. BadConfig for a credit that there is none of, and for one that needs something
    computed first, since only what the outer credit needs is.
    """
    try:
        credit = resolve(name, **dict(options or {}))
    except UnknownName as error:
        raise BadConfig(str(error)) from error
    if credit.needs:
        raise BadConfig(
            f"base is {name!r}, which needs {', '.join(credit.needs)}, and nothing computes that for a base; expected a "
            "credit without needs, such as 'grpo' or 'gigpo'"
        )
    credit.stage.state = state.setdefault("base", {})
    advantages = replace(credit, run=run)(groups, step=step)
    return [
        [per_token(episode, array) for episode, array in zip(group, arrays, strict=True)]
        for group, arrays in zip(groups, advantages, strict=True)
    ]


def per_token(episode: Episode, array: Floats) -> Floats:
    """Return a number per output token of all turns, of an array that has these or a number per turn."""
    lengths = [len(turn.output_ids) for turn in episode.turns]
    return np.repeat(array, lengths) if len(array) == len(lengths) else array


def of_turns(episode: Episode, name: str) -> Floats:
    """Return what stands in `turn.extra[name]` for every output token of all turns in order; nan where nothing does."""
    rows = [np.broadcast_to(t.extra.get(name, np.nan), len(t.output_ids)).astype(np.float64) for t in episode.turns]
    return np.concatenate(rows) if rows else np.zeros(0)
