"""The contract of an environment that takes seconds a play, check by check: `./dev test` spends little on the long ones.

`./dev full` looks at the same checks with the tasks that `agentgym check` takes.
"""

from dataclasses import replace

from agentgym.contract import EnvUnderTest, examine, look

FEW = {"count": 1, "steps": 3, "plays": 1}
LONG = ("equal keys", "snapshots here", "snapshots elsewhere", "oracle solves", "oracle recovers", "expert is fair")
LONG += (
    "expert is good",
    "shortcut policies fail",
    "chance is poor",
    "same again",
    "same elsewhere",
    "nasty actions",
    "spellings",
)
LONG += ("outcome alone", "failure never wins", "looking changes nothing", "info schema", "splits are disjoint")
LONG += ("answers stay hidden", "hints")
"""Checks that take 3 to 90 s of a core with the tasks of `agentgym check`."""


OF_OTHERS = ("same verdict", "tests stay hidden", "reference holds")
"""Checks of what other people's environments have beside their oracle: ours may have nothing to look at."""


def few(env, **options) -> EnvUnderTest:
    """Return the subject of a check with as few tasks as can be."""
    return replace(examine(env, **options), **FEW)


def holds(under_test: EnvUnderTest, name: str, not_checked: tuple[str, ...] = ()) -> None:
    """Fail where a check does not hold; `not_checked` may find nothing to look at."""
    result = look(under_test, name)
    assert result.status == "holds" or (result.status == "skipped" and name in {*not_checked, *OF_OTHERS}), (
        f"{result}\nseed {under_test.seed}, options {under_test.options}"
    )
