"""Proxies for classes of another process, with the same name, bases and special methods. Standard library only."""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false

import builtins
import copy
import math
import operator
import types
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from agentgym.envs.swe.grading import remote_values as values

OWN = "_agentgym_remote"
_ARITHMETIC = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift"


def _turned(work: Callable[[Any, Any], object]) -> Callable[[object, object], object]:
    return lambda this, other: work(other, this)


OPERATIONS: dict[str, Callable[..., object]] = {
    **{
        f"__{name}__": getattr(operator, f"__{name}__")
        for name in ["eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "abs", "invert", "index"]
    },
    **{f"__{name}__": getattr(operator, f"__{name}__") for name in ["contains", "getitem", "setitem", "delitem"]},
    **{
        f"__{name}__": getattr(builtins, name)
        for name in ["len", "iter", "next", "hash", "str", "repr", "bool", "int", "float", "complex"]
    },
    **{f"__{name}__": getattr(builtins, name) for name in ["bytes", "reversed", "round", "format", "dir"]},
    **{f"__{name}__": getattr(math, name) for name in ("trunc", "floor", "ceil")},
    **{f"__{name}__": getattr(operator, f"__{name}__") for name in _ARITHMETIC.split()},
    **{f"__r{name}__": _turned(getattr(operator, f"__{name}__")) for name in _ARITHMETIC.split()},
    **{f"__i{name}__": getattr(operator, f"__i{name}__") for name in _ARITHMETIC.split()},
    "__divmod__": divmod,
    "__rdivmod__": _turned(divmod),
    "__copy__": copy.copy,
    "__deepcopy__": lambda this, *_: copy.deepcopy(this),
    "__call__": lambda this, *positional, **named: this(*positional, **named),
    "__enter__": lambda this: type(this).__enter__(this),
    "__exit__": lambda this, *error: type(this).__exit__(this, *(error[:2] and (error[0], error[1], None))),
}
"""Name of a special method -> function that performs the operation on an object."""
_ALWAYS = ("__str__", "__repr__", "__copy__", "__deepcopy__", "__format__", "__dir__")
_LOCAL = ("args", "with_traceback", "add_note", OWN)


class Peer(Protocol):
    """The other end, which executes requests on its objects."""

    def request(self, kind: str, *words: object) -> Any: ...


def describe(kind: type, number: int, pack: Callable[[object], object]) -> dict[str, object]:
    """Return the description of a class from which the other end creates a proxy (`mirror`)."""
    bases = [pack(base) for base in kind.__bases__ if _is_needed(base)]
    special: dict[str, bool] = {}
    methods: list[str] = []
    for name in OPERATIONS:
        definer = next((ancestor for ancestor in kind.__mro__ if name in ancestor.__dict__), None)
        if definer is not None and not _is_basic(definer):
            special[name] = definer.__dict__[name] is not None
    for ancestor in kind.__mro__:
        if not _is_basic(ancestor):
            methods += [
                name for name, value in ancestor.__dict__.items() if type(value) is types.FunctionType and name[:2] != "__"
            ]
    return {
        "number": number,
        "name": kind.__name__,
        "module": kind.__module__,
        "bases": bases,
        "special": special,
        "methods": sorted(set(methods)),
    }


def _is_basic(kind: type) -> bool:
    """Return True if proxies inherit from the class itself, so that its attributes need no request."""
    return kind is object or kind in values.DATA or (issubclass(kind, BaseException) and values.standard(kind) is not None)


def _is_needed(base: type) -> bool:
    return base is not object and (_is_basic(base) or (base.__module__ not in values.MODULES and base.__module__ != "abc"))


class Meta(type):
    """Metaclass of proxies: attributes missing in a proxy class are requested from the original class."""

    def __call__(cls, *positional: object, **named: object) -> object:
        own = cls.__dict__.get(OWN)
        if own is None:
            raise TypeError(f"{cls.__name__} is derived from a class of another process")
        return own[0].request("do", cls, "__call__", positional, tuple(named.items()))

    def __getattr__(cls, name: str) -> object:
        if name == OWN or name in ("__test__", "__wrapped__", "pytestmark"):
            raise AttributeError(name)
        return _peer(cls).request("get", cls, name)

    def __setattr__(cls, name: str, value: object) -> None:
        if name.startswith("__"):
            type.__setattr__(cls, name, value)
        else:
            _peer(cls).request("set", cls, name, value)

    def __delattr__(cls, name: str) -> None:
        _peer(cls).request("delete", cls, name)

    def __iter__(cls) -> Iterator[object]:  # for enumerations, like the next two
        return _peer(cls).request("do", cls, "__iter__", (), ())

    def __getitem__(cls, key: object) -> object:
        return _peer(cls).request("do", cls, "__getitem__", (key,), ())

    def __len__(cls) -> int:
        return _peer(cls).request("do", cls, "__len__", (), ())

    def __bool__(cls) -> bool:
        return True


class Module(types.ModuleType):
    """Proxy for a module at the other end."""

    def __getattr__(self, name: str) -> object:
        if name in ("__path__", "__wrapped__", "__file__", "__test__", OWN):
            raise AttributeError(name)
        return self.__dict__[OWN][0].request("get", self, name)

    def __setattr__(self, name: str, value: object) -> None:
        if name.startswith("__") or isinstance(value, Module):
            super().__setattr__(name, value)
        else:
            self.__dict__[OWN][0].request("set", self, name, value)

    def __delattr__(self, name: str) -> None:
        self.__dict__[OWN][0].request("delete", self, name)


def _peer(thing: object) -> Peer:
    return getattr(type(thing), OWN)[0] if not isinstance(thing, type) else type.__getattribute__(thing, OWN)[0]


def mirror(peer: Peer, entry: dict[str, Any], bases: list[type]) -> object:
    """Return a proxy for the class that `entry` describes.

    Raises:
        TypeError: no class with these bases can be created.
    """
    bases = [base for base in bases if base in values.DATA or isinstance(base, Meta) or issubclass(base, Exception)]
    error = any(issubclass(base, Exception) for base in bases)
    inner: dict[str, object] = {
        OWN: (peer, entry["number"]),
        "__module__": str(entry["module"]),
        "__getattr__": _get,
    }
    inner |= {"__setattr__": _set, "__delattr__": _delete}
    for name in map(str, entry["methods"]):
        if name[:2] != "__" and name != OWN:  # the other end may send anything
            inner[name] = _method(name)
    for name in () if error or bases else _ALWAYS:
        inner[name] = _operation(name)
    for name, there in entry["special"].items():
        if name in OPERATIONS:
            inner[name] = _operation(name) if there else None
    if "__eq__" in inner and "__hash__" not in inner:
        inner["__hash__"] = object.__hash__
    for kinds in (tuple(bases), tuple(bases[:1]), (Exception,) if error else ()):
        try:
            return Meta(str(entry["name"]), kinds, dict(inner))
        except TypeError:
            continue
    raise TypeError(f"no class can be made for {entry['name']!r:.100}")


def _operation(name: str) -> Callable[..., object]:
    def operation(self: object, *positional: object, **named: object) -> object:
        return _peer(self).request("do", self, name, positional, tuple(named.items()))

    operation.__name__ = name
    return operation


def _method(name: str) -> Callable[..., object]:
    def method(self: object, *positional: object, **named: object) -> object:
        return _peer(self).request("method", self, name, positional, tuple(named.items()))

    method.__name__ = name
    return method


def _get(self: object, name: str) -> object:
    if name == OWN:
        raise AttributeError(name)
    return _peer(self).request("get", self, name)


def _set(self: object, name: str, value: object) -> None:
    if name.startswith("__") or name in _LOCAL:
        object.__setattr__(self, name, value)
    else:
        _peer(self).request("set", self, name, value)


def _delete(self: object, name: str) -> None:
    _peer(self).request("delete", self, name)


def function(peer: Peer, name: str) -> Callable[..., object]:
    """Return a stub for a function at the other end."""

    def stand_in(*positional: object, **named: object) -> object:
        return peer.request("do", stand_in, "__call__", positional, tuple(named.items()))

    stand_in.__name__ = stand_in.__qualname__ = name
    return stand_in
