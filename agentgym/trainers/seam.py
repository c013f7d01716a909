"""What every replaceable stage of a training step shares: a table of names, MODULE:NAME, options checked by value, state.

A stage is a function with a decorator of its kind (`@agentgym.reward("brevity")`) or a class (a task sampler, a logger).
Its options are its keyword-only parameters. Three names are not options but are handed in: `step` (updates so far, from
0), `state` (a dict of plain data that is kept in the checkpoint) and `run` (what a stage may use of the run).
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
"""Parameters of a stage that are no options: who calls it fills them in."""
REQUIRED = {
    "expert": "demonstrations of the environment's expert, in the agent's tokens",
    "repeats": "tasks that come again",
    "hint": "hints of the environment, and an agent that can show them",
    "proposals": "tasks that are made in the step that plays them",
    "replays": "episodes that can be gone through again: environments with one role that answer alike twice",
}
"""What a sampler or a selection may require of a run."""
MARK = "__stage__"
T = TypeVar("T")
Target = TypeVar("Target", bound=Callable[..., object])


class Processes(Protocol):
    """What a stage may ask of the processes of a run."""

    @property
    def rank(self) -> int:
        """The number of this process."""
        ...

    def gather(self, items: list[T]) -> list[T]:
        """Return the items of all processes, in the order of the processes."""
        ...


class HasSeed(Protocol):
    """A configuration, as far as chance goes."""

    @property
    def seed(self) -> int:
        """All chance of the run comes from it."""
        ...


class Seeded(Processes, Protocol):
    """What a stage that draws by chance may ask of a run."""

    @property
    def config(self) -> HasSeed:
        """The run's configuration."""
        ...


class Stateful:
    """What is kept in the checkpoint of a run; nothing unless a class says otherwise."""

    def state_dict(self) -> dict[str, object]:
        """Return plain data, or tensors, from which `load_state_dict` resumes exactly."""
        return {}

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Go on from what `state_dict` returned."""


def unwritten(target: object, base: type) -> str:
    """Return the methods of a base class that a class of one's own lacks or has not written; empty where there are none.

    A function that makes one is not looked into.
    """
    if not inspect.isclass(target):
        return ""
    public = {name for kind in base.__mro__ for name, value in vars(kind).items() if name[0] != "_" and callable(value)}
    lacks = {name for name in public if not callable(getattr(target, name, None))}
    abstract: frozenset[str] = getattr(target, "__abstractmethods__", frozenset())
    return ", ".join(f"{name}()" for name in sorted(lacks | abstract))


@dataclass(frozen=True, slots=True)
class Within:
    """Bounds of a number, both allowed: `gamma: Annotated[float, Within(0, 1)] = 0.95`."""

    least: float
    most: float = math.inf


@dataclass(frozen=True, slots=True)
class From:
    """Where the text of an option may come from: `query: Annotated[str, SHAPES] = "search"`."""

    stored: bool
    """Whether a stored run may set it."""


SHAPES = From(stored=True)
"""The option says what is computed; a stored run may set it, unless its text has a colon, as MODULE:NAME and URLs do."""
CALLER = From(stored=False)
"""The option says where or how something runs (an engine, a file, an address): the caller alone sets it, as every text
of an option that is not declared."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What a decorator says of a function or class."""

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
    """What a function with a parameter `state` keeps from step to step: plain data, saved in the checkpoint."""

    def __call__(self, *arguments: object, **handed: object) -> Any:
        """Call the target with its options and with what it asks to be handed, of `step`, `state` and `run`."""
        names = parameters(self.target)
        values = {name: value for name, value in {**handed, "state": self.state}.items() if name in names}
        with contained(f"{self.kind} {self.name!r}"):
            return self.target(*arguments, **self.options, **values)

    def option(self, name: str, default: object) -> Any:
        """Return the value of an option, as it was given or as the target has it; `default` where it has none."""
        known = options_of(self.target)
        return self.options.get(name, known[name].default) if name in known else default

    def state_dict(self) -> dict[str, object]:
        """Return what goes into the checkpoint."""
        return self.state

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Take what a checkpoint holds."""
        self.state.clear()
        self.state.update(state)


@contextmanager
def contained(name: str) -> Generator[None]:
    """Raise RuntimeError in place of a SystemExit or GeneratorExit of a stage, which would end a run without a word.

    The SystemExit of a second Ctrl-C (`trainers.run.interrupt`) is the user's.
    """
    try:
        yield
    except (SystemExit, GeneratorExit) as error:
        if isinstance(error, SystemExit) and error.code == SECOND_CTRL_C:
            raise
        raise RuntimeError(f"{name} raised {error!r}; expected a result, or an error that says what is wrong") from error


class Seam:
    """One kind of stage: which names there are, how one is declared, and how one is chosen.

    `table`: the package's own, by name. `kind` is the word in messages and of the flags `--KIND NAME --KIND.OPTION VALUE`.
    """

    def __init__(
        self, kind: str, table: Mapping[str, str], attributes: Mapping[str, object] | None = None, *, noun: str = ""
    ) -> None:
        self.kind, self.noun = kind, noun or kind
        self.table = dict(table)
        self.attributes = dict(attributes or {})
        """What a decorator of this kind may say of a function, with the defaults."""
        self._declared: dict[str, Callable[..., object]] = {}

    def declare(self, name: str, **attributes: object) -> Callable[[Target], Target]:
        """Return the decorator that gives a function or class a short name; what it decorates is returned unchanged."""
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
        """Return every name there is: the package's and those declared so far."""
        return sorted({*self.table, *self._declared})

    def is_registered(self, reference: str) -> bool:
        """Whether a name resolves without an import: it is in the table, or was declared in this process."""
        if reference in self.table or reference in self._declared:
            return True
        return any(f"{known.__module__}:{known.__qualname__}" == reference for known in self._declared.values())

    def check_name(self, reference: str) -> None:
        """Raise UnknownName, with the closest name, for what is neither a name nor MODULE:NAME; nothing is imported."""
        if ":" not in reference and not self.is_registered(reference):
            self.looked_up(reference)

    def may_be_stored(self, references: Sequence[str], key: str, value: object) -> bool:
        """Whether a stored run may set an option of one of the stages: a number, a word of its `Literal`, or `SHAPES`.

        Nothing is imported for a name that is not registered.
        """
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
        """Return the stage of a short name or MODULE:NAME with its options.

        Strings are read as the type of the option's default, as they come from a command line. Raises UnknownName or
        BadConfig with the closest name, and BadConfig for a value that the annotation (`Literal`,
        `Annotated[float, Within(0, 1)]`) does not allow.
        """
        stage = self.looked_up(reference)
        stage.options = self._bound(stage.name, stage.target, dict(options or {}))
        return stage

    def looked_up(self, reference: str) -> Stage:
        """Return the stage of a short name or MODULE:NAME, its options at their defaults."""
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
    """Return what a stage requires of a run; BadConfig for a word that is none of `REQUIRED`."""
    for name in names:
        if name not in REQUIRED:
            raise BadConfig(no_such("requirement of a stage:", name, REQUIRED))
    return tuple(names)


