"""The environment of IFEval and IFBench rows: one prompt, one reply, one verdict per instruction."""

from typing import Any, ClassVar

from agentgym.core.declared import Declarations
from agentgym.core.env import Outcome
from agentgym.core.tasks import Task
from agentgym.envs.instructions.published.rows import ALL_CHECKS, load
from agentgym.errors import BadConfig
from agentgym.tasks.from_file import FromFile

LONGEST = 20_000
"""Maximum length of a reply in characters; a longer reply counts as keeping no instruction."""
VERDICTS = ("strict", "loose")


class PublishedInstructions(FromFile):
    """Write one reply to a prompt of IFEval (arXiv 2311.07911) or IFBench (arXiv 2507.02833) that keeps its instructions.

    Success is a reply that keeps all instructions. With verdict `strict` the reply is judged unchanged. With `loose` an
    instruction also counts as kept if a variant of the reply keeps it: without the first line, the last line, asterisks, or
    several of these. An empty reply is invalid. An episode has one turn.

    Ceilings: a row may require only something that almost any text satisfies, such as no commas.
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
        """By verdict: True or False for each instruction, in the row's order; empty before the reply."""
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
        """Return `strict` and `loose`, the shares of instructions kept by verdict, and `strict_all` and `loose_all`, 0 or 1.

        All are 0 before the reply.
        """
        levels: dict[str, float] = {}
        for verdict in VERDICTS:
            verdicts = self.results.get(verdict, [False])
            levels |= {verdict: sum(verdicts) / len(verdicts), f"{verdict}_all": float(all(verdicts))}
        return levels


def judge(reply: str, checks: list[Any], *, loose: bool = False) -> list[bool]:
    """Return a bool per instruction: True if the reply or, with `loose`, one of its up to eight variants keeps it."""
    variants = [reply]
    if loose:
        lines = reply.split("\n")
        cut = [reply, *("\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1]))]
        variants = list(dict.fromkeys([*cut, *(text.replace("*", "") for text in cut)]))
    readable = [text for text in variants if text.strip() and len(reply) <= LONGEST]
    return [any(ALL_CHECKS[name].judge(text, **values) for text in readable) for name, values in checks]
