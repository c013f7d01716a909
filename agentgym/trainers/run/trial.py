"""Trial of a user's stages: each is called once on made-up data before anything is loaded, so errors cost seconds."""

import inspect
import json
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from agentgym.core.actions import samples
from agentgym.core.outcome import Finish
from agentgym.core.tasks import Task
from agentgym.episodes.episode import Episode, Group, Turn
from agentgym.errors import BadConfig, Reason
from agentgym.trainers.seam import HasSeed, Stage

if TYPE_CHECKING:
    from agentgym.trainers.run.stages import FreshRun

T = TypeVar("T")


class NeedsStartedRun(Exception):
    """Raised if a stage asks for an attribute that only a started run has, so that the stage cannot be tried."""


@dataclass(frozen=True, slots=True)
class TrialRun:
    """The run that a stage gets in its trial: one process, with nothing loaded."""

    config: HasSeed
    rank: int = 0
    processes: int = 1

    def gather(self, items: list[T]) -> list[T]:
        """Return the items, since there is one process."""
        return items

    def share(self, items: Sequence[T]) -> list[T]:
        """Return all items, since there is one process."""
        return list(items)

    def __getattr__(self, name: str) -> Any:
        raise NeedsStartedRun(name)


Judge = Callable[[Stage, TrialRun, Group], object]
"""Calls a stage with a made-up run and group, and raises an error if the stage's result is wrong."""


def attempt(run: "FreshRun", stage: Stage, judge: Judge) -> None:
    """Let `judge` call a stage on a made-up group and check its result.

    Built-in stages are skipped, because they have tests; coroutines are skipped, because they wait for something
    outside and need the run's event loop. A stage that asks for a part of a started run is not tried, and with
    `try_stages=False` no stage is. The stage is called with its options and with a temporary state.

    Raises:
        BadConfig: the call failed; the message has the error and its line.
    """
    if not run.config.try_stages or not is_own(stage.target) or inspect.iscoroutinefunction(stage.target):
        return
    what, group = f"{stage.kind} {stage.name!r}", made_up(run)
    tried = replace(stage, options=dict(stage.options), state={})
    try:
        with np.errstate(all="ignore"):
            judge(tried, TrialRun(run.config), group)
    except NeedsStartedRun:
        return
    except Exception as error:
        problem = str(error) if isinstance(error, BadConfig) else f"{type(error).__name__}: {error}"
        if what not in problem:
            problem = f"{what}: {problem}"
        raise BadConfig(
            f"{problem}{_where(error, stage.target)}. It was called on two made-up episodes, before anything is loaded; to "
            "start without this call: --no-try-stages"
        ) from error


def is_own(target: object) -> bool:
    """Return True if a function or class belongs to the user, not to the package."""
    return not str(getattr(target, "__module__", "")).startswith("agentgym.")


def awaited(result: Any) -> bool:
    """Return True if a stage returned an awaitable; a coroutine is closed without running."""
    if inspect.iscoroutine(result):
        result.close()
    return hasattr(result, "__await__")


def _where(error: BaseException, target: Callable[..., object]) -> str:
    """Return the place in the user's file where an error occurred, as text, or an empty string."""
    try:
        file = inspect.getsourcefile(inspect.unwrap(target))
    except TypeError:
        return ""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f" ({file}, line {lines[-1]})" if lines else ""


def made_up(run: "FreshRun") -> Group:
    """Return a group of a failed episode with two turns and a successful one with three, with every field set."""
    spec, env = run.envs[0]
    plain: Any = env.unwrapped
    task = next(iter(env.up_to(1, spec.train_split or "train")), Task("Look around.", {}, "train/0/0", "train"))
    tool = next(iter(env.tools.values()), None)
    action = "look" if tool is None else json.dumps({"name": tool.name, "arguments": samples(tool)})
    ended = ((2, 0.0), (3, 1.0))
    episodes = [
        Episode(
            spec.id,
            task.id,
            f"1/{task.id}",
            seed=run.config.seed,
            attempt=number,
            turns=[_turn(place, action, plain.roles[0], reward * (place == turns - 1)) for place in range(turns)],
            instruction=task.instruction,
            split=task.split,
            labels={"env": spec.name, "difficulty": str(task.difficulty)},
            final_observation="The end.",
            final_state_key="end",
            reward=reward,
            final_rewards={plain.roles[0]: reward},
            success=reward > 0,
            reason=Reason.SUCCESS if reward else Reason.FAILURE,
            horizon=turns,
        )
        for number, (turns, reward) in enumerate(ended)
    ]
    if len(plain.roles) > 1:
        for episode in episodes:
            episode.role_success = {plain.roles[0]: episode.reward > 0}
            episode.role_outcomes = {plain.roles[0]: episode.reward}
    return Group(task.id, plain.roles[0], episodes)


def _turn(place: int, action: str, role: str, reward: float) -> Turn:
    """Return turn `place` with `place` + 2 output tokens; the prompt begins with the tokens of all earlier turns."""
    before = sum(range(2, 2 + place)) + 2 * place
    count = place + 2
    return Turn(
        f"You are at place {place}.",
        state_key=f"place {place}",
        prompt_ids=list(range(1, 3 + before)),
        output_ids=list(range(3 + before, 3 + before + count)),
        logprobs=[-0.5] * count,
        messages=[{"role": "user", "content": f"You are at place {place}."}],
        text=action,
        action=action,
        finish=Finish.STOP,
        reward=reward,
        rewards={"success": reward} if reward else {},
        role=role,
        seconds=0.01,
    )
