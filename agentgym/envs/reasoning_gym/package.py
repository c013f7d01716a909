"""Calls into the `reasoning-gym` package, in a separate process (`agentgym.rewards.bounded`).

Some generators iterate over sets of strings, so their tasks depend on the hash seed; the process has a fixed hash seed, so
a task is the same everywhere. Some scorers call `eval` on the answer, directly or through sympy's parser. `gates` filters
these answers, and a task whose scorer evaluates answers without a gate is refused.
"""

import ast
import decimal
import importlib
import inspect
import json
import random
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy

from agentgym.envs.reasoning_gym.gates import BY_THAT_NAME, EVALUATORS, GATES, LEVELS, NEVER

JsonObject = dict[str, Any]

MODULE = __name__


def warm() -> None:
    """Import `reasoning_gym` in the fork server, so that every forked process inherits the module."""
    importlib.import_module("reasoning_gym")


def table() -> dict[str, str]:
    """Return the names of all tasks, each with the reason for its refusal, or an empty string."""
    data_sets: JsonObject = importlib.import_module("reasoning_gym.factory").DATASETS
    return {name: _refusal(name, kind) for name, (kind, _) in sorted(data_sets.items())}


def _refusal(name: str, kind: type) -> str:
    if name in NEVER:
        return NEVER[name]
    called = {word for base in kind.__mro__ for word in _called(base.__module__)}
    forbidden = sorted(called & EVALUATORS)
    if forbidden and name not in GATES and name not in BY_THAT_NAME:
        return f"its code calls {forbidden[0]}, and nobody has looked whether an answer can get there"
    return ""


@lru_cache
def _called(module: str) -> frozenset[str]:
    """Return the names of the functions that a module of the package calls, without methods named `compile`.

    Modules of other packages yield an empty set.
    """
    if not module.startswith("reasoning_gym"):
        return frozenset()
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = {f.id for f in calls if isinstance(f, ast.Name)}
    return frozenset(names | {f.attr for f in calls if isinstance(f, ast.Attribute)} - {"compile"})  # that is re.compile


@lru_cache(maxsize=256)
def _data_set(name: str, level: int, options: str, seed: int) -> Any:
    factory = importlib.import_module("reasoning_gym.factory")
    curricula: JsonObject = factory.CURRICULA
    if name not in curricula or options != "{}":
        return factory.create_dataset(name, seed=seed, size=1, **json.loads(options))
    low, high = LEVELS.get(name, (0, level))
    curriculum, level = curricula[name](), max(low, min(level, high))
    while level >= 0:
        curriculum.set_global_level(level)
        try:
            return factory.DATASETS[name][0](curriculum.generate_configuration({"seed": seed, "size": 1}))
        except AssertionError:  # some curricula have levels that their own generator refuses, in one case all
            level -= 1
    return factory.create_dataset(name, seed=seed, size=1)


@lru_cache(maxsize=64)
def _entry(name: str, level: int, options: str, seed: int) -> tuple[Any, JsonObject]:
    random.seed(seed)  # a few generators, and programs they run, use the global generator
    numpy.random.seed(seed % 2**32)
    with decimal.localcontext(decimal.Context()):  # decimal_arithmetic changes the precision of all that come after it
        data_set = _data_set(name, level, options, seed)
        return data_set, data_set[0]


def generate(name: str, level: int, options: str, seed: int) -> dict[str, str | None]:
    """Return the question and answer of a task; the answer is None if the package only has a scorer.

    All arguments together identify the task. `options` is the generator's configuration as JSON; `{}` leaves the
    configuration to the level.
    """
    _, entry = _entry(name, level, options, seed)
    answer = entry["answer"]
    if answer is None:
        answer = _SOLUTIONS[name](entry["metadata"]) if name in _SOLUTIONS else None
    return {"question": str(entry["question"]), "answer": None if answer is None else str(answer)}


