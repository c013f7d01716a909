"""The selection stage: it chooses which groups of a step are trained on."""

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
        "memorize": "agentgym.trainers.selections.memorize:memorize",
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

    It gets this process's groups with at least two faultless episodes. It may take `step`, `state` and `run`, which are
    not options. Every process calls it in every round, even without groups, and each has its own `state`, which
    checkpoints save. The loop also reads two options of the function: `rounds`, the maximum number of rounds of a step
    (after the first, fresh tasks replace rejected groups), and `oversample`, the factor on the number of tasks in the
    first round.

    `requires` lists requirements, and a run that does not meet them is refused before anything is loaded: `expert` if
    it plays demonstrations, `repeats` if it has an effect only when tasks repeat, `hint` if it plays with hints (at
    most at the level of its option `level`), `replays` if it replays episodes. `worth`: it adds turns whose
    `turn.extra["worth"]` is their advantage, which only some credits read. `drops_equal`: it drops groups with equal
    returns, from which some credits learn; a run with such a credit warns.
    """
    return SELECTIONS.declare(name, requires=required(requires), worth=worth, drops_equal=drops_equal)


def uniform(group: Group) -> bool:
    """Return True if all episodes of a group have the same reward."""
    return len({episode.reward for episode in group}) == 1


@select("keep")
def keep(groups: Sequence[Group]) -> list[Group]:
    """Select all groups."""
    return list(groups)


@select("drop", drops_equal=True)
def drop(groups: Sequence[Group]) -> list[Group]:
    """Select groups whose returns differ; others have no advantage (DAPO's dynamic sampling, arXiv 2503.14476)."""
    return [group for group in groups if not uniform(group)]


@select("refill", drops_equal=True)
def refill(groups: Sequence[Group], *, rounds: Annotated[int, Within(1, 10_000)] = 4) -> list[Group]:
    """Select groups whose returns differ, and play fresh tasks for the others; a step has at most `rounds` rounds in all."""
    return drop(groups)


@select("variance")
def variance(
    groups: Sequence[Group],
    *,
    share: Annotated[float, Within(0, 1)] = 0.5,
    oversample: Annotated[float, Within(1, 1000)] = 2.0,
) -> list[Group]:
    """Select the `share` of groups whose rewards vary most, out of `oversample` times the step's number of groups.

    The variance of a binary reward is p(1 - p), the measure of learnability of arXiv 2502.12272. Groups with equal
    rewards are never selected. Every process selects from its own groups.
    """
    spread = [float(np.var([episode.reward for episode in group])) for group in groups]
    best = sorted(range(len(groups)), key=lambda place: -spread[place])[: math.ceil(share * len(groups))]
    return [groups[place] for place in sorted(best) if not uniform(groups[place])]


def check(run: "FreshRun") -> None:
    """Check that a run meets its selection's requirements, and that a user-defined selection works on made-up groups.

    Raises:
        BadConfig: a requirement is not met, or the selection fails.
    """
    requirements.check(run.stages.selection, run)
    if run.config.steps:
        trial.attempt(run, run.stages.selection, _try)


def _try(stage: Stage, alone: trial.TrialRun, group: Group) -> None:
    """Call the selection with one group and with an empty list.

    Raises:
        BadConfig: the selection does not return a list of groups.
    """
    for candidates in ([], [group]):
        selected = stage(candidates, run=alone, step=0)
        if trial.awaited(selected):
            return
        if not isinstance(selected, list) or not all(isinstance(one, Group) for one in cast("list[object]", selected)):
            raise BadConfig(f"select {stage.name!r} returned {selected!r:.80}; expected a list of groups")
