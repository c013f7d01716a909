"""Generated tasks: a document, system rules, and user messages that add, change and withdraw rules."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from agentgym.envs.instructions.lexicon import CATEGORIES
from agentgym.envs.instructions.reply import Item, check, eligible, write
from agentgym.envs.instructions.rules import VALUES, WORDS, Operation, Rules, after, sentence, words_of
from agentgym.errors import BadConfig

T = TypeVar("T")
Data = dict[str, Any]
"""Data of a task, or of one user message."""
DRAWS = 2000
FAMILIES = ("grow", "change", "system", "document")
"""Kinds of tasks: `grow` only adds rules, `change` changes and withdraws them, and in `system` and `document` the user
contradicts the system and the document gives orders, respectively.
"""
SIMPLE = ("order", "form", "case", "opening", "closing")
PLURALS = {
    "fruit": "fruits",
    "animal": "animals",
    "tool": "tools",
    "garment": "garments",
    "furniture": "pieces of furniture",
}


def pick(rng: np.random.Generator, choices: Sequence[T]) -> T:
    """Return a random choice."""
    return choices[int(rng.integers(len(choices)))]


def draw(
    rng: np.random.Generator,
    difficulty: int,
    families: Sequence[str],
    turns: int,
    abouts: Sequence[str],
    kinds: Sequence[str],
    system: Rules | None = None,
) -> Data:
    """Return the data of a task on which every policy of `wrong_ways` fails.

    `turns` is the number of messages, and `abouts` are the names of the user's rules. `system` are the system's rules; if
    None or empty, the family `system` draws one from difficulty 1 on.

    Raises:
        BadConfig: no such task was found in DRAWS draws.
    """
    for _ in range(DRAWS):
        data = _drawn(rng, difficulty, families, turns, abouts, kinds, dict(system or {}))
        if not any(_passes(data, policy) for policy in wrong_ways(data)):
            return data
    raise BadConfig(
        f"Instructions at difficulty {difficulty} found no task of families {', '.join(families)} in {DRAWS} draws that "
        "shortcut policies fail on: name more rules or messages"
    )


def document(rng: np.random.Generator, categories: Sequence[str], count: int) -> list[Item]:
    """Return `count` items of each category, shuffled, with distinct weights in kg."""
    chosen = [(name, kind) for kind in categories for name in _sampled(rng, CATEGORIES[kind], count)]
    weights = rng.permutation(90)[: len(chosen)] + 10
    order = rng.permutation(len(chosen))
    return [(*chosen[int(place)], int(weights[int(place)])) for place in order]


def _sampled(rng: np.random.Generator, choices: Sequence[T], count: int) -> list[T]:
    return [choices[int(place)] for place in rng.permutation(len(choices))[:count]]


def _drawn(
    rng: np.random.Generator,
    difficulty: int,
    families: Sequence[str],
    turns: int,
    abouts: Sequence[str],
    kinds: Sequence[str],
    system: Rules,
) -> Data:
    categories = _sampled(rng, kinds, 2 + difficulty // 2)
    items = document(rng, categories, min(3 + difficulty // 2, 8))
    if not system and "system" in families and difficulty:
        about = pick(rng, ["order", "form", "case", "language", "opening", "closing"])
        system[about] = pick(rng, list(VALUES[about]))

    def fits(wishes: Rules, operations: Iterable[Operation]) -> bool:
        rules = after(operations, system, wishes)
        return all(feasible(rules, items, category) for category in categories)

    wishes: Rules = {}
    messages: list[Data] = []
    clash = int(rng.integers(turns)) if system else -1
    for turn in range(turns):
        number = (2 if turn == 0 else 1) + difficulty // 2
        operations = _operations(rng, wishes, number, "change" in families and turn > 0, abouts, partial(fits, wishes))
        if turn == clash:
            about = next(iter(system))
            other = pick(rng, [value for value in VALUES[about] if value != system[about]])
            operations.append(("set", about, other))
        wishes = after(operations, {}, wishes)
        category = pick(rng, categories)
        lines = [f"List the {PLURALS[category]} in the document.", *map(sentence, operations)]
        messages.append({"text": "\n".join(lines), "category": category, "operations": [list(op) for op in operations]})
    order = _document_order(rng) if "document" in families and difficulty else None
    return {"items": items, "system": system, "messages": messages, "order": order and list(order)}


def _document_order(rng: np.random.Generator) -> Operation:
    about = pick(rng, ["opening", "closing", "note", "language", "case"])
    return "set", about, pick(rng, list(VALUES[about]))


def _operations(
    rng: np.random.Generator,
    wishes: Rules,
    number: int,
    changing: bool,
    abouts: Sequence[str],
    fits: Callable[[Iterable[Operation]], bool],
) -> list[Operation]:
    """Return up to `number` rule changes for one message; each concerns a different rule, and the results are compatible.

    With `changing`, they may change or withdraw rules in `wishes`, the user's active rules. `fits` checks compatibility.
    """
    chosen: dict[str, Operation] = {}
    for _ in range(20 * number):
        if len(chosen) == number:
            break
        standing = [about for about in wishes if about not in chosen]
        way = rng.random()
        if changing and standing and way < 0.4 / number:
            operation = ("drop", pick(rng, standing), "")
            if fits([*chosen.values(), operation]):
                chosen[operation[1]] = operation
            continue
        free = [*(about for about in abouts if about not in wishes)]
        changed = [about for about in standing if about in VALUES]
        about = pick(rng, changed) if changing and changed and way < 0.8 / number else pick(rng, free) if free else ""
        if len(abouts) > len(SIMPLE) and (not about or way > 0.9):
            about = f"word {pick(rng, WORDS)}"
        if not about or about in chosen or (about not in VALUES and about in wishes):
            continue
        values = [value for value in VALUES.get(about, {"once": ""}) if value != wishes.get(about)]
        operation = ("set", about, pick(rng, values))
        if fits([*chosen.values(), operation]):
            chosen[about] = operation
    return list(chosen.values())


def feasible(rules: Rules, items: Sequence[Item], category: str) -> bool:
    """Return True if some reply keeps the rules, which must allow at least two items, or as many as they require."""
    good = eligible(rules, items, category)
    if len(good) < max(2, int(rules.get("count", 2))):
        return False
    if "note" in rules and int(rules["note"]) < len(words_of(rules)):
        return False
    return all(check(write(rules, items, category), rules, items, category).values())


def live(data: Data, turn: int) -> Rules:
    """Return the rules that are active for the reply to message number `turn`, from 0."""
    operations = [tuple(op) for message in data["messages"][: turn + 1] for op in message["operations"]]
    return after(operations, data["system"])


Way = Callable[[int], Rules]
"""Maps a message number to the rules that a policy keeps in its reply."""


def wrong_ways(data: Data) -> Iterator[Way]:
    """Yield the wrong policies that must fail on the task."""
    messages: list[Data] = data["messages"]
    own = [[tuple(op) for op in message["operations"]] for message in messages]
    if len(messages) > 1:
        yield lambda turn: after(own[0], data["system"])  # ignores later messages
        yield lambda turn: after(own[turn], data["system"])  # forgets earlier messages
    yield lambda turn: {}
    yield lambda turn: dict(data["system"])
    if data["system"]:
        yield lambda turn: {**data["system"], **after([op for place in range(turn + 1) for op in own[place]], {})}
    if data["order"]:
        _, about, value = data["order"]
        yield lambda turn: {**live(data, turn), about: value}


def _passes(data: Data, way: Way) -> bool:
    """Return True if a policy keeps all rules in every turn."""
    for turn, message in enumerate(data["messages"]):
        items, category = [tuple(item) for item in data["items"]], message["category"]
        reply = write(way(turn), items, category)
        if not all(check(reply, live(data, turn), items, category).values()):
            return False
    return True
