"""Rules that minigrid leaves implicit: commands without effect, and missions that have become impossible."""

from agentgym.envs.babyai.parts import Cell, Description, Instruction, Level
from agentgym.envs.babyai.view import AHEAD, thing

COMMANDS = ("turn left", "turn right", "go forward", "pick up", "drop", "toggle", "done")
LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)
"""minigrid's action numbers, in the order of COMMANDS."""
TURNS = COMMANDS[:2]


def hindrance(game: Level, command: str) -> str:
    """Return the reason that a command would have no effect; empty if it would have an effect."""
    return _hindrance(_ahead(game), game.carrying, command)


def possible_commands(game: Level) -> list[str]:
    """Return the commands that would have an effect."""
    cell, carried = _ahead(game), game.carrying
    return [command for command in COMMANDS if not _hindrance(cell, carried, command)]


def _ahead(game: Level) -> Cell | None:
    """Return the cell in front of the agent."""
    ahead_x, ahead_y = AHEAD[int(game.agent_dir)]
    return game.grid.get(int(game.agent_pos[0]) + ahead_x, int(game.agent_pos[1]) + ahead_y)


def _hindrance(cell: Cell | None, carried: Cell | None, command: str) -> str:
    if command in TURNS:
        return ""
    what = "nothing" if cell is None else "a wall" if cell.type == "wall" else f"a {thing(cell)}"
    if command == "go forward" and cell is not None and not cell.can_overlap():
        return f"You cannot go forward: {what} is in the way."
    if command == "pick up" and carried is not None:
        return f"You cannot pick up anything: you are carrying a {thing(carried)}."
    if command == "pick up" and (cell is None or not cell.can_pickup()):
        return f"You cannot pick that up: in front of you is {what}."
    if command == "drop" and carried is None:
        return "You are not carrying anything to drop."
    if command == "drop" and cell is not None:
        return f"You cannot drop anything there: in front of you is {what}."
    if command == "toggle" and (cell is None or cell.type not in ("door", "box")):
        return f"You cannot toggle that: in front of you is {what}."
    return _lock(cell, carried) if command == "toggle" and cell is not None else ""


def _lock(cell: Cell, carried: Cell | None) -> str:
    """Return the reason that toggling a door or box has no effect; empty if it has an effect."""
    if (
        cell.type != "door"
        or not cell.is_locked
        or (carried is not None and (carried.type, carried.color) == ("key", cell.color))
    ):
        return ""
    return f"The door is locked: it needs a {cell.color} key."


def clauses(instr: Instruction) -> list[Instruction]:
    """Return the simple instructions that make up an instruction."""
    return [*clauses(instr.instr_a), *clauses(instr.instr_b)] if hasattr(instr, "instr_a") else [instr]


def descs(instr: Instruction) -> list[Description]:
    """Return the descriptions of the objects in a simple instruction."""
    return [vars(instr)[name] for name in ("desc", "desc_move", "desc_fixed") if name in vars(instr)]


def _unfinished(instr: Instruction) -> list[Instruction]:
    """Return the simple instructions not yet carried out."""
    if not hasattr(instr, "instr_a"):
        return [instr]
    rest = [] if instr.a_done == "success" else _unfinished(instr.instr_a)
    return rest if instr.b_done == "success" else rest + _unfinished(instr.instr_b)


def possible(game: Level) -> bool:
    """Return True if the mission can still succeed: each unfinished part refers to an object that still exists."""
    there = {id(cell) for cell in game.grid.grid if cell is not None} | {id(game.carrying)}
    hidden = {id(cell.contains) for cell in game.grid.grid if cell is not None and cell.contains}
    needed = (desc for instr in _unfinished(game.instrs) for desc in descs(instr))
    return all(any(id(thing) in there | hidden for thing in desc.obj_set) for desc in needed)
