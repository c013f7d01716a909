"""Hints for training episodes: by default the first part of a solution."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentgym.errors import BadConfig, Fault

if TYPE_CHECKING:
    from agentgym.core.env import TextEnv


@dataclass(frozen=True, slots=True)
class Hint:
    """Text that a training episode gets in addition to its prompt; evaluations have no hints."""

    level: float = 1.0
    """Share of a solution, from 0 to 1, to request from the environment; 0 requests nothing."""
    text: str = ""
    """Text to add after the environment's hint; in a stored episode, the complete hint."""
    in_training: bool = False
    """True if training rows contain the hint. False: rows contain the prompt without it, and the importance ratio
    compares with the log-probabilities that were sampled with it."""

    def __post_init__(self) -> None:
        if isinstance(self.level, bool) or not isinstance(self.level, int | float) or not 0 <= self.level <= 1:  # pyright: ignore[reportUnnecessaryIsInstance]  # files come from strangers
            raise BadConfig(f"level of a hint is {self.level!r}; expected a share from 0 to 1")
        if not isinstance(self.text, str) or not isinstance(self.in_training, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BadConfig(
                f"a hint has text {self.text!r:.80} and in_training {self.in_training!r}; expected text, and True or False"
            )
        if not self.level and not self.text:
            raise BadConfig("a hint of level 0 without text says nothing: give a level above 0, a text, or no hint")


def stored_hint(raw: Mapping[str, Any] | None) -> Hint | None:
    """Return the hint of a stored draw or episode, or None; before 2026-11-28, files said `kept` for `in_training`."""
    return None if raw is None else Hint(**{"in_training" if name == "kept" else name: value for name, value in raw.items()})


def solution(env: "TextEnv") -> list[str]:
    """Return the oracle's actions from the current state, or else the expert's; the episode does not change.

    Raises:
        NotImplementedError: neither of them knows a solution.
        Fault: a step failed while the solution was played.
    """
    try:
        return _played(env, "oracle")
    except NotImplementedError:
        return _played(env, "expert")


def _played(env: "TextEnv", policy: str) -> list[str]:
    state, actions, reason = env.snapshot(), list[str](), None
    try:
        while reason is None and (action := next(iter(getattr(env, policy)()), None)) is not None:
            info = env.step(action)[4]
            reason = info["reason"]
            if reason is not None and info["success"] is None:
                raise Fault(f"a step failed while the {policy} played for a hint: {info['error']}", reason=reason)
            actions.append(action)
    finally:
        env.restore(state)
    if reason == "success" or (
        policy == "oracle" and reason == "horizon"
    ):  # the beginning of a solution is all that it takes
        return actions
    raise NotImplementedError(f"the {policy} of {type(env.unwrapped).__name__} does not solve task {env.task.id!r}")


def first_share(actions: Sequence[str], level: float) -> str:
    """Return text with a share `level` of a solution, rounded down: its first actions, or first words of a single action."""
    if len(actions) == 1:
        words: list[str] = re.findall(r"\s*\S+", actions[0])
        prefix = "".join(words[: _part(level, len(words))])
        return f"A solution begins with:\n{prefix}" if prefix else ""
    number = _part(level, len(actions))
    steps = "\n".join(actions[:number])
    return f"The first {number} of the {len(actions)} actions of a solution:\n{steps}" if number else ""


def guidance(steps: Sequence[str], level: float, solution: Callable[[], str], answers: Iterable[str] = ()) -> str:
    """Return the first share `level` of the steps towards a solution, rounded up; at level 1, all steps and the solution.

    Below level 1, a step that contains one of the `answers` as a whole word is skipped. If all are skipped, the first
    step is returned with the answers replaced by dots.
    """
    if level >= 1:
        return "\n".join([*steps, solution()])
    patterns = [re.compile(rf"(?<!\w){re.escape(answer)}(?!\w)") for answer in answers if answer.strip()]
    first = steps[: math.ceil(level * len(steps) - 1e-9)]
    safe = [step for step in first if not any(pattern.search(step) for pattern in patterns)]
    if safe or not first:
        return "\n".join(safe)
    masked = first[0]
    for pattern in patterns:
        masked = pattern.sub("...", masked)
    return masked


def _part(level: float, whole: int) -> int:
    return math.floor(level * whole + 1e-9)


def hint_text(env: "TextEnv", level: float) -> str:
    """Return an environment's hint at a level; empty at level 0, or if no solution of the task is known.

    Raises:
        TypeError: the environment's `hint` returned something other than text.
    """
    if not level:
        return ""
    try:
        text: Any = env.hint(level)
    except NotImplementedError:
        return ""
    if not isinstance(text, str):
        raise TypeError(f"hint of {type(env.unwrapped).__name__} returned {text!r:.60}; expected text")
    return text
