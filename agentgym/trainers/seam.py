"""Common parts of all replaceable stages: table of names, MODULE:NAME, checked options, state.

A stage is a function with a decorator of its kind (`@agentgym.reward("brevity")`) or a class (a task sampler, a
logger). Its options are its keyword-only parameters, except for three that the run passes: `step` (counted from 0),
`state` (a dict of plain data that is stored in the checkpoint) and `run` (the parts of the run that a stage may use).
"""

import inspect
import math
import signal
from collections.abc import Callable, Container, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol, TypeVar, cast, get_args, get_origin, get_type_hints

from agentgym.errors import BadConfig, no_such
from agentgym.registry import load

SECOND_CTRL_C = 128 + signal.SIGINT
"""Exit code of a program that a second Ctrl-C ends."""
HANDED_IN = ("step", "state", "run")
"""Parameters of a stage that are not options: the run passes them."""
REQUIRED = {
    "expert": "demonstrations of the environment's expert, in the agent's tokens",
    "repeats": "tasks that come again",
    "hint": "hints of the environment, and an agent that can show them",
    "proposals": "tasks that are made in the step that plays them",
    "replays": "episodes that can be gone through again: environments with one role that answer alike twice",
}
"""Description of each requirement that a sampler, a selection or a generation may declare, for messages."""
MARK = "__stage__"
T = TypeVar("T")
Target = TypeVar("Target", bound=Callable[..., object])


class Processes(Protocol):
    """The part of a run that stages use to work with several processes."""

    @property
    def rank(self) -> int:
        """Rank of this process, from 0."""
        ...

    def gather(self, items: list[T]) -> list[T]:
        """Return the items of all processes, in the order of the processes."""
        ...


class HasSeed(Protocol):
    """A configuration with a seed."""

    @property
    def seed(self) -> int:
        """Root seed of the run."""
        ...


class Seeded(Processes, Protocol):
    """The part of a run that stages need to draw random numbers."""

    @property
    def config(self) -> HasSeed:
        """The run's configuration."""
        ...


class Stateful:
    """An object with state to store in the checkpoint; by default, no state."""

    def state_dict(self) -> dict[str, object]:
        """Return plain data, or tensors, that `load_state_dict` restores exactly."""
        return {}

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Restore the state that `state_dict` returned."""


def unwritten(target: object, base: type) -> str:
    """Return the methods of `base` that the user's class lacks or leaves abstract, comma-separated; empty for a function."""
    if not inspect.isclass(target):
        return ""
    public = {name for kind in base.__mro__ for name, value in vars(kind).items() if name[0] != "_" and callable(value)}
    lacks = {name for name in public if not callable(getattr(target, name, None))}
    abstract: frozenset[str] = getattr(target, "__abstractmethods__", frozenset())
    return ", ".join(f"{name}()" for name in sorted(lacks | abstract))


@dataclass(frozen=True, slots=True)
class Within:
    """Inclusive bounds of a number: `gamma: Annotated[float, Within(0, 1)] = 0.95`."""

    least: float
    most: float = math.inf


@dataclass(frozen=True, slots=True)
class From:
    """Permitted source of a text option: `query: Annotated[str, SHAPES] = "search"`."""

    stored: bool
    """True if a stored run may set the option."""


SHAPES = From(stored=True)
"""Mark of a text option that shapes the computation: a stored run may set it, unless the value contains a colon."""
CALLER = From(stored=False)
"""Mark of a text option that says where or how something runs: only the caller may set it. This is the default."""


@dataclass(frozen=True, slots=True)
class Declared:
    """Name and attributes that a decorator attaches to a function or class."""

    kind: str
    name: str
    attributes: Mapping[str, Any]


