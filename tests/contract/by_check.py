"""The contract of an environment that takes seconds a play, check by check: `./dev test` spends little on the long ones.

`./dev full` looks at the same checks with the tasks that `agentgym check` takes.
"""

from dataclasses import replace

from agentgym.contract import Subject, examine, look

FEW = {"count": 1, "steps": 3, "plays": 1}
LONG = ("equal keys", "snapshots here", "snapshots elsewhere", "oracle solves", "oracle recovers", "expert is fair")
LONG += ("expert is good", "cheaters fail", "chance is poor", "same again", "same elsewhere", "nasty actions", "spellings")
LONG += ("outcome alone", "failure never wins", "looking changes nothing", "info schema", "splits are disjoint")
LONG += ("answers stay hidden",)
"""Checks that take 3 to 90 s of a core with the tasks of `agentgym check`."""


def few(world, **options) -> Subject:
    """Return the subject of a check with as few tasks as can be."""
    return replace(examine(world, **options), **FEW)


def holds(subject: Subject, name: str, not_checked: tuple[str, ...] = ()) -> None:
    """Fail where a check does not hold; `not_checked` may find nothing to look at."""
    result = look(subject, name)
    assert result.status == "holds" or (result.status == "skipped" and name in not_checked), (
        f"{result}\nseed {subject.seed}, options {subject.options}"
    )
