"""Combine two credits: a method credits some tokens itself and leaves the others to a base credit such as `grpo`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from agentgym.episodes.episode import Episode, Group
from agentgym.errors import BadConfig, UnknownName
from agentgym.trainers.credit.interface import Floats, resolve
from agentgym.trainers.seam import Processes

Options = Mapping[str, object] | None
"""Hyperparameters of the base credit."""


def by_base(
    groups: Sequence[Group], name: str, options: Options, *, step: int, state: dict[str, Any], run: Processes | None
) -> list[list[Floats]]:
    """Compute the credit `name` and return, per group and episode, an array [output tokens of all turns, in order].

    The base credit's state is stored in `state["base"]`.

    Raises:
        BadConfig: the credit is unknown or has needs. A run computes only the needs of the outer credit.
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
    """Expand an array [turns] to [output tokens of all turns]; an array [output tokens] is returned unchanged."""
    lengths = [len(turn.output_ids) for turn in episode.turns]
    return np.repeat(array, lengths) if len(array) == len(lengths) else array


def of_turns(episode: Episode, name: str) -> Floats:
    """Return `turn.extra[name]` as an array [output tokens of all turns, in order]; nan for turns without it."""
    rows = [np.broadcast_to(t.extra.get(name, np.nan), len(t.output_ids)).astype(np.float64) for t in episode.turns]
    return np.concatenate(rows) if rows else np.zeros(0)
