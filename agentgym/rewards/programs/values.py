"""Encoding of Python values as JSON data that keeps exact types. Also runs in the sandbox, so it uses only the standard
library.
"""

import json
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any, cast

DEEPEST = 40
"""Maximum nesting depth of a value."""
MOST = 100_000
"""Maximum number of values in a packed value, at all depths."""
MOST_ALIKE = 100
"""Maximum number of keys with equal hashes in a set or a dictionary."""
TYPES = {kind.__name__: kind for kind in (bool, bytes, complex, dict, float, frozenset, int, list, set, str, tuple)}
"""Types that may be packed as values themselves, such as `int`, by name."""
DICTIONARIES: tuple[object, ...] = (dict, Counter, OrderedDict, defaultdict)
"""Types that are packed as `dict`, since Python considers their instances equal to dicts."""


class NotData(ValueError):
    """A value cannot be packed (not plain data, too deep or too large), or data cannot be unpacked."""


class Handle:
    """A placeholder for an object that cannot be packed and stays in its process; it equals no other value."""

    __slots__ = ("number", "true")

    def __init__(self, number: int, true: bool) -> None:
        self.number, self.true = number, true


def pack(value: object) -> Any:
    """Return a value as JSON data; raise NotData if it is not plain data, too deep or too large.

    None, bool, int, str and list represent themselves. Other values are objects with one key: `f` float (hexadecimal), `c`
    complex, `b` bytes, `t` tuple, `d` dict (pairs in their order), `s` set, `z` frozenset (both sorted), `y` one of
    TYPES, `h` a Handle.
    """
    return _packed(value, 0, [MOST])


def _packed(value: object, depth: int, room: list[int]) -> object:
    kind = type(value)
    room[0] -= 1
    if depth > DEEPEST or room[0] < 0:
        raise NotData(f"the value is nested deeper than {DEEPEST} levels or holds more than {MOST} values")
    if value is None or kind is bool or kind is int or kind is str:
        return value
    if kind is float:
        return {"f": _hex(cast("float", value))}
    if kind is complex:
        number = cast("complex", value)
        return {"c": [_hex(number.real), _hex(number.imag)]}
    if kind is bytes:
        return {"b": cast("bytes", value).hex()}
    if kind in DICTIONARIES:
        items = cast("dict[object, object]", value).items()
        return {"d": [[_packed(key, depth + 1, room), _packed(item, depth + 1, room)] for key, item in items]}
    if kind is list or kind is tuple or kind is set or kind is frozenset:
        inner = [_packed(item, depth + 1, room) for item in cast("list[object]", value)]
        if kind is list:
            return inner
        return {"t": inner} if kind is tuple else {"s" if kind is set else "z": sorted(inner, key=json.dumps)}
    if kind is type and TYPES.get(cast("type", value).__name__) is value:
        return {"y": cast("type", value).__name__}
    if kind is Handle:
        return {"h": [cast("Handle", value).number, cast("Handle", value).true]}
    raise NotData(f"a value of type {kind.__name__} is not plain data")


def _hex(number: float) -> str:
    return (number + 0.0).hex()  # drop the sign of zero


def by_key(pairs: list[Any]) -> list[Any]:
    """Return the pairs of a packed dictionary in an order determined by their keys alone."""
    return sorted(pairs, key=lambda pair: json.dumps(pair[0]))


def sorted_through(packed: object) -> object:
    """Return a packed value with all dictionaries sorted by key, so that equal values have equal JSON."""
    if type(packed) is list:
        return [sorted_through(item) for item in cast("list[object]", packed)]
    if type(packed) is not dict:
        return packed
    ((tag, content),) = cast("dict[str, Any]", packed).items()
    return {tag: sorted_through(by_key(content) if tag == "d" else content)}


_SCALARS: dict[str, Callable[[Any], object]] = {
    "f": float.fromhex,
    "c": lambda pair: complex(float.fromhex(pair[0]), float.fromhex(pair[1])),
    "b": bytes.fromhex,
    "y": lambda name: TYPES[name],
    "h": lambda pair: _handle(*pair),
}


def _handle(number: object, true: object) -> Handle:
    if type(number) is not int or type(true) is not bool:
        raise NotData("not a handle")
    return Handle(number, true)


_CONTAINERS: dict[str, Callable[[list[Any]], object]] = {"t": tuple, "s": set, "z": frozenset, "d": dict}


def unpack(packed: object) -> Any:
    """Return the value that `pack` encoded.

    Raises:
        NotData: `pack` cannot have produced this data.
    """
    try:
        return _unpacked(packed, 0)
    except (TypeError, ValueError, OverflowError, IndexError, KeyError) as error:
        raise NotData(f"unreadable data: {error}") from error


def _unpacked(packed: object, depth: int) -> object:
    if depth > DEEPEST:
        raise NotData("nested too deep")
    if packed is None or type(packed) in (bool, int, str):
        return packed
    if type(packed) is list:
        return [_unpacked(item, depth + 1) for item in cast("list[object]", packed)]
    if type(packed) is not dict or len(cast("dict[str, object]", packed)) != 1:
        raise NotData("something else where a value should be")
    ((tag, content),) = cast("dict[str, Any]", packed).items()
    if tag in _SCALARS:
        return _SCALARS[tag](content)
    if tag not in _CONTAINERS or type(content) is not list:
        raise NotData("an unknown kind of value")
    inner = cast("list[Any]", content)
    if tag == "d":
        pairs = [(_unpacked(key, depth + 1), _unpacked(item, depth + 1)) for key, item in inner]
        _spread([key for key, _ in pairs])
        return dict(pairs)
    values = [_unpacked(item, depth + 1) for item in inner]
    if tag != "t":
        _spread(values)
    return _CONTAINERS[tag](values)


def _spread(keys: list[object]) -> None:
    """Check that at most MOST_ALIKE keys share a hash, since adding n such keys to a set takes quadratic time.

    Raises:
        NotData: more keys share a hash.
    """
    if len(keys) > MOST_ALIKE and max(Counter(map(hash, keys)).values()) > MOST_ALIKE:
        raise NotData(f"more than {MOST_ALIKE} keys with the same hash")


def as_source(packed: Any) -> str:
    """Return a packed value as Python source; a Handle becomes `an object`."""
    if isinstance(packed, list):
        return "[" + ", ".join(as_source(item) for item in cast("list[object]", packed)) + "]"
    if not isinstance(packed, dict):
        return repr(packed)
    ((tag, content),) = cast("dict[str, Any]", packed).items()
    if tag == "d":
        return "{" + ", ".join(f"{as_source(key)}: {as_source(item)}" for key, item in content) + "}"
    if tag in ("y", "h"):
        return content if tag == "y" else "an object"
    if tag not in _CONTAINERS:
        return repr(unpack(cast("dict[str, object]", packed)))
    inner = ", ".join(as_source(item) for item in content)
    if tag == "t":
        return f"({inner},)" if len(content) == 1 else f"({inner})"
    whole = f"{{{inner}}}" if content else "set()"
    return whole if tag == "s" else f"frozenset({whole})"


def respond(kind: str, thing: Any, inputs: Any) -> object:
    """Call a function, or create an object and call its methods in order; return the result, or the list of results.

    `inputs` is a list of arguments if `kind` is `function`. Otherwise it has the arguments of the constructor and a list of
    (method, arguments).
    """
    if kind == "function":
        return thing(*inputs)
    instance = thing(*inputs[0])
    return [getattr(instance, method)(*arguments) for method, arguments in inputs[1]]
