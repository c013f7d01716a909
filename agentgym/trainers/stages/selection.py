"""The selection stage: which groups of a step are trained on."""

from collections.abc import Callable, Sequence
from typing import Annotated

from agentgym.episodes.episode import Group
from agentgym.trainers.stages.seams import Seam, Target, Within

SELECTIONS = Seam(
    "select", {name: f"agentgym.trainers.stages.selection:{name}" for name in ("keep", "drop", "refill")}, noun="selection"
)


def select(name: str) -> Callable[[Target], Target]:
    """Declare a function `(groups, *, options) -> groups to train on`, async or not, and give it a short name.

    It sees the groups with at least two faultless episodes, of this process. Options that are called `rounds` and
    `oversample` are read by the loop too: how often fresh tasks are played in place of those that were left out, and how
    many times as many tasks as asked for are played at first. `step`, `state` and `run` are handed in.
    """
    return SELECTIONS.declare(name)


def uniform(group: Group) -> bool:
    """Return whether all episodes of a group were paid the same."""
    return len({episode.reward for episode in group}) == 1


@select("keep")
def keep(groups: Sequence[Group]) -> list[Group]:
    """All of them."""
    return list(groups)


@select("drop")
def drop(groups: Sequence[Group]) -> list[Group]:
    """Those whose returns differ: the others have no advantage to learn from (DAPO's dynamic sampling, arXiv 2503.14476)."""
    return [group for group in groups if not uniform(group)]


@select("refill")
def refill(groups: Sequence[Group], *, rounds: Annotated[int, Within(1, 10_000)] = 4) -> list[Group]:
    """Those whose returns differ, and fresh tasks in place of the others, for so many `rounds` at most."""
    return drop(groups)
