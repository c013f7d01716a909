"""Agents without a language model: oracle, expert, random, and a person at the terminal."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Self, cast

import numpy as np

from agentgym.agents.base import RemoteStepping, consult
from agentgym.core.actions import Tool, spell
from agentgym.core.env import Task, TextEnv
from agentgym.core.outcome import Finish
from agentgym.core.screen import printable
from agentgym.core.seeding import generator
from agentgym.engines import Sampling
from agentgym.episodes.episode import Turn
from agentgym.errors import BadConfig

Choose = Callable[[TextEnv, Mapping[str, object], np.random.Generator], str]
_WORDS = ("help", "yes", "no", "1", "2", "look", "a", "")


@dataclass(frozen=True, slots=True)
class Noise:
    """Mistakes in an expert's episodes, so that a learner sees how to recover; numbers are probabilities per turn."""

    random: float = 0.0
    """A random admissible command; if commands are not a finite list, a mistake that the environment defines."""
    invalid: float = 0.0
    """An action that is not admissible: parts of two commands joined, or a tool call without its last character."""
    forget: float = 0.0
    """The expert skips its next step, if the step after that is admissible; at most once per episode."""
    masked: tuple[str, ...] = ("invalid",)
    """Kinds of mistakes whose turns have `extra["train"] = False`."""

    def __post_init__(self) -> None:
        for name in ("random", "invalid", "forget"):
            if not 0 <= getattr(self, name) <= 1:
                raise BadConfig(f"noise {name} is {getattr(self, name)}; expected a probability from 0 to 1")
        if self.random + self.invalid + self.forget > 1:
            raise BadConfig("the noise probabilities sum to more than 1")
        for name in self.masked:
            if name not in ("random", "invalid", "forget"):
                raise BadConfig(f"noise masks {name!r}; expected random, invalid or forget")


@dataclass(slots=True)
class Choice:
    """An action, and the kind of mistake that it is, or None."""

    action: str
    mistake: str | None = None


def silent(observation: str) -> Turn:
    """Return the turn of a policy without a next action, which ends the episode as a failure."""
    return Turn(observation, parsed=False, finish=Finish.SILENT)


class ScriptedPolicy:
    """Base of policies without a language model. Unless a subclass has state, the policy is its own conversation."""

    engine = None
    sampling = Sampling()
    plays: str = ""
    """Name of the environment's method that yields the actions; empty if the policy has no such method."""

    def begin(self, task: Task, tools: Mapping[str, Tool]) -> Self:
        """Start an episode."""
        return self

    async def take(
        self, observation: str, info: Mapping[str, object], *, env: TextEnv | RemoteStepping, seed: int, session: str
    ) -> Turn:
        """Answer an observation; see `Conversation.take`."""
        action = await consult(env, self.choose, info, generator("player", seed))
        return silent(observation) if action is None else Turn(observation, text=action, action=action)

    def choose(self, env: TextEnv, info: Mapping[str, object], rng: np.random.Generator) -> str | None:
        """Return the next action, or None to end the episode."""
        raise NotImplementedError

    def fork(self) -> Self:
        """Return an independent copy."""
        return self


class OracleAgent(ScriptedPolicy):
    """Executes the environment's own solution, computed again at every turn; the solution may use hidden information."""

    plays = "oracle"

    def choose(self, env: TextEnv, info: Mapping[str, object], rng: np.random.Generator) -> str | None:
        """Return the next action of a correct solution, or None if the environment has none."""
        return _next_of_oracle(env)


class RandomAgent(ScriptedPolicy):
    """Executes a random admissible command; if commands are not a finite list, a random tool call or a random word."""

    def choose(self, env: TextEnv, info: Mapping[str, object], rng: np.random.Generator) -> str:
        """Return a random action."""
        commands = cast("list[str] | None", info["admissible"])
        if commands:
            return commands[int(rng.integers(len(commands)))]
        if not env.tools:
            return _WORDS[int(rng.integers(len(_WORDS)))]
        tools = list(env.tools.values())
        tool = tools[int(rng.integers(len(tools)))]
        return spell(tool.name, _random_argument(tool, env, rng)) if tool.required else spell(tool.name)


class ExpertAgent(ScriptedPolicy):
    """Executes the actions of the environment's expert, which knows only past observations; optionally with mistakes."""

    plays = "expert"

    def __init__(self, noise: Noise | None = None) -> None:
        self.noise = noise or Noise()

    def begin(self, task: Task, tools: Mapping[str, Tool]) -> "ExpertConversation":  # pyright: ignore[reportIncompatibleMethodOverride]
        """Start an episode."""
        return ExpertConversation(self.noise)


