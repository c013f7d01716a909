"""Values sent between processes, and the lists, dictionaries and sets that both share. Standard library only."""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false

import collections
import datetime
import decimal
import fractions
import importlib
import operator
import pathlib
import re
import sys
from collections.abc import Callable
from typing import Any

Pack = Callable[[object], object]
DATA = (tuple, str, int, float, bytes)
"""Types whose subclasses are data, too: their value is sent along with the reference to the object."""
MODULES = (
    *("builtins", "collections", "datetime", "decimal", "fractions", "math", "operator", "enum", "uuid", "pathlib"),
    *("json.decoder", "string", "re", "collections.abc"),
)
"""Modules whose classes and functions are the same at both ends."""
LIBRARIES = frozenset(sys.stdlib_module_names) | {"pytest", "_pytest", "py", "pluggy", "agentgym"}
SHARED: dict[type, Callable[..., object]] = {
    kind: kind for kind in (list, dict, set, bytearray, collections.deque, collections.OrderedDict, collections.Counter)
}
SHARED[collections.defaultdict] = collections.defaultdict
_BY_NAME = {kind.__name__: kind for kind in SHARED}
DEEPEST = 8
"""Maximum nesting depth that `written` formats itself."""
MOST = 100_000
"""Maximum number of lists, dictionaries and sets during one test."""
_SINGLE: dict[str, object] = {"Ellipsis": ..., "NotImplemented": NotImplemented}
_MANY: dict[str, Callable[[list[Any]], object]] = {
    "t": tuple,
    "z": frozenset,
    "s": lambda three: slice(*three),
    "r": lambda three: range(*three),
}
_ONE: dict[str, Callable[[Any], object]] = {
    "f": float.fromhex,
    "i": lambda text: int(text, 16),
    "c": lambda pair: complex(float.fromhex(pair[0]), float.fromhex(pair[1])),
    "b": bytes.fromhex,
    "decimal": decimal.Decimal,
    "fraction": lambda pair: fractions.Fraction(pair[0], pair[1]),
    "date": datetime.date.fromisoformat,
    "datetime": datetime.datetime.fromisoformat,
    "time": datetime.time.fromisoformat,
    "timedelta": lambda three: datetime.timedelta(*three),
    "path": pathlib.PurePosixPath,
    "file": pathlib.Path,
    "single": _SINGLE.__getitem__,
}
_TO: dict[type, tuple[str, Callable[[Any], object]]] = {
    float: ("f", float.hex),
    complex: ("c", lambda value: [value.real.hex(), value.imag.hex()]),
    bytes: ("b", bytes.hex),
    decimal.Decimal: ("decimal", str),
    fractions.Fraction: ("fraction", lambda value: [value.numerator, value.denominator]),
    datetime.date: ("date", datetime.date.isoformat),
    datetime.datetime: ("datetime", datetime.datetime.isoformat),
    datetime.time: ("time", datetime.time.isoformat),
    datetime.timedelta: ("timedelta", lambda value: [value.days, value.seconds, value.microseconds]),
    pathlib.PurePosixPath: ("path", str),
    pathlib.PosixPath: ("file", str),
    type(...): ("single", lambda _: "Ellipsis"),
    type(NotImplemented): ("single", lambda _: "NotImplemented"),
}
_HARMLESS = frozenset({object, bool, complex, frozenset, slice, range, re.Pattern, pathlib.Path, *DATA, *SHARED, *_TO})


def packed(value: Any, pack: Pack) -> tuple[object] | None:
    """Return a 1-tuple with a form of immutable data that JSON can represent; None for any other value."""
    kind = type(value)
    if value is None or kind is bool or kind is str or (kind is int and -(1 << 53) < value < 1 << 53):
        return (value,)
    if kind is int:
        return ({"i": hex(value)},)
    if kind in _TO:
        tag, how = _TO[kind]
        return ({tag: how(value)},)
    if kind is tuple or kind is frozenset:
        return ({"t" if kind is tuple else "z": [pack(item) for item in value]},)
    if kind is slice or kind is range:
        return ({kind.__name__[0]: [pack(value.start), pack(value.stop), pack(value.step)]},)
    if kind is re.Pattern:
        return ({"pattern": [pack(value.pattern), value.flags]},)
    return None


def unpacked(packed: Any, unpack: Callable[[object], Any]) -> object:
    """Reverse `packed`; raise TypeError, ValueError or KeyError for malformed input."""
    if packed is None or type(packed) in (bool, int, str):
        return packed
    ((tag, content),) = packed.items()
    if tag in _MANY:
        return _MANY[tag]([unpack(item) for item in content])
    if tag == "n":
        return resolved(content)
    if tag == "pattern":
        return re.compile(unpack(content[0]), content[1])
    return _ONE[tag](content)


def plain(value: Any, base: type) -> object:
    """Return the value of an instance of a subclass of `base`, as a plain `base`; `base` is one of `DATA`."""
    if base is tuple:
        return tuple(tuple.__iter__(value))
    return {str: lambda: str.__str__(value), int: lambda: int.__index__(value), float: lambda: float.__float__(value)}.get(
        base, lambda: bytes.__getitem__(value, slice(None))
    )()


