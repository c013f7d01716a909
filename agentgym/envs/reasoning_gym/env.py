"""The environment: a question of `reasoning-gym`, and one answer, judged by the package's own scorer."""

import importlib.util
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from agentgym.core.actions import spell, tool
from agentgym.core.attempts import Attempts
from agentgym.core.declared import Declarations
from agentgym.core.env import Outcome, Task
from agentgym.envs.reasoning_gym.gates import UNANSWERED, passes
from agentgym.errors import BadConfig, Fault, MissingExtra, Reason, UnknownName, how_to_install, no_such
from agentgym.rewards.bounded import Reply, call

LONGEST = 60_000  # maximum characters of an answer
GENERATE, SCORE = 30.0, 10.0  # time limits in seconds
_PACKAGE = "agentgym.envs.reasoning_gym.package"
_NEAR = {"polynomial_equations": 1e-3, "complex_arithmetic": 1e-6}
"""Largest distance from score 1 that still counts as right, for tasks that score decimals by distance; else 1e-9."""


class ReasoningGym(Attempts):
    """Answer a question from the `reasoning-gym` package.

    The package generates and scores the questions; ids and splits are agentgym's. `dataset` names one or more of the
    package's tasks; empty: a mixture of all. Difficulty is the level of the task's curriculum, up to its highest level. With
    a single `dataset`, `config` sets the generator's options instead.

    Reward: 1 if the package scores an answer 1, else 0. Its partial scores are the measure `score`.

    Ceilings: some tasks ask for yes or no, or for a small number, so a constant answer is occasionally right.
    """

    horizon = 8
    blocking = True
    task_settings: ClassVar[tuple[str, ...]] = ("dataset",)
    caller_settings: ClassVar[tuple[str, ...]] = ("config",)
    settings: ClassVar[tuple[str, ...]] = (*Attempts.settings, *caller_settings, *task_settings)
    dataset: str | Sequence[str] = ()
    """Name or names of reasoning-gym's tasks; empty: all that are neither refused nor without an answer."""
    config: Mapping[str, object] = MappingProxyType({})
    """Options of the task's generator, replacing the difficulty's; requires a single `dataset`."""
    declared = Declarations(random_bound=0.05, ceilings=dict.fromkeys(("true", "false", "yes", "no", "zero", "one"), 0.05))

    def requires(self) -> None:
        super().requires()
        if importlib.util.find_spec("reasoning_gym") is None:
            raise MissingExtra(
                "rlvr/ReasoningGym-v0 plays the tasks of the reasoning-gym package: "
                f"{how_to_install('reasoning-gym')} (it needs a C compiler)"
            )

    def check_options(self) -> None:
        self.dataset = (self.dataset,) if isinstance(self.dataset, str) else tuple(self.dataset)
        super().check_options()
        if self.config and len(self.dataset) != 1:
            raise BadConfig("config is for the generator of one task: give its name as dataset")
        known: dict[str, str] = _trusted("table")
        for name in self.dataset:
            if name not in known:
                raise UnknownName(no_such("dataset of ReasoningGym", name, known))
            if known[name]:
                raise BadConfig(f"dataset {name!r} of reasoning-gym is refused: {known[name]}")
        self.names = tuple(self.dataset) or tuple(n for n, reason in known.items() if not reason and n not in UNANSWERED)
        self._options = json.dumps(dict(self.config), sort_keys=True)

    # Tasks

    def generate(self, rng: np.random.Generator, difficulty: int) -> Task:
        """Draw a question of one of the tasks."""
        name, seed = self.names[int(rng.integers(len(self.names)))], int(rng.integers(2**31))
        drawn: dict[str, Any] = _trusted("generate", name, difficulty, self._options, seed)
        data = {**drawn, "dataset": name, "level": difficulty, "options": self._options, "seed": seed}
        return Task(drawn["question"], data)

    def split_key(self, task: Task) -> object:
        """Return the dataset's name and the question."""
        return task.data["dataset"], task.data["question"]

    def content_key(self, task: Task) -> object:
        """Return the question's words in lower case, so that spacing and case make no difference."""
        return task.data["question"].casefold().split()

    # The episode

    def begin(self, task: Task) -> str:
        self._score = 0.0
        return f"{task.data['question']}\n\nGive the final answer alone, in the form that is asked for."

    @tool
    def answer(self, text: str) -> Outcome:
        """Give the final answer, and nothing else."""
        if not text.strip():
            return self.invalid('the answer is empty. Where nothing is the right answer, write "".')
        if len(text) > LONGEST:
            return self.invalid(f"the answer has {len(text)} characters; at most {LONGEST} are read.")
        self._score = self._scored(text)
        near = _NEAR.get(self.task.data["dataset"], 1e-9)
        return self.judged(text, abs(self._score - 1.0) <= near)

    def _scored(self, text: str) -> float:
        """Return reasoning-gym's score of an answer, from 0 to 1.

        It is 0 if `gates` rejects the answer, if a `puzzle24` answer does not use exactly the given numbers, or if the
        scorer fails or returns a number outside this range.
        """
        data = self.task.data
        name, place = data["dataset"], (data["dataset"], data["level"], data["options"], data["seed"])
        if not passes(name, text, data["answer"] or ""):
            return 0.0
        if name == "puzzle24" and not _uses(text, _trusted("numbers", *place)):
            return 0.0  # the scorer counts the numbers without checking which they are
        _trusted("generate", *place)  # generate it now if needed, outside the scorer's time limit
        answer = "" if text.strip() == '""' else text
        reply = call(f"{_PACKAGE}:score", *place, answer, preload=(f"{_PACKAGE}:warm",), seconds=SCORE)
        value = 0.0 if reply.problem or not isinstance(reply.value, float) else reply.value
        return value if 0.0 <= value <= 1.0 else 0.0  # one scorer returns more than 1 for distant answers

    def state(self) -> object:
        return self.attempts_state(), round(self._score, 9)

    def measures(self) -> dict[str, float]:
        return {**super().measures(), "score": self._score}

    def oracle(self) -> Iterator[str]:
        """Yield reasoning-gym's answer, or one computed from the task's metadata; NotImplementedError if there is none."""
        if self.task.data["dataset"] in UNANSWERED:
            raise NotImplementedError(f"{self.task.data['dataset']}: {UNANSWERED[self.task.data['dataset']]}")
        yield spell("answer", self.task.data["answer"] or '""')

    def shortcuts(self) -> Mapping[str, Callable[[list[str]], str]]:
        constants = {"true": "True", "false": "False", "yes": "Yes", "no": "No", "zero": "0", "one": "1", "list": "[]"}
        constants |= {"nan": "NaN", "evaluated": "__import__('os').getpid()", "megabyte": "1" * 10**6}
        fixed = {name: _always(text) for name, text in constants.items()}
        return {**fixed, "question": lambda seen: spell("answer", seen[0].rpartition("\n\n")[0])}


def _always(text: str) -> Callable[[list[str]], str]:
    return lambda _: spell("answer", text)


def _uses(text: str, numbers: list[int]) -> bool:
    return Counter(digits.lstrip("0") or "0" for digits in re.findall(r"\d+", text)) == Counter(map(str, numbers))


def _trusted(name: str, *arguments: object) -> Any:
    """Return the result of a function of `package.py`, called in a separate process with arguments that no model wrote.

    Raises:
        Fault: the call failed; no model can cause this.
    """
    reply: Reply = call(f"{_PACKAGE}:{name}", *arguments, preload=(f"{_PACKAGE}:warm",), seconds=GENERATE, trusted=True)
    if reply.problem:
        raise Fault(f"reasoning-gym could not {name} {arguments}: {reply.problem}", reason=Reason.CRASH)
    return reply.value
