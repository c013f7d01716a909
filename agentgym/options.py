"""Parsing of a command's dataclass field from the command line, if its type alone does not define it."""

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, TypeAlias, TypeVar

_Value = TypeVar("_Value")


class Mark(Enum):
    """Metadata of a field in `Annotated`."""

    POSITIONAL = "comes without a flag"
    HIDDEN = "has no flag"
    REPEATED = "its flag takes one value and may be given several times"


@dataclass(frozen=True)
class Alias:
    """Another name of a field: of a positional one the word in the usage, else a second flag."""

    name: str


Positional: TypeAlias = Annotated[_Value, Mark.POSITIONAL]
Hidden: TypeAlias = Annotated[_Value, Mark.HIDDEN]
Repeated: TypeAlias = Annotated[tuple[_Value, ...], Mark.REPEATED]
Options: TypeAlias = Annotated[dict[str, object], Mark.HIDDEN]
"""A field `NAME_options` of a command's dataclass collects the flags `--NAME.KEY VALUE`."""
