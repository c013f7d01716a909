"""The environment of recorded conversations: LongMemEval and MRCR, session by session, with one question at the end."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from agentgym.core.actions import spell, tool
from agentgym.core.declared import Declarations
from agentgym.core.env import Outcome
from agentgym.core.tasks import Task
from agentgym.envs.memory.notes import Notes
from agentgym.envs.memory.published import load, score
from agentgym.errors import BadConfig
from agentgym.tasks.from_file import FromFile


class RecordedMemory(FromFile, Notes):
    """Read the sessions of a row one by one, with notes, and answer its question (LongMemEval arXiv 2410.10813; MRCR).

    Success is an answer with a score of at least `passing`. MRCR is scored as published. LongMemEval's published judge is a
    model; here an answer must contain the expected words, and the answer `unknown` abstains.
    """

    horizon = 40
    task_settings: ClassVar[tuple[str, ...]] = ("passing",)
    settings: ClassVar[tuple[str, ...]] = (*FromFile.settings, *Notes.settings, *task_settings)
    passing: float = 0.95
    """Minimum score of a correct answer."""
    read_file = staticmethod(load)
    declared = Declarations(random_bound=0.01)

    @classmethod
    def unlike_published(cls, options: Mapping[str, object]) -> str:
        """Return a sentence: sessions are read one by one, and LongMemEval's published judge is a model."""
        return "reads the conversations session by session; LongMemEval's published judge is a model, not its words"

    def check_options(self) -> None:
        value: Any = self.passing
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
            raise BadConfig(f"passing of Memory is {value!r}; expected a number above 0, at most 1")
        super().check_options()

    def limit_of(self, task: Task) -> int:
        """Return `horizon` if it was set, else a limit that leaves room to read every session and use notes."""
        return self.horizon if "horizon" in self.__dict__ else max(self.horizon, 4 * len(task.data["stream"]))

    def begin(self, task: Task) -> str:
        self.place = 0
        """Index of the last session shown."""
        self.noted, self.found = [], ""
        self.score = 0.0
        rules = (
            "Sessions come one at a time. Read the next one with next. The question comes with the last session. Answer "
            '"unknown" if the sessions do not answer it. Give one answer, in a few words.'
        )
        return f"{rules}{self.about_notes()}\n\n{self._session()}"

    def _session(self) -> str:
        stream = self.task.data["stream"]
        lines = [f"Session {self.place + 1} of {len(stream)}, {stream[self.place]['day']}", *stream[self.place]["lines"]]
        if self._is_last():
            lines.append(f"Question: {self.task.data['question']}")
        return "\n".join(lines)

    def _is_last(self) -> bool:
        return self.place == len(self.task.data["stream"]) - 1

    @tool
    def next(self) -> str | Outcome:
        """Read the next session."""
        if self._is_last():
            return self.invalid("This is the last session. Answer the question.")
        self.place, self.found = self.place + 1, ""
        return self._session()

    @tool
    def answer(self, text: str) -> Outcome:
        """Answer the question, which comes with the last session."""
        if not self._is_last():
            return self.invalid("There is no question yet. Read the next session with next[].")
        self.score = score(self.task.data, text)
        return self.win("That is right.") if self.score >= self.passing else self.lose("That is wrong.")

    def state(self) -> object:
        return self.place, self.noted, self.found, self.score

    def measures(self) -> dict[str, float]:
        """Return `score`, the score of the answer (0 before it), and `read`, the share of the sessions read."""
        return {"score": self.score, "read": (self.place + 1) / len(self.task.data["stream"])}

    def oracle(self) -> Iterator[str]:
        while True:
            yield spell("answer", self.task.data["answer"]) if self._is_last() else spell("next")
