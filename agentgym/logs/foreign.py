"""Other programs' logs: ATIF documents, folders of Harbor jobs, and inspect_ai's `.eval` files.

They are read with the standard library. Logs are untrusted: paths in them are never followed. Success is what the other
program recorded. `Logs.lost` counts the parts that an episode cannot represent.
"""

import importlib
import json
import math
import struct
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from agentgym.episodes.episode import Episode, read_episodes
from agentgym.errors import BadConfig, BadData, MissingExtra
from agentgym.logs.atif import STRANGERS, from_atif

Json = dict[str, Any]
LARGEST = 256 << 20
"""Maximum bytes of one file of a log."""
SUFFIXES = (".eval", ".json")
"""Suffixes of logs that consist of one file."""
RULE = "min"
"""Rule that reduces several rewards to one number, as in `rlvr/Harbor-v0`."""
ZSTANDARD = 93
HEADER = struct.Struct("<26xHH")
"""Local file header of a ZIP archive; unpacks to the lengths of the file name and the extra field."""
LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
"""Value of each grade of inspect_ai: correct, incorrect, partial, no answer."""


class NoLog(BadConfig):
    """A file or folder is not a log of another program."""


@dataclass
class Logs:
    """Episodes read from logs, with the number of logs by kind and of lost parts by name."""

    episodes: list[Episode] = field(default_factory=list[Episode])
    lost: Counter[str] = field(default_factory=Counter[str])
    kinds: Counter[str] = field(default_factory=Counter[str])
    seen: set[Path] = field(default_factory=set[Path])
    """Resolved paths of the logs read so far, so that no log is read twice."""

    def read(self, path: Path) -> None:
        """Add the episodes of a log (a file or a folder); a log that was read before is skipped.

        Raises:
            NoLog: the path has no log.
            BadData: a log is malformed.
        """
        if path.is_dir():
            found = self._folder(path)
        elif path.suffix in SUFFIXES and not self._new([path]):
            return
        elif path.suffix == ".eval":
            found = [*self._inspect(path)]
        elif path.suffix == ".json":
            found = self._document(path)
        else:
            raise NoLog(f"{path} is no log; expected an ATIF .json, an .eval file, or the folder of a Harbor job")
        self.episodes += found
        self._number_attempts()

    def _new(self, paths: Iterable[Path]) -> list[Path]:
        """Return the logs that were not read before, and remember them."""
        new = [path for path in paths if path.resolve() not in self.seen]
        self.seen |= {path.resolve() for path in new}
        return new

    def _folder(self, folder: Path) -> list[Episode]:
        trials = [path.parent for path in sorted(folder.rglob("result.json")) if "trial_name" in _json(path)]
        if trials:
            trials = self._new(trials)
            self.kinds["Harbor trials"] += len(trials)
            return [self._trial(trial) for trial in trials]
        if samples := sorted(folder.glob("*.eval")):
            return [episode for path in self._new(samples) for episode in self._inspect(path)]
        documents = [path for path in sorted(folder.glob("*.json")) if "schema_version" in _json(path)]
        if not documents:
            raise NoLog(f"{folder} holds no log; expected a Harbor job, .eval files of inspect_ai, or ATIF documents")
        documents = self._new(documents)
        self.kinds["ATIF documents"] += len(documents)
        return [from_atif(_json(path), path.name, self.lost) for path in documents]

    def _document(self, path: Path) -> list[Episode]:
        raw = _json(path)
        if "eval" in raw and isinstance(samples := raw.get("samples"), list):
            listed = [_mapping(sample) for sample in cast("list[object]", samples)]
            self.kinds["samples of inspect_ai"] += len(listed)
            return [self._sample(sample, str(_mapping(raw["eval"]).get("task"))) for sample in listed]
        self.kinds["ATIF documents"] += 1
        return [from_atif(raw, path.name, self.lost)]

    def _trial(self, folder: Path) -> Episode:
        """Return the episode of a Harbor trial; a trial without a reward is an infrastructure error."""
        raw = _json(folder / "result.json")
        parts = [folder / "agent", *sorted((folder / "steps").glob("*/agent"))]
        files = [part / "trajectory.json" for part in parts if (part / "trajectory.json").is_file()]
        trajectories = [from_atif(_json(file), str(file), self.lost) for file in files]
        self.lost["trials without a trajectory"] += not trajectories
        made = Episode("rlvr/Harbor-v0", _text(raw, "task_name"), _text(raw, "task_name"), 0)
        for episode in trajectories:
            made.instruction = made.instruction or episode.instruction
            made.final_observation = episode.final_observation
            for turn in episode.turns:
                made.add(turn)
        agent = _mapping(raw.get("agent_info"))
        made.labels = {"agent": str(agent.get("name"))}
        rewards = _numbers(_mapping(raw.get("verifier_result")).get("rewards"))
        exception = _mapping(raw.get("exception_info"))
        if exception:
            made.error = f"{exception.get('exception_type')}: {exception.get('exception_message')}"[:1000]
        return _judged(made, rewards, failed=not rewards)

    def _inspect(self, path: Path) -> Iterator[Episode]:
        """Yield the episodes in an .eval file of inspect_ai, one for each sample and epoch.

        Raises:
            BadData: the archive is malformed.
        """
        try:
            with zipfile.ZipFile(path) as opened:
                header = _member(opened, "header.json")
                task = str(_mapping(header.get("eval")).get("task"))
                names = [name for name in opened.namelist() if name.startswith("samples/") and name.endswith(".json")]
                for name in names:
                    yield self._sample(_member(opened, name), task)
        except (zipfile.BadZipFile, KeyError, OSError) as error:
            raise BadData(f"{path}: {error}; expected an .eval file of inspect_ai") from error
        self.kinds["samples of inspect_ai"] += len(names)

    def _sample(self, raw: Json, task: str) -> Episode:
        messages = [_mapping(message) for message in cast("list[object]", raw.get("messages") or [])]
        steps: list[Json] = []
        for message in messages:
            role, content = message.get("role"), message.get("content")
            if role == "tool" and steps and steps[-1]["source"] == "agent":
                results = steps[-1].setdefault("observation", {"results": []})["results"]
                results.append({"content": _parts(content)})
                continue
            source = "agent" if role == "assistant" else "system" if role == "system" else "user"
            step: Json = {"source": source, "message": _parts(content)}
            calls = [_mapping(call) for call in cast("list[object]", message.get("tool_calls") or [])]
            if calls and source == "agent":
                step["tool_calls"] = [{"function_name": c.get("function"), "arguments": c.get("arguments")} for c in calls]
            steps.append(step)
        self.lost["events of samples"] += len(raw.get("events") or ())
        self.lost["targets"] += bool(raw.get("target"))
        name = str(raw.get("id"))
        steps = steps or [{"source": "user", "message": _parts(raw.get("input"))}]
        made = from_atif({"schema_version": "ATIF-v1.8", "steps": steps}, name, self.lost)
        made.env, made.task_id, made.group_id, made.labels = f"inspect_ai/{task}", name, name, {}
        scores = {key: _grade(_mapping(score).get("value")) for key, score in _mapping(raw.get("scores")).items()}
        error = _mapping(raw.get("error"))
        if error:
            made.error = str(error.get("message"))[:1000]
        return _judged(made, {key: value for key, value in scores.items() if value is not None}, failed=bool(error))

    def _number_attempts(self) -> None:
        """Give each attempt at a task a unique number: its own if that is free, otherwise the next free one."""
        seen = set[tuple[str, str, int]]()
        for episode in self.episodes:
            while (key := (episode.env, episode.task_id, episode.attempt)) in seen:
                episode.attempt += 1
            seen.add(key)


