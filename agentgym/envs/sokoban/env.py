"""Sokoban: irreversible moves that require planning."""

from collections.abc import Iterator

import numpy as np

from agentgym.core.declared import Declarations
from agentgym.core.env import Outcome, TextEnv
from agentgym.core.tasks import Task
from agentgym.envs.sokoban.rooms import MOVES, Boxes, Cell, Push, Room, carved, drawn, pushed, pushes_of, walked, walks
from agentgym.envs.sokoban.solver import fewest_pushes, solution

MOST_BOXES = 4


class Sokoban(TextEnv):
    """Push every box onto a target.

    The room is 6 squares wide at difficulty 0 and one more at each level; there are 2 to 4 boxes. The symbols are RAGEN's
    (arXiv 2504.20073): `#` wall, `_` floor, `O` target, `X` box, `P` you, `√` box on a target, `S` you on a target. A
    push may be irreversible: `restart` restores everything and costs a turn. Nothing is hidden, so the expert is the oracle.
    """

    horizon = 60
    hardest = 20
    declared = Declarations(random_bound=0.3)
    shared = ("room", "targets", "start", "plan")

    def begin(self, task: Task) -> str:
        rows: list[str] = list(task.data["room"])
        cells = {(r, c): sign for r, row in enumerate(rows) for c, sign in enumerate(row)}
        self.room: Room = tuple("".join("#" if sign == "#" else "_" for sign in row) for row in rows)
        self.targets: Boxes = frozenset(cell for cell, sign in cells.items() if sign in "O√S")
        self.start: tuple[Cell, Boxes] = (
            next(cell for cell, sign in cells.items() if sign in "PS"),
            frozenset(cell for cell, sign in cells.items() if sign in "X√"),
        )
        self.plan: tuple[str, ...] = tuple(task.data["plan"])
        self.place, self.boxes = self.start
        return (
            "Push every box onto a target: # wall, _ floor, O target, X box, P you, √ box on a target, S you on a target.\n"
            f"Reply with up, down, left, right, or restart.\n\n{self._picture()}"
        )

    def limit_of(self, task: Task) -> int:
        """Return `horizon` if it was set, else 6 turns per square of the room's width, but at least 60."""
        return self.horizon if "horizon" in self.__dict__ else max(self.horizon, 6 * len(task.data["room"]))

    def act(self, action: str) -> str | Outcome:
        word = action.strip().lower()
        if word == "restart":
            self.place, self.boxes = self.start
            return self._picture()
        if word not in MOVES:
            return self.invalid(f"{word[:40]!r} is not a move. Reply with up, down, left, right or restart.")
        moved = pushed(self.room, self.place, self.boxes, word)
        if moved is None:
            return self.invalid(f"Something is in the way {word}.\n\n{self._picture()}")
        self.place, self.boxes = moved
        text = self._picture()
        return self.win(text) if self.boxes == self.targets else text

    def admissible(self) -> list[str]:
        return [*(word for word in MOVES if pushed(self.room, self.place, self.boxes, word)), "restart"]

    def state(self) -> tuple[Cell, list[Cell]]:
        return self.place, sorted(self.boxes)

    def measures(self) -> dict[str, float]:
        """Return `placed`, the share of boxes on targets."""
        return {"placed": len(self.boxes & self.targets) / len(self.targets)}

    def oracle(self) -> Iterator[str]:
        moves = self._rest_of_plan() or solution(self.room, self.targets, self.place, self.boxes)
        if moves is None:  # a box is stuck, or the search gave up
            yield "restart"
            moves = walked(self.room, *self.start, self._plan())
        yield from moves

    def _plan(self) -> tuple[Push, ...]:
        """Return pushes that solve the room from its start: the fewest if the search finds them, else the known ones."""
        pushes = fewest_pushes(self.room, self.targets, *self.start)
        return pushes if pushes is not None else pushes_of(self.room, *self.start, self.plan)

    def _rest_of_plan(self) -> tuple[str, ...] | None:
        """Return the moves for the rest of the plan; None if the current position does not occur in the plan."""
        boxes, reached, left = self.start[1], walks(self.room, self.place, self.boxes), None
        plan = self._plan()
        for done, (cell, word) in enumerate(plan):
            if boxes == self.boxes and cell in reached:
                left = plan[done:]  # the last, if the plan passes here several times
            moved = pushed(self.room, cell, boxes, word)
            boxes = moved[1] if moved else boxes
        return None if left is None else walked(self.room, self.place, self.boxes, left)

    def expert(self) -> Iterator[str]:
        return self.oracle()

    def generate(self, rng: np.random.Generator, difficulty: int) -> Task:
        side, count = 6 + difficulty, min(2 + difficulty, MOST_BOXES)
        while True:
            room = carved(rng, side)
            room_drawn = drawn(rng, room, count) if room else None
            if room_drawn is not None:
                return Task(instruction="Push every box onto a target.", data={"room": room_drawn[0], "plan": room_drawn[1]})

    def split_key(self, task: Task) -> object:
        return task.data["room"]

    def _picture(self) -> str:
        signs = {**dict.fromkeys(self.targets, "O")}
        signs |= {box: "√" if box in self.targets else "X" for box in self.boxes}
        signs[self.place] = "S" if self.place in self.targets else "P"
        return "\n".join("".join(signs.get((r, c), s) for c, s in enumerate(row)) for r, row in enumerate(self.room))
