"""Credit: pure NumPy functions from a group of episodes to one advantage per turn (or per output token)."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from agentgym.episode import Episode, Group, Turn
from agentgym.errors import BadConfig, bad_option
from agentgym.registry import load

Floats = npt.NDArray[np.float64]
CreditFunction = Callable[..., Any]

CREDITS = {
    "grpo": "agentgym.trainers.credit.group:grpo",
    "dr_grpo": "agentgym.trainers.credit.group:dr_grpo",
    "rloo": "agentgym.trainers.credit.group:rloo",
    "gigpo": "agentgym.trainers.credit.gigpo:gigpo",
    "gigpo_reference": "agentgym.trainers.credit.gigpo_reference:gigpo_reference",
}
COMPUTED = ("entropy", "logprobs")
"""What the trainer computes of each output token before the update, under its own weights."""
NEEDS = (*COMPUTED, "values", "probe", "branches")
_declared: dict[str, CreditFunction] = {}


@dataclass(frozen=True, slots=True)
class Within:
    """Bounds of a number, both allowed: `gamma: Annotated[float, Within(0, 1)] = 0.95`."""

    least: float
    most: float = math.inf


@dataclass(frozen=True, slots=True)
class Credit:
    """A credit function with its hyper-parameters filled in: call it on all groups of a training step."""

    name: str
    function: CreditFunction
    scope: str = "group"
    """`group`: the function sees one group at a time; `batch`: all groups at once."""
    needs: tuple[str, ...] = ()
    """What the trainer must compute into `turn.extra` first."""
    hyperparameters: Mapping[str, Any] | None = None

    def __call__(self, groups: Sequence[Group]) -> list[list[Floats]]:
        """Return per group and episode a 1-D array: a number per turn, or one per output token of all turns in order.

        Raises ValueError, naming the credit and the episode, when an array has another length or is not finite.
        """
        options = dict(self.hyperparameters or {})
        found = self.function(groups, **options) if self.scope == "batch" else [self.function(g, **options) for g in groups]
        return [self._checked(group, arrays) for group, arrays in zip(groups, found, strict=True)]

    def _checked(self, group: Group, arrays: Sequence[Any]) -> list[Floats]:
        if len(arrays) != len(group):
            raise ValueError(f"credit {self.name!r} returned {len(arrays)} arrays for a group of {len(group)} episodes")
        return [self._array(episode, array) for episode, array in zip(group, arrays, strict=True)]

    def _array(self, episode: Episode, array: Any) -> Floats:
        values = np.asarray(array, dtype=np.float64)
        turns, tokens = len(episode.turns), sum(len(turn.output_ids) for turn in episode.turns)
        where = f"credit {self.name!r}, task {episode.task_id!r}, attempt {episode.attempt}"
        if values.shape not in ((turns,), (tokens,)):
            raise ValueError(
                f"{where}: shape {values.shape}; expected ({turns},), one number per turn, or ({tokens},), per token"
            )
        if not np.isfinite(values).all():
            raise ValueError(f"{where}: advantages are not finite: {values.tolist()}")
        return values


def credit(name: str, scope: str = "group", needs: Sequence[str] = ()) -> Callable[[CreditFunction], CreditFunction]:
    """Declare a credit function `(group, *, hyper-parameters) -> one array per episode`, and give it a short name.

    An array holds a number per turn, or one per output token of all turns in order. With scope `batch` the function
    takes the list of all groups and returns one list of arrays per group. `needs` names what the trainer computes
    into `turn.extra` first. The function itself is returned unchanged, so it can be called and tested as it is.
    """
    if scope not in ("group", "batch"):
        raise BadConfig(f"scope of credit {name!r} is {scope!r}; expected 'group' or 'batch'")
    for need in needs:
        if need not in NEEDS:
            raise bad_option(f"need of credit {name!r}:", need, NEEDS)

    def declare(function: CreditFunction) -> CreditFunction:
        if name in CREDITS and CREDITS[name] != f"{function.__module__}:{function.__name__}":
            raise BadConfig(
                f"the name {name!r} belongs to a credit of the package; choose another for {function.__module__}"
            )
        function.__dict__["__credit__"] = Credit(name, function, scope, tuple(needs))
        _declared[name] = function
        return function

    return declare


def resolve(name: str, /, **hyperparameters: Any) -> Credit:
    """Return the credit of a short name (the package's, or declared by `@credit`) or MODULE:NAME, ready to be called.

    Hyper-parameters are the function's keyword-only parameters. Strings, as they come from a command line, are read as
    the type of the default. Raises UnknownName or BadConfig with the closest name, and BadConfig for a value that the
    function's annotations (`Literal`, `Annotated[float, Within(0, 1)]`) or the function itself refuses, and for a need
    that nothing computes.
    """
    table = {**{key: f"{f.__module__}:{f.__qualname__}" for key, f in _declared.items()}, **CREDITS}
    function = _declared.get(name) or cast("CreditFunction", load(name, "credit", table))
    declared = cast("Credit | None", getattr(function, "__credit__", None))
    if declared is None:
        raise BadConfig(f"{name} is not a credit function; put @agentgym.credit({name.rpartition(':')[2]!r}) above it")
    for need in declared.needs:
        if need not in COMPUTED:
            raise BadConfig(
                f"credit {declared.name!r} needs {need!r}, which nothing computes yet; computed are {', '.join(COMPUTED)}"
            )
    values = _bind(declared.name, parameters(function), hyperparameters)
    _check_values(declared.name, function, values)
    found = Credit(declared.name, function, declared.scope, declared.needs, values)
    _try(found)
    return found


def parameters(function: CreditFunction) -> dict[str, inspect.Parameter]:
    """Return the hyper-parameters of a credit function: its keyword-only parameters."""
    found = inspect.signature(function).parameters
    return {name: one for name, one in found.items() if one.kind is inspect.Parameter.KEYWORD_ONLY}


def _bind(credit: str, known: dict[str, inspect.Parameter], given: dict[str, Any]) -> dict[str, Any]:
    for name in given:
        if name not in known:
            raise bad_option(f"hyper-parameter of credit {credit!r}:", name, known)
    missing = [name for name, one in known.items() if one.default is inspect.Parameter.empty and name not in given]
    if missing:
        raise BadConfig(f"credit {credit!r} needs {', '.join(missing)}; give --credit.{missing[0]} VALUE")
    return {name: _convert(credit, name, value, known[name].default) for name, value in given.items()}


def _check_values(credit: str, function: CreditFunction, values: Mapping[str, Any]) -> None:
    """Raise BadConfig for a value that the annotation of its hyper-parameter does not allow."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError):  # annotations that cannot be read declare nothing
        return
    for name, value in values.items():
        where = f"{name} of credit {credit!r} is {value!r}; expected"
        if get_origin(hints.get(name)) is Literal and value not in get_args(hints[name]):
            raise BadConfig(f"{where} one of {', '.join(map(repr, get_args(hints[name])))}")
        bounds = get_args(hints[name])[1:] if get_origin(hints.get(name)) is Annotated else ()
        for bound in bounds:
            if isinstance(bound, Within) and not _within(value, bound):
                most = f" to {bound.most:g}" if bound.most < math.inf else ""
                raise BadConfig(f"{where} a number from {bound.least:g}{most}")


def _within(value: object, bound: Within) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return math.isfinite(value) and bound.least <= value <= bound.most


def _try(credit: Credit) -> None:
    """Raise the BadConfig that a credit raises for its hyper-parameters, such as two of them that do not go together.

    It is called on a group that is made up. Any other error says more about that group than about the credit.
    """
    episodes = [
        Episode("", "task", "task", 0, turns=[_made_up(credit.needs), _made_up(credit.needs, reward)], reward=reward)
        for reward in (0.0, 1.0)
    ]
    with np.errstate(all="ignore"):
        try:
            credit([Group("task", "agent", episodes)])
        except BadConfig:
            raise
        except Exception:
            return


def _made_up(needs: Sequence[str], reward: float = 0.0) -> Turn:
    turn = Turn("", state_key="", prompt_ids=[0], output_ids=[0, 0], logprobs=[-1.0, -1.0], reward=reward)
    turn.extra = {need: np.ones(2, dtype=np.float32) for need in needs}
    return turn


def _convert(credit: str, name: str, value: Any, default: Any) -> Any:
    kind = next((one for one in (bool, int, float, str) if isinstance(default, one)), None)
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
    raise BadConfig(f"{name} of credit {credit!r} is {value!r}; expected {kind.__name__}, for example {default!r}")
