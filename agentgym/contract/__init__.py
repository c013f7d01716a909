"""The contract that every environment satisfies, as checks that run on any environment."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import cast

from agentgym import registry
from agentgym.contract.causes import message_and_cause
from agentgym.contract.checks import CHECKS, RESTS_ON
from agentgym.contract.env_under_test import EnvUnderTest
from agentgym.contract.report import Broken, NotChecked, Note, Report, Result
from agentgym.core.env import TextEnv
from agentgym.errors import UnknownName, no_such

SMALL = {"count": 2, "steps": 6, "plays": 6}
"""Budget (fields of `EnvUnderTest`) for an environment that waits for something external, such as a sandbox."""

__all__ = ["CHECKS", "Broken", "EnvUnderTest", "NotChecked", "Report", "Result", "check"]


def check(
    environment: str | TextEnv,
    *,
    thorough: bool = False,
    checks: Collection[str] = (),
    progress: Callable[[Result], None] | None = None,
    seed: int = 0,
    **options: object,
) -> Report:
    """Check an environment (a registered id, `module:ns/Name-v0` or an environment object) against the contract.

    `options` are the environment's constructor options. `checks` names the checks to run (default: all). `thorough`
    takes minutes instead of seconds. `progress` receives each result as soon as it is known. A `seed` other than 0
    draws random tasks instead of the fixed evaluation list.

    Raises:
        UnknownName: `checks` names a check that does not exist.
    """
    for name in checks:
        if name not in CHECKS:
            raise UnknownName(no_such("check", name, CHECKS))
    under_test = examine(environment, thorough=thorough, seed=seed, **options)
    results: list[Result] = []
    for result in looks(under_test, checks or CHECKS):
        results.append(result)
        if progress:
            progress(result)
    return Report(under_test.id, results)


def examine(environment: str | TextEnv, *, thorough: bool = False, seed: int = 0, **options: object) -> EnvUnderTest:
    """Return an environment, given by name or as an object, as an `EnvUnderTest`.

    The budget of the checks is larger with `thorough`, and smaller than the default if the environment is blocking.
    """
    env = registry.make(environment, **options) if isinstance(environment, str) else environment
    settings = {**(env.spec.kwargs if env.spec else _options_of(env)), **options}
    id = env.spec.id if env.spec else type(env).__name__
    budget = (
        {"count": 20, "steps": 60, "plays": 200} if thorough else SMALL if cast("TextEnv", env.unwrapped).blocking else {}
    )
    return EnvUnderTest(id, type(env.unwrapped), settings, seed=seed, **budget)  # type: ignore[arg-type]


def _options_of(env: TextEnv) -> dict[str, object]:
    """Return the constructor options that create another environment like this one."""
    values = {name: getattr(env, name) for name in env.option_names()}
    return {name: dict(value) if name in ("shaping", "backend_options") else value for name, value in values.items()}


def looks(under_test: EnvUnderTest, names: Collection[str], known: Mapping[str, Result] | None = None) -> Iterator[Result]:
    """Yield the result of each check in `names`; only the first check that a defect breaks reports it.

    A check that depends on a broken check, or that fails from the same cause as one, is skipped. `known` has the results
    of earlier broken checks, by name.
    """
    broken = dict(known or {})
    for name in names:
        below = next((lower for lower in RESTS_ON.get(name, ()) if lower in broken), None)
        if below:
            yield Result(name, CHECKS[name][0], "skipped", f"rests on {below!r}, which is broken")
            continue
        result = look(under_test, name)
        same = next((earlier.check for earlier in broken.values() if result.cause and earlier.cause == result.cause), None)
        if result.status == "broken" and same:
            result = Result(name, result.promise, "skipped", f"broken by what breaks {same!r}", cause=result.cause)
        if result.status == "broken":
            broken[name] = result
        yield result


def look(under_test: EnvUnderTest, name: str) -> Result:
    """Run one check and return its result."""
    started = time.perf_counter()
    return replace(_looked(under_test, name), seconds=round(time.perf_counter() - started, 3))


def _looked(under_test: EnvUnderTest, name: str) -> Result:
    promise, check_name = CHECKS[name]
    try:
        note = check_name(under_test)
        return Result(name, promise, "holds", str(note), numbers=note.numbers if isinstance(note, Note) else {})
    except NotChecked as reason:
        return Result(name, promise, "skipped", str(reason), applies=False)
    except Broken as found:
        where = found.task, found.seed, found.actions, found.cause
        return Result(name, promise, "broken", str(found), *where, numbers=found.numbers)
    except (Exception, SystemExit) as error:  # any unexpected exception of the environment breaks the check
        text, cause = message_and_cause(error, under_test.kind)
        return Result(name, promise, "broken", f"raised {text}", cause=cause)
