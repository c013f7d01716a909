"""The environment of IFEval and IFBench rows: one prompt, one reply, one verdict per instruction."""

from typing import Any, ClassVar

from agentgym.core.declared import Declarations
from agentgym.core.env import Outcome
from agentgym.core.tasks import Task
from agentgym.envs.instructions.published.rows import ALL_CHECKS, load
from agentgym.errors import BadConfig
from agentgym.tasks.from_file import FromFile

LONGEST = 20_000
"""Maximum characters of a reply that are judged."""
VERDICTS = ("strict", "loose")


class PublishedInstructions(FromFile):
    """Write one reply to a prompt of IFEval (arXiv 2311.07911) or IFBench (arXiv 2507.02833) that keeps its instructions.

    Success is a reply that keeps all instructions, `strict` as it stands, or `loose` without its first line, its last line
    and its asterisks, whichever way each instruction is kept. An empty reply is invalid, and there is one turn.

    Ceilings: a row may ask only for something that any text has, such as no commas.
    """

    horizon = 1
    task_settings: ClassVar[tuple[str, ...]] = ("verdict",)
    settings: ClassVar[tuple[str, ...]] = (*FromFile.settings, *task_settings)
    verdict: str = "strict"
    """The definition of success, `strict` or `loose`."""
    read_file = staticmethod(load)
    declared = Declarations(
        random_bound=1.0,
        ceilings=dict.fromkeys(
            (
                *("first admissible", "last admissible", "word overlap", "first hit", "echo", "form without content"),
                *("claim of success", "prewritten verdict"),
            ),
            1.0,
        ),
    )

    def check_options(self) -> None:
        if self.verdict not in VERDICTS:
            raise BadConfig(f"verdict of Instructions is {self.verdict!r}; expected strict or loose")
        super().check_options()

    def begin(self, task: Task) -> str:
        self.results: dict[str, list[bool]] = {}
        """The instructions the reply keeps, by verdict."""
        return task.instruction

    def act(self, action: str) -> str | Outcome:
        if not action.strip():
            return self.invalid("The reply is empty. Write a reply to the prompt.")
        checks = self.task.data["checks"]
        self.results = {verdict: judge(action, checks, loose=verdict == "loose") for verdict in VERDICTS}
        broken = [name for (name, _), good in zip(checks, self.results[self.verdict], strict=True) if not good]
        if broken:
            return self.lose(f"The reply does not keep: {', '.join(broken)}.")
        return self.win("The reply keeps every instruction.")

    def state(self) -> object:
        return sorted(self.results.items())

    def measures(self) -> dict[str, float]:
        """Return the share of instructions kept, strictly and loosely, and whether all are."""
        levels: dict[str, float] = {}
        for verdict in VERDICTS:
            verdicts = self.results.get(verdict, [False])
            levels |= {verdict: sum(verdicts) / len(verdicts), f"{verdict}_all": float(all(verdicts))}
        return levels


def judge(reply: str, checks: list[Any], *, loose: bool = False) -> list[bool]:
    """Return for each instruction whether a reply keeps it; loosely, whether one of eight variants of the reply does."""
    variants = [reply]
    if loose:
        lines = reply.split("\n")
        cut = [reply, *("\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1]))]
        variants = list(dict.fromkeys([*cut, *(text.replace("*", "") for text in cut)]))
    readable = [text for text in variants if text.strip() and len(reply) <= LONGEST]
    return [any(ALL_CHECKS[name].judge(text, **values) for text in readable) for name, values in checks]
