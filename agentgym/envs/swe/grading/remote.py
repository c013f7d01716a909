"""Remote objects: calls and operations go to another process as data, and results come back as data.

This module runs at both ends: in the tests' process and in the process of the code under test, which may be hostile. It
contains no secrets, and the other end can only send values, exceptions and references to its own objects. It imports only
the standard library.

Immutable data is sent by value. Lists, dictionaries and sets exist at both ends and are synchronized with every message,
so a function may change its arguments. Any other object stays in its process; the other end represents it by an instance
of a class with the same name, bases and special methods (`remote_classes`).
"""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false

import json
import types
from collections.abc import Callable
from typing import Any

from agentgym.envs.swe.grading import remote_values as values
from agentgym.envs.swe.grading.remote_classes import OPERATIONS, OWN, Module, describe, function, mirror

JUDGING = frozenset(("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__", "__bool__", "__hash__"))
"""Operations whose result may decide a test."""
MOST_OBJECTS = 200_000
"""Maximum number of the other end's objects and classes that a `Peer` represents."""


class PeerGone(BaseException):
    """The other end has died or sent a malformed message; a BaseException, so `pytest.raises(Exception)` cannot catch it."""


class Peer:
    """One end of the connection.

    `exchange` sends a message and returns the next one from the other end. `obedient` permits the other end to use all
    objects of this end: True in the process of the code under test, False in the tests' process.
    """

    def __init__(self, exchange: Callable[[str], str], *, obedient: bool) -> None:
        self.exchange, self.obedient = exchange, obedient
        self.objects: dict[int, Any] = {}
        self.numbers: dict[int, int] = {}
        self.theirs: dict[int, Any] = {}
        self.stand_ins: dict[int, int] = {}
        """`id` of a function stub -> number of its function at the other end.

        Not an attribute of the stub, because `functools.wraps` would copy it.
        """
        self.described: list[dict[str, object]] = []
        self.shared = values.Shared(odd=obedient)
        self.judged: set[str] = set()
        """Operations of `JUDGING` requested from the other end: the method's name and the operands' classes."""

    # Requests

    def request(self, kind: str, *words: Any) -> object:
        """Perform operation `kind` with the operands `words` at the other end; return its result or raise its exception."""
        if kind == "do" and words[1] in JUDGING:
            self.judged.add(
                " ".join([words[1], type(words[0]).__name__, *(type(argument).__name__ for argument in words[2])])
            )
        what, answer = self._parsed(self.exchange(self._message(kind, words)))
        while what not in ("return", "raise"):
            what, answer = self._parsed(self.exchange(self._done(what, answer)))
        if what == "return":
            return answer[0]
        error = answer[0]
        if not isinstance(error, Exception):
            error = RuntimeError("the code under test raised something that is not an exception")
        if isinstance(error, StopIteration | StopAsyncIteration) and not (kind == "do" and words[1] == "__next__"):
            error = RuntimeError(f"{type(error).__name__} out of place")  # `all(map(f, …))` would end at StopIteration
        raise error

    def serve(self, message: str) -> None:
        """Answer requests forever, beginning with `message`."""
        while True:
            message = self.exchange(self._done(*self._parsed(message)))

    def forget(self) -> None:
        """Stop synchronizing lists, dictionaries and sets, which is safe after a test has ended."""
        self.shared.forget()
        self.request("forget")

    # Execution

    def _done(self, what: str, words: tuple[object, ...]) -> str:
        try:
            return self._message("return", (self._carried_out(what, words),))
        except PeerGone:
            raise
        except Exception as error:
            return self._message("raise", (error,))
        except BaseException as error:
            return self._message("raise", (RuntimeError(f"{type(error).__name__}: {error}"),))

    def _carried_out(self, what: str, words: tuple[Any, ...]) -> object:
        if what == "do":
            target, operation, positional, named = words
            return OPERATIONS[operation](target, *positional, **dict(named))
        if what == "forget":
            return self.shared.forget()
        if what == "import" and self.obedient:
            return __import__(words[0], fromlist=["*"])
        if what in ("get", "method") and (self.obedient or (not str(words[1]).startswith("__") and _is_own(words[0]))):
            attribute = getattr(words[0], words[1])
            return attribute if what == "get" else attribute(*words[2], **dict(words[3]))
        if what in ("set", "delete") and self.obedient:
            return setattr(*words) if what == "set" else delattr(*words)
        raise AttributeError(f"{what} is not for the code under test to do")

    # Messages

    def _message(self, what: str, words: tuple[object, ...]) -> str:
        self.described = []
        packed = [self.pack(word) for word in words]
        changed = self.shared.changed(self.pack)
        return json.dumps([what, packed, changed, self.described])

    def _parsed(self, message: str) -> tuple[str, tuple[object, ...]]:
        try:
            what, packed, changed, described = json.loads(message)
            for entry in described:
                if entry["number"] not in self.theirs:
                    self._make_room()
                    self.theirs[entry["number"]] = mirror(self, entry, [self.unpack(base) for base in entry["bases"]])
            self.shared.change(changed, self.unpack)
            return str(what), tuple(self.unpack(item) for item in packed)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError, RecursionError) as error:
            raise PeerGone(f"a message that makes no sense: {type(error).__name__}: {error}") from None

    def pack(self, value: Any) -> object:
        """Return a form of the value that JSON can represent."""
        number = self._own(value)
        if number is not None:
            return {"y": number}
        packed = values.packed(value, self.pack)
        if packed is not None:
            return packed[0]
        if type(value) in values.SHARED:
            return {"m": self.shared.number(value)}
        if isinstance(value, types.ModuleType):
            return {"h": self._number(value), "module": value.__name__}
        if isinstance(value, type):
            return self._named(value) or {"h": self._class(value)}
        if not self.obedient and isinstance(value, types.FunctionType | types.MethodType | types.BuiltinFunctionType):
            named = values.named(value)
            return named or {"h": self._number(value), "function": str(getattr(value, "__name__", "function"))}
        if isinstance(value, BaseException):
            kind = self._named(type(value))
            arguments = [self.pack(argument) for argument in value.args]
            cause = self.pack(value.__cause__)
            if kind is not None:
                return {"e": kind, "args": arguments, "cause": cause}
            return {"h": self._number(value), "k": self._class(type(value)), "args": arguments, "cause": cause}
        packed = {"h": self._number(value), "k": self._class(type(value))}
        base = next((kind for kind in values.DATA if isinstance(value, kind)), None)
        return packed if base is None else packed | {"data": self.pack(values.plain(value, base))}

    def unpack(self, packed: object) -> Any:
        """Return a value packed at the other end.

        Raises:
            TypeError: the other end named a class that creates more than plain values and exceptions.
            PeerGone: the other end created too many objects.
        """
        if not isinstance(packed, dict):
            return values.unpacked(packed, self.unpack)
        if "y" in packed:
            return self.objects[packed["y"]]
        if "m" in packed:
            return self.shared.shared_values[packed["m"]][0]
        if "e" in packed:
            return self._error(self.unpack(packed["e"]), packed)
        if "h" not in packed:
            value = values.unpacked(packed, self.unpack)
            if "n" in packed and not self.obedient and not values.is_harmless(value):
                raise TypeError(f"{packed['n']!r:.80} is not a class of values")
            return value
        number = packed["h"]
        if number not in self.theirs:
            self._make_room()
            self.theirs[number] = self._represented(number, packed)
        return self.theirs[number]

    def _make_room(self) -> None:
        if len(self.theirs) >= MOST_OBJECTS:
            raise PeerGone("too many objects")

    def _represented(self, number: int, packed: dict[str, Any]) -> object:
        if "module" in packed:
            stand_in = Module(str(packed["module"]))
            stand_in.__dict__[OWN] = (self, number)
            return stand_in
        if "function" in packed:
            stand_in = function(self, str(packed["function"]))
            self.stand_ins[id(stand_in)] = number
            return stand_in
        kind = self.theirs[packed["k"]]
        if "args" in packed:
            stand_in = self._error(kind, packed)
        elif "data" in packed:
            base: Any = next(data_kind for data_kind in values.DATA if issubclass(kind, data_kind))
            stand_in = base.__new__(kind, self.unpack(packed["data"]))
        else:
            stand_in = object.__new__(kind)
        object.__setattr__(stand_in, OWN, number)
        return stand_in

    def _error(self, kind: object, packed: dict[str, Any]) -> object:
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            raise TypeError(f"{kind!r} is not an exception")
        arguments = tuple(self.unpack(argument) for argument in packed["args"])
        error = kind.__new__(kind, *arguments)
        error.args = arguments
        cause = self.unpack(packed["cause"])
        if isinstance(cause, Exception):
            error.__cause__ = cause
        return error

    def _named(self, kind: type) -> object:
        """Return `{"n": "MODULE:NAME"}` for a class that the other end may import; None if it must be described instead."""
        return values.standard(kind) if not self.obedient or values.is_harmless(kind) else None

    def _own(self, value: object) -> int | None:
        """Return the number of an object that belongs to the other end; None if the object belongs to this end."""
        if isinstance(value, types.FunctionType):
            return self.stand_ins.get(id(value))
        if isinstance(value, type | types.ModuleType):
            own = value.__dict__.get(OWN)
            return own[1] if type(own) is tuple and own[0] is self else None
        own = getattr(type(value), OWN, None)
        return value.__dict__.get(OWN) if type(own) is tuple and own[0] is self else None

    def _number(self, value: object) -> int:
        number = self.numbers.get(id(value))
        if number is None:
            number = self.numbers[id(value)] = len(self.objects)
            self.objects[number] = value
        return number

    def _class(self, kind: type) -> int:
        known = id(kind) in self.numbers
        number = self._number(kind)
        if not known:
            description = describe(kind, number, self.pack)  # packs its bases first
            self.described.append(description)
        return number


def _is_own(value: object) -> bool:
    """Return True if the tests define the object's class; the other end may read attributes only of such objects."""
    kind = value if isinstance(value, type) else type(value)
    return bool(kind.__flags__ & 1 << 9) and kind.__module__.partition(".")[0] not in values.LIBRARIES
