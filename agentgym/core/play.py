"""The one loop over an environment for programs that need no model; with agents, `rollout/play.py` plays."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, cast

from agentgym.core.env import TextEnv
from agentgym.core.outcome import Info

Choose = Callable[[str, Info], object]
"""From the last observation and info to an action."""


class Step(NamedTuple):
    """Values of `step`, in its order."""

    observation: str
    reward: float
    terminated: bool
    truncated: bool
    info: Info

    @property
    def over(self) -> bool:
        """True if the episode ended with it."""
        return self.terminated or self.truncated


def steps(env: TextEnv, actions: Iterable[object]) -> Iterator[Step]:
    """Take the actions one by one until the episode ends, and yield each result.

    The next action is requested only after the caller has processed the previous result.
    """
    for action in actions:
        step = Step(*env.step(cast("str", action)))  # the checks of an environment say what is no text, too
        yield step
        if step.over:
            return


def play(env: TextEnv, choose: Choose, seen: tuple[str, Info], stop: object = None) -> Iterator[tuple[Any, Step]]:
    """Continue from `seen` (observation and info), and yield each action with its result.

    It stops at the end of the episode, or when `choose` returns `stop`.
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
    """Continue an episode from `seen` and yield its text: the observation, then each action and its observation."""
    yield seen[0]
    for action, step in play(env, choose, seen):
        yield action
        yield step.observation
