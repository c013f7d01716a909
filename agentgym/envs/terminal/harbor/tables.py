"""Typed values of `task.toml`; BadData names the file and the error."""

import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from agentgym.errors import BadData

_UNITS = {"K": 1 / 1024, "M": 1, "G": 1024}
_DEFAULT = re.compile(r"\$\{\w+:-([^}]*)\}")
Table = dict[str, object]


def toml(file: Path) -> Table:
    """Return the content of a TOML file.

    Raises:
        BadData: the file is not TOML in UTF-8.
    """
    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadData(f"{file}: {error}; expected TOML in UTF-8") from error


def table(raw: Mapping[str, object], name: str, file: Path) -> Table:
    """Return the table `name` in `raw`, empty if it is missing.

    Raises:
        BadData: the value is not a table.
    """
    value = raw.get(name, {})
    if not isinstance(value, dict):
        raise BadData(f"{file}: {name} is {value!r:.60}; expected a table [{name}]")
    return cast("Table", value)


def tables(raw: Mapping[str, object], name: str, file: Path) -> list[Table]:
    """Return the list of tables `name` in `raw`, empty if it is missing.

    Raises:
        BadData: the value is not a list of tables.
    """
    value: object = raw.get(name) or list[object]()
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in cast("list[object]", value)):
        raise BadData(f"{file}: {name} is {value!r:.60}; expected tables [[{name}]]")
    return cast("list[Table]", value)


def text(raw: Mapping[str, object], key: str, file: Path) -> str:
    """Return the text under a key, empty if it is missing; an integer is converted to text.

    Raises:
        BadData: the value is neither a text nor an integer.
    """
    value = raw.get(key, "")
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise BadData(f"{file}: {key} is {value!r:.60}; expected a text")
    return str(value)


def texts(raw: Mapping[str, object], key: str, file: Path) -> tuple[str, ...]:
    """Return the list of texts under a key, empty if it is missing.

    Raises:
        BadData: the value is not a list of texts.
    """
    value: object = raw.get(key) or list[object]()
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in cast("list[object]", value)):
        raise BadData(f"{file}: {key} is {value!r:.60}; expected a list of texts")
    return tuple(cast("list[str]", value))


def number(raw: Mapping[str, object], key: str, file: Path) -> float | None:
    """Return the positive number under a key, None if it is missing.

    Raises:
        BadData: the value is not a positive number.
    """
    value = raw.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise BadData(f"{file}: {key} is {value!r:.60}; expected a number above 0")
    return float(value)


def size(raw: Mapping[str, object], key: str, older: str, file: Path) -> float | None:
    """Return a size in megabytes: the number under `key`, or the text under the older key `older`, such as `2G`.

    None if both are missing.

    Raises:
        BadData: the text is malformed, or both are present and differ.
    """
    megabytes = number(raw, key, file)
    if not isinstance(written := raw.get(older), str):
        return megabytes
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([KMG])\s*", written, re.IGNORECASE)
    if match is None or not float(match[1]):
        raise BadData(f"{file}: {older} is {written!r:.60}; expected a size such as '2G', or {key} = 2048")
    converted = float(int(float(match[1]) * _UNITS[match[2].upper()]))
    if megabytes not in (None, converted):
        raise BadData(
            f"{file}: {older} is {written!r} ({converted:g} MB), but {key} is {megabytes:g}; leave one of them out"
        )
    return converted


def variables(raw: Mapping[str, object], name: str, file: Path) -> dict[str, str]:
    """Return the environment variables in a table's `env`, without substitutions.

    Raises:
        BadData: `env` is not a table.
    """
    value: object = raw.get("env") or {}
    if not isinstance(value, dict):
        raise BadData(f"{file}: env of [{name}] is {value!r:.60}; expected a table of texts")
    return {str(key): str(entry) for key, entry in cast("Table", value).items()}


def resolved(found: Mapping[str, str], name: str, file: Path) -> dict[str, str]:
    """Return environment variables with each `${NAME:-default}` replaced by its default.

    Raises:
        BadData: a value refers to a variable of this machine.
    """
    values = {key: _DEFAULT.sub(r"\1", entry) for key, entry in found.items()}
    for key, entry in values.items():
        if "${" in entry:
            raise BadData(
                f"{file}: {key} of [{name}.env] is {entry!r}, a variable of this machine, and none is handed on to a "
                "container: write its value there, or leave it out"
            )
    return values
