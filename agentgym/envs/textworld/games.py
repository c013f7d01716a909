"""Games of the `textworld` package: settings per difficulty, generation, and compilation once for all processes."""

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
"""Challenge name -> module name in textworld, without the prefixes `tw-` and `tw_`."""
KEPT = 400
"""Maximum number of compiled games in the cache folder; each takes about 400 kB."""
_ROOMS = (1, 6, 9, 12)


def settings(challenge: str, difficulty: int) -> dict[str, Any]:
    """Return the settings for a challenge at a difficulty, as the challenge's `make` function in textworld takes them."""
    if challenge == "coin_collector":  # limited to 100 rooms
        return {"level": min(5 + 2 * difficulty, 100)}
    if challenge == "treasure_hunter":  # generation takes seconds from level 21 on
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
    """Check that `textworld` is installed.

    Raises:
        MissingExtra: `textworld` is missing.
    """
    if importlib.util.find_spec("textworld") is None:
        raise MissingExtra(f"rlvr/TextWorld-v0 makes games with the textworld package: {how_to_install('textworld')}")


@functools.lru_cache(maxsize=1)
def _package() -> ModuleType:
    """Return the module `textworld`, patched to parse its rules once instead of for each game."""
    package = importlib.import_module("textworld")
    data = importlib.import_module("textworld.generator.data")
    load = functools.cache(data.KnowledgeBase.load)
    data.KnowledgeBase.load = staticmethod(
        lambda *a, **k: load(*a, **k) if a or k else data.KB
    )  # textworld has read its own
    importlib.import_module("textworld.generator.maker").GameMaker.set_walkthrough = _walk
    return package


def _walk(maker: Any, commands: Sequence[str]) -> None:
    """Record in each event of a new game the commands that trigger it, without compiling the game as textworld does."""
    from agentgym.envs.textworld.policy import Record

    record = Record(maker.build())
    events = [event for quest in record.progress.quest_progressions for event in quest.win_events]
    done: list[object] = []
    for number, command in enumerate(commands):
        before = [event.triggered for event in events]
        done.append(record.follow(command) or done[-1])  # like the package, repeat the last event
        for event, triggered in zip(events, before, strict=True):
            if event.triggered and not triggered:
                event.event.actions, event.event.commands = list(done), list(commands[: number + 1])


@functools.lru_cache(maxsize=32)
def made(challenge: str, level: str, seed: int) -> Any:
    """Return the game of a challenge; `level` is its settings as JSON.

    Raises:
        UnknownName: `challenge` is not in CHALLENGES.
    """
    if challenge not in CHALLENGES:
        raise UnknownName(no_such("challenge of TextWorld", challenge, CHALLENGES))
    package = _package()
    name = CHALLENGES[challenge]
    options = package.GameOptions()
    options.seeds = seed
    package.g_rng.set_seed(seed)  # code that ignores the game's own generator uses this one
    game = importlib.import_module(f"textworld.challenges.tw_{name}.{name}").make(json.loads(level), options)
    for quest in game.quests:
        quest.fail_events = sorted(quest.fail_events, key=_written)  # their order comes from a set
    return game


def _written(event: Any) -> str:
    """Return an event as text that is equal in every process."""
    return json.dumps(event.serialize(), sort_keys=True, default=str)


def failures() -> tuple[type[Exception], ...]:
    """Return the exceptions that textworld raises if a seed yields no game."""
    return (importlib.import_module("textworld.generator.chaining").QuestGenerationError,)


def content(game: Any) -> str:
    """Return the hash of a game's content: map, objects, words and quests, but not seed or name."""
    parts: Mapping[str, Any] = game.serialize()
    text = json.dumps({k: parts[k] for k in ("world", "quests", "infos", "objective")}, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def folder() -> Path:
    """Return the folder of compiled games, under $AGENTGYM_CACHE or in the user's cache folder."""
    return cache("textworld")


def read(challenge: str, level: str, seed: int, content: str, reader: Callable[[object, Path], T]) -> T:
    """Return `reader(game, story path)`; compile the game first if its files are missing or unreadable.

    `content` is the hash that names the game's files; `made` creates the game from `challenge`, `level` and `seed`.

    If another process deletes the files in the meantime, they are compiled again. Reading an existing game takes about
    15 ms, compiling one about a second.

    Raises:
        BadConfig: the folder of compiled games is not writable.
        Fault: the game cannot be read even after compilation, or the compiler fails.
    """
    place = folder() / f"{content}.z8"
    if is_kept(place):
        with suppress(OSError):  # a read-only folder still works
            os.utime(place)
        with suppress(*_unreadable()):
            return reader(loaded(place.with_suffix(".json")), place)
    compile_into(place, made(challenge, level, seed))
    try:
        return reader(loaded(place.with_suffix(".json")), place)
    except _unreadable() as error:
        raise Fault(f"TextWorld could not read a game that it has just compiled: {str(error)[:300]}") from error


def _unreadable() -> tuple[type[Exception], ...]:
    """Return the exceptions that a missing or invalid game or story raises."""
    wrappers = importlib.import_module("textworld.envs.wrappers.tw_inform7")
    return FileNotFoundError, ValueError, wrappers.MissingGameInfosError


@functools.lru_cache(maxsize=32)
def loaded(path: Path) -> object:
    """Return the game stored in a file."""
    _package()
    return importlib.import_module("textworld.generator.game").Game.load(str(path))


def is_kept(place: Path) -> bool:
    """Return True if both a compiled story and the game file next to it exist."""
    return place.is_file() and place.with_suffix(".json").is_file()


def compile_into(place: Path, game: object) -> None:
    """Compile a game into the story `place` and a game file next to it; delete the least recently used beyond KEPT.

    Several processes may do so at once: each compiles in its own folder and moves the result into place.

    Raises:
        BadConfig: the folder is not writable.
        Fault: the compiler fails.
    """
    package = _package()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix="making-", dir=place.parent))
        try:
            options = package.GameOptions()
            options.path = str(work / place.name)
            package.generator.compile_game(game, options)
            for suffix in (".json", ".z8"):  # the story last, because it marks completeness
                (work / place.name).with_suffix(suffix).replace(place.with_suffix(suffix))
        finally:
            shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        raise BadConfig(
            f"games cannot be compiled in {place.parent} ({error}): name another folder in AGENTGYM_CACHE"
        ) from error
    except Exception as error:
        raise Fault(f"TextWorld could not compile a game: {str(error)[:300]}") from error
    _forget_oldest(place.parent)


def _forget_oldest(place: Path) -> None:
    """Delete the least recently used games beyond KEPT."""
    stories = sorted(place.glob("*.z8"), key=_used_at)
    for path in stories[: max(len(stories) - KEPT, 0)]:
        path.unlink(missing_ok=True)
        path.with_suffix(".json").unlink(missing_ok=True)


def _used_at(path: Path) -> float:
    """Return the time of a story's last use; a file just deleted by another process counts as new."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return float("inf")
