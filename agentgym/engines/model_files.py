"""What a model's folder may not say: it may be a stranger's, so it names no code, and no file outside itself."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from agentgym.errors import BadData

KERNELS = ("attn_implementation", "_attn_implementation", "experts_implementation", "_experts_implementation")
"""Keys of a configuration whose value may name compiled code of a hub (OWNER/NAME), which would be fetched and run."""


def check_files(model: str | Path) -> None:
    """Raise BadData where a folder names compiled code of a hub, or weights outside itself.

    Code in the folder (`auto_map`) is refused by the libraries, which are called with `trust_remote_code=False`. A name of
    a hub is not looked at.
    """
    folder = Path(model)
    if not folder.is_dir():
        return
    for path in (folder / "config.json", *sorted(folder.glob("*.index.json"))):
        if not path.is_file():
            continue
        try:
            content: object = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):  # whoever loads it says that it is damaged
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
    """Yield every key and value of a JSON value, however deep."""
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