def score(name: str, level: int, options: str, seed: int, answer: str) -> float:
    """Return reasoning-gym's own score of an answer that passed its gate."""
    data_set, entry = _entry(name, level, options, seed)
    return float(data_set.score_answer(answer, entry))


def numbers(name: str, level: int, options: str, seed: int) -> list[int]:
    """Return the numbers that an answer must use, from the task's metadata."""
    return [int(number) for number in _entry(name, level, options, seed)[1]["metadata"]["numbers"]]


def levels(name: str) -> int:
    """Return a task's number of difficulty levels; 1 if it has no curriculum."""
    curricula: JsonObject = importlib.import_module("reasoning_gym.factory").CURRICULA
    if name not in curricula:
        return 1
    return max((len(attribute.levels) for attribute in curricula[name]().attributes.values()), default=1)


def _way_out(metadata: JsonObject) -> str:
    """Return moves that free piece A of a 6 by 6 Rush Hour board, by breadth-first search.

    The question and the scorer name the pieces A, B, C, … in the order of their letters on the board.

    Raises:
        ValueError: the board has no solution.
    """
    board: str = metadata["board_config"]
    labels = sorted(set(board) - {"o", "x"})
    cells = {label: [i for i, c in enumerate(board) if c == label] for label in labels}
    shape = {label: (len(cell), cell[1] - cell[0]) for label, cell in cells.items()}
    walls = {i for i, c in enumerate(board) if c == "x"}
    start = tuple(cells[label][0] for label in labels)
    before: dict[tuple[int, ...], tuple[tuple[int, ...], str] | None] = {start: None}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        if state[0] == 16:  # the fifth cell of the third row
            return _retraced(before, state)
        spans = (range(p, p + shape[n][0] * shape[n][1], shape[n][1]) for p, n in zip(state, labels, strict=True))
        occupied = walls.union(*spans)
        for index, label in enumerate(labels):
            size, stride = shape[label]
            for sign in (1, -1):
                place, steps = state[index], 0
                while (free := _next_cell(place, size, stride, sign)) is not None and free not in occupied:
                    place, steps = place + sign * stride, steps + 1
                    after = (*state[:index], place, *state[index + 1 :])
                    if after not in before:
                        before[after] = state, f"{chr(ord('A') + index)}{'+' if sign > 0 else '-'}{steps}"
                        queue.append(after)
    raise ValueError("the board has no solution")


def _next_cell(place: int, size: int, stride: int, sign: int) -> int | None:
    """Return the cell in front of a piece that moves in direction `sign` (1 or -1), or None at the edge of the board.

    `place` is the piece's first cell, `size` its length, and `stride` the distance between its cells: 1 or 6.
    """
    edge = place if sign < 0 else place + (size - 1) * stride
    cell = edge + sign * stride
    inside = 0 <= cell < 36 and (stride == 6 or cell // 6 == edge // 6)
    return cell if inside else None


def _retraced(before: dict[tuple[int, ...], tuple[tuple[int, ...], str] | None], state: tuple[int, ...]) -> str:
    moves: list[str] = []
    while (step := before[state]) is not None:
        state, move = step
        moves.append(move)
    return " ".join(reversed(moves))


def _colours(metadata: JsonObject) -> str:
    colours: dict[int, int] = metadata["possible_answer"]
    return json.dumps({str(vertex): colour for vertex, colour in colours.items()})


def _unscrambled(metadata: JsonObject) -> str:
    """Return the moves that undo a cube's scramble."""
    moves: list[str] = metadata["scramble_moves"].split()
    return " ".join(move.removesuffix("'") if move.endswith("'") else f"{move}'" for move in reversed(moves))


def _example(metadata: dict[str, object]) -> str:
    return str(metadata["example_answer"])


_SOLUTIONS: dict[str, Callable[[JsonObject], str]] = {
    "graph_color": _colours,
    "propositional_logic": _example,
    "rubiks_cube": _unscrambled,
    "rush_hour": _way_out,
}
"""Answers for tasks that come without one, computed from their metadata."""
