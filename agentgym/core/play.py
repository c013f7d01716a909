"""The loop over an environment for programs without a model; for agents, see `rollout/play.py`."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, cast

from agentgym.core.env import TextEnv
from agentgym.core.outcome import Info

Choose = Callable[[str, Info], object]
"""Maps the last observation and info to an action."""


class Step(NamedTuple):
    """The return values of `TextEnv.step`, in the same order."""

    observation: str
    reward: float
    terminated: bool
    truncated: bool
    info: Info

    @property
    def over(self) -> bool:
        """True if this step ended the episode."""
        return self.terminated or self.truncated


def steps(env: TextEnv, actions: Iterable[object]) -> Iterator[Step]:
    """Take the actions one after the other until the episode ends, and yield each step's result.

    The next action is requested only after the caller has processed the previous result.
    """
    for action in actions:
        step = Step(*env.step(cast("str", action)))  # the checks of an environment say what is no text, too
        yield step
        if step.over:
            return


def play(env: TextEnv, choose: Choose, seen: tuple[str, Info], stop: object = None) -> Iterator[tuple[Any, Step]]:
    """Continue an episode from `seen`, its last (observation, info), and yield each action with its result.

    It stops when the episode ends or when `choose` returns `stop`.
    """
    responses: list[object] = []

    def chosen() -> Iterator[Any]:
        while (action := choose(*seen)) is not stop:
            responses.append(action)
            yield action

    for step in steps(env, chosen()):
        seen = step.observation, step.info
        yield responses.pop(), step


def episode_text(env: TextEnv, choose: Choose, seen: tuple[str, Info]) -> Iterator[str]:
    """Continue an episode from `seen`, its last (observation, info), and yield all observations and actions in order."""
    yield seen[0]
    for action, step in play(env, choose, seen):
        yield action
        yield step.observation
