"""The levels of the package: which there are, which are refused, in what order they come, and how one is laid out."""

import copy
import importlib
import importlib.util
import os
from functools import lru_cache

from agentgym.envs.babyai.parts import Level
from agentgym.errors import BadConfig, MissingExtra, UnknownName, how_to_install, no_such

REFUSED = {
    name: "its verifier takes the first door, opened rightly, for a wrong second one"
    for name in ("OpenDoorsOrderN2Debug", "OpenDoorsOrderN4Debug", "OpenRedBlueDoorsDebug")
}
"""Levels that are not played, with the reason."""

LADDER: tuple[tuple[int, tuple[str, ...]], ...] = (
    (24, ("GoToRedBallGrey", "GoToRedBall", "GoToObj", "GoToLocal")),
    (40, ("OpenRedDoor", "PickupLoc", "GoToDoor", "OpenDoor", "GoToRedBlueBall")),
    (64, ("PutNextLocal", "PutNextLocalS6N4", "UnlockLocal", "PutNextS5N2")),
    (96, ("GoToObjMazeS4R2", "GoToObjMazeS4", "OpenDoorsOrderN2", "UnlockPickup", "UnlockPickupDist")),
    (160, ("GoToObjMazeS5", "BlockedUnlockPickup", "PutNextS7N4", "SynthS5R2", "KeyCorridorS3R2")),
    (320, ("GoTo", "Open", "Pickup", "UnblockPickup", "Unlock", "KeyCorridorS4R3")),
    (640, ("Synth", "SynthLoc", "GoToSeq", "MiniBossLevel", "PickupAbove")),
    (960, ("SynthSeq", "BossLevel", "BossLevelNoUnlock")),
)
"""Horizon and levels of each difficulty; from the next on, boss levels with a row and a column of rooms more each time."""


def check_installed() -> None:
    """Raise MissingExtra where the package is missing."""
    if importlib.util.find_spec("minigrid") is None:
        raise MissingExtra(f"rlvr/BabyAI-v0 plays the levels of the minigrid package: {how_to_install('babyai')}")


@lru_cache(maxsize=1)
def known() -> dict[str, str]:
    """Return the Gymnasium ids of all levels of the package by their names (`GoToLocal`)."""
    check_installed()
    before = os.environ.get("PYGAME_HIDE_SUPPORT_PROMPT")
    os.environ["PYGAME_HIDE_SUPPORT_PROMPT"] = "1"  # it would print a line
    try:
        gymnasium = importlib.import_module("gymnasium")
        package = importlib.import_module("minigrid")
        rooms = importlib.import_module("minigrid.envs.babyai.core.roomgrid_level")
    finally:
        if before is None:
            del os.environ["PYGAME_HIDE_SUPPORT_PROMPT"]
    vars(rooms)["print"] = _silent  # that module prints every layout it throws away
    if "BabyAI-GoTo-v0" not in gymnasium.registry:
        package.register_minigrid_envs()
    return {id.split("-")[1]: id for id in gymnasium.registry if id.startswith("BabyAI-")}


def _silent(*_: object) -> None:
    """Print, or return, nothing."""


def names(level: str, difficulty: int) -> tuple[str, ...]:
    """Return the levels that tasks are drawn from: the one asked for, or those of a difficulty."""
    if not level:
        return LADDER[difficulty][1] if difficulty < len(LADDER) else (f"Boss+{difficulty - len(LADDER) + 1}",)
    if level not in known():
        raise UnknownName(no_such("level of BabyAI", level, known()))
    if level in REFUSED:
        raise BadConfig(f"level {level!r} of BabyAI is refused: {REFUSED[level]}")
    return (level,)


def horizon(level: str, difficulty: int) -> int:
    """Return the turns that an episode has unless the caller says otherwise."""
    if level:
        return next((turns for turns, group in LADDER if level in group), LADDER[-1][0])
    top = LADDER[-1][0]
    return LADDER[difficulty][0] if difficulty < len(LADDER) else top * (difficulty - len(LADDER) + 3) ** 2 // 4


@lru_cache(maxsize=64)
def _level(name: str) -> Level:
    more = name.partition("+")[2]
    if more:
        kind = importlib.import_module("minigrid.envs.babyai.core.levelgen").LevelGen
        side = 3 + int(more)
        return kind(num_rows=side, num_cols=side, num_dists=2 * side**2)
    return importlib.import_module("gymnasium").make(known()[name], disable_env_checker=True).unwrapped


def package_limit(name: str, seed: int) -> int:
    """Return the steps after which the package truncates an episode of the level as that seed lays it out."""
    known()
    level = copy.copy(_level(name))
    level.reset(seed=seed)
    return int(level.max_steps)


def layout(name: str, seed: int) -> Level:
    """Return the level as that seed lays it out: an object of its own, with what a reset never changes in common."""
    known()
    level = copy.copy(_level(name))
    level.reset(seed=seed)
    level.max_steps = 10**9  # the horizon is ours
    level.gen_obs = _silent  # its steps would make an image of the view, which nobody looks at
    return level


def copied(level: Level) -> Level:
    """Return a copy of a level that can be played on; what never changes in an episode is shared."""
    same: list[object] = [level.action_space, level.observation_space, level.spec, level.np_random]
    same += [cell for cell in level.grid.grid if cell is not None and cell.type == "wall"]
    return copy.deepcopy(level, {id(same_object): same_object for same_object in same})
