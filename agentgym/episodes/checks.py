"""Checks of stored episodes, which may come from strangers: verdicts, types, and repeated lines."""

import hashlib
import math
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from agentgym.errors import BadData, Reason

FAULTS = (Reason.TIMEOUT, Reason.CRASH, Reason.ENGINE)
JUDGED = (Reason.SUCCESS, Reason.FAILURE, Reason.HORIZON, Reason.CONTEXT)
"""Reasons that require a verdict (success true or false)."""


def attempt_of(raw: Mapping[str, Any], *, evaluation: bool) -> tuple[object, ...]:
    """Return the fields that identify an attempt.

    In an evaluation, which has a single seed, they are environment, task and number of the attempt. Elsewhere the group,
    the seed and the gateway's session are needed too.
    """
    named = (raw["env"], raw["task_id"], raw.get("attempt", 0))
    labels = cast("dict[str, object]", raw.get("labels") or {})
    return named if evaluation else (*named, raw["group_id"], raw["seed"], labels.get("session"))


def repeated(raw: Mapping[str, Any], line: bytes, seen: dict[tuple[object, ...], bytes], *, evaluation: bool) -> bool:
    """Return True if an attempt is in `seen` with the same line (or digest of a line); otherwise add it.

    Raises:
        BadData: the attempt is in `seen` with a different line.
    """
    first = seen.setdefault(attempt_of(raw, evaluation=evaluation), line)
    if first is line:
        return False
    if first.strip() != line.strip():
        raise BadData(
            f"attempt {raw.get('attempt', 0)} at {raw['env']} {str(raw['task_id'])[:80]!r} is there twice, in lines which "
            "differ; an attempt counts once: remove all but one, or write each collection to a separate file"
        )
    return True


def of_evaluation(path: Path) -> bool:
    """Return True if a file of episodes is an evaluation's: its folder has a manifest and no training configuration."""
    folder = path.parent
    return path.name == "episodes.jsonl" and (folder / "manifest.json").exists() and not (folder / "config.toml").exists()


def digest(line: bytes) -> bytes:
    """Return a 16-byte hash of a line, without white space at its ends."""
    return hashlib.blake2b(line.strip(), digest_size=16).digest()


def check_verdict(reason: object, success: object) -> None:
    """Check that `success` is true, false or null, and that it fits `reason`.

    It must be null after an infrastructure error, and true or false after a reason in `JUDGED`.

    Raises:
        TypeError: the verdict is invalid.
    """
    if not (success is None or isinstance(success, bool)):
        raise TypeError(f"success is {str(success)[:40]!r}; expected true, false or null")
    if success is not None and reason in FAULTS:
        raise TypeError(f"reason is {reason!r}, an infrastructure error, and success {success}; expected null")
    if success is None and reason in JUDGED:  # otherwise it would count neither as a failure nor as an infrastructure error
        raise TypeError(f"reason is {reason!r}, and success null; expected true or false")


_TEXTS = ("env", "task_id", "group_id", "instruction", "split", "reason", "final_observation")


def check_fields(raw: dict[str, Any], form: int) -> None:
    """Check an episode's format number and the types of its fields, since files may come from strangers.

    Raises:
        TypeError: the format or a type is wrong.
    """
    if raw.get("format") != form:
        raise TypeError(f"format is {raw.get('format')!r}; this version reads {form}")
    labels = cast("dict[str, object]", raw.get("labels", {}))
    texts = [raw.get(name, "") for name in _TEXTS]
    if not {*map(type, texts), *map(type, labels.values())} <= {str}:
        raise TypeError("env, task_id, group_id, instruction, split, reason, final_observation and labels must be texts")
    check_verdict(raw.get("reason"), raw.get("success"))
    if {type(raw.get("attempt", 0)), type(raw.get("seed", 0)), type(raw.get("horizon", 0))} != {int}:
        raise TypeError("attempt, seed and horizon must be integers")
    if not all(isinstance(value, bool) for value in raw.get("role_success", {}).values()):
        raise TypeError("role_success must have true or false for each role")
    for name in ("final_rewards", "role_outcomes", "metrics"):
        if not all(map(_is_number, raw.get(name, {}).values())):
            raise TypeError(f"{name} must be numbers")
    if not _is_number(reward := raw.get("reward", 0.0)) or not math.isfinite(reward):
        raise TypeError(f"reward is {str(reward)[:40]!r}; expected a finite number")
    if not isinstance(raw["turns"], list):
        raise TypeError("turns must be a list")
    forks: Any = raw.get("forks", [])
    if type(forks) is not list or not all(_is_fork(fork) for fork in cast("list[Any]", forks)):
        raise TypeError("forks must be lists of three integers: attempt, turn and seed")


