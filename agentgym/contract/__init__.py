"""The contract: what every world promises, as laws that can be checked on any world."""

from collections.abc import Callable, Collection
from typing import Any, cast

from agentgym import registry
from agentgym.contract.laws import LAWS
from agentgym.contract.report import Broken, NotChecked, Report, Result
from agentgym.contract.subject import Subject
from agentgym.core import TextEnv
from agentgym.errors import unknown

SMALL = {"count": 2, "steps": 6, "plays": 6}
"""What is spent on a world that waits for something outside: a jail, a browser."""

__all__ = ["LAWS", "Broken", "NotChecked", "Report", "Result", "Subject", "check"]


def check(
    world: str | TextEnv,
    *,
    thorough: bool = False,
    laws: Collection[str] = (),
    progress: Callable[[Result], None] | None = None,
    **options: Any,
) -> Report:
    """Hold a world (a registered id, `module:ns/Name-v0`, or a world already made) to the contract.

    `options` are the world's own; `laws` names the ones to look at (default: all); `thorough` spends minutes instead
    of seconds; `progress` sees each result as it comes.
    """
    for name in laws:
        if name not in LAWS:
            raise unknown("law", name, LAWS)
    subject = examine(world, thorough=thorough, **options)
    results: list[Result] = []
    for name in laws or LAWS:
        results.append(look(subject, name))
        if progress:
            progress(results[-1])
    return Report(subject.id, results)


def examine(world: str | TextEnv, *, thorough: bool = False, **options: Any) -> Subject:
    """Return the subject of a check."""
    env = registry.make(world, **options) if isinstance(world, str) else world
    given = {**(env.spec.kwargs if env.spec else _options_of(env)), **options}
    id = env.spec.id if env.spec else type(env).__name__
    budget = (
        {"count": 20, "steps": 60, "plays": 200} if thorough else SMALL if cast("TextEnv", env.unwrapped).blocking else {}
    )
    return Subject(id, type(env.unwrapped), given, **budget)  # type: ignore[arg-type]


def _options_of(env: TextEnv) -> dict[str, Any]:
    """Return the options that make another world like this one."""
    values = {name: getattr(env, name) for name in env.option_names()}
    return {name: dict(value) if name in ("shaping", "backend_options") else value for name, value in values.items()}


def look(subject: Subject, name: str) -> Result:
    """Return what becomes of one law."""
    promise, law = LAWS[name]
    try:
        return Result(name, promise, "holds", law(subject))
    except NotChecked as reason:
        return Result(name, promise, "skipped", str(reason))
    except Broken as found:
        return Result(name, promise, "broken", str(found), found.task, found.seed, found.actions)
    except Exception as error:  # whatever a world raises where a law did not expect it breaks that law
        return Result(name, promise, "broken", f"raised {type(error).__name__}: {error}")
