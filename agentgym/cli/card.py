"""Card of an environment: length, difficulty, success of shortcuts, and computing cost."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from agentgym.contract.env_under_test import EnvUnderTest, first, has
from agentgym.contract.shortcuts import GENERIC, Policy
from agentgym.contract.solutions import from_text, random_policy, success_rate
from agentgym.core.env import TextEnv
from agentgym.core.outcome import Info
from agentgym.core.play import play
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
    """Number of turns played, and of characters observed, in each of the expert's episodes."""

    turns: list[int]
    characters: list[int]


def card(under_test: EnvUnderTest, difficulties: tuple[int, ...]) -> Table:
    """Return the card of an environment with a column for each difficulty."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    columns: list[dict[str, str]] = []
    for difficulty in difficulties:
        table.add_column(f"difficulty {difficulty}", justify="right")
        columns.append(_column(under_test.at(difficulty)))
    for row in ROWS:
        table.add_row(Text(row), *(Text(printable(column[row])) for column in columns))
    return table


def _column(under_test: EnvUnderTest) -> dict[str, str]:
    env = under_test.env
    reset, step, snapshot = costs(under_test)
    values = dict.fromkeys(ROWS, "-")
    values |= {"milliseconds: reset": f"{reset:.3g}", "milliseconds: step": f"{step:.3g}"}
    values |= {
        "milliseconds: snapshot": f"{snapshot:.3g}",
        "success: random": _percent(success_rate(under_test, random_policy)),
    }
    if has(env, "expert"):
        lengths = Lengths([], [])
        values["success: expert"] = _percent(
            success_rate(under_test, _watched(lambda environment: first(environment.expert), lengths))
        )
        values["expert: turns"] = f"{statistics.mean(lengths.turns):.1f}"
        values["expert: characters read"] = f"{statistics.mean(lengths.characters):.0f}"
    if has(env, "oracle"):
        values["success: oracle"] = _percent(success_rate(under_test, lambda environment, _, __: first(environment.oracle)))
    shortcuts = {**GENERIC, **{name: from_text(shortcut) for name, shortcut in env.shortcuts().items()}}
    rates = {name: success_rate(under_test, policy) for name, policy in shortcuts.items()}
    best = max(rates, key=lambda name: rates[name])
    values["success: best shortcut"] = f"{_percent(rates[best])}" + (f" ({best})" if rates[best] else "")
    values["different tasks in 200"] = str(len({repr(env.split_key(env.numbered(number))) for number in range(200)}))
    return values


def _percent(rate: float) -> str:
    return f"{100 * rate:.0f} %"


def _watched(choose: Callable[[TextEnv], str | None], lengths: Lengths) -> Policy:
    """Return a policy that plays `choose` and records the turns and characters of each episode in `lengths`."""

    def play(env: TextEnv, observations: list[str], _: Info) -> str | None:
        if len(observations) == 1:
            lengths.turns.append(0)
            lengths.characters.append(0)
        lengths.characters[-1] += len(observations[-1])
        action = choose(env)
        lengths.turns[-1] += action is not None  # None: it gives up
        return action

    return play


def costs(under_test: EnvUnderTest) -> tuple[float, float, float]:
    """Return median milliseconds of a reset, a step (including its info) and a snapshot in random play."""
    env, resets, steps, snapshots = under_test.make(), list[float](), list[float](), list[float]()
    for seed, task in enumerate(under_test.tasks):
        start = time.perf_counter()
        seen = env.reset(seed=seed, options={"task": task})
        resets.append(time.perf_counter() - start)

        def choose(observation: str, info: Info) -> str:
            nonlocal start
            action = random_policy(env, [observation], info)
            start = time.perf_counter()
            return action

        for _ in play(env, choose, seen):
            steps.append(time.perf_counter() - start)
            start = time.perf_counter()
            env.snapshot()
            snapshots.append(time.perf_counter() - start)
    return 1000 * statistics.median(resets), 1000 * statistics.median(steps), 1000 * statistics.median(snapshots)
