"""The environment: a game of the package in its own interpreter, played by admissible commands."""

import importlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

import numpy as np

from agentgym.core.declared import Declarations
from agentgym.core.env import Outcome, TextEnv
from agentgym.core.tasks import Task
from agentgym.envs.textworld import games
from agentgym.envs.textworld.expert import advise
from agentgym.envs.textworld.notes import REFUSED
from agentgym.envs.textworld.policy import Policy
from agentgym.errors import BadConfig, Fault, UnknownName, no_such

T = TypeVar("T")

SHOWN = 30
"""Number of possible commands listed after an impossible one."""
_WAYS = {letter: f"go {way}" for way in ("north", "south", "east", "west") for letter in (way, way[0])}
_SHORT = {**_WAYS, "l": "look", "i": "inventory"}
_WORDS = ((r"^(?:get|pick up) ", "take "), (r"^(?:x|look at|read) ", "examine "), (r"\b(?:the|a|an) ", ""))
_END = re.compile(r"\s*\*\*\*.*", re.DOTALL)
_STATUS = re.compile(r"\n>[^\n]*$")

LEEWAY = 3
"""Turns of an episode as a multiple of the solution's; with more, random walks would find nearby goals."""
SEEDS = 2**31
"""Number of seeds for layouts and games."""


class TextWorld(TextEnv):
    """Win a game of rooms, things and doors: collect a coin, find a treasure, cook a meal.

    Games are made by the `textworld` package (arXiv 1806.11532) and played in its interpreter. `challenge` names one of
    its challenges or several; difficulty is translated into their settings. Reward: 1 when the game is won; the share of
    its score is the measure `score`. Only possible commands reach the game: a model's text does not.

    Ceiling: the package's instructions tell the way ("go to the west; once you manage that, go to the south"), so `word
    overlap`, which says the command that has most of their words, wins two of three of the easiest games, and 94 % of
    those of `treasure_hunter`.
    """

    horizon = 300
    """Maximum turns; by default LEEWAY times those of the task's solution."""
    hardest = 11
    blocking = True  # the interpreter is a library written in C
    snapshot_kind = "replay"
    task_settings: ClassVar[tuple[str, ...]] = ("challenge",)
    settings: ClassVar[tuple[str, ...]] = task_settings
    challenge: str | Sequence[str] = ("coin_collector", "treasure_hunter", "cooking")
    """The package's challenges to generate games from."""
    declared = Declarations(random_bound=0.3, expert_bound=0.9, ceilings={"word overlap": 0.95})

    def requires(self) -> None:
        super().requires()
        games.check_installed()

    def check_options(self) -> None:
        self.challenge = (self.challenge,) if isinstance(self.challenge, str) else tuple(self.challenge)
        super().check_options()
        if not self.challenge:
            raise BadConfig(f"challenge of TextWorld is empty; expected some of {', '.join(games.CHALLENGES)}")
        for name in self.challenge:
            if name not in games.CHALLENGES:
                raise UnknownName(no_such("challenge of TextWorld", name, games.CHALLENGES))

    def setup(self) -> None:
        self._game: Any = None
        self._played: tuple[str, list[str]] = ("", [])
        self._now: Any = None
        self._policy: Policy | None = None

    # Tasks

    def generate(self, rng: np.random.Generator, difficulty: int) -> Task:
        """Draw a game."""
        names = list(map(str, self.challenge))
        challenge = names[int(rng.integers(len(names)))]
        level = json.dumps(games.settings(challenge, difficulty))
        while True:
            seed = int(rng.integers(1, SEEDS))
            try:
                game = games.made(challenge, level, seed)
            except games.failures():  # some maps have no quest of this length
                continue
            data = {"challenge": challenge, "settings": level, "seed": seed, "content": games.content(game)}
            data["turns"] = len(game.walkthrough)
            return Task(str(game.objective), data)

    def split_key(self, task: Task) -> object:
        return task.data["content"]

    def limit_of(self, task: Task) -> int:
        return self.horizon if "horizon" in self.__dict__ else min(LEEWAY * task.data["turns"], self.horizon)

    @classmethod
    def unlike_published(cls, options: Mapping[str, object]) -> str:
        """Explain a difference: the package limits games by a fixed number of commands, including invalid ones, as here."""
        if options.get("horizon") is not None:
            return ""
        return (
            f"limits a game to {LEEWAY} times the turns of its solution; the package has one limit for all games (50 unless "
            "another is named: horizon=50)"
        )

    # The episode

    def begin(self, task: Task) -> str:
        self.log: list[str] = []
        self._start(task)
        text = _plain(self._now.feedback)
        place = text.find("\n-=")
        text = f"{task.instruction}\n\n{text[place:].strip() if place >= 0 else text}"
        self.told: list[tuple[str, str]] = [("", text)]
        return text

    def _start(self, task: Task) -> None:
        """Start the task's game in the interpreter, loading it if another is loaded."""
        content = task.data["content"]
        if self._played[0] != content:
            self._played = ("", [])
            _read(task, self._load)
        self._now, self._played = self._game.reset(), (content, [])

    def _load(self, game: Any, path: Path) -> None:
        """Load a story whose game is available into the interpreter."""
        if self._game is None:
            core = importlib.import_module("textworld.core")
            infos = core.EnvInfos(admissible_commands=True, max_score=True, score=True, won=True, lost=True)
            interpreter = importlib.import_module("textworld.envs").JerichoEnv(infos)
            self._game = importlib.import_module("textworld.envs.wrappers").TWInform7(interpreter)
        elif self._game.unwrapped._jericho is not None:  # None if a story could not be read
            self._game.unwrapped._jericho._cache.clear()  # it would cache every story ever played
        self._game.unwrapped._game = game  # spares the package reading the file again
        self._game.load(str(path))
        self._game.seed(0)

    def act(self, action: str) -> str | Outcome:
        possible = self.admissible()
        command = found(action, possible)
        if command is None:
            words = understood(action)
            text = f"{words[:60]!r} {REFUSED}{', '.join(closest(words, possible))}."
            self.told.append((_spoken(action), text))
            return self.invalid(text)
        self._play(command)
        self.log.append(command)
        text = _plain(self._now.feedback)
        self.told.append((command, text))
        if self._now.won:
            return self.win(text)
        return self.lose(text) if self._now.lost else text

    def _play(self, command: str) -> None:
        self._now, _, _ = self._game.step(command)
        self._played[1].append(command)

    def admissible(self) -> list[str]:
        return list(self._now.admissible_commands)

    def measures(self) -> dict[str, float]:
        """Return the share of the game's score."""
        most = self._now.max_score or 1
        return {"score": max(0.0, min(1.0, (self._now.score or 0) / most))}

    def state(self) -> object:
        """Return the game's facts and score, and the interpreter's object table, whose order affects texts."""
        facts = sorted(str(fact) for fact in self._now["_facts"])
        return facts, self._now.score, things_of(self._game.unwrapped._jericho._get_ram().tobytes())

    def save(self) -> tuple[list[str], str, list[tuple[str, str]]]:
        return list(self.log), self._now.feedback, list(self.told)

    def load(self, payload: object) -> None:
        log, feedback, exchanges = cast("tuple[list[str], str, list[tuple[str, str]]]", payload)
        self.forget()
        self.log, self.told = list(log), list(exchanges)
        known, played = self._played
        if known != self.task.data["content"] or played != self.log[: len(played)]:
            self._start(self.task)
        for command in self.log[len(self._played[1]) :]:
            self._play(command)
        if self._now.feedback != feedback:
            raise Fault("the game took another course when its commands were repeated")

    def close(self) -> None:
        self._close_game()
        super().close()

    def _close_game(self) -> None:
        if self._game is not None:
            self._game.close()
            self._game, self._played = None, ("", [])

    # Policies

    def oracle(self) -> Iterator[str]:
        """Yield the package's own winning policy, which undoes deviations."""
        policy = self._policy
        if policy is None or policy.key != self.task.data["content"] or policy.log != self.log[: len(policy.log)]:
            policy = Policy(self.task.data["content"], _read(self.task, lambda game, _: game))
        for command in self.log[len(policy.log) :]:
            policy.follow(command)
        self._policy = policy
        yield from policy.commands()

    def expert(self) -> Iterator[str]:
        """Yield the actions of a player who knows only this episode's texts."""
        while True:
            yield advise(self.told)