def _is_number(value: object) -> bool:
    return type(value) is float or type(value) is int


_NONE = type(None)
_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("observation", "text", "reasoning", "action", "finish", "role"), (str,)),
    **dict.fromkeys(("state_key", "error"), (str, _NONE)),
    **dict.fromkeys(("valid", "parsed"), (bool,)),
    **dict.fromkeys(("reward", "seconds"), (float, int)),
    **dict.fromkeys(("rewards", "extra"), (dict,)),
    **dict.fromkeys(("output_ids", "logprobs", "messages", "images", "notes", "prompt_ids", "plain_ids"), (list,)),
    "admissible": (int, _NONE),
    "policy_version": (int,),
}
"""Allowed types of a turn's fields in a file."""


def check_turn(raw: dict[str, Any]) -> None:
    """Check the types of a stored turn's fields.

    Raises:
        TypeError: a type is wrong.
    """
    if not _known_shape((*raw, *map(type, raw.values()))):
        _check_kinds(raw)
    rewards = raw.get("rewards")
    if not math.isfinite(raw.get("reward", 0.0)) or (rewards and not all(map(_is_number, rewards.values()))):
        raise TypeError(
            f"reward of a turn is {raw.get('reward')!r}, rewards {str(raw.get('rewards'))[:40]}; expected finite numbers"
        )
    messages: list[object] | None = raw.get("messages")
    if messages:
        _check_messages(messages)
    ids, logprobs = raw.get("output_ids"), raw.get("logprobs")
    try:  # sums check every number without a Python loop; bool counts as an integer
        whole = (not ids or type(sum(ids)) is int) and (not logprobs or type(sum(logprobs)) in (int, float))
    except TypeError:
        whole = False
    if not whole:
        raise TypeError("output_ids of a turn must be integers, and logprobs numbers")


_EMPTY: dict[str, object] = {}


def _check_messages(messages: list[object]) -> None:
    for message in messages:
        fields = cast("dict[str, object]", message) if isinstance(message, dict) else _EMPTY
        if not isinstance(fields.get("role"), str):
            raise TypeError(f"a message is {repr(cast('object', message))[:40]}; expected an object with the text `role`")


@lru_cache(maxsize=256)
def _known_shape(names_and_types: tuple[object, ...]) -> bool:
    """Return True if a turn's field names, followed by their types, are valid; cached, because few combinations occur."""
    half = len(names_and_types) // 2
    pairs = zip(names_and_types[:half], names_and_types[half:], strict=True)
    return all(kind in _KINDS.get(cast("str", name), (kind,)) for name, kind in pairs)


def _check_kinds(raw: dict[str, Any]) -> None:
    for name, value in raw.items():
        kinds = _KINDS.get(name)
        if kinds is not None and type(value) not in kinds:
            expected = " or ".join(kind.__name__ for kind in kinds)
            raise TypeError(f"{name} of a turn is {str(value)[:40]!r}; expected {expected}")


def _is_fork(fork: Any) -> bool:
    return type(fork) is list and [type(number) for number in cast("list[Any]", fork)] == [int] * 3
