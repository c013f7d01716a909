"""Contamination checks before an evaluation: overlap with the training split, and answers visible in the prompt.

Each check reports the number of tasks it examined, and why it skipped other tasks. The checks cannot see the
model's pretraining data.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from agentgym.core.env import TextEnv
from agentgym.core.tasks import Task
from agentgym.errors import BadConfig, BadData
from agentgym.evaluate.choice import listed
from agentgym.registry import make

TRAIN = "train"
SHORTEST = 3
"""Minimum characters of an answer to search for; a shorter one appears in many texts by chance."""
COMMON = ("yes", "none", "true", "false")
MOST = 1_000
"""Maximum number of tasks whose first observation is read."""
NAMED = 5
Part = tuple[Mapping[str, object], Sequence[Task]]
"""Options of an environment and the tasks played with them."""


def contamination(env: str, parts: Iterable[Part]) -> dict[str, Any]:
    """Return the results of both checks by name (`split_overlap`, `answer_in_prompt`), as JSON.

    Each has `checked` and `found` (numbers of tasks), `examples` (ids of some tasks found), `how` (method of the
    check) and `why` (reason why tasks were skipped; empty if none were).
    """
    by_check: dict[str, list[dict[str, object]]] = {}
    for options, tasks in parts:
        for name, check in (("split_overlap", _overlap), ("answer_in_prompt", _answers)):
            split = {"split": tasks[0].split} if tasks[0].split else {}
            by_check.setdefault(name, []).append(_run(check, make(env, **{**options, **split}), tasks))
    return {name: _joined(results) for name, results in by_check.items()}


def _run(
    check: Callable[[TextEnv, Sequence[Task]], dict[str, object]], env: TextEnv, tasks: Sequence[Task]
) -> dict[str, object]:
    try:
        return check(env, tasks)
    finally:
        env.close()


def _overlap(env: TextEnv, tasks: Sequence[Task]) -> dict[str, object]:
    """Search for evaluated tasks that the environment also provides for training; return the result of the check."""
    if TRAIN not in env.splits:
        return _unchecked(f"the environment has no split {TRAIN!r} to compare with (its splits: {', '.join(env.splits)})")
    if all(task.split == TRAIN for task in tasks):
        return _result(tasks, tasks, "they are of the training split")
    try:
        size = env.size(TRAIN)
        if size is None and env.split_of(replace(tasks[0], split="?")) == "?":
            return _unchecked("a task's split is only written on it, and the training split is not counted")
        if size is None:
            moved = [task for task in tasks if TRAIN in (task.split, env.split_of(task)) or env.split_of(task) != task.split]
            return _result(tasks, moved, "a task's content decides its split")
        trained = {repr(env.content_key(task)) for task in listed(env, size, TRAIN)}
        shared = [task for task in tasks if repr(env.content_key(task)) in trained]
    except (BadConfig, BadData, OSError) as error:
        return _unchecked(f"the training split cannot be read: {error}")
    return _result(tasks, shared, f"by content, with the {size} tasks of split {TRAIN!r}")


def _answers(env: TextEnv, tasks: Sequence[Task]) -> dict[str, object]:
    """Search for hidden answers in the first prompt of at most `MOST` tasks; return the result of the check."""
    if not env.declared.answers:
        return _unchecked("the environment names no hidden answers")
    if env.blocking:
        return _unchecked("the environment leans on something outside, and would have to be started for every task")
    checked, hits, short, broken = list[Task](), list[Task](), 0, 0
    for task in tasks[:MOST]:
        answers = [text for name in env.declared.answers for text in _texts(task.data.get(name))]
        long = [text for text in answers if len(text) >= SHORTEST and text not in COMMON]
        if not long:
            short += 1
            continue
        text = _prompt_text(env, task)
        if text is None:
            broken += 1
            continue
        checked.append(task)
        if any(re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", text) for answer in long):
            hits.append(task)
    left = {
        f"below {SHORTEST} characters, or one of {', '.join(COMMON)}": short,
        "of environments that break at the start": broken,
        f"beyond the first {MOST}": len(tasks[MOST:]),
    }
    why = [f"not looked at: {count} {what}" for what, count in left.items() if count]
    return _result(checked, hits, "as a whole word of the task, first observation or tools", "; ".join(why))


def _prompt_text(env: TextEnv, task: Task) -> str | None:
    """Return the normalized text that a model reads before its first action; None if the episode fails to start."""
    try:
        observation, _ = env.reset(seed=0, options={"task": task})
    except Exception:  # the same error ends the task's episodes, where it counts as a fault
        return None
    return _plain("\n".join([task.instruction, observation, *(tool.description for tool in env.tools.values())]))


def _texts(value: object) -> list[str]:
    """Return every normalized text and number in an answer, which may be a list of spellings or a table."""
    if isinstance(value, Mapping):
        return [text for part in cast("Mapping[object, object]", value).values() for text in _texts(part)]
    if isinstance(value, list | tuple | set | frozenset):
        return [text for part in cast("Iterable[object]", value) for text in _texts(part)]
    return [] if value is None else [_plain(str(value))]


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _result(checked: Sequence[Task], hits: Sequence[Task], how: str, why: str = "") -> dict[str, object]:
    examples = [task.id for task in hits[:NAMED]]
    return {"checked": len(checked), "found": len(hits), "examples": examples, "how": how, "why": why}


def _unchecked(why: str) -> dict[str, object]:
    return {"checked": 0, "found": 0, "examples": [], "how": "", "why": why}


def _joined(results: Sequence[dict[str, Any]]) -> dict[str, object]:
    """Return the combined result of a check over several parts of an environment."""
    return {
        "checked": sum(result["checked"] for result in results),
        "found": sum(result["found"] for result in results),
        "examples": [id for result in results for id in result["examples"]][:NAMED],
        "how": next((result["how"] for result in results if result["how"]), ""),
        "why": "; ".join(dict.fromkeys(result["why"] for result in results if result["why"])),
    }
