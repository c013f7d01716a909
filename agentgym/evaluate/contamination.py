"""What an evaluation can check of contamination before it begins: tasks that were trained on, answers that are shown.

Nothing passes silently: each check says of how many tasks it looked at, and where it could not look, why. What a model
met before it came here cannot be known.
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
"""Characters of an answer; a shorter one stands in many texts by chance, and is not looked for."""
COMMON = ("yes", "none", "true", "false")
MOST = 1_000
"""Tasks whose first observation is read."""
NAMED = 5
Part = tuple[Mapping[str, object], Sequence[Task]]
"""Options of an environment, and the tasks that are played with them."""


def contamination(env: str, parts: Iterable[Part]) -> dict[str, Any]:
    """Return what both checks found, by name (`split_overlap`, `answer_in_prompt`), as JSON.

    Each has `checked` and `found` (numbers of tasks), `examples` (ids of some found), `how` (against what was checked) and
    `why` (what was not checked, and the reason; empty where everything was).
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
    """Look for evaluated tasks that the environment also gives out for training."""
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
    """Look for the hidden answers of tasks in what is shown first."""
    if not env.declared.answers:
        return _unchecked("the environment names no hidden answers")
    if env.blocking:
        return _unchecked("the environment leans on something outside, and would have to be started for every task")
    looked, shown, short, broken = list[Task](), list[Task](), 0, 0
    for task in tasks[:MOST]:
        answers = [text for name in env.declared.answers for text in _texts(task.data.get(name))]
        long = [text for text in answers if len(text) >= SHORTEST and text not in COMMON]
        if not long:
            short += 1
            continue
        text = _shown(env, task)
        if text is None:
            broken += 1
            continue
        looked.append(task)
        if any(re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", text) for answer in long):
            shown.append(task)
    left = {
        f"below {SHORTEST} characters, or one of {', '.join(COMMON)}": short,
        "of environments that break at the start": broken,
        f"beyond the first {MOST}": len(tasks[MOST:]),
    }
    why = [f"not looked at: {count} {what}" for what, count in left.items() if count]
    return _result(looked, shown, "as a whole word of the task, first observation or tools", "; ".join(why))


def _shown(env: TextEnv, task: Task) -> str | None:
    """Return what a model reads before it acts, in plain words; None where the episode does not begin."""
    try:
        observation, _ = env.reset(seed=0, options={"task": task})
    except Exception:  # whatever it is, it breaks the task's episodes too, where it is counted as a fault
        return None
    return _plain("\n".join([task.instruction, observation, *(tool.description for tool in env.tools.values())]))


def _texts(value: object) -> list[str]:
    """Return every text and number in an answer, which may be a list of spellings or a table, in plain words."""
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
    """Return the results of several parts of an environment as one."""
    return {
        "checked": sum(result["checked"] for result in results),
        "found": sum(result["found"] for result in results),
        "examples": [id for result in results for id in result["examples"]][:NAMED],
        "how": next((result["how"] for result in results if result["how"]), ""),
        "why": "; ".join(dict.fromkeys(result["why"] for result in results if result["why"])),
    }
