"""Markers for fields of a command's dataclass whose type alone does not define how they are parsed."""

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, TypeAlias, TypeVar

_Value = TypeVar("_Value")


class Mark(Enum):
    """Way in which the command line sets a field; put into the field's `Annotated` type."""

    POSITIONAL = "comes without a flag"
    HIDDEN = "has no flag"
    REPEATED = "its flag takes one value and may be given several times"


@dataclass(frozen=True)
class Alias:
    """Another name of a field: the word in the usage for a positional field, otherwise a second flag."""

    name: str


Positional: TypeAlias = Annotated[_Value, Mark.POSITIONAL]
Hidden: TypeAlias = Annotated[_Value, Mark.HIDDEN]
Repeated: TypeAlias = Annotated[tuple[_Value, ...], Mark.REPEATED]
Options: TypeAlias = Annotated[dict[str, object], Mark.HIDDEN]
"""Type of a field `NAME_options` of a command's dataclass, which collects the flags `--NAME.KEY VALUE`."""