def parameters(target: Callable[..., object]) -> dict[str, inspect.Parameter]:
    """Return the keyword-only parameters of a function, or of a class's `__init__`."""
    every = inspect.signature(target).parameters
    return {name: parameter for name, parameter in every.items() if parameter.kind is inspect.Parameter.KEYWORD_ONLY}


def options_of(target: Callable[..., object]) -> dict[str, inspect.Parameter]:
    """Return the parameters that are options: those that nobody hands in."""
    return {name: parameter for name, parameter in parameters(target).items() if name not in HANDED_IN}


def _hints(target: Callable[..., object]) -> dict[str, Any]:
    """Return the annotations of a stage's parameters; none where they cannot be read."""
    try:
        return get_type_hints(target.__init__ if inspect.isclass(target) else target, include_extras=True)
    except (NameError, TypeError):
        return {}


def _numeric(value: object) -> bool:
    """Whether a value has no text in it."""
    if isinstance(value, Mapping):
        return all(_numeric(item) for item in cast("Mapping[object, object]", value).values())
    if isinstance(value, list | tuple):
        return all(_numeric(item) for item in cast("Sequence[object]", value))
    return value is None or isinstance(value, bool | int | float)


def _without_colon(value: object) -> bool:
    """Whether no text in a value has a colon."""
    if isinstance(value, Mapping):
        return all(_without_colon(item) for item in cast("Mapping[object, object]", value).values())
    if isinstance(value, list | tuple):
        return all(_without_colon(item) for item in cast("Sequence[object]", value))
    return not (isinstance(value, str) and ":" in value)


def _check_values(where: str, target: Callable[..., object], values: Mapping[str, object]) -> None:
    """Raise BadConfig for a value that the annotation of its option does not allow."""
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
    """Return by stage the options that are its own: `weight`, or `NAME.weight` where several stages have it.

    In TOML, a table `NAME` may hold the options of that stage.
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
    """Return options with a table that is called like one of the names as `NAME.OPTION` each."""
    flat: dict[str, object] = {}
    for key, value in options.items():
        if key in names and isinstance(value, Mapping):
            flat |= {f"{key}.{name}": setting for name, setting in cast("Mapping[str, object]", value).items()}
        else:
            flat[key] = value
    return flat


def given_to(options: Mapping[str, object], name: str) -> dict[str, object]:
    """Return the options of one stage of several: those in its table, under its name, and without any name."""
    return {key.removeprefix(f"{name}."): value for key, value in unfolded(options, (name,)).items()}
