"""Games of the package: what is made at each difficulty, making one, and compiling it once for all processes."""

import functools
import hashlib
import importlib
import importlib.util
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from agentgym.core.folders import cache
from agentgym.errors import BadConfig, Fault, MissingExtra, UnknownName, how_to_install, no_such

T = TypeVar("T")

CHALLENGES = {
    "coin_collector": "coin_collector",
    "treasure_hunter": "treasure_hunter",
    "cooking": "cooking",
    "simple": "simple",
}
"""Names of the package's challenges, without their `tw-`."""
KEPT = 400
"""Compiled games that are kept in the folder; each takes about 400 kB."""
_ROOMS = (1, 6, 9, 12)


def settings(challenge: str, difficulty: int) -> dict[str, Any]:
    """Return what the package's own `make` of a challenge is given."""
    if challenge == "coin_collector":  # its games have 100 rooms at most
        return {"level": min(5 + 2 * difficulty, 100)}
    if challenge == "treasure_hunter":  # from level 21 on a game takes seconds to make
        return {"level": min(6 + 2 * difficulty, 20)}
    if challenge == "cooking":
        count, skilled = min(1 + difficulty // 2, 5), difficulty > 0
        rooms = _ROOMS[min(difficulty, 3)]
        return {
            "recipe": count,
            "take": count if skilled else 0,
            "cook": skilled,
            "cut": difficulty > 1,
            "open": skilled,
            "drop": False,
            "go": rooms,
            "recipe_seed": 0,
            "split": "",
        }
    return {"rewards": "sparse", "goal": "detailed" if difficulty == 0 else "brief", "test": False}


def check_installed() -> None:
    """Raise MissingExtra where the package is missing, BadConfig where its compiler cannot run."""
    if importlib.util.find_spec("textworld") is None:
        raise MissingExtra(f"rlvr/TextWorld-v0 makes games with the textworld package: {how_to_install('textworld')}")


@functools.lru_cache(maxsize=1)
def _package() -> ModuleType:
    """Return the package, made to read its rules once and not for each game."""
    package = importlib.import_module("textworld")
    data = importlib.import_module("textworld.generator.data")
    data.KnowledgeBase.load = staticmethod(functools.cache(data.KnowledgeBase.load))
    importlib.import_module("textworld.generator.maker").GameMaker.set_walkthrough = _walk
    return package


def _walk(maker: Any, commands: Sequence[str]) -> None:
    """Note the solution in the events that it brings about, as the package does, who compiles the game to find out."""
    from agentgym.envs.textworld.policy import Record

    record = Record(maker.build())
    events = [event for quest in record.progress.quest_progressions for event in quest.win_events]
    done: list[object] = []
    for number, command in enumerate(commands):
        before = [event.triggered for event in events]
        done.append(record.follow(command) or done[-1])  # the package repeats what it saw last, too
        for event, triggered in zip(events, before, strict=True):
            if event.triggered and not triggered:
                event.event.actions, event.event.commands = list(done), list(commands[: number + 1])


@functools.lru_cache(maxsize=32)
def made(challenge: str, level: str, seed: int) -> Any:
    """Return the game of a challenge with those settings (JSON) and that seed."""
    if challenge not in CHALLENGES:
        raise UnknownName(no_such("challenge of TextWorld", challenge, CHALLENGES))
    package = _package()
    name = CHALLENGES[challenge]
    options = package.GameOptions()
    options.seeds = seed
    package.g_rng.set_seed(seed)  # what draws from no generator of the game's own draws from this one
    game = importlib.import_module(f"textworld.challenges.tw_{name}.{name}").make(json.loads(level), options)
    for quest in game.quests:
        quest.fail_events = sorted(quest.fail_events, key=_written)  # they come out of a set
    return game


def _written(event: Any) -> str:
    """Return what an event consists of, as text that does not change from process to process."""
    return json.dumps(event.serialize(), sort_keys=True, default=str)


def failures() -> tuple[type[Exception], ...]:
    """Return what the package raises where a seed gives no game."""
    return (importlib.import_module("textworld.generator.chaining").QuestGenerationError,)


def content(game: Any) -> str:
    """Return the hash of what a game consists of: its map, things, words and quests, but neither seed nor name."""
    parts: Mapping[str, Any] = game.serialize()
    text = json.dumps({k: parts[k] for k in ("world", "quests", "infos", "objective")}, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def folder() -> Path:
    """Return where compiled games are kept: AGENTGYM_CACHE, or the user's cache."""
    return cache("textworld")


def read(challenge: str, level: str, seed: int, content: str, reader: Callable[[object, Path], T]) -> T:
    """Return what a reader makes of a game and its compiled story, made where there is none yet.

    Another process may forget them while they are read: they are compiled once more then. A Fault where the compiler
    fails, or where they cannot be read even so. Reading a game that was kept takes some 15 ms, making it again 10 to 400.
    """
    place = folder() / f"{content}.z8"
    if is_kept(place):
        with suppress(OSError):  # a folder that cannot be written to can be played from
            os.utime(place)
        with suppress(*_unreadable()):
            return reader(loaded(place.with_suffix(".json")), place)
    compile_into(place, made(challenge, level, seed))
    try:
        return reader(loaded(place.with_suffix(".json")), place)
    except _unreadable() as error:
        raise Fault(f"TextWorld could not read a game that it has just compiled: {str(error)[:300]}") from error


def _unreadable() -> tuple[type[Exception], ...]:
    """Return what is raised where a game or its story is missing or no game; the last by the package, for the first."""
    wrappers = importlib.import_module("textworld.envs.wrappers.tw_inform7")
    return FileNotFoundError, ValueError, wrappers.MissingGameInfosError


@functools.lru_cache(maxsize=32)
def loaded(path: Path) -> object:
    """Return the game that a file keeps."""
    _package()
    return importlib.import_module("textworld.generator.game").Game.load(str(path))


def is_kept(place: Path) -> bool:
    """Return whether a story was compiled, and its game written beside it."""
    return place.is_file() and place.with_suffix(".json").is_file()


def compile_into(place: Path, game: object) -> None:
    """Compile a game; a Fault where the compiler fails.

    Several processes may do the same at once: each compiles in a folder of its own and moves the result into place.
    """
    package = _package()
    place.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="making-", dir=place.parent))
    try:
        options = package.GameOptions()
        options.path = str(work / place.name)
        package.generator.compile_game(game, options)
        for suffix in (".json", ".z8"):  # the story last: where it is, all is there
            (work / place.name).with_suffix(suffix).replace(place.with_suffix(suffix))
    except OSError as error:
        raise BadConfig(
            f"games cannot be compiled in {place.parent} ({error}): name another folder in AGENTGYM_CACHE"
        ) from error
    except Exception as error:
        raise Fault(f"TextWorld could not compile a game: {str(error)[:300]}") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    _forget_oldest(place.parent)


def _forget_oldest(place: Path) -> None:
    """Delete the games beyond KEPT that were used least recently."""
    stories = sorted(place.glob("*.z8"), key=_used_at)
    for path in stories[: max(len(stories) - KEPT, 0)]:
        path.unlink(missing_ok=True)
        path.with_suffix(".json").unlink(missing_ok=True)


def _used_at(path: Path) -> float:
    """Return when a story was written or read last; a file that another process has just forgotten counts as new."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return float("inf")
