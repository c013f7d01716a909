"""Find the line of an environment that caused a defect: an exception, or a call to an outside random generator or clock."""

import builtins
import os
import random
import secrets
import sys
import time
import traceback
import uuid
from collections.abc import Callable
from types import FrameType

import numpy as np

from agentgym.core.env import TextEnv

_GLOBAL = random.random.__self__  # type: ignore[attr-defined]  # what the functions of the module share
_RAND = np.random.mtrand._rand  # pyright: ignore[reportPrivateUsage]
_CHANCE = frozenset(str(module.__file__) for module in (random, secrets, uuid))
_CLOCKS = (time.time, time.time_ns, time.monotonic, time.perf_counter)


def files_of(kind: type[TextEnv]) -> frozenset[str]:
    """Return the source files of an environment's classes, except that of the base class `TextEnv`."""
    modules = {base.__module__ for base in kind.__mro__ if issubclass(base, TextEnv) and base is not TextEnv}
    return frozenset(str(getattr(sys.modules.get(name), "__file__", "")) for name in modules)


def message_and_cause(error: BaseException, kind: type[TextEnv]) -> tuple[str, str]:
    """Return an exception's message with the environment's line that raised it, and a key that identifies its cause."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files_of(kind)]
    where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    text = f"{type(error).__name__}: {error}"
    return (f"{text} ({where}, in {frames[-1].name})" if frames else text), f"{type(error).__name__} {where or error}"


def own_chance(kind: type[TextEnv], work: Callable[[], object]) -> str:
    """Run `work`; return a text on the environment's first call to an outside random generator or clock.

    Without such a call, the text describes the exception that `work` raised; empty if it raised none.
    """
    sources: dict[str, None] = {}
    files = files_of(kind)

    def watch(frame: FrameType, event: str, arg: object) -> None:
        at, what = frame, ""
        if event == "call" and frame.f_code.co_filename == random.__file__ and frame.f_locals.get("self") is _GLOBAL:
            what = f"random.{frame.f_code.co_name}"
        elif event == "c_call":
            what = _source(arg)
        elif event == "numpy":
            what = f"numpy.random.{arg}"
        while at.f_code.co_filename in _CHANCE and at.f_back is not None:
            at = at.f_back
        if what and at.f_code.co_filename in files:
            advice = _ADVICE.get(what.partition(".")[0], "draw from self.np_random, which is seeded")
            sources[f"{what} is called at {at.f_code.co_filename}:{at.f_lineno}: {advice}"] = None

    def noting(name: str, function: Callable[..., object]) -> object:
        def noted(*arguments: object, **options: object) -> object:
            watch(sys._getframe(1), "numpy", name)  # pyright: ignore[reportPrivateUsage]
            return function(*arguments, **options)

        return noted

    shared = {name: function for name, function in vars(np.random).items() if getattr(function, "__self__", None) is _RAND}
    for name, function in shared.items():  # methods of compiled code, which no profile shows
        setattr(np.random, name, noting(name, function))
    sys.setprofile(watch)
    try:
        work()
    except Exception as error:
        sources.setdefault(f"raised {message_and_cause(error, kind)[0]}")
    finally:
        sys.setprofile(None)
        for name, function in shared.items():
            setattr(np.random, name, function)
    return next(iter(sources), "")


_ADVICE = {
    "time": "do not use the clock in decisions or observations",
    "hash": "it differs from process to process; use hashlib, or sort",
}


def _source(function: object) -> str:
    """Return the name of a C function that is nondeterministic (random numbers, clock, hash); empty for any other."""
    name = getattr(function, "__name__", "")
    if getattr(function, "__self__", None) is _GLOBAL:
        return f"random.{name}"
    if any(function is clock for clock in _CLOCKS):
        return f"time.{name}"
    if function is os.urandom:
        return "an unseeded generator (os.urandom)"
    return "hash" if function is builtins.hash else ""
