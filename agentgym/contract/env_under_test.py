"""The environment under test: creation, tasks, and episodes of random actions."""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import getattr_static
from typing import Self, cast

import numpy as np

from agentgym.contract.causes import message_and_cause
from agentgym.contract.report import Broken, NotChecked
from agentgym.core.actions import Tool, spell
from agentgym.core.env import TextEnv
from agentgym.core.outcome import Info
from agentgym.core.play import play
from agentgym.core.seeding import generator
from agentgym.core.tasks import Task
from agentgym.core.transcripts import ENDLESS
from agentgym.errors import BadConfig

NEVER = object()
"""Sentinel that no action equals, so that an episode does not stop early."""
Breaks = Callable[[Sequence[object]], str | None]


@dataclass
class EnvUnderTest:
    """An environment to check, and the budget of each check."""

    id: str
    kind: type[TextEnv]
    options: dict[str, object]
    count: int = 4
    """Number of tasks that a check uses."""
    steps: int = 25
    """Maximum turns of one episode."""
    plays: int = 30
    """Number of episodes from which a success rate is computed."""
    seed: int = 0
    """Seed that selects the tasks: 0 selects the fixed evaluation list, any other number draws random tasks."""

    def make(self, **options: object) -> TextEnv:
        """Return a new environment without wrappers."""
        kind = cast("Callable[..., TextEnv]", self.kind)  # only the class knows its options
        return kind(**{**self.options, **options})

    def at(self, difficulty: int) -> Self:
        """Return the same environment at another difficulty."""
        return replace(self, options={**self.options, "difficulty": difficulty})

    def repeatable(self) -> None:
        """Skip the check if the environment declares that it cannot be repeated.

        Raises:
            NotChecked: the environment is nondeterministic.
        """
        if self.env.declared.nondeterministic:
            raise NotChecked(f"the environment declares itself non-deterministic: {self.env.declared.nondeterministic}")

    @cached_property
    def env(self) -> TextEnv:
        """An environment shared by the checks, each of which resets it first."""
        return self.make()

    @cached_property
    def tasks(self) -> list[Task]:
        """The `count` tasks that checks use; fewer if the split has fewer."""
        return self._tasks(self.count)

    @cached_property
    def many(self) -> list[Task]:
        """The `plays` tasks from which a success rate is computed; fewer if the split has fewer."""
        return self._tasks(self.plays)

    @cached_property
    def levels(self) -> Sequence["EnvUnderTest"]:
        """This environment, and the same one at the other difficulties from 0 to 3 that have separate tasks.

        The others have a third of the plays. Only this environment is listed if the caller set a difficulty, a horizon
        or a preset, or if the budget is one task.
        """
        if self.count == 1 or {"difficulty", "horizon", "preset"} & set(self.options):
            return [self]
        parents = [self]
        for difficulty in range(4):
            other = replace(self.at(difficulty), plays=max(self.count, self.plays // 3))
            try:
                if difficulty != self.env.difficulty and other.tasks != self.tasks:
                    parents.append(other)
            except BadConfig:  # no tasks of this difficulty
                continue
        return parents

    def _tasks(self, n: int) -> list[Task]:
        if self.seed:
            return self.drawn(self.env, n)
        while n > 1:
            try:
                return self.env.tasks(n)
            except BadConfig:
                n //= 2
        return self.env.tasks(1)

    def drawn(self, env: TextEnv, n: int) -> list[Task]:
        """Return `n` distinct tasks of the environment's split, drawn with `seed`; fewer if 20 * `n` draws find fewer."""
        rng, tasks = generator("check", self.seed), dict[str, Task]()
        for _ in range(20 * n):
            task = env.draw(rng)
            tasks.setdefault(repr((task.instruction, sorted(task.data.items()))), task)
            if len(tasks) == n:
                break
        return list(tasks.values())

    def wander(self, task: Task, seed: int, steps: int | None = None, variant: int = 0) -> list[object]:
        """Play a random mix of valid, expert and nonsense actions, and return the actions.

        `steps` is the maximum number of turns (None: the budget's); another `variant` gives other actions.
        """
        env, rng = self.env, generator("wander", task.id, seed, variant)
        seen = env.reset(seed=seed, options={"task": task, "horizon": ENDLESS})
        turns = play(env, lambda observation, info: any_action(env, observation, info, rng), seen, stop=NEVER)
        return [action for action, _ in itertools.islice(turns, steps or self.steps)]

    def hold(self, task: Task, seed: int, actions: Sequence[object], breaks: Breaks) -> None:
        """Check that `breaks` finds no defect in a sequence of actions.

        Raises:
            Broken: `breaks` finds a defect; the error has the shortest sequence of actions found by deletion.
        """
        text = cause = ""  # of the last failure, which is the shortest sequence's

        def fails(sequence: Sequence[object]) -> bool:
            nonlocal text, cause
            try:
                found, source = breaks(sequence), ""
            except Exception as error:  # an exception of the environment under test is what we look for
                found, source = message_and_cause(error, self.kind)
            if found is not None:
                text, cause = found, source
            return found is not None

        if fails(actions):
            shortest = shrink(list(actions), fails)
            raise Broken(text, task=task.id, seed=seed, actions=shortest, cause=cause)


def difference(a: Sequence[str], b: Sequence[str]) -> str | None:
    """Return a description of the first difference between two lists of responses; None if they are equal."""
    for turn, (left, right) in enumerate(zip(a, b, strict=False)):
        if left != right:
            at = next((i for i, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1]), 0)
            return f"turn {turn}: …{left[max(at - 20, 0) : at + 40]}… against …{right[max(at - 20, 0) : at + 40]}…"
    return None if len(a) == len(b) else f"{len(a) - 1} turns against {len(b) - 1}"


def shrink(actions: list[object], fails: Callable[[list[object]], bool], tries: int = 400) -> list[object]:
    """Return a shorter sequence that still fails, by up to `tries` deletions of ever smaller pieces (Zeller 2002, ddmin)."""
    size = max(len(actions) // 2, 1)
    while actions and tries > 0:
        smaller = False
        for start in reversed(range(0, len(actions), size)):
            tries -= 1
            candidate = actions[:start] + actions[start + size :]
            if tries >= 0 and fails(candidate):
                actions, smaller = candidate, True
        if not smaller and size == 1:
            break
        size = max(size // 2, 1) if not smaller or size > 1 else 1
    return actions


HOSTILE: tuple[object, ...] = (
    "", " ", "\n", "x" * 1_000_000, "\ud800", "a\udfffb", "\x00\x1b[2J\x07", "\u202eabc\u2066", "\U0001d518\U0001f600",
    "{", "[]", "null", '{"name": 3}', '{"name": "nothing", "arguments": []}', '{"name": null, "name": {}}',
    "[" * 5000, '{"a":' * 5000, '{"a":' * 5000 + "1" + "}" * 5000, "<a></b>", "answer[", "]", "()[]", "<|im_end|>",
    "9" * 5000, "-1", "1e999", "NaN", "%s%n{0}{__class__}", "../../etc/passwd", "'; DROP TABLE tasks; --", "None",
    None, 3, b"bytes", ["list"],
)  # fmt: skip
"""Actions that must not crash an environment: bad Unicode, deep nesting, huge numbers, malformed calls, and non-text."""


def hostile_calls(tool: Tool) -> list[str]:
    """Return calls of a tool that are invalid, or valid with extreme values."""
    name = tool.name
    values: tuple[object, ...] = (None, True, -(10**400), 1e308, float("nan"), [], {}, "", "x" * 50_000, "\x00", "\ud83d")
    calls = [json.dumps({"name": name, "arguments": dict.fromkeys(tool.properties, value)}) for value in values]
    odd = [
        f"{name}[",
        f"{name}[]",
        f"{name}[[]]",
        f"<{name}></{name}>",
        f"<{name}>{'x' * 50_000}</{name}>",
        f"{name}[\ud800]",
    ]
    return [*calls, *odd, json.dumps({"name": name, "arguments": {"no_such": 1}}), json.dumps({"name": name}), name]


def any_action(env: TextEnv, observation: str, info: Info, rng: np.random.Generator) -> object:
    """Return an action of any kind: usually a valid one, sometimes the expert's or oracle's, sometimes nonsense."""
    kind = rng.random()
    if kind < 0.1:
        return HOSTILE[int(rng.integers(len(HOSTILE)))]
    if kind < 0.3:
        solution = first(env.expert if kind < 0.2 else env.oracle)
        if solution is not None:
            return solution
    return random_action(env, observation, info, rng)


def random_action(env: TextEnv, observation: str, info: Info, rng: np.random.Generator) -> str:
    """Return a random admissible action, else a random tool call, else random digits or words of the observation."""
    if info["admissible"]:
        return pick(info["admissible"], rng)
    words = observation.split() or ["word"]
    if env.tools:
        tool = env.tools[pick(list(env.tools), rng)]
        return call(tool, {name: argument(schema, words, rng) for name, schema in tool.properties.items()})
    most: int = 10 ** int(rng.integers(1, 4))
    digits = str(rng.integers(0, most))
    return digits if rng.random() < 0.5 else " ".join(pick(words, rng) for _ in range(int(rng.integers(1, 4))))


def pick(words: Sequence[str], rng: np.random.Generator) -> str:
    """Return a random word."""
    return words[int(rng.integers(len(words)))]


def argument(schema: Mapping[str, object], words: Sequence[str], rng: np.random.Generator) -> object:
    """Return a random value for a parameter's JSON Schema: one of `enum`, a number, a boolean, or one to three `words`."""
    if "enum" in schema:
        values = cast("list[object]", schema["enum"])
        return values[int(rng.integers(len(values)))]
    number = int(rng.integers(0, 20))
    by_type: dict[object, object] = {"integer": number, "number": number / 2, "boolean": bool(number % 2)}
    return by_type.get(schema.get("type"), " ".join(pick(words, rng) for _ in range(1 + number % 3)))


def call(tool: Tool, arguments: Mapping[str, object]) -> str:
    """Return a tool call: in brackets if that form can express the arguments, else as JSON."""
    if not tool.required and not arguments:
        return spell(tool.name)
    if tool.required == list(arguments) and len(arguments) == 1 and isinstance(next(iter(arguments.values())), str):
        return spell(tool.name, *arguments.values())
    return json.dumps({"name": tool.name, "arguments": arguments})


def first(source: Callable[[], Iterator[str]]) -> str | None:
    """Return the next action of the oracle or expert; None if there is no such policy or it yields nothing."""
    try:
        return next(iter(source()), None)
    except NotImplementedError:
        return None


def has(env: TextEnv, name: str) -> bool:
    """Return True if the environment overrides the method `name`: `oracle` or `expert`."""
    return getattr_static(TextEnv, name) is not getattr_static(type(env), name)
