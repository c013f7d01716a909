"""Cached index of the games below a folder: reading 3,553 games takes seconds, checking for changes does not."""

import hashlib
import json
import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, cast

from agentgym.core.folders import below, cache
from agentgym.errors import BadData

FILE = "game.tw-pddl"
TRAJECTORY = "traj_data.json"
FORMAT = 1
SETTLED = 2_000_000_000
"""Age, in nanoseconds, from which a folder's modification time reliably identifies its content."""
_SOLVABLE = re.compile(rb'"solvable"\s*:\s*(true|false|null)')  # strings escape their quotes
_SENTENCE = re.compile(rb'Your task is to: ([^"\\]*)')
Stamp = list[int]
"""Size in bytes and modification time in nanoseconds of the trajectory file, then of the game file."""


_SHAPE = (str, list, str, bool, str)


class Entry(NamedTuple):
    """Facts about a game that decide how it is listed."""

    place: str
    """The game's folder, relative to the split's folder."""
    stamp: Stamp
    type: str
    solvable: bool
    instruction: str


def read_index(folder: Path) -> list[Entry]:
    """Return the games below a folder, and update the cache; read only new and changed games.

    Games that ALFWorld excludes by path are left out; those that it excludes as unsolvable are not.

    Raises BadData if a trajectory or a game is malformed.
    """
    base = str(folder)
    cache_file = cache("alfworld") / f"{hashlib.blake2b(str(folder.resolve()).encode(), digest_size=12).hexdigest()}.json"
    folders, known = _recall(cache_file)
    if folders and all(_changed(f"{base}/{place}") == when for place, when in folders.items()):
        entries = [_entry(base, place, known) for place in known]
        same = entries == list(known.values())
    else:
        folders, places = _walk(base)
        entries, same = [_entry(base, place, known) for place in places], False
    if not same:
        with suppress(OSError):  # an unwritable cache costs only time
            cache_file.parent.mkdir(parents=True, exist_ok=True)
            part = cache_file.with_suffix(f".{os.getpid()}")  # another process may be writing the same list
            part.write_text(json.dumps({"format": FORMAT, "folders": folders, "games": entries}), encoding="utf-8")
            part.replace(cache_file)
    return entries


def _walk(base: str) -> tuple[dict[str, int], list[str]]:
    """Return each folder's modification time, and the sorted folders that contain a game and its trajectory.

    Games that ALFWorld excludes by path are left out. Links are followed. The times are left out if one is so recent
    that the folder may change again within the file system's clock resolution.
    """
    folders: dict[str, int] = {}
    paths: list[str] = []
    now = time.time_ns()
    for path, files in below(base):
        place = path[len(base) + 1 :].replace(os.sep, "/")
        folders[place] = _changed(path)
        if TRAJECTORY in files and FILE in files and "movable" not in place and "Sliced" not in place:
            paths.append(place)
    return folders if max(folders.values()) < now - SETTLED else {}, sorted(paths)


def _changed(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116  (a tenth of pathlib's time, for thousands of them)
    except OSError:
        return -1


def _recall(path: Path) -> tuple[dict[str, int], dict[str, Entry]]:
    """Return the cached folder times and entries; empty if the cache is missing, malformed or in another format."""
    try:
        cached: Any = json.loads(path.read_bytes())
        if cached["format"] != FORMAT:
            return {}, {}
        games: list[list[Any]] = cached["games"]
        folders: dict[str, Any] = cached["folders"]
        sound = all(isinstance(value, kind) for game in games for value, kind in zip(game, _SHAPE, strict=True))
        if not sound or not all(isinstance(when, int) for when in folders.values()):
            return {}, {}
        return folders, {game[0]: Entry(*game) for game in games}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}, {}


def _entry(base: str, place: str, known: Mapping[str, Entry]) -> Entry:
    """Return a game's entry; reuse the known entry if its files have not changed.

    Raises:
        BadData: a file is missing or not UTF-8.
    """
    trajectory, game = f"{base}/{place}/{TRAJECTORY}", f"{base}/{place}/{FILE}"
    try:
        trajectory_stat, game_stat = os.stat(trajectory), os.stat(game)  # noqa: PTH116
    except FileNotFoundError as error:
        raise BadData(f"{error.filename} leads nowhere; expected a file, or a link to one") from None
    stamp = [trajectory_stat.st_size, trajectory_stat.st_mtime_ns, game_stat.st_size, game_stat.st_mtime_ns]
    entry = known.get(place)
    if entry is not None and entry.stamp == stamp:
        return entry
    content = Path(game).read_bytes()
    solvable, sentence = _SOLVABLE.search(content), _SENTENCE.search(content)
    try:
        instruction = sentence[1].decode().removesuffix(".") if sentence else ""
    except UnicodeDecodeError:
        raise BadData(f"{game}: the task is not UTF-8 text; expected one JSON object") from None
    return Entry(place, stamp, _type(Path(trajectory)), bool(solvable and solvable[1] == b"true"), instruction)


def _type(path: Path) -> str:
    """Return a trajectory's task type.

    Raises:
        BadData: the trajectory is malformed or names no type.
    """
    expected = 'expected the description of an ALFRED trajectory, one JSON object with a text under "task_type"'
    try:
        raw: object = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise BadData(f"{path}: {error}; {expected}; is the file cut off?") from None
    kind = cast("dict[str, object]", raw).get("task_type") if isinstance(raw, dict) else None
    if not isinstance(kind, str):
        raise BadData(f'{path}: no "task_type"; {expected}')
    return kind
