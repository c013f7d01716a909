"""The needs stage: values per turn that a run computes into `turn.extra` before it calls credit and loss."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from agentgym.core.env import TextEnv
from agentgym.episodes.episode import Episode, Group, Turn
from agentgym.errors import BadConfig
from agentgym.trainers.data.segments import Segment, build
from agentgym.trainers.data.trees import copy_extra
from agentgym.trainers.run import trial
from agentgym.trainers.seam import Processes, Seam, Stage, Target, Within, contained, options_of, shared_out

if TYPE_CHECKING:
    from agentgym.trainers.config.train_config import TrainConfig
    from agentgym.trainers.run.stages import FreshRun

Values = Mapping[str, Sequence[npt.NDArray[np.float32]]]
"""Values by need: for each row, an array [tokens]."""

SCORED = ("entropy", "logprobs", "values")
"""Needs that one forward pass of the trainer computes together."""
NEEDS = Seam(
    "needs",
    {
        **{name: f"agentgym.trainers.needs.interface:{name}" for name in SCORED},
        "probe": "agentgym.trainers.needs.probe:probe",
        "branches": "agentgym.trainers.needs.branches:branches",
        "turn_q": "agentgym.trainers.needs.turn_q:turn_q",
        "preference": "agentgym.trainers.needs.preference:preference",
        "log_ratio": "agentgym.trainers.needs.log_ratio:log_ratio",
        "prover": "agentgym.trainers.needs.prover:prover",
        "fork": "agentgym.trainers.needs.fork:fork",
        "entropy_mean": "agentgym.trainers.needs.entropy_mean:entropy_mean",
        "turn_entropy_mean": "agentgym.trainers.needs.entropy_mean:turn_entropy_mean",
        "teacher_logprobs": "agentgym.trainers.needs.teacher:teacher_logprobs",
    },
    {"check": None, "embeds": False, "asks": ""},
    noun="need",
)
Asks = Literal["", "critic", "distribution", "weights"]
Check = Callable[["TrainConfig", TextEnv, str], None]
"""Raises BadConfig if a need cannot be computed; arguments: a run's settings, an environment, the environment's name."""


class Scorer(Protocol):
    """A model that computes values of tokens under its current weights."""

    def score(self, rows: list[Segment]) -> Values:
        """Return values by need, as one array [tokens] per row."""
        ...


class Scoring(Processes, Protocol):
    """The parts of a run that a need may use: its processes and its learner."""

    @property
    def learner(self) -> Scorer:
        """The learner, which contains the policy being trained."""
        ...


def needs(name: str, check: Check | None = None, *, embeds: bool = False, asks: Asks = "") -> Callable[[Target], Target]:
    """Declare a need: a function `(groups, *, run, options)`, async or not, that sets `turn.extra[NAME]` in every turn.

    Every process calls it in every step with its own groups, even if it has none. It may return a mapping from names to
    numbers, which are summed over the processes and logged. It may take `step`, `state` and `run`. `check` is called
    with the run's settings, each environment and its name before anything is loaded. `embeds`: the function uses the
    learner's hidden states. `asks`: a requirement for the learner: a `critic` (made with the need's options), the whole
    `distribution` of a token, or the policy's `weights` in this process.
    """
    return NEEDS.declare(name, check=check, embeds=embeds, asks=asks)


def resolve_needs(names: Sequence[str], options: Mapping[str, object]) -> list[Stage]:
    """Return the needs `names`, each once, with their options; an option belongs to the need that has such a parameter.

    Raises:
        UnknownName: there is no such need.
        BadConfig: an option is unknown, invalid or without effect.
    """
    names = list(dict.fromkeys(names))
    bare = [NEEDS.looked_up(name) for name in names]
    if options and not bare:
        raise BadConfig(f"needs.{next(iter(options))} has no effect: neither the credit nor the loss needs anything")
    own = shared_out("needs", bare, options)
    return [NEEDS.resolve(name, own[stage.name]) for name, stage in zip(names, bare, strict=True)]


def check(run: "FreshRun") -> None:
    """Check that every need can be computed in all environments of a run.

    Raises:
        BadConfig: a need cannot be computed in an environment.
    """
    for stage in run.stages.needs:
        if stage.attributes["check"]:
            for spec, env in run.envs:
                stage.attributes["check"](run.config, env, spec.name)
        if run.config.steps:
            trial.attempt(run, stage, lambda stage, alone, group: _fill(group, stage, alone))


def tried(run: "FreshRun", group: Group) -> Group:
    """Return the made-up `group` after computing all needs of a run's credit and loss for it.

    Raises:
        NeedsStartedRun: a need can be computed only in a started run.
    """
    for stage in run.stages.needs:
        if stage.name in SCORED:
            for turn in (turn for episode in group for turn in episode.turns):
                turn.extra[stage.name] = np.full(len(turn.output_ids), -0.5, dtype=np.float32)
            continue
        if not trial.is_own(stage.target):
            raise trial.NeedsStartedRun(stage.name)
        try:
            _fill(group, replace(stage, state={}), trial.TrialRun(run.config))
        except Exception as error:  # the need's own trial reports it
            raise trial.NeedsStartedRun(stage.name) from error
    return group


def _fill(group: Group, stage: Stage, alone: trial.TrialRun) -> None:
    """Compute a need for a made-up group, and check that every turn gets its value.

    Raises:
        BadConfig: a turn has no value afterwards.
        NeedsStartedRun: the need is a coroutine.
    """
    if trial.awaited(stage([], run=alone, step=0)) or trial.awaited(stage([group], run=alone, step=0)):
        raise trial.NeedsStartedRun(stage.name)
    if any(stage.name not in turn.extra for episode in group for turn in episode.turns):
        raise BadConfig(f"needs {stage.name!r} put no turn.extra[{stage.name!r}] into some turns; expected it in every turn")


@needs("values", asks="critic")
def values(
    groups: Sequence[Group],
    *,
    run: Scoring,
    lr: Annotated[float, Within(0, 1)] = 0.02,
    policy_weight: Annotated[float, Within(0, 1000)] = 0.0,
    clip: Annotated[float, Within(0)] = 0.0,
    classes: Annotated[int, Within(0, 10_000)] = 0,
    low: float = -1.0,
    high: float = 2.0,
) -> None:
    """Predict the return from each output token on, with a head on the policy's hidden states: the critic.

    In every update the learner trains it on the `value_target` that the credit sets in `turn.extra`. `lr`:
    approximately the largest change of a value in one update. `policy_weight`: weight of the value loss in the policy's
    gradient; with 0, the head is trained on detached states. `clip`: maximum change of a value from its value before
    the update (PPO's clipped value loss); 0 means no limit. With `classes` above 0, the critic classifies the return
    into this many equal ranges from `low` to `high`, which have to cover all returns, and its value is the expected
    return (HL-Gauss; 51 is usual). The head and its optimizer are saved in checkpoints.
    """
    score([episode for group in groups for episode in group], ("values",), run.learner.score)


def critic_options(stage: Stage) -> dict[str, object]:
    """Return the options of the critic, including the defaults."""
    return {name: stage.option(name, None) for name in options_of(stage.target)}


@needs("entropy", asks="distribution")
def entropy(groups: Sequence[Group], *, run: Scoring) -> None:
    """Compute the entropy, in nats, of the distribution of each output token under the trainer's weights."""
    score([episode for group in groups for episode in group], ("entropy",), run.learner.score)


@needs("logprobs")
def logprobs(groups: Sequence[Group], *, run: Scoring) -> None:
    """Compute the log-probability of each output token under the trainer's weights."""
    score([episode for group in groups for episode in group], ("logprobs",), run.learner.score)


def score(episodes: Sequence[Episode], names: Sequence[str], scored: Callable[[list[Segment]], Values]) -> None:
    """Score the trained model calls (turns and their `notes`) and set an array [output tokens] per name in `call.extra`.

    `scored` maps rows to arrays by name, [tokens] per row. It is called even without rows, because all processes have
    to run the model's forward pass together.

    Raises:
        BadConfig: the learner does not compute one of the names.
    """
    rows = build(episodes)
    scores = scored(rows)
    if missing := [name for name in names if name not in scores]:
        raise BadConfig(f"the learner computes no {', '.join(missing)}: take learner 'local', or another credit and loss")
    place(episodes, rows, names, scores)


def place(episodes: Sequence[Episode], rows: Sequence[Segment], names: Sequence[str], values: Values) -> None:
    """Copy values of rows, [tokens] each, to `extra` of every trained model call, [output tokens] each."""
    calls: list[list[Turn]] = [[call for turn in episode.turns for call in turn.calls] for episode in episodes]
    for i, row in enumerate(rows):
        for number in np.unique(row.turns[row.mask]):
            for name in names:
                calls[row.episode][int(number)].extra[name] = values[name][i][row.turns == number]


def attach(episodes: Sequence[Episode], rows: Sequence[Segment], names: Sequence[str]) -> None:
    """Copy `extra` of model calls (one number, or one per output token) to `row.extra`, [tokens]; nan if missing."""
    calls: list[list[Turn]] = [[call for turn in episode.turns for call in turn.calls] for episode in episodes]
    for row in rows if names else ():
        row.extra = {name: np.full(len(row), np.nan, dtype=np.float32) for name in names}
        for number in np.unique(row.turns[row.turns >= 0]):
            for name in names:
                value = calls[row.episode][int(number)].extra.get(name)
                if value is not None:
                    row.extra[name][row.turns == number] = value


async def compute(groups: Sequence[Group], stages: Sequence[Stage], run: Scoring, step: int = 0) -> dict[str, float]:
    """Compute all needs and return the numbers to log, summed over all processes.

    Needs that one forward pass can compute together (`SCORED`) share that pass.
    """
    scored = [stage.name for stage in stages if stage.name in SCORED]
    if scored:
        score([episode for group in groups for episode in group], scored, run.learner.score)
        copy_extra(groups, scored)
    took: dict[str, float] = {}
    for stage in stages:
        if stage.name not in SCORED:
            own: Mapping[str, float] = await finished(stage(groups, run=run, step=step)) or {}
            for seconds in run.gather([dict(own)]):
                took = {**took, **{name: took.get(name, 0) + number for name, number in seconds.items()}}
    return took


async def finished(result: Any) -> Any:
    """Return `result`; if it is awaitable, await it and return its value."""
    if not hasattr(result, "__await__"):
        return result
    with contained(f"the coroutine {getattr(result, '__qualname__', result)!s:.100}"):
        return await result
