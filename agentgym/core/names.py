"""Reserved names of a base class; a subclass that reuses one by accident is rejected.

There is no explicit list. A base class reserves its private names, members marked with `typing.final`, attributes
annotated without a value (its `__init__` sets them), and members that it inherits from another package and does not
define itself.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, wraps
from typing import TYPE_CHECKING, Generic

if TYPE_CHECKING:
    from agentgym.core.env import TextEnv


def _families(base: type) -> Iterator[tuple[type, bool]]:
    """Yield the classes in a base class's MRO, each with True if another package defines it."""
    package = base.__module__.partition(".")[0]
    for klass in base.__mro__:
        if klass not in (object, Generic):
            yield klass, klass.__module__.partition(".")[0] != package


@cache
def reserved_names(base: type) -> frozenset[str]:
    """Return the names that a base class reserves for itself."""
    names: set[str] = set()
    defined = {name for klass, foreign in _families(base) if not foreign for name in vars(klass)}
    for klass, foreign in _families(base):
        names |= {name for name, member in vars(klass).items() if getattr(member, "__final__", False)}
        names |= {name for name in vars(klass) if name.startswith("_") or (foreign and name not in defined)}
        names |= inspect.get_annotations(klass).keys() - defined - vars(klass).keys()
    return frozenset(name for name in names if not name.startswith("__"))


@cache
def methods(base: type) -> frozenset[str]:
    """Return the names of a base class's methods."""
    return frozenset(name for klass, _ in _families(base) for name in vars(klass) if callable(getattr(base, name, None)))


def refuse_taken(kind: type, base: type, settings: Sequence[str], moved: Mapping[str, str], replaces: Sequence[str]) -> None:
    """Check that a class uses no reserved name of its base class, and replaces no method by a tool or a plain attribute.

    `moved` maps each former name of the base class to its present place of declaration. `settings` and `replaces` list
    the class's settings and the names that it overrides on purpose.

    Raises:
        TypeError: a name is reserved, has moved, or replaces a method.
    """
    fresh = [
        klass for klass in reversed(kind.__mro__) if klass is kind or not (issubclass(klass, base) or klass in base.__mro__)
    ]
    members = {name: member for klass in fresh for name, member in vars(klass).items() if name not in replaces}
    for name, member in members.items():
        if name in reserved_names(base):
            raise TypeError(f"{kind.__name__} defines {name}, which the base class {base.__name__} uses: rename it")
        if name in moved:
            raise TypeError(f"{kind.__name__} sets {name}: it is declared in {moved[name]}")
        if name in methods(base) - {"__init__"} and (hasattr(member, "__tool__") or not callable(getattr(kind, name))):
            what = "a tool" if hasattr(member, "__tool__") else f"a {type(member).__name__}"
            raise TypeError(f"{kind.__name__} defines {name} as {what}: the base class has a method of that name; rename it")
    if reserved := [name for name in settings if name in reserved_names(base) | methods(base)]:
        raise TypeError(f"settings of {kind.__name__} name {reserved}, which the base class uses: rename them")


def guarded(env: object, base: type, hook: Callable[[], object], name: str, also: frozenset[str] = frozenset()) -> object:
    """Call a subclass's `hook`, the method `name`, and return its result.

    Raises:
        TypeError: the hook sets an attribute that is named like a method of the base class, or listed in `also`.
    """
    attributes = vars(env)
    before = {key: attributes[key] for key in also if key in attributes}
    result = hook()
    for key, value in attributes.items():
        if key in methods(base) or (key in also and before.get(key) is not value):
            raise TypeError(f"{type(env).__name__}.{name} set self.{key}, which the base class uses: rename it")
    return result


def then_settled(initialize: Callable[..., None]) -> Callable[..., None]:
    """Wrap a subclass's `__init__` so that the attributes it sets belong to the environment, not to an episode."""

    @wraps(initialize)
    def __init__(self: "TextEnv", *arguments: object, **options: object) -> None:
        initialize(self, *arguments, **options)
        self._settle()  # pyright: ignore[reportPrivateUsage]  # a part of the class, in a function for its subclasses

    return __init__


def until_it_ends(method: Callable[["TextEnv"], Iterator[str]]) -> Callable[["TextEnv"], Iterator[str]]:
    """Wrap an oracle or expert so that it stops yielding when the episode ends, for loops `for action in env.oracle()`."""

    def running(env: "TextEnv", actions: Iterator[str]) -> Iterator[str]:
        for action in actions:
            yield action
            if not env._running:  # pyright: ignore[reportPrivateUsage]  # a part of the class, in a function for its subclasses
                return

    @wraps(method)
    def guided(self: "TextEnv") -> Iterator[str]:
        return running(self, method(self))

    return guided
