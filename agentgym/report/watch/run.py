"""State of a followed run: the contents of its files as JSON for the web page and the terminal view."""

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.episodes.episode import MOST_FAULTS
from agentgym.errors import BadConfig, BadData
from agentgym.report.facts import facts, played_with
from agentgym.report.html import episode_entry
from agentgym.report.run_folder import DAMAGED, RunFolder, in_order, metrics_row, read_object
from agentgym.report.tokens import Decode, decoder
from agentgym.report.updates import idle
from agentgym.report.watch.index import SHORT, EpisodeIndex, head
from agentgym.report.watch.tail import Tail

FILES = ("config.toml", "metrics.jsonl", "episodes.jsonl", "manifest.json", ".lock")
"""Files that identify a run's folder; at least one of them exists soon after the start."""
GROUPS, FAULTS, PARTS = 40, 20, 12  # maximum number of newest groups, infrastructure errors, and parts in a list
ATTEMPTS, TOKENS = 64, 200_000  # maximum attempts of a group, and tokens in it that are sent one by one
LOCKS = Path("/proc/locks")


@dataclass(frozen=True)
class ClientState:
    """Versions of the parts that a client already has, so that only newer parts are sent."""

    generation: int = -1
    rows: int = 0
    episodes: int = -1
    about: int = -1


class Metrics:
    """Rows of a growing `metrics.jsonl`."""

    def __init__(self, path: Path) -> None:
        self.tail = Tail(path)
        self.rows: list[dict[str, Any]] = []
        self.generation = 0
        """Counter that increases when existing rows change; while it is constant, rows are only appended."""
        self.damaged = ""
        self._lines: list[dict[str, Any] | None] = []

    def look(self) -> None:
        """Read the lines added since the last call."""
        before = len(self._lines)
        unchanged, lines = self.tail.look()
        if unchanged == before and not lines:
            return
        del self._lines[unchanged:]
        for number, line in enumerate(lines, unchanged + 1):
            try:
                self._lines.append(_plain(metrics_row(line)) if line.strip() else None)
            except DAMAGED as error:
                self._lines.append(None)
                self.damaged = f"{self.tail.path.name}, line {number}: not a row of metrics ({str(error)[:SHORT]})"
        rows = in_order(row for row in self._lines if row is not None)
        if unchanged < before or [row["x"] for row in rows[: len(self.rows)]] != [row["x"] for row in self.rows]:
            self.generation += 1
        self.rows = rows


