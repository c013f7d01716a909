"""minigrid's BabyAI levels: names, refusals, order of difficulty, and layouts."""

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
"""Refused levels, each with the reason."""

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
"""(Horizon in turns, names of levels) of each difficulty from 0.

Each further difficulty adds a row and a column of rooms to the boss level.
"""


def check_installed() -> None:
    """Check that `minigrid` is installed.

    Raises:
        MissingExtra: `minigrid` is missing.
    """
    if importlib.util.find_spec("minigrid") is None:
        raise MissingExtra(f"rlvr/BabyAI-v0 plays the levels of the minigrid package: {how_to_install('babyai')}")


@lru_cache(maxsize=1)
def known() -> dict[str, str]:
    """Return the Gymnasium id of each BabyAI level of minigrid, by the level's name, such as `GoToLocal`."""
    check_installed()
    before = os.environ.get("PYGAME_HIDE_SUPPORT_PROMPT")
    os.environ["PYGAME_HIDE_SUPPORT_PROMPT"] = "1"  # suppress pygame's banner
    try:
        gymnasium = importlib.import_module("gymnasium")
        package = importlib.import_module("minigrid")
        rooms = importlib.import_module("minigrid.envs.babyai.core.roomgrid_level")
    finally:
        if before is None:
            del os.environ["PYGAME_HIDE_SUPPORT_PROMPT"]
    vars(rooms)["print"] = _silent  # the module prints every layout it rejects
    if "BabyAI-GoTo-v0" not in gymnasium.registry:
        package.register_minigrid_envs()
    return {id.split("-")[1]: id for id in gymnasium.registry if id.startswith("BabyAI-")}


def _silent(*_: object) -> None:
    """Do nothing and return None."""


def names(level: str, difficulty: int) -> tuple[str, ...]:
    """Return the names of the levels to draw tasks from: `level` alone, or if it is empty, the levels of the difficulty.

    Raises:
        UnknownName: minigrid has no such level.
        BadConfig: the level is refused.
    """
    if not level:
        return LADDER[difficulty][1] if difficulty < len(LADDER) else (f"Boss+{difficulty - len(LADDER) + 1}",)
    if level not in known():
        raise UnknownName(no_such("level of BabyAI", level, known()))
    if level in REFUSED:
        raise BadConfig(f"level {level!r} of BabyAI is refused: {REFUSED[level]}")
    return (level,)


def horizon(level: str, difficulty: int) -> int:
    """Return the default horizon in turns: the level's (960 outside LADDER), or if `level` is empty, the difficulty's."""
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
    """Return minigrid's own step limit (`max_steps`) for a level with the layout that `seed` determines."""
    known()
    level = copy.copy(_level(name))
    level.reset(seed=seed)
    return int(level.max_steps)


def layout(name: str, seed: int) -> Level:
    """Return a level with the layout that `seed` determines, without minigrid's step limit.

    The levels that this function returns share only objects that a reset never changes.
    """
    known()
    level = copy.copy(_level(name))
    level.reset(seed=seed)
    level.max_steps = 10**9  # the horizon is ours
    level.gen_obs = _silent  # its steps would render an unused image of the view
    return level


def copied(level: Level) -> Level:
    """Return a copy of a level to play on; objects that never change in an episode are shared."""
    same: list[object] = [level.action_space, level.observation_space, level.spec, level.np_random]
    same += [cell for cell in level.grid.grid if cell is not None and cell.type == "wall"]
    return copy.deepcopy(level, {id(same_object): same_object for same_object in same})