@dataclass(slots=True)
class Stage:
    """A function or class chosen for a stage, with its options filled in."""

    kind: str
    name: str
    target: Callable[..., Any]
    options: dict[str, object]
    attributes: Mapping[str, Any]
    state: dict[str, Any] = field(default_factory=dict[str, Any])
    """State of a function that has the parameter `state`: plain data, stored between steps and in the checkpoint."""

    def __call__(self, *arguments: object, **arguments_by_name: object) -> Any:
        """Call the target with its options, and with those of `step`, `state` and `run` that are among its parameters."""
        names = parameters(self.target)
        values = {name: value for name, value in {**arguments_by_name, "state": self.state}.items() if name in names}
        with contained(f"{self.kind} {self.name!r}"):
            return self.target(*arguments, **self.options, **values)

    def option(self, name: str, default: object) -> Any:
        """Return the value of an option, as set or as the target's default; `default` if the target has no such option."""
        known = options_of(self.target)
        return self.options.get(name, known[name].default) if name in known else default

    def state_dict(self) -> dict[str, object]:
        """Return the state for the checkpoint."""
        return self.state

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Restore the state from a checkpoint."""
        self.state.clear()
        self.state.update(state)


@contextmanager
def contained(name: str) -> Generator[None]:
    """Turn a SystemExit or GeneratorExit from a stage, which would silently end the run, into a RuntimeError.

    Raises:
        RuntimeError: the stage raised SystemExit or GeneratorExit.
        SystemExit: Ctrl-C was pressed twice (`trainers.run.interrupt`).
    """
    try:
        yield
    except (SystemExit, GeneratorExit) as error:
        if isinstance(error, SystemExit) and error.code == SECOND_CTRL_C:
            raise SystemExit(SECOND_CTRL_C) from error
        raise RuntimeError(f"{name} raised {error!r}; expected a result, or an error that says what is wrong") from error


class Seam:
    """One kind of stage: its names, the decorator that declares them, and their resolution.

    `table`: MODULE:NAME of the built-in stages by name. `kind`: the word in messages and flags (`--KIND NAME
    --KIND.OPTION VALUE`).
    """

    def __init__(
        self, kind: str, table: Mapping[str, str], attributes: Mapping[str, object] | None = None, *, noun: str = ""
    ) -> None:
        self.kind, self.noun = kind, noun or kind
        self.table = dict(table)
        self.attributes = dict(attributes or {})
        """Attributes that a decorator of this kind may set, with their defaults."""
        self._declared: dict[str, Callable[..., object]] = {}

    def declare(self, name: str, **attributes: object) -> Callable[[Target], Target]:
        """Return the decorator that gives a function or class a short name; the decorated object is returned unchanged.

        Raises:
            BadConfig: an attribute is unknown, or the name belongs to a built-in stage.
        """
        for key in attributes:
            if key not in self.attributes:
                raise BadConfig(no_such(f"attribute of {self.kind} {name!r}:", key, self.attributes))

        def mark(target: Target) -> Target:
            if name in self.table and self.table[name] != f"{target.__module__}:{target.__qualname__}":
                raise BadConfig(
                    f"the name {name!r} belongs to a {self.kind} of the package; choose another for {target.__module__}"
                )
            setattr(target, MARK, Declared(self.kind, name, {**self.attributes, **attributes}))
            self._declared[name] = target
            return target

        return mark

    def names(self) -> list[str]:
        """Return all names: built-in ones and those declared so far."""
        return sorted({*self.table, *self._declared})

    def is_registered(self, reference: str) -> bool:
        """Return True if a reference resolves without an import: it is in the table, or was declared in this process."""
        if reference in self.table or reference in self._declared:
            return True
        return any(f"{known.__module__}:{known.__qualname__}" == reference for known in self._declared.values())

    def check_name(self, reference: str) -> None:
        """Check that a reference is a known name or MODULE:NAME, without importing anything; else raise UnknownName."""
        if ":" not in reference and not self.is_registered(reference):
            self.looked_up(reference)

    def may_be_stored(self, references: Sequence[str], key: str, value: object) -> bool:
        """Return True if a stored run may set option `key` to this value; for an unregistered stage, only to a number."""
        for reference in references:
            hint = _hints(self.looked_up(reference).target).get(key) if self.is_registered(reference) else None
            marks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
            if CALLER in marks:
                return False
            if SHAPES in marks:
                return _without_colon(value)
            if get_origin(hint) is Literal and value in get_args(hint):
                return True
        return _numeric(value)

    def resolve(self, reference: str, options: Mapping[str, object] | None = None) -> Stage:
        """Return the stage with this short name or MODULE:NAME and its options.

        Strings, which come from a command line, are converted to the type of the option's default.

        Raises:
            UnknownName: there is no such stage.
            BadConfig: an option is unknown, a required option is missing, or an option's type or annotation (`Literal`,
                `Annotated[float, Within(0, 1)]`) does not allow the value.
        """
        stage = self.looked_up(reference)
        stage.options = self._bound(stage.name, stage.target, dict(options or {}))
        return stage

    def looked_up(self, reference: str) -> Stage:
        """Return the stage with this short name or MODULE:NAME, with default options.

        Raises:
            UnknownName: there is no such stage.
            BadConfig: the object is not a stage of this kind.
        """
        table = {
            **{name: f"{known.__module__}:{known.__qualname__}" for name, known in self._declared.items()},
            **self.table,
        }
        target = self._declared.get(reference) or load(reference, self.noun, table)
        declared: Declared | None = getattr(target, MARK, None)
        if declared is None or declared.kind != self.kind or not callable(target):
            name = reference.rpartition(":")[2]
            raise BadConfig(f"{reference} is not a {self.kind}; put @agentgym.{self.kind}({name!r}) above it")
        return Stage(self.kind, declared.name, target, {}, declared.attributes)

    def _bound(self, name: str, target: Callable[..., object], options: Mapping[str, object]) -> dict[str, object]:
        known = options_of(target)
        for key in options:
            if key not in known:
                raise BadConfig(no_such(f"option of {self.kind} {name!r}:", key, known))
        missing = [
            key for key, parameter in known.items() if parameter.default is inspect.Parameter.empty and key not in options
        ]
        if missing:
            raise BadConfig(f"{self.kind} {name!r} needs {', '.join(missing)}; give --{self.kind}.{missing[0]} VALUE")
        values = {
            key: _converted(f"{key} of {self.kind} {name!r}", value, known[key].default) for key, value in options.items()
        }
        _check_values(f"of {self.kind} {name!r}", target, values)
        return values


def required(names: Sequence[str]) -> tuple[str, ...]:
    """Return the requirements of a stage as a tuple, after checking their names.

    Raises:
        BadConfig: a name is not in `REQUIRED`.
    """
    for name in names:
        if name not in REQUIRED:
            raise BadConfig(no_such("requirement of a stage:", name, REQUIRED))
    return tuple(names)


def parameters(target: Callable[..., object]) -> dict[str, inspect.Parameter]:
    """Return the keyword-only parameters of a function, or of a class's `__init__`."""
    every = inspect.signature(target).parameters
    return {name: parameter for name, parameter in every.items() if parameter.kind is inspect.Parameter.KEYWORD_ONLY}


