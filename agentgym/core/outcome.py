"""The result of an action, and the types that describe an episode's state: info, outcome, snapshot."""

import copy
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol, TypedDict, cast

from agentgym.core.tasks import Task
from agentgym.core.verdicts import amount, verdict

SUCCESS = "success"
"""Name of the reward's part that pays the outcome; all other parts are shaping."""


class Info(TypedDict):
    """The info dict of `reset` and `step`. It has the same keys at every step; `more_info` may add others."""

    task_id: str
    state_key: str | None
    """Hash of everything that determines the future; None if the state is unknown."""
    valid: bool
    """True if the environment accepted the action."""
    error: str | None
    """Reason why the action is invalid, or the message of an infrastructure error; else None."""
    admissible: list[str] | None
    """The commands that are valid now; None if they are not a finite list."""
    rewards: dict[str, float]
    """Parts of the reward, by name; they sum to the reward."""
    metrics: dict[str, float]
    """Measures that are not paid, by name."""
    success: bool | None
    """True or False once the episode has ended; None before, and after an infrastructure error."""
    reason: str | None
    """Reason why the episode ended; None while it is running."""


INFO_KEYS = tuple(Info.__annotations__)


def broken_off(task_id: str, *, valid: bool, error: str, reason: str) -> Info:
    """Return the info of a step that ended the episode without an answer from the environment."""
    return {
        "task_id": task_id,
        "state_key": None,
        "valid": valid,
        "error": error,
        "admissible": None,
        "rewards": {},
        "metrics": {},
        "success": None,
        "reason": reason,
    }


@dataclass(slots=True)
class Outcome:
    """The result of one action. Environments create it with `win`, `lose`, `invalid` and `reward`, or return plain text."""

    text: str
    valid: bool = True
    error: str | None = None
    success: bool | None = None
    measures: dict[str, float] = field(default_factory=dict[str, float])


def shaping(rewards: Mapping[str, float]) -> float:
    """Return the sum of a reward's parts without the outcome."""
    return sum(value for name, value in rewards.items() if name != SUCCESS)


class Finish(StrEnum):
    """Reasons why a model's reply ended; files store the values."""

    STOP = "stop"
    """A stop token, or a caller that watches the tokens, ended the reply."""
    LENGTH = "length"
    """The reply reached its maximum number of tokens, or the end of the context."""
    FILTER = "filter"
    """The server's filter withheld the reply."""
    REFUSAL = "refusal"
    """The model declined."""
    ABORT = "abort"
    """The request was aborted."""
    CONTEXT = "context"
    """Nothing was sampled: the prompt leaves no room in the context."""
    REFUSED = "refused"
    """The engine fails on the text of this agent, but works for other text."""
    SILENT = "silent"
    """The policy, for example an expert, has no action for this state."""

    __repr__ = str.__repr__


class RoleReward(NamedTuple):
    """Reward and success of one role at the end of an episode."""

    reward: float
    success: bool


def role_outcomes(values: object, source: str) -> dict[str, RoleReward]:
    """Check the result of `role_rewards` and return it as a RoleReward by role; `source` names it in messages.

    Raises:
        TypeError: the result is not a mapping, or a value is not a pair (finite number, True or False); the message names
            source and role.
    """
    if not isinstance(values, Mapping):
        raise TypeError(f"{source} are {values!r:.80}; expected a RoleReward(reward, success) by role")
    outcomes: dict[str, RoleReward] = {}
    for role, value in cast("Mapping[str, object]", values).items():
        of_role = f"{role!r} of {source}"
        pair = cast("tuple[object, ...]", value) if isinstance(value, tuple) else ()
        if len(pair) != 2:
            raise TypeError(f"{of_role} is {value!r:.80}; expected RoleReward(reward, success)")
        success = verdict(pair[1], f"success of {of_role}")
        if success is None:
            raise TypeError(f"success of {of_role} is None; expected True or False once the episode is over")
        outcomes[str(role)] = RoleReward(amount(pair[0], of_role), success)
    return outcomes


class _Timed(Protocol):
    tool_seconds: float


def returned(value: object, function: Callable[..., object], name: str, env: _Timed) -> Outcome:
    """Return the result of an environment's function as an Outcome, after awaiting it if it is async.

    `name` is `begin`, `act` or `tool NAME`.

    Raises:
        TypeError: the result is neither text nor an Outcome; the message names the function.
    """
    if type(value) is str:
        return Outcome(value)
    owner = f"{name} of {type(env).__name__}"
    if not isinstance(value, Outcome):
        from agentgym.core.awaited import awaited  # late: few environments are async

        value = awaited(value, env.tool_seconds, owner)
    outcome = value if isinstance(value, Outcome) else Outcome(value)  # type: ignore[arg-type]
    if isinstance(outcome.text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # users do return other things
        return outcome
    text = f"{outcome.text!r:.60}" + ("" if outcome.text is None else f" (type {type(outcome.text).__name__})")
    raise TypeError(f"{owner} returned {text}; expected text{place_of(function)}. {_ADVICE[name == 'begin']}")


_ADVICE = ("Return a string, or self.win(…), self.lose(…), self.invalid(…), self.reward(…)", "Return the first observation")


def place_of(function: Callable[..., object]) -> str:
    """Return the file and line that define a function, as ` (FILE:LINE)`; empty if unknown."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f" ({code.co_filename}:{code.co_firstlineno})" if code else ""


def copied(attributes: dict[str, object], owner: str) -> dict[str, object]:
    """Return a deep copy of an environment's attributes; `owner` names the environment in messages.

    Raises:
        TypeError: an attribute cannot be copied; the message names it.
    """
    try:
        return copy.deepcopy(attributes)
    except Exception as error:
        wrong = next((name for name, value in attributes.items() if not _copies(value)), "")
        kind = f".{wrong} (a {type(attributes[wrong]).__name__})" if wrong else ""
        raise TypeError(
            f"{owner}{kind} cannot be copied into a snapshot: {error}. Keep plain data in attributes, name in `shared` what "
            "never changes, or define save() and load()"
        ) from error


def _copies(value: object) -> bool:
    try:
        copy.deepcopy(value)
    except Exception:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The complete state of an episode, from which `restore` continues it."""

    task: Task
    seed: int
    turn: int
    horizon: int
    running: bool
    success: bool | None
    random_state: dict[str, object]
    levels: dict[str, float]
    totals: dict[str, float]
    outcomes: dict[str, RoleReward]
    observation: str
    payload: object
