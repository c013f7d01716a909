"""The contract: what every world promises, as laws that can be checked on any world."""

from collections.abc import Callable, Collection, Iterator
from typing import Any, cast

from agentgym import registry
from agentgym.contract.causes import told
from agentgym.contract.laws import LAWS, RESTS_ON
from agentgym.contract.report import Broken, NotChecked, Report, Result
from agentgym.contract.subject import Subject
from agentgym.core.env import TextEnv
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
    seed: int = 0,
    **options: Any,
) -> Report:
    """Hold a world (a registered id, `module:ns/Name-v0`, or a world already made) to the contract.

    `options` are the world's own; `laws` names the ones to look at (default: all); `thorough` spends minutes instead
    of seconds; `progress` sees each result as it comes; `seed` draws other tasks than the fixed first ones.
    """
    for name in laws:
        if name not in LAWS:
            raise unknown("law", name, LAWS)
    subject = examine(world, thorough=thorough, seed=seed, **options)
    results: list[Result] = []
    for result in looks(subject, laws or LAWS):
        results.append(result)
        if progress:
            progress(result)
    return Report(subject.id, results)


def examine(world: str | TextEnv, *, thorough: bool = False, seed: int = 0, **options: Any) -> Subject:
    """Return the subject of a check."""
    env = registry.make(world, **options) if isinstance(world, str) else world
    given = {**(env.spec.kwargs if env.spec else _options_of(env)), **options}
    id = env.spec.id if env.spec else type(env).__name__
    budget = (
        {"count": 20, "steps": 60, "plays": 200} if thorough else SMALL if cast("TextEnv", env.unwrapped).blocking else {}
    )
    return Subject(id, type(env.unwrapped), given, seed=seed, **budget)  # type: ignore[arg-type]


def _options_of(env: TextEnv) -> dict[str, Any]:
    """Return the options that make another world like this one."""
    values = {name: getattr(env, name) for name in env.option_names()}
    return {name: dict(value) if name in ("shaping", "backend_options") else value for name, value in values.items()}


def looks(subject: Subject, names: Collection[str]) -> Iterator[Result]:
    """Yield what becomes of each check; one defect is reported once, by the first check that it breaks."""
    broken: dict[str, Result] = {}
    for name in names:
        below = next((one for one in RESTS_ON.get(name, ()) if one in broken), None)
        if below:
            yield Result(name, LAWS[name][0], "skipped", f"rests on {below!r}, which is broken")
            continue
        result = look(subject, name)
        same = next((one.law for one in broken.values() if result.cause and one.cause == result.cause), None)
        if result.status == "broken" and same:
            result = Result(name, result.promise, "skipped", f"broken by what breaks {same!r}", cause=result.cause)
        if result.status == "broken":
            broken[name] = result
        yield result


def look(subject: Subject, name: str) -> Result:
    """Return what becomes of one check."""
    promise, law = LAWS[name]
    try:
        return Result(name, promise, "holds", law(subject))
    except NotChecked as reason:
        return Result(name, promise, "skipped", str(reason))
    except Broken as found:
        return Result(name, promise, "broken", str(found), found.task, found.seed, found.actions, found.cause)
    except Exception as error:  # whatever an environment raises where a check did not expect it breaks that check
        text, cause = told(error, subject.kind)
        return Result(name, promise, "broken", f"raised {text}", cause=cause)
