"""Safety checks of a model folder, which may come from a stranger: it must not name code, or files outside itself."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from agentgym.errors import BadData

KERNELS = ("attn_implementation", "_attn_implementation", "experts_implementation", "_experts_implementation")
"""Configuration keys whose value may name compiled code on a hub (OWNER/NAME); the libraries would download and run it."""


def check_files(model: str | Path) -> None:
    """Check that a folder names neither compiled code on a hub nor weight files outside itself.

    Python code in the folder (`auto_map`) needs no check: the libraries are called with `trust_remote_code=False`, so
    they refuse it. If `model` is a hub name, nothing is checked.

    Raises:
        BadData: a file names compiled code, or weights outside the folder.
    """
    folder = Path(model)
    if not folder.is_dir():
        return
    for path in (folder / "config.json", *sorted(folder.glob("*.index.json"))):
        if not path.is_file():
            continue
        try:
            content: object = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):  # loading reports the damage
            continue
        for key, value in _pairs(content):
            if key in KERNELS and isinstance(value, str) and "/" in value:
                raise BadData(
                    f"{path}: {key} is {value!r}, compiled code of a hub; expected a name such as 'sdpa': remove it"
                )
        for name in _files(content) if path.name != "config.json" else ():
            if not isinstance(name, str) or Path(name).name != name or "\\" in name:
                raise BadData(f"{path}: names weights in {name!r}; expected the name of a file in the same folder")


def _pairs(content: object) -> Iterator[tuple[object, object]]:
    """Yield every (key, value) pair of a JSON value, at any depth."""
    waiting = [content]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            table = cast("Mapping[object, object]", value)
            yield from table.items()
            waiting += table.values()
        elif isinstance(value, list):
            waiting += cast("list[object]", value)


def _files(content: object) -> list[object]:
    weights = cast("Mapping[str, object]", content).get("weight_map") if isinstance(content, Mapping) else None
    return list(cast("Mapping[str, object]", weights).values()) if isinstance(weights, Mapping) else []