class FollowedRun:
    """A run that is followed while it is written: a folder, or a file of episodes. It may not exist yet."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.single = self.path.is_file() or (self.path.suffix == ".jsonl" and not self.path.is_dir())
        self.name = self.path.stem if self.single else self.path.resolve().name
        self.folder = self.path.parent if self.single else self.path
        self.metrics = Metrics(self.path / "metrics.jsonl")
        self.episodes = EpisodeIndex(self.path if self.single else self.path / "episodes.jsonl")
        self.about: dict[str, Any] = {}
        """Data that rarely changes: configuration and summary. `about_version` increases when it does."""
        self.about_version = 0
        self.trouble = ""
        self._about_seen: object = None
        self._decode: Decode | None = None

    def check(self) -> None:
        """Check that the path is a run, if it exists.

        Raises:
            BadConfig: the path is not a run.
        """
        if self.single:
            if not self.path.exists():
                return
            with self.path.open("rb") as file:
                first = file.readline()
            try:
                raw = head(first) if first.endswith(b"\n") else {"reason": "", "group_id": ""}
            except (ValueError, TypeError, RecursionError):
                raw = {}
            if not {"reason", "group_id"} <= raw.keys():
                raise BadConfig(f"{self.path} is not a file of episodes: expected JSON lines as `agentgym eval` writes them")
        elif self.path.exists() and any(self.path.iterdir()) and not any((self.path / name).exists() for name in FILES):
            raise BadConfig(f"{self.path} is not a run: expected {', '.join(FILES[:3])} in it, or a folder still to be made")

    def look(self) -> None:
        """Read data written since the last call; `trouble` describes files that cannot be read."""
        self.trouble = ""
        try:
            self._look_about()
            self.metrics.look()
            self.episodes.look(training=self.training)
        except (OSError, BadData) as error:
            self.trouble = str(error)

    @property
    def training(self) -> bool:
        """True for a training run, whose group ids encode part and step."""
        return "config" in self.about

    @property
    def behind(self) -> bool:
        """True if the last `look` did not read everything."""
        return self.episodes.tail.behind or self.metrics.tail.behind

    def state(self, known: ClientState | None = None) -> dict[str, Any]:
        """Return the run's state, without the parts that the client already has (`known`; None: the client has none)."""
        known = known or ClientState()
        state, message = self._status()
        tail = self.episodes.tail
        answer: dict[str, Any] = {
            "name": self.name,
            "state": state,
            "said": message,
            "problems": [*filter(None, (self.trouble, self.metrics.damaged)), *self._damaged()],
            "idle": idle(self.metrics.rows),
            "read": tail.end / tail.size if self.behind and tail.size else 1.0,
            "generation": self.metrics.generation,
            "about_version": self.about_version,
            "version": self.episodes.version,
        }
        start = known.rows if known.generation == self.metrics.generation else 0
        answer |= {"from": start, "rows": self.metrics.rows[start:]}
        if known.about != self.about_version:
            answer["about"] = self.about
        if known.episodes != self.episodes.version:
            answer["episodes"] = self._listed()
        return answer

    def group(self, number: int) -> dict[str, Any]:
        """Return a group's first `ATTEMPTS` episodes for the page's script. Raises BadData if they cannot be read."""
        decode = self._tokenizer()
        entries: list[dict[str, Any]] = []
        left = TOKENS
        for row, episode in self.episodes.read(number, ATTEMPTS, training=self.training):
            left -= sum(turn.sampled for turn in episode.turns)
            entries.append(episode_entry(row, episode, decode if left >= 0 else None))
        return {"group": number, "episodes": entries}

    def _damaged(self) -> list[str]:
        count = len(self.episodes.damaged)
        if not count:
            return []
        return [next(iter(self.episodes.damaged.values())) + (f", and {count - 1} more" if count > 1 else "")]

    def _listed(self) -> dict[str, Any]:
        """Return the newest groups, the newest results by part and step, and the newest infrastructure errors."""
        index = self.episodes
        groups = [
            {
                **index.places[number]._asdict(),
                "group": number,
                "outcomes": index.outcomes(number),
                "reward": index.reward(number),
            }
            for number in index.newest(GROUPS)
        ]
        parts: dict[tuple[str, str, str], dict[str, int]] = {}
        for (part, step, env, outcome), count in index.counts.items():
            parts.setdefault((part, step, env), {})[outcome] = count
        newest = list(parts.items())[-PARTS:][::-1]
        faults = index.total("fault")
        return {
            "total": len(index),
            "faults": faults,
            "too_many": bool(len(index)) and faults / len(index) > MOST_FAULTS,
            "groups": groups,
            "errors": list(index.faults(FAULTS)),
            "parts": [{"part": part, "step": step, "env": env, **outcomes} for (part, step, env), outcomes in newest],
        }

    def _look_about(self) -> None:
        """Reread configuration, summary and manifest if one of them has changed."""
        if self.single:
            return
        seen = [_stamp(self.path / name) for name in ("config.toml", "summary.json", "manifest.json")]
        if seen == self._about_seen:
            return
        self._about_seen, self.about_version, self.about = seen, self.about_version + 1, {}
        text = (self.path / "config.toml").read_text(encoding="utf-8", errors="replace") if seen[0] else None
        if text is not None:
            self.about |= {"config": text, "facts": facts(text)}
        manifest = None
        with suppress(BadData):  # it may be incomplete while it is written
            manifest = read_object(self.path / "manifest.json")
        self.about["played_with"] = played_with(text, manifest)
        self.about["summary"] = read_object(self.path / "summary.json")

    def _status(self) -> tuple[str, str]:
        """Return the status (`waiting`, `running`, `finished`, `stopped`, or `open` if unknown) and an explanation."""
        written = [stamp[0] / 1e9 for tail in (self.metrics.tail, self.episodes.tail) if (stamp := _stamp(tail.path))]
        if not written or not (self.metrics.tail.size or self.episodes.tail.size):
            there = (
                "nothing was written yet" if self.folder.is_dir() and not self.single else f"{self.path} does not exist yet"
            )
            return "waiting", there
        ago = f"last written {_ago(time.time() - max(written))}"
        locked = _locked([self.episodes.tail.path] if self.single else [self.path / ".lock", self.episodes.tail.path])
        if locked:
            return "running", ago
        summary = None if self.single else _stamp(self.path / "summary.json")
        if summary and summary[0] / 1e9 >= max(written) - 1:
            return "finished", ago
        return ("open" if locked is None or self.single else "stopped"), ago

    def _tokenizer(self) -> Decode | None:
        if self._decode is None and not self.single:
            config, manifest = self.about.get("config"), None
            with suppress(BadData):
                manifest = read_object(self.path / "manifest.json")
            self._decode = decoder(RunFolder(self.name, None, config, manifest, None, [], self.path, self.path))
        return self._decode


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a metrics row that can be drawn: numbers, texts and None."""
    return {name: value for name, value in row.items() if value is None or isinstance(value, (int, float, str))}


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _locked(paths: list[Path]) -> bool | None:
    """Return True if a process holds a lock on one of these files; None if the system has no table of locks.

    The table is used because testing with a lock could block a run that is just starting.
    """
    nodes: set[str] = set()
    for path in paths:
        try:
            nodes.add(str(path.stat().st_ino))
        except OSError:
            continue
    try:
        table = LOCKS.read_text(encoding="ascii").split("\n")
    except OSError:
        return None
    locks = [line.split() for line in table if " FLOCK " in line and "->" not in line]
    return any(words[5].rpartition(":")[2] in nodes for words in locks)


def _ago(seconds: float) -> str:
    if seconds < 90:
        return f"{max(0, round(seconds))} s ago"
    if seconds < 5400:
        return f"{round(seconds / 60)} min ago"
    return f"{seconds / 3600:.1f} h ago" if seconds < 48 * 3600 else f"{seconds / 86400:.0f} days ago"
