"""Repeatable execution of tau2-bench's tools: fixed ids, and no state shared between episodes."""

import copy
import importlib
import json
import sys
import threading
import uuid
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from itertools import chain
from types import SimpleNamespace
from typing import cast

_LOCK = threading.RLock()
MOST_DEPTH = 50
"""Maximum nesting of lists and objects in a call, including the object of arguments."""
_DEFAULTS: dict[type, dict[str, object]] = {}
"""Toolkit class -> copies of its class-level models, made before its first use."""


def refusal(name: str, arguments: Mapping[str, object]) -> str:
    """Return the reason why a call is refused; empty if it is not."""
    if _depth(arguments) > MOST_DEPTH:
        return f"Error: the arguments of {name} are nested more than {MOST_DEPTH} deep."
    try:
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        return f"Error: the arguments of {name} hold half a character, or a number that is none."
    if name == "calculate" and "**" in str(arguments):  # Python evaluates it, and nested powers would never finish
        return "Error: Invalid characters in expression"
    return ""


def _depth(arguments: Mapping[str, object]) -> int:
    """Return the nesting depth of lists and objects, including the object of arguments: 1 for plain arguments."""
    depth, level = 0, [cast("Iterable[object]", arguments.values())]
    while level:
        depth += 1
        level = [
            cast("Iterable[object]", child.values() if isinstance(child, dict) else child)
            for child in chain.from_iterable(level)
            if isinstance(child, list | dict)
        ]
    return depth


@contextmanager
def steady(draw: Callable[[], int]) -> Generator[None, None, None]:
    """Replace `uuid4` in tau2's domains by ids made from `draw`, which returns 128 random bits.

    The context also suppresses all warnings, because a model's tool arguments could trigger them without limit.
    """

    def uuid4() -> uuid.UUID:
        return uuid.UUID(int=draw(), version=4)

    with _LOCK:
        modules = [module for name, module in list(sys.modules.items()) if name.startswith("tau2.domains.")]
        drawing = [module for module in modules if vars(module).get("uuid") is uuid]
        for module in drawing:
            vars(module)["uuid"] = SimpleNamespace(uuid4=uuid4)
        try:
            with warnings.catch_warnings(action="ignore", category=Warning):
                yield
        finally:
            for module in drawing:
                vars(module)["uuid"] = uuid


def unshare(toolkit: object) -> None:
    """Give a toolkit its own copies of its class's models, which telecom's tools would change for later episodes."""
    kind = type(toolkit)
    if kind not in _DEFAULTS:
        model = importlib.import_module("pydantic").BaseModel
        models = {name: value for name, value in vars(kind).items() if isinstance(value, model)}
        _DEFAULTS[kind] = copy.deepcopy(models)
    for name, value in _DEFAULTS[kind].items():
        setattr(toolkit, name, copy.deepcopy(value))