@dataclass(slots=True)
class ExpertConversation:
    """One episode of an expert; its only state is `forgot`, True once a step was skipped."""

    noise: Noise
    forgot: bool = False

    async def take(
        self, observation: str, info: Mapping[str, object], *, env: TextEnv | RemoteStepping, seed: int, session: str
    ) -> Turn:
        """Answer an observation; the turn's `extra` has the kind of mistake, and whether to train on the turn."""
        choice = await self.choose(env, info, seed)
        if choice is None:
            return silent(observation)
        return Turn(observation, text=choice.action, action=choice.action, extra=self.extra(choice))

    def extra(self, choice: Choice) -> dict[str, object]:
        """Return `extra` for a turn: `train`, and `mistake` if the action is one."""
        if choice.mistake is None:
            return {"train": True}
        return {"train": choice.mistake not in self.noise.masked, "mistake": choice.mistake}

    async def choose(self, env: TextEnv | RemoteStepping, info: Mapping[str, object], seed: int) -> Choice | None:
        """Return the next action; None if the expert has none."""
        choice = await consult(env, expert_choice, info["admissible"] or [], self.noise, seed, self.forgot)
        self.forgot = self.forgot or (choice is not None and choice.mistake == "forget")
        return choice

    def fork(self) -> "ExpertConversation":
        """Return an independent copy."""
        return replace(self)


def expert_choice(env: TextEnv, commands: list[str], noise: Noise, seed: int, forgot: bool) -> Choice | None:
    """Return the expert's next action, or a mistake in its place; None if the expert has no action.

    This is a pure function of the environment's state and the arguments, so the environment's process can compute it.
    `commands` are the admissible commands (empty if they are not a finite list). `forgot` is True if a step was skipped
    before.
    """
    action = next(iter(env.expert()), None)
    if action is None or not (noise.random or noise.invalid or noise.forget):
        return None if action is None else Choice(action)
    rng = generator("noise", seed)
    draw = float(rng.random())
    if draw < noise.random:
        other = commands[int(rng.integers(len(commands)))] if commands else env.mistake(rng)
        if other is not None:
            return Choice(other, None if other == action else "random")
    elif draw < noise.random + noise.invalid:
        wrong = action[:-1] if env.tools else scramble(commands or [action], rng)  # a call without its end is none
        return Choice(wrong, "invalid")
    elif draw < noise.random + noise.invalid + noise.forget and commands and not forgot:
        later = _step_after(env, action)
        if later is not None and later != action and later in commands:
            return Choice(later, "forget")
    return Choice(action)


def _next_of_oracle(env: TextEnv) -> str | None:
    return next(iter(env.oracle()), None)


def _step_after(env: TextEnv, action: str) -> str | None:
    """Return the expert's action after `action`, leaving the environment unchanged; None if the episode would end."""
    state = env.snapshot()
    try:
        _, _, terminated, truncated, _ = env.step(action)
        return None if terminated or truncated else next(iter(env.expert()), None)
    finally:
        env.restore(state)


def scramble(commands: list[str], rng: np.random.Generator) -> str:
    """Return a text that resembles a command but is not admissible: the head of one command and the tail of another.

    If each of eight attempts gives an admissible command, the result is the first command with " what" added.
    """
    for _ in range(8):
        first, second = (commands[int(i)].split() for i in rng.integers(len(commands), size=2))
        head = first[: 1 + int(rng.integers(len(first)))] if first else []
        tail = second[int(rng.integers(len(second))) :] if second else []
        mixed = " ".join(head + tail)
        if mixed and mixed not in commands:
            return mixed
    return commands[0] + " what"


def _random_argument(tool: Tool, env: TextEnv, rng: np.random.Generator) -> str:
    """Return a random value for a tool's first required parameter: words of the last observation, a number or a boolean."""
    kind = tool.kind(tool.required[0])
    if kind in ("integer", "number"):
        return str(int(rng.integers(10)))
    if kind == "boolean":
        return ("true", "false")[int(rng.integers(2))]
    words = env.observation.split() or ["nothing"]
    start = int(rng.integers(len(words)))
    return " ".join(words[start : start + 1 + int(rng.integers(4))])


class HumanAgent(ScriptedPolicy):
    """A person who types actions at the terminal. `?` lists the admissible commands; `!` lets the oracle play the rest.

    Observations are printed without control characters, so that they cannot control the terminal.
    """

    def __init__(self, read: Callable[[str], str] = input, write: Callable[[str], object] = print) -> None:
        self._read, self._write = read, write
        self._oracle = False

    def begin(self, task: Task, tools: Mapping[str, Tool]) -> "HumanAgent":  # pyright: ignore[reportIncompatibleMethodOverride]
        """Start an episode."""
        return HumanAgent(self._read, self._write)

    async def take(
        self, observation: str, info: Mapping[str, object], *, env: TextEnv | RemoteStepping, seed: int, session: str
    ) -> Turn:
        """Show the observation and wait for a line. Raises EOFError if the input ends."""
        self._write(printable(observation))
        if not self._oracle:
            action = await asyncio.to_thread(self._ask, info)
        if self._oracle:
            action = await consult(env, _next_of_oracle)
            if action is None:
                self._write("the oracle knows no way from here")
                return silent(observation)
            self._write(f"> {printable(action)}")
        return Turn(observation, text=action, action=action)  # pyright: ignore[reportPossiblyUnboundVariable]

    def _ask(self, info: Mapping[str, object]) -> str:
        while True:
            line = self._read("> ").strip()
            if line == "?":
                commands = cast("list[str] | None", info["admissible"])
                self._write("anything may be typed here" if commands is None else "\n".join(map(printable, commands)))
            elif line == "!":
                self._oracle = True
                return ""
            elif line:
                return line

    def fork(self) -> "HumanAgent":
        """Return an independent copy."""
        other = HumanAgent(self._read, self._write)
        other._oracle = self._oracle
        return other
