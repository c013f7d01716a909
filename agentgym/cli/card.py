"""The card of a world: how long, how hard, how easily cheated, and what it costs."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from agentgym.contract.shortcuts import GENERIC, Player
from agentgym.contract.solutions import from_text, random_player, success_rate
from agentgym.contract.subject import Subject, first, has
from agentgym.core.env import TextEnv
from agentgym.core.screen import printable

ROWS: tuple[str, ...] = (
    "expert: turns",
    "expert: characters read",
    "success: expert",
    "success: oracle",
    "success: random",
    "success: best shortcut",
    "milliseconds: reset",
    "milliseconds: step",
    "milliseconds: snapshot",
    "different tasks in 200",
)


@dataclass(slots=True)
class Lengths:
    """What the expert's episodes are made of."""

    turns: list[int]
    characters: list[int]


def card(subject: Subject, difficulties: tuple[int, ...]) -> Table:
    """Return the card of a world, a column for each difficulty."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    columns: list[dict[str, str]] = []
    for difficulty in difficulties:
        table.add_column(f"difficulty {difficulty}", justify="right")
        columns.append(_column(subject.at(difficulty)))
    for row in ROWS:
        table.add_row(Text(row), *(Text(printable(column[row])) for column in columns))
    return table


def _column(subject: Subject) -> dict[str, str]:
    env = subject.env
    reset, step, snapshot = costs(subject)
    values = dict.fromkeys(ROWS, "-")
    values |= {"milliseconds: reset": f"{reset:.3g}", "milliseconds: step": f"{step:.3g}"}
    values |= {
        "milliseconds: snapshot": f"{snapshot:.3g}",
        "success: random": _percent(success_rate(subject, random_player)),
    }
    if has(env, "expert"):
        lengths = Lengths([], [])
        values["success: expert"] = _percent(success_rate(subject, _watched(lambda world: first(world.expert), lengths)))
        values["expert: turns"] = f"{statistics.mean(lengths.turns):.1f}"
        values["expert: characters read"] = f"{statistics.mean(lengths.characters):.0f}"
    if has(env, "oracle"):
        values["success: oracle"] = _percent(success_rate(subject, lambda world, _, __: first(world.oracle)))
    shortcuts = {**GENERIC, **{name: from_text(cheat) for name, cheat in env.cheaters().items()}}
    rates = {name: success_rate(subject, player) for name, player in shortcuts.items()}
    best = max(rates, key=lambda name: rates[name])
    values["success: best shortcut"] = f"{_percent(rates[best])}" + (f" ({best})" if rates[best] else "")
    values["different tasks in 200"] = str(len({repr(env.split_key(env.numbered(number))) for number in range(200)}))
    return values


def _percent(rate: float) -> str:
    return f"{100 * rate:.0f} %"


def _watched(choose: Callable[[TextEnv], str | None], lengths: Lengths) -> Player:
    """Return a player that counts turns and characters, one entry per episode."""

    def play(env: TextEnv, observations: list[str], _: dict[str, Any]) -> str | None:
        if len(observations) == 1:
            lengths.turns.append(0)
            lengths.characters.append(0)
        lengths.turns[-1] += 1
        lengths.characters[-1] += len(observations[-1])
        return choose(env)

    return play


def costs(subject: Subject) -> tuple[float, float, float]:
    """Return milliseconds of a reset, a step (info with it) and a snapshot: medians over random play."""
    env, resets, steps, snapshots = subject.make(), list[float](), list[float](), list[float]()
    for seed, task in enumerate(subject.tasks):
        start = time.perf_counter()
        observation, info = env.reset(seed=seed, options={"task": task})
        resets.append(time.perf_counter() - start)
        over = False
        while not over:
            action = random_player(env, [observation], info)
            start = time.perf_counter()
            observation, _, terminated, truncated, info = env.step(action)
            steps.append(time.perf_counter() - start)
            over = terminated or truncated
            start = time.perf_counter()
            env.snapshot()
            snapshots.append(time.perf_counter() - start)
    return 1000 * statistics.median(resets), 1000 * statistics.median(steps), 1000 * statistics.median(snapshots)