def _read(task: Task, reader: Callable[[Any, Path], T]) -> T:
    data = task.data
    return games.read(data["challenge"], data["settings"], data["seed"], data["content"], reader)


def found(action: str, possible: Sequence[str]) -> str | None:
    """Return the possible command that an action means, ignoring case, since some things have capitals.

    The source of a `take` may be omitted.
    """
    forms = (_spoken(action), understood(action))  # some names contain articles
    exact = next((command for command in possible if command.lower() in forms), None)
    alike = (command for command in possible if {understood(command), understood(command.partition(" from ")[0])} & {*forms})
    return exact or next(alike, None)


def closest(words: str, possible: Sequence[str]) -> list[str]:
    """Return the possible commands that share most words with an impossible one."""
    spoken = set(words.split())
    near = sorted(possible, key=lambda command: -len(spoken.intersection(command.lower().split())))
    return near[:SHOWN] + ["…"] * (len(near) > SHOWN)


def understood(action: str) -> str:
    """Return an action in the game's words, expanding short forms and dropping articles."""
    command = _spoken(action)
    for pattern, words in _WORDS:
        command = re.sub(pattern, words, command)
    return _SHORT.get(command, command)


def _spoken(action: str) -> str:
    return " ".join(action[:200].lower().split())


def _plain(text: str) -> str:
    """Return a game's output without its status line, closing menu and turn count."""
    text = _STATUS.sub("", text.rstrip())
    end = _END.search(text)
    if end:
        text = text[: end.start()] + ("\n\nYou lost." if "You lost" in end[0] else "\n\nThe End.")
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def things_of(memory: bytes) -> bytes:
    """Return a story's object table: each object's attributes, parent, sibling and child (Z-Machine Standard 1.1, 12.3).

    Attribute 31 is dropped: it marks things mentioned in the last text and has no effect.
    """
    start = int.from_bytes(memory[10:12], "big") + 126
    end, things = len(memory), bytearray()
    place = start
    while place + 14 <= end:
        things += memory[place : place + 3] + bytes([memory[place + 3] & 0xFE]) + memory[place + 4 : place + 12]
        end = min(end, int.from_bytes(memory[place + 12 : place + 14], "big"))  # ends at the first object's properties
        place += 14
    return bytes(things)
