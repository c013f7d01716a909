"""The selection stage: which groups of a step are trained on."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, cast

import numpy as np

from agentgym.episodes.episode import Group
from agentgym.errors import BadConfig
from agentgym.trainers.run import requirements, trial
from agentgym.trainers.seam import Seam, Stage, Target, Within, required

if TYPE_CHECKING:
    from agentgym.trainers.run.stages import FreshRun

SELECTIONS = Seam(
    "select",
    {
        **{name: f"agentgym.trainers.selections.interface:{name}" for name in ("keep", "drop", "refill", "variance")},
        **{name: f"agentgym.trainers.selections.mixing:{name}" for name in ("replay", "demonstrations")},
        **{name: f"agentgym.trainers.selections.guidance:{name}" for name in ("guide", "ghpo", "agent_rlvr")},
        "dagger": "agentgym.trainers.selections.dagger:dagger",
        "self_imitation": "agentgym.trainers.selections.self_imitation:self_imitation",
        **{
            name: f"agentgym.trainers.selections.filters:{name}"
            for name in ("void_turns", "resample_on_correct", "accuracy")
        },
    },
    {"requires": (), "worth": False, "drops_equal": False},
    noun="selection",
)


def select(
    name: str, requires: Sequence[str] = (), *, worth: bool = False, drops_equal: bool = False
) -> Callable[[Target], Target]:
    """Declare a function `(groups, *, options) -> groups to train on`, async or not, and give it a short name.

    It sees the groups with at least two faultless episodes, of this process. Options that are called `rounds` and
    `oversample` are read by the loop too: how often fresh tasks are played in place of those that were left out, and how
    many times as many tasks as asked for are played at first. `step`, `state` and `run` are handed in. Of several
    processes all call it in every round, also without groups, and each has a `state` of its own, which the checkpoint holds.
    `requires`: `expert`, where it plays demonstrations, `repeats`, where it does something only with tasks that come
    again, `hint`, where it plays with hints (at most at the level of its option `level`), or `replays`, where it goes
    through episodes again; a run that has none is then refused before anything is loaded. `worth`: it puts in turns whose
    `turn.extra["worth"]` is their advantage, which only some credits read. `drops_equal`: it leaves out groups whose
    returns are all equal, from which some credits learn: the run is told so.
    """
    return SELECTIONS.declare(name, requires=required(requires), worth=worth, drops_equal=drops_equal)


def uniform(group: Group) -> bool:
    """Return whether all episodes of a group were paid the same."""
    return len({episode.reward for episode in group}) == 1


@select("keep")
def keep(groups: Sequence[Group]) -> list[Group]:
    """All of them."""
    return list(groups)


@select("drop", drops_equal=True)
def drop(groups: Sequence[Group]) -> list[Group]:
    """Those whose returns differ: the others have no advantage to learn from (DAPO's dynamic sampling, arXiv 2503.14476)."""
    return [group for group in groups if not uniform(group)]


@select("refill", drops_equal=True)
def refill(groups: Sequence[Group], *, rounds: Annotated[int, Within(1, 10_000)] = 4) -> list[Group]:
    """Those whose returns differ, and fresh tasks in place of the others, for so many `rounds` at most."""
    return drop(groups)


@select("variance")
def variance(
    groups: Sequence[Group],
    *,
    share: Annotated[float, Within(0, 1)] = 0.5,
    oversample: Annotated[float, Within(1, 1000)] = 2.0,
) -> list[Group]:
    """The `share` of the groups whose rewards vary most, of `oversample` times as many as a step asks for.

    Of a binary reward the variance is p(1 - p), the measure of what can be learned of arXiv 2502.12272. Groups whose rewards
    are all equal are never among them; of several processes each chooses from its own.
    """
    spread = [float(np.var([episode.reward for episode in group])) for group in groups]
    best = sorted(range(len(groups)), key=lambda place: -spread[place])[: math.ceil(share * len(groups))]
    return [groups[place] for place in sorted(best) if not uniform(groups[place])]


def check(run: "FreshRun") -> None:
    """Raise BadConfig where a run lacks what its selection requires, or one of the user's own fails on made-up groups."""
    requirements.check(run.stages.selection, run)
    if run.config.steps:
        trial.attempt(run, run.stages.selection, _try)


def _try(stage: Stage, alone: trial.TrialRun, group: Group) -> None:
    """Select from a group and from none; BadConfig for what is no list of groups."""
    for some in ([], [group]):
        selected = stage(some, run=alone, step=0)
        if trial.awaited(selected):
            return
        if not isinstance(selected, list) or not all(isinstance(one, Group) for one in cast("list[object]", selected)):
            raise BadConfig(f"select {stage.name!r} returned {selected!r:.80}; expected a list of groups")