def options_of(target: Callable[..., object]) -> dict[str, inspect.Parameter]:
    """Return the keyword-only parameters that are options, by name."""
    return {name: parameter for name, parameter in parameters(target).items() if name not in HANDED_IN}


def _hints(target: Callable[..., object]) -> dict[str, Any]:
    try:
        return get_type_hints(target.__init__ if inspect.isclass(target) else target, include_extras=True)
    except (NameError, TypeError):
        return {}


def _numeric(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(_numeric(item) for item in cast("Mapping[object, object]", value).values())
    if isinstance(value, list | tuple):
        return all(_numeric(item) for item in cast("Sequence[object]", value))
    return value is None or isinstance(value, bool | int | float)


def _without_colon(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(_without_colon(item) for item in cast("Mapping[object, object]", value).values())
    if isinstance(value, list | tuple):
        return all(_without_colon(item) for item in cast("Sequence[object]", value))
    return not (isinstance(value, str) and ":" in value)


def _check_values(where: str, target: Callable[..., object], values: Mapping[str, object]) -> None:
    hints = _hints(target)
    for name, value in values.items():
        expected = f"{name} {where} is {value!r}; expected"
        if get_origin(hints.get(name)) is Literal and value not in get_args(hints[name]):
            raise BadConfig(f"{expected} one of {', '.join(map(repr, get_args(hints[name])))}")
        bounds = get_args(hints[name])[1:] if get_origin(hints.get(name)) is Annotated else ()
        for bound in bounds:
            if isinstance(bound, Within) and not _within(value, bound):
                most = f" to {bound.most:g}" if bound.most < math.inf else ""
                raise BadConfig(f"{expected} a number from {bound.least:g}{most}")


def _within(value: object, bound: Within) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return math.isfinite(value) and bound.least <= value <= bound.most


def _converted(what: str, value: Any, default: object) -> object:
    kind = next((candidate for candidate in (bool, int, float, str) if isinstance(default, candidate)), None)
    if kind is None:
        return value
    if isinstance(value, str) and kind is bool and value.lower() in ("true", "false"):
        return value.lower() == "true"
    try:
        if isinstance(value, str) and kind in (int, float):
            return kind(value)
    except ValueError:
        pass
    if isinstance(value, kind) and isinstance(value, bool) == (kind is bool):
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    raise BadConfig(f"{what} is {value!r}; expected {kind.__name__}, for example {default!r}")


def shared_out(kind: str, stages: Sequence[Stage], options: Mapping[str, object]) -> dict[str, dict[str, object]]:
    """Return each stage's options; a key is `weight`, or `NAME.weight` if several stages have the option `weight`.

    In TOML, a table `NAME` may contain the options of the stage `NAME`.

    Raises:
        BadConfig: no stage has the option, or the key fits several stages.
    """
    by_stage: dict[str, dict[str, object]] = {stage.name: {} for stage in stages}
    for key, value in unfolded(options, by_stage).items():
        name, _, plain = key.rpartition(".")
        owners = [stage.name for stage in stages if plain in options_of(stage.target) and name in ("", stage.name)]
        if not owners:
            known = {option for stage in stages for option in options_of(stage.target)}
            raise BadConfig(no_such(f"option of {kind} {', '.join(by_stage)}:", key, known))
        if len(owners) > 1:
            raise BadConfig(f"{key} is an option of {' and '.join(owners)}; say which: --{kind}.{owners[0]}.{plain} VALUE")
        by_stage[owners[0]][plain] = value
    return by_stage


def unfolded(options: Mapping[str, object], names: Container[str]) -> dict[str, object]:
    """Return options with tables flattened: key `NAME.OPTION` for each table whose key is in `names`."""
    flat: dict[str, object] = {}
    for key, value in options.items():
        if key in names and isinstance(value, Mapping):
            flat |= {f"{key}.{name}": setting for name, setting in cast("Mapping[str, object]", value).items()}
        else:
            flat[key] = value
    return flat


def given_to(options: Mapping[str, object], name: str) -> dict[str, object]:
    """Return options with those of the stage `name` under plain keys, whether set in its table, with a prefix or without."""
    return {key.removeprefix(f"{name}."): value for key, value in unfolded(options, (name,)).items()}
