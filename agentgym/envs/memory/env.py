"""The environment: a stream of sessions, a limited number of notes, and questions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, cast

import numpy as np

from agentgym.core.actions import spell, tool
from agentgym.core.declared import Declarations
from agentgym.core.env import Outcome
from agentgym.core.tasks import Task
from agentgym.envs.memory import expert, generate
from agentgym.envs.memory.facts import UNKNOWN, VALUES, read_question
from agentgym.envs.memory.generate import Session
from agentgym.envs.memory.notes import Notes
from agentgym.envs.memory.ways import last_of_anybody, wrong_ways
from agentgym.errors import BadConfig, UnknownName, no_such
from agentgym.rewards.exact_match import exact_match

Saved = tuple[int, list[str], str]


class Memory(Notes):
    """Read a stream of sessions, remember the valid facts, and answer questions about them.

    The tool `next` shows the next session. People state facts about themselves, correct them and withdraw them.
    Statements by others count only if the person has made none. Some facts expire. Sessions in the last third ask
    questions; the answer is `unknown` if a fact was never stated, was withdrawn or has expired. Success requires every
    answer to match exactly; the first wrong answer ends the episode. The first observation names the people that
    questions will be about.

    Notes are for agents whose window is shorter than the stream: the tools `note`, `search_notes` and `delete_note`
    manage at most `notes` notes of 80 characters; with `notes=0` these tools are missing.

    Difficulty d: 6 + 4 d sessions with 1 + d // 2 lines of small talk (at most 6), 2 + d // 2 people in questions (at most
    4), as many other people with facts of the same kind, 1 + (d + 1) // 2 attributes, and 2 + d // 2 questions; fewer if
    notes, values or sessions are few. The people in questions are drawn after the stream, uniformly from all people with
    facts.
    """

    horizon = 40
    hardest = 250
    difficulty = 1
    task_settings: ClassVar[tuple[str, ...]] = (
        *("families", "attributes", "values", "sessions", "talk"),
        *("passing", "strict", "ignore"),
    )
    caller_settings: ClassVar[tuple[str, ...]] = ("data",)
    settings: ClassVar[tuple[str, ...]] = (*caller_settings, *task_settings, *Notes.settings)
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "tiny": {
            **{"difficulty": 0, "families": "recall,abstain", "attributes": "room", "values": 6, "sessions": 6, "talk": 0},
            **{"notes": 4, "horizon": 16},
        }
    }
    families: str = ""
    """Comma-separated kinds of changes to facts; by default all that the difficulty allows."""
    attributes: str = ""
    """Comma-separated attributes that facts may be about; by default all five."""
    values: int = 0
    """Number of possible values per attribute, from 6 to 15; 0: all."""
    sessions: int = 0
    """Number of sessions in the stream; 0: 6 + 4 difficulty."""
    talk: int = -1
    """Lines of small talk in each session; -1: 1 + difficulty // 2, at most 6."""
    data: str = ""
    """Path of a LongMemEval or MRCR file; the environment is then a `RecordedMemory` over its rows."""
    passing: float = 0.95
    """With `data`: the minimum score of a correct answer."""
    strict: bool = False
    """With `data`: refuse a file that has a bad row; by default bad rows are skipped, and a warning counts them."""
    ignore: Sequence[str] = ()
    """With `data`: columns to ignore; a file with text in any other unknown column is refused."""
    declared = Declarations(random_bound=0.01, expert_bound=0.99)

    def __new__(cls, **options: Any) -> Self:
        """Return an environment of generated streams, or with `data`, one over the rows of a file."""
        if not options.get("data"):
            return super().__new__(cls)
        from agentgym.envs.memory.recorded import RecordedMemory

        return cast("Self", RecordedMemory(**options))

    @classmethod
    def unlike_published(cls, options: Mapping[str, object]) -> str:
        """Return `RecordedMemory`'s sentence if `data` is set, else '': generated streams have no published counterpart."""
        from agentgym.envs.memory.recorded import RecordedMemory

        return RecordedMemory.unlike_published(options) if options.get("data") else ""

    def check_options(self) -> None:
        self.family_names = _names("family", self.families, generate.FAMILIES)
        self.attribute_names = _names("attribute", self.attributes, VALUES)
        for name, least, most, auto in (("values", 6, 15, 0), ("sessions", 4, 1000, 0), ("talk", 0, 100, -1)):
            value: Any = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not (value == auto or least <= value <= most):
                raise BadConfig(f"{name} of Memory is {value!r}; expected an integer from {least} to {most}, or {auto}")
        if not {"recall", "update", "hearsay", "expiry"} & set(self.family_names):
            raise BadConfig(f"families {self.families!r} of Memory state nothing: add recall, update, hearsay or expiry")
        if not any(generate.FAMILIES[name] <= self.difficulty for name in self.family_names):
            raise BadConfig(f"families {self.families!r} of Memory begin at a higher difficulty than {self.difficulty}")
        super().check_options()

    # Tasks

    def generate(self, rng: np.random.Generator, difficulty: int) -> Task:
        values = {name: VALUES[name][: self.values or None] for name in self.attribute_names}
        sizes = generate.shape(difficulty, values, self.sessions, self.notes, self.talk)
        data = generate.draw(rng, difficulty, self.family_names, values, sizes)
        return Task(instruction="Answer questions about facts that people stated.", data=data)

    def split_key(self, task: Task) -> object:
        """Return the stream with its questions."""
        return [(session["lines"], session["question"]) for session in task.data["sessions"]]

    def limit_of(self, task: Task) -> int:
        """Return `horizon` if it was set, else a limit that leaves room to read the stream and take notes."""
        lines = sum(len(session["lines"]) for session in task.data["sessions"])
        return self.horizon if "horizon" in self.__dict__ else max(self.horizon, 3 * len(task.data["sessions"]) + lines)

    # The episode

    def begin(self, task: Task) -> str:
        self.place = 0
        """Index of the last session shown."""
        self.noted, self.found = [], ""
        *others, person = task.data["watched"]
        watched = f"{', '.join(others)} and {person}" if others else person
        rules = (
            f"Sessions come one at a time. Read the next one with next. Questions will be about {watched}. A person's own "
            f"latest statement counts. What others say about a person counts only if that person has said nothing. Answer "
            f'"{UNKNOWN}" if a fact was never stated, was given up, or has expired.'
        )
        return f"{rules}{self.about_notes()}\n\n{self._session()}"

    def _session(self) -> str:
        sessions = self.task.data["sessions"]
        session = sessions[self.place]
        lines = [f"Session {self.place + 1} of {len(sessions)}, day {session['day']}", *session["lines"]]
        if session["question"]:
            lines.append(f"Question: {session['question']['text']}")
        return "\n".join(lines)

    @property
    def _question(self) -> dict[str, str] | None:
        return self.task.data["sessions"][self.place]["question"]

    @tool
    def next(self) -> str | Outcome:
        """Read the next session."""
        if self._question:
            return self.invalid(f"Answer the question first: {self._question['text']}")
        return self._moved()

    def _moved(self) -> str:
        self.place, self.found = self.place + 1, ""
        return self._session()

    @tool
    def answer(self, text: str) -> str | Outcome:
        """Answer the question of this session, with one word or number."""
        if not self._question:
            return self.invalid("There is no question in this session. Read the next session with next[].")
        if not exact_match(text, [self._question["answer"]]):
            return self.lose("That is wrong.")
        if self.place == len(self.task.data["sessions"]) - 1:
            return self.win("That is right. The stream is over.")
        return f"That is right.\n{self._moved()}"

    # Framework hooks

    def state(self) -> object:
        return self.place, self.noted, self.found

    def save(self) -> Saved:
        return self.place, list(self.noted), self.found

    def load(self, payload: object) -> None:
        self.forget()
        self.place, noted, self.found = cast("Saved", payload)
        self.noted = list(noted)

    def measures(self) -> dict[str, float]:
        """Return `read`, the share of the sessions that were read before the current session."""
        return {"read": self.place / len(self.task.data["sessions"])}

    def oracle(self) -> Iterator[str]:
        while True:
            yield spell("answer", self._question["answer"]) if self._question else spell("next")

    def expert(self) -> Iterator[str]:
        while True:
            yield expert.action(self._texts(), self.task.data["watched"], self.noted, self.found, notes=self.notes)

    def _texts(self) -> Sequence[Session]:
        """Return the sessions shown so far."""
        return self.task.data["sessions"][: self.place + 1]

    def mistake(self, rng: np.random.Generator) -> str | None:
        """Return an answer that is often wrong: `unknown`, or `last_of_anybody`'s. Without a question, return `next[]`."""
        if not self._question:
            return spell("next")
        if rng.random() < 0.5:
            return spell("answer", UNKNOWN)
        question, day = read_question(self._question["text"]), self.task.data["sessions"][self.place]["day"]
        stated = list(generate.spoken(self._texts(), self.place))
        return spell("answer", last_of_anybody(question, stated, self.place, day))

    def shortcuts(self) -> Mapping[str, Callable[[list[str]], str]]:
        names = [name for name in self.family_names if generate.FAMILIES[name] <= self.difficulty]
        return {name: expert.shortcut(way) for name, way in wrong_ways(names).items()}


def _names(what: str, text: str, table: Mapping[str, object]) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in table:
            raise UnknownName(no_such(f"{what} of Memory", name, table))
    return list(dict.fromkeys(names or table))
