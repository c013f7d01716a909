"""Protocols for minigrid's objects: cells, levels, instructions and the bot."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

Point = Sequence[int] | np.ndarray


class Cell(Protocol):
    """The content of a square; only doors have `is_open` and `is_locked`."""

    type: str
    color: str
    contains: "Cell | None"
    is_open: bool
    is_locked: bool

    def can_overlap(self) -> bool: ...
    def can_pickup(self) -> bool: ...
    def see_behind(self) -> bool: ...
    def encode(self) -> tuple[int, int, int]: ...


class Grid(Protocol):
    """The squares of a level, row by row."""

    width: int
    height: int
    grid: list[Cell | None]

    def get(self, i: int, j: int, /) -> Cell | None: ...


class Description(Protocol):
    """The objects that a part of an instruction may refer to, and their positions."""

    obj_set: list[Cell]
    obj_poss: list[Sequence[int]]


class Instruction(Protocol):
    """An instruction; a compound one has its parts as `instr_a` and `instr_b`."""

    instr_a: "Instruction"
    instr_b: "Instruction"
    a_done: object
    b_done: object


class Level(Protocol):
    """A level in its current state."""

    width: int
    height: int
    grid: Grid
    carrying: Cell | None
    agent_pos: Sequence[int]
    agent_dir: int
    agent_view_size: int
    front_pos: Sequence[int]
    instrs: Instruction
    mission: str
    max_steps: int
    gen_obs: object
    action_space: object
    observation_space: object
    spec: object
    np_random: object

    def reset(self, *, seed: int) -> object: ...
    def step(self, action: int, /) -> tuple[object, float, bool, bool, object]: ...
    def pprint_grid(self) -> str: ...
    def update_objs_poss(self) -> None: ...


class Bot(Protocol):
    """minigrid's bot as modified by `bot.py`."""

    stack: list[object]
    vis_mask: np.ndarray
    bfs_counter: int

    def says(self, previous: int | None) -> int: ...
    def look(self) -> None: ...