def is_logged(env: str) -> bool:
    """Return True if an environment's episodes come from another program's log, so that its tools are not known here."""
    return env in ("rlvr/Harbor-v0", STRANGERS) or env.startswith("inspect_ai/")


def read_place(path: Path) -> list[Episode]:
    """Return the episodes in a file of episodes, a folder of `train` or `eval`, or another program's log.

    Raises:
        NoLog: a folder has neither episodes nor a log.
        BadData: the file or the log is malformed.
    """
    file = path / "episodes.jsonl" if path.is_dir() else path
    if file.is_file() and file.suffix not in SUFFIXES:
        return read_episodes(file)
    logs = Logs()
    logs.read(path)
    return logs.episodes


def _judged(episode: Episode, rewards: Mapping[str, float], *, failed: bool) -> Episode:
    """Set an episode's success (True if its rewards reduce to at least 1) and reward (1 or 0).

    If the trial `failed` or has no rewards, make the episode a fault.
    """
    episode.metrics = dict(rewards)
    if failed or not rewards:
        episode.success, episode.reason = None, "crash"
        return episode
    from agentgym.envs.terminal.harbor.rewards import (
        NoVerdict,
        one_number,
    )  # late, because it loads Terminal

    try:
        number = one_number(rewards, RULE)
    except NoVerdict:
        number = 0.0
    episode.success, episode.reward = number >= 1, float(number >= 1)
    episode.reason = "success" if episode.success else "failure"
    episode.final_rewards = {"agent": episode.reward}
    if episode.turns:
        episode.pay_last(episode.reward, {"success": episode.reward} if episode.success else {})
    return episode