def written(value: Any, other: Callable[[object], str], depth: int = 0) -> str:
    """Return a value as text that is the same for equal values; floats have nine digits.

    `other` formats values that are not data, or whose nesting `depth` (from 0) is above `DEEPEST`.
    """
    kind = type(value)
    if kind is float:
        return f"{value:.9g}"  # a different order of summation must not matter
    if value is None or kind in (bool, int, str) or kind in _TO:
        return repr(value)
    if depth > DEEPEST or (kind not in SHARED and kind not in (tuple, frozenset)):
        return other(value)
    if isinstance(value, dict):
        inner = [f"{written(key, other, depth + 1)}:{written(item, other, depth + 1)}" for key, item in value.items()]
    else:
        inner = [written(item, other, depth + 1) for item in value]
    ordered = isinstance(value, list | tuple | collections.deque | bytearray | collections.OrderedDict)
    return f"{kind.__name__}[{','.join(inner if ordered else sorted(inner))}]"


def standard(kind: type) -> dict[str, str] | None:
    """Return `{"n": "MODULE:NAME"}` for a class that both ends have; None for others."""
    name = f"{kind.__module__}:{kind.__qualname__}"
    return {"n": name} if kind.__module__ in MODULES and _looked_up(name) is kind else None


def is_harmless(kind: object) -> bool:
    """Return True if a class creates only values or exceptions; the code under test may name only such classes.

    By calling `operator.attrgetter`, `operator.methodcaller` or `io.FileIO`, it could do anything in the tests' process.
    """
    if not isinstance(kind, type) or standard(kind) is None:
        return False
    return kind in _HARMLESS or issubclass(kind, Exception) or kind.__module__ == "collections.abc"


def named(function: object) -> dict[str, str] | None:
    """Return `{"n": "MODULE:NAME"}` for a function of `MODULES`; None for others."""
    module = getattr(function, "__module__", None)
    name = f"{module}:{getattr(function, '__qualname__', '')}"
    return {"n": name} if module in MODULES and _looked_up(name) is function else None


def resolved(name: str) -> object:
    """Return the class or function that a name `module:qualified.name` refers to.

    Raises:
        ValueError: the standard library has no such name.
    """
    thing = _looked_up(name)
    if thing is None:
        raise ValueError(f"{name!r} names no class of the standard library")
    return thing


def _looked_up(name: str) -> object:
    module, _, path = name.partition(":")
    try:
        return operator.attrgetter(path)(importlib.import_module(module)) if module in MODULES else None
    except AttributeError:
        return None


class Shared:
    """Lists, dictionaries and sets that both ends have, and their changes since the last message."""

    def __init__(self, *, odd: bool) -> None:
        self.next, self.start = int(odd), int(odd)
        self.shared_values: dict[int, list[Any]] = {}
        """Number -> the object, and its content at the last message."""
        self.numbers: dict[int, int] = {}
        self.filling: set[int] = set()

    def forget(self) -> None:
        """Forget all objects; their numbers are not reused."""
        self.shared_values.clear()
        self.numbers.clear()

    def number(self, value: object) -> int:
        """Return the number of an object; a new object is shared from now on."""
        number = self.numbers.get(id(value))
        if number is None:
            number, self.next = self.next, self.next + 2
            self._hold(number, value, None)
        return number

    def changed(self, pack: Pack) -> list[list[object]]:
        """Return the changes that the other end does not know yet: (number, type, items, default factory) each."""
        changes: list[list[object]] = []
        done: set[int] = set()
        while left := [number for number in self.shared_values if number not in done]:  # packing one may add others
            for number in left:
                done.add(number)
                value, before = self.shared_values[number]
                now = _flat(value)
                if number in self.filling or (
                    before is not None and len(now) == len(before) and all(map(operator.is_, now, before))
                ):
                    continue
                self.shared_values[number][1] = now
                factory = pack(value.default_factory) if type(value) is collections.defaultdict else None
                changes.append([number, type(value).__name__, [pack(item) for item in now], factory])
        return changes

    def change(self, changes: list[list[Any]], unpack: Pack) -> None:
        """Apply the other end's changes.

        Raises:
            ValueError: there are too many objects, or a number is malformed.
        """
        for number, kind, _, factory in changes:
            if number not in self.shared_values:
                if len(self.shared_values) >= MOST or type(number) is not int:
                    raise ValueError("too many lists")
                arguments = [unpack(factory)] if kind == "defaultdict" else []
                self._hold(number, _BY_NAME[kind](*arguments), [])
        self.filling = {number for number, *_ in changes}
        for number, _, packed_items, _ in changes:
            items = [unpack(item) for item in packed_items]
            _fill(self.shared_values[number][0], items)
        for number, *_ in changes:
            self.shared_values[number][1] = _flat(self.shared_values[number][0])
        self.filling = set()

    def _hold(self, number: int, value: object, before: list[object] | None) -> None:
        self.shared_values[number] = [value, before]
        self.numbers[id(value)] = number


def _flat(value: Any) -> list[object]:
    if isinstance(value, dict):
        return [item for pair in value.items() for item in pair]
    return list(value)


def _fill(value: Any, items: list[Any]) -> None:
    if isinstance(value, list | bytearray):
        value[:] = items
        return
    value.clear()
    if isinstance(value, dict):
        for key, item in zip(items[::2], items[1::2], strict=True):
            value[key] = item
    elif isinstance(value, set):
        value.update(items)
    else:
        value.extend(items)
