"""The solution and the canaries that a package ships."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from openenv.validation.graders import Subject

from rlvr_openenv_graders.base import NotMeasured
from rlvr_openenv_graders.wire import Object, Served

LARGEST = 1 << 20
"""Bytes of a file of a package."""


def read(root: Path, location: str) -> Any:
    """Return the JSON of a file inside a package. Raises NotMeasured for a file outside, too large, or not JSON."""
    path = (root / location).resolve()
    if not path.is_relative_to(root.resolve()) or not path.is_file() or path.stat().st_size > LARGEST:
        raise NotMeasured(f"{location!r} is no file inside the package of at most {LARGEST} bytes")
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise NotMeasured(f"{location!r} is not JSON") from None


def solved(served: Served, subject: Subject) -> Object | None:
    """Return the arguments of a reset into the solved state; None if the package declares no oracle.

    The file is the state itself, or `{"reset": {…}, "injected_state": …}`. Raises NotMeasured for an oracle that is a
    script: OpenEnv 0.10 does not say in which session it acts.
    """
    oracle = subject.manifest.capabilities.oracle
    if oracle is None:
        return None
    if oracle.form != "injected_state":
        raise NotMeasured("the oracle is a script; only an injected state can be checked")
    document = read(subject.root, oracle.location)
    if isinstance(document, dict) and "injected_state" in document and set(document) <= {"reset", "injected_state"}:
        reset = document.get("reset")
        fixed = reset if isinstance(reset, dict) else {}
        return served.arguments(**fixed, injected_state=document["injected_state"])
    return served.arguments(injected_state=document)


def leaves(value: object) -> Iterator[str]:
    """Yield the texts and numbers in a JSON value, in order."""
    if isinstance(value, dict):
        for child in value.values():
            yield from leaves(child)
    elif isinstance(value, list):
        for child in value:
            yield from leaves(child)
    elif isinstance(value, str) or (isinstance(value, int | float) and not isinstance(value, bool)):
        yield str(value)


def containers(value: object) -> Iterator[object]:
    """Yield the objects and lists in a JSON value, itself included."""
    if isinstance(value, dict | list):
        yield value
        for child in value.values() if isinstance(value, dict) else value:
            yield from containers(child)