def _grade(value: object) -> float | None:
    if isinstance(value, str):
        return LETTERS.get(value)
    usable = isinstance(value, int | float) and math.isfinite(value)
    return float(cast("float", value)) if usable else None


def _parts(content: object) -> object:
    """Return a message's content in ATIF's format, with inspect_ai's reasoning converted to text in <think> tags."""
    if not isinstance(content, list):
        return content if isinstance(content, str) or content is None else str(content)
    parts: list[Json] = []
    for part in map(_mapping, cast("list[object]", content)):
        thought = part.get("reasoning")
        text = {"type": "text", "text": f"<think>\n{thought}\n</think>\n"} if thought else part
        parts.append(text)
    return parts


def _json(path: Path) -> Json:
    if path.stat().st_size > LARGEST:
        raise BadData(f"{path} has more than {LARGEST >> 20} MB")
    try:
        return _mapping(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, RecursionError) as error:
        raise BadData(f"{path}: {error}; expected JSON") from error


def _member(opened: zipfile.ZipFile, name: str) -> Json:
    """Read a JSON file in an archive; the size limit does not rely on the size that the archive states.

    Raises:
        BadData: the file is too large or not JSON.
    """
    content = _unzipped(opened, opened.getinfo(name))
    if len(content) > LARGEST:
        raise BadData(f"{name} has more than {LARGEST >> 20} MB")
    try:
        return _mapping(json.loads(content))
    except (ValueError, RecursionError) as error:
        raise BadData(f"{name}: {error}; expected JSON") from error


def _unzipped(opened: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """Return the contents of a file in an archive, also one compressed with Zstandard, as inspect_ai does.

    Before Python 3.14, zipfile does not support Zstandard.

    Raises:
        MissingExtra: decompression needs the package `zstandard`.
        BadZipFile: the archive is malformed.
    """
    if member.compress_type != ZSTANDARD:
        with opened.open(member) as file:
            return file.read(LARGEST + 1)
    try:
        zstandard = importlib.import_module("zstandard")
    except ImportError as error:
        raise MissingExtra(
            f"{opened.filename} is compressed with Zstandard: pip install zstandard, or write it as JSON by "
            "`inspect log convert FILE --to json --output-dir FOLDER`"
        ) from error
    source = cast("IO[bytes]", opened.fp)
    source.seek(member.header_offset)
    header = source.read(HEADER.size)
    if len(header) < HEADER.size or not header.startswith(b"PK\3\4"):
        raise zipfile.BadZipFile(f"no header of {member.filename!r:.80}")
    source.seek(sum(HEADER.unpack(header)), 1)
    try:
        return zstandard.ZstdDecompressor().stream_reader(source.read(member.compress_size)).read(LARGEST + 1)
    except zstandard.ZstdError as error:
        raise zipfile.BadZipFile(str(error)) from error


def _text(raw: Json, name: str) -> str:
    value = raw.get(name)
    if not isinstance(value, str):
        raise BadData(f"{name} of result.json is {value!r:.40}; expected a text")
    return value


def _numbers(value: object) -> dict[str, float]:
    found = {name: _grade(number) for name, number in _mapping(value).items() if not isinstance(number, str)}
    return {name: number for name, number in found.items() if number is not None}


def _mapping(value: object) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}
