"""A stochastic environment: on ice, a move may slide sideways."""

import copy
from collections import deque
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from agentgym.core.env import Outcome, TextEnv
from agentgym.core.tasks import Task
from agentgym.errors import BadConfig

MOVES = {"left": (0, -1), "down": (1, 0), "right": (0, 1), "up": (-1, 0)}
NAMES = tuple(MOVES)  # ordered so that neighbors are perpendicular
Cell = tuple[int, int]
Lake = tuple[str, ...]


class FrozenLake(TextEnv):
    """Cross a slippery frozen lake without falling in.

    The map is 5 squares wide at difficulty 0 and one more at each level; a fifth of it is holes, and the goal is always
    reachable. Every move draws once from the episode's generator: with probability `slip` it slides to one of the two sides,
    each equally likely. The oracle knows each draw in advance; the expert knows only the map and `slip`.
    """

    horizon = 100
    hardest = 200
    task_settings = ("slip",)
    settings = task_settings
    slip: float = 0.2
    """Probability that a move slides sideways."""
    shared = ("lake", "distance")

    def setup(self) -> None:
        if not 0 <= self.slip <= 1:
            raise BadConfig(f"slip is {self.slip!r}; expected a probability from 0 to 1")

    def begin(self, task: Task) -> str:
        self.lake: Lake = tuple(task.data["lake"])
        self.distance = distances(self.lake)
        self.place: Cell = (0, 0)
        return (
            "Cross the frozen lake to G without falling into a hole (H). You are @ and F is ice. "
            "Reply with left, down, right or up.\n"
            f"With probability {self.slip:g} a move slips sideways.\n\n{self._picture()}"
        )

    def act(self, action: str) -> str | Outcome:
        word = action.strip().lower()
        if word not in MOVES:
            return self.invalid(f"{word[:40]!r} is not a move. Reply with left, down, right or up.")
        self.place = step_from(self.lake, self.place, slid(word, self.np_random, self.slip))
        square = self.lake[self.place[0]][self.place[1]]
        if square == "H":
            return self.lose("The ice breaks and you drown.")
        return self.win("You reach the goal.") if square == "G" else self._picture()

    def admissible(self) -> list[str]:
        return list(NAMES)

    def state(self) -> Cell:
        return self.place

    def measures(self) -> dict[str, float]:
        """Return `near`, the progress toward the goal: 1 at the goal, less with each move away from it, 0 in a hole."""
        return {"near": 1 - self.distance.get(self.place, len(self.distance)) / len(self.distance)}

    def oracle(self) -> Iterator[str]:
        chance, place = copy.deepcopy(self.np_random), self.place
        while self.distance[place]:
            turn = slid("left", chance, self.slip)  # the slide of `left` determines the slide of every move
            shift = NAMES.index(turn) - NAMES.index("left")
            best = min(NAMES, key=lambda name: self.distance.get(step_from(self.lake, place, name), np.inf))
            yield NAMES[(NAMES.index(best) - shift) % 4]
            place = step_from(self.lake, place, best)

    def expert(self) -> Iterator[str]:
        while True:
            yield policy(self.lake, self.slip)[self.place]

    def generate(self, rng: np.random.Generator, difficulty: int) -> Task:
        side = 5 + difficulty
        while True:
            squares = np.full(side * side, "F")
            squares[rng.choice(np.arange(1, side * side - 1), side * side // 5, replace=False)] = "H"
            squares[-1] = "G"
            lake = tuple("".join(row) for row in squares.reshape(side, side).tolist())
            if (0, 0) in distances(lake):
                return Task(instruction="Cross the frozen lake.", data={"lake": lake})

    def _picture(self) -> str:
        row, column = self.place
        here = self.lake[row][:column] + "@" + self.lake[row][column + 1 :]
        return "\n".join((*self.lake[:row], here, *self.lake[row + 1 :]))


def step_from(lake: Lake, place: Cell, name: str) -> Cell:
    """Return the square after a move in direction `name` without sliding; a move off the map does not change the square."""
    row, column = place[0] + MOVES[name][0], place[1] + MOVES[name][1]
    return (row, column) if 0 <= row < len(lake) and 0 <= column < len(lake) else place


def slid(name: str, chance: np.random.Generator, slip: float) -> str:
    """Return the direction in which a move in direction `name` goes, after drawing one number from `chance`."""
    drawn = chance.random()
    turn = 0 if drawn >= slip else 1 if drawn < slip / 2 else -1
    return NAMES[(NAMES.index(name) + turn) % 4]


def distances(lake: Lake) -> dict[Cell, int]:
    """Return the number of moves to the goal from every square that can reach it."""
    goal = (len(lake) - 1, len(lake) - 1)
    steps, queue = {goal: 0}, deque([goal])
    while queue:
        place = queue.popleft()
        for name in NAMES:
            there = step_from(lake, place, name)
            if there not in steps and lake[there[0]][there[1]] != "H":
                steps[there] = steps[place] + 1
                queue.append(there)
    return steps


@lru_cache(maxsize=256)
def policy(lake: Lake, slip: float, discount: float = 0.99) -> dict[Cell, str]:
    """Return the best move on each square that can reach the goal, by value iteration (Bellman 1957).

    `slip` is the probability that a move slides sideways, and `discount` the discount factor per move.
    """
    places = sorted(distances(lake))
    index = {place: number for number, place in enumerate(places)}
    drowned, goal = len(places), index[len(lake) - 1, len(lake) - 1]
    ends = np.array([[index.get(step_from(lake, place, name), drowned) for name in NAMES] for place in places])
    values = np.zeros(len(places) + 1)
    values[goal] = 1.0
    while True:
        straight = values[ends]  # [places, moves]
        aside = np.roll(straight, 1, axis=1) + np.roll(straight, -1, axis=1)
        worth = discount * ((1 - slip) * straight + slip / 2 * aside)
        change = np.abs(values[:goal] - worth[:goal].max(axis=1)).max()
        values[:goal] = worth[:goal].max(axis=1)
        if change < 1e-9:
            best = np.round(worth, 6).argmax(axis=1).tolist()
            return {place: NAMES[move] for place, move in zip(places, best, strict=True)}
