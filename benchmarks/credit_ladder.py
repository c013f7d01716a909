"""Where credit fails, on a ladder whose advantages are known exactly: rare states, chance, long ways, near 100 %.

A policy without a model climbs `rungs` rungs in `horizon` turns: it goes up with probability `climbs` and else slips
down by one. Each turn ends the attempt with probability `falls`, whatever was done: pure chance. The state key tells
the rung, and one of `copies` which are alike and drawn anew in each turn: with many, hardly two episodes meet. The
turns left are not in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from agentgym.episodes.episode import Episode, Group, Turn
from agentgym.trainers.credit.interface import resolve

GROUPS, SIZE = 400, 8
CREDITS: dict[str, tuple[str, dict[str, Any]]] = {
    "grpo": ("grpo", {}),
    "gigpo": ("gigpo", {"anchor": "state"}),
    "state_td": ("state_td", {}),
}


@dataclass(frozen=True)
class Ladder:
    """A small problem with a policy, and its exact values."""

    rungs: int = 5
    climbs: float = 0.6
    falls: float = 0.02
    horizon: int = 16
    copies: int = 1

    def values(self) -> Any:
        """Return the chance to win by the turns left and the rung, the rung above the last being the win."""
        found = np.zeros((self.horizon + 1, self.rungs + 1))  # [turns left, rungs + 1]
        found[:, -1] = 1.0
        down = np.maximum(np.arange(self.rungs) - 1, 0)
        for left in range(1, self.horizon + 1):
            before = found[left - 1]
            both = self.climbs * before[1:] + (1 - self.climbs) * before[down]
            found[left, :-1] = (1 - self.falls) * both
        return found

    def play(self, rng: np.random.Generator, size: int) -> tuple[Group, list[Any]]:
        """Return a group of episodes, and by episode the exact advantage of each turn."""
        values = self.values()
        played: list[Episode] = []
        exact: list[Any] = []
        for number in range(size):
            rung, turns, own = 0, list[Turn](), list[float]()
            for left in range(self.horizon, 0, -1):
                key = f"{rung} {rng.integers(self.copies)}"
                after = rung + 1 if rng.random() < self.climbs else max(rung - 1, 0)
                own.append((1 - self.falls) * values[left - 1, after] - values[left, rung])
                fallen = rng.random() < self.falls
                won = after == self.rungs and not fallen
                turns.append(Turn(key, state_key=key, reward=float(won)))
                rung = after
                if won or fallen:
                    break
            total = turns[-1].reward
            played.append(Episode("ladder", "t", "t", number, turns=turns, reward=total, success=total > 0))
            exact.append(np.array(own))
        return Group("t", "agent", played), exact


def efficiency(found: Sequence[Sequence[Any]], exact: Sequence[Sequence[Any]]) -> float:
    """Return E[XA]^2 / (E[X^2] E[A^2]) over all turns."""
    x, a = (np.concatenate([row for rows in nested for row in rows]) for nested in (found, exact))
    return float((x @ a) ** 2 / ((x @ x) * (a @ a)))


PLAIN = Ladder()
CASES: dict[str, Ladder] = {
    "unchanged": PLAIN,
    **{f"rare states: {n} copies of each": replace(PLAIN, copies=n) for n in (4, 16, 64)},
    **{f"chance: {falls:.0%} of turns end it": replace(PLAIN, falls=falls) for falls in (0.0, 0.1, 0.2)},
    **{f"long: {n} rungs in {3 * n} turns": replace(PLAIN, rungs=n, horizon=3 * n, falls=0.0) for n in (10, 20, 40)},
    **{f"hurried: {n} turns": replace(PLAIN, horizon=n) for n in (6, 8, 32)},
    **{f"near 100 %: up with {p:g}": replace(PLAIN, climbs=p, falls=0.0) for p in (0.75, 0.8, 0.85)},
}


def table() -> list[dict[str, Any]]:
    """Return by case: the success rate, and the efficiency of each credit."""
    rows: list[dict[str, Any]] = []
    for name, ladder in CASES.items():
        rng = np.random.default_rng(0)
        played = [ladder.play(rng, SIZE) for _ in range(GROUPS)]
        made, exact = [group for group, _ in played], [rows for _, rows in played]
        row: dict[str, Any] = {"case": name, "success": np.mean([e.reward for group in made for e in group])}
        rows.append(row | {label: efficiency(resolve(c, **o)(made), exact) for label, (c, o) in CREDITS.items()})
    return rows
