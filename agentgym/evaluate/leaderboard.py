"""Leaderboard: several evaluations of the same tasks, each compared with the same references task by task."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from agentgym.episodes.episode import Episode, fault_share
from agentgym.errors import BadConfig
from agentgym.evaluate.compare import compare, read_evaluation
from agentgym.evaluate.protocol import task_ids, text_hash, too_many_faults
from agentgym.evaluate.statistics import outcomes, success

JsonObject = dict[str, Any]

FIXED = ("envs", "attempts", "seed", "suite")
"""Options that decide the episodes. Without a protocol they must be equal; other differing options are listed."""


@dataclass(frozen=True)
class Entry:
    """One evaluation on the leaderboard."""

    name: str
    folder: Path
    options: Mapping[str, object]
    episodes: Sequence[Episode]

    @property
    def key(self) -> dict[str, object]:
        """Properties that all entries of a leaderboard must share, by the name used in error messages."""
        protocol = self.options.get("protocol")
        rules = {"protocol": protocol} if protocol else {name: self.options.get(name) for name in FIXED}
        instructions = text_hash("\n".join(sorted({f"{e.env} {e.task_id} {e.instruction}" for e in self.episodes})))
        played = len({(e.env, e.task_id, e.attempt) for e in self.episodes})
        return {
            "task ids": task_ids(self.episodes),
            "instructions of the tasks": instructions,
            **rules,
            "number of episodes": played,
        }


def leaderboard(paths: Sequence[str | Path], references: Sequence[str | Path] = ()) -> JsonObject:
    """Return a leaderboard as plain JSON: `entries`, best first, and `options` that differ, by option and entry.

    It also has what all entries share: `protocol` and its `source`, `task_ids` (a hash), `tasks` (number), `envs` and
    `references`. An entry has `success` (rate and interval), `fault_share`, and `differences` by reference: the entry's
    success minus the reference's over the same tasks, with the paired interval and `p_value`. `not_comparable` is empty,
    or the reason why an entry is last and not ranked: more than 1 % infrastructure errors. The default reference is the
    best entry.

    Raises:
        BadConfig: there are fewer than two different evaluations, their tasks or protocols differ, none can be ranked, or
            a reference is not one of them.
    """
    entries = [_read(Path(path)) for path in paths]
    if len({entry.folder.resolve() for entry in entries}) < len(entries) or len(entries) < 2:
        raise BadConfig(f"{len(entries)} evaluations were named; expected at least two, each once")
    _same(entries)
    rows = [_row(entry) for entry in _with_unique_names(entries)]
    results = {row["name"]: outcomes(entry.episodes) for row, entry in zip(rows, entries, strict=True)}
    ranked = sorted((row for row in rows if not row["not_comparable"]), key=lambda row: -row["success"]["mean"])
    if not ranked:
        raise BadConfig(
            "no evaluation can be ranked: " + "; ".join(f"{row['name']}: {row['not_comparable']}" for row in rows)
        )
    bases = [_reference(rows, entries, path)["name"] for path in references] or [ranked[0]["name"]]
    for row in ranked:
        pairs = {base: compare(results[base], results[row["name"]]) for base in bases if base != row["name"]}
        row["differences"] = {base: {**asdict(pair.difference), "p_value": pair.p_value} for base, pair in pairs.items()}
    first = entries[0]
    protocol = cast("Mapping[str, object] | None", first.options.get("protocol"))
    return {
        "protocol": None if protocol is None else str(protocol.get("name")),
        "source": "" if protocol is None else str(protocol.get("source") or ""),
        "task_ids": first.key["task ids"],
        "tasks": len({(e.env, e.task_id) for e in first.episodes}),
        "envs": list(dict.fromkeys(e.env for e in first.episodes)),
        "references": list(dict.fromkeys(bases)),
        "entries": [*ranked, *(row for row in rows if row["not_comparable"])],
        "options": _differing(entries, [row["name"] for row in rows]),
    }


def _place(path: Path) -> Path:
    """Return an evaluation's folder for the path of one of its files; any other path unchanged."""
    return path.parent if path.is_file() and (path.parent / "manifest.json").exists() else path


def _read(path: Path) -> Entry:
    folder = _place(path)
    if (folder / "config.toml").exists():
        raise BadConfig(
            f"{folder} is a training run: measure it with `agentgym eval --model {folder}`, and name that folder"
        )
    options, episodes = read_evaluation(folder)
    if not episodes:
        raise BadConfig(f"{folder} has no episode: expected an evaluation that has ended")
    return Entry(folder.resolve().name, folder, options, episodes)


def _with_unique_names(entries: Sequence[Entry]) -> list[Entry]:
    names = [entry.name for entry in entries]
    unique = [str(e.folder) if names.count(e.name) > 1 else e.name for e in entries]
    return [Entry(name, e.folder, e.options, e.episodes) for name, e in zip(unique, entries, strict=True)]


def _same(entries: Sequence[Entry]) -> None:
    """Check that all entries have the same tasks and the same protocol.

    Raises:
        BadConfig: two entries differ.
    """
    first = entries[0].key
    for entry in entries[1:]:
        other = entry.key
        for what in dict.fromkeys((*first, *other)):
            if first.get(what) != other.get(what):
                raise BadConfig(
                    f"{entries[0].folder} and {entry.folder} cannot share a table: {what} is "
                    f"{_text(first.get(what))} in the first and {_text(other.get(what))} in the second. Play both to the "
                    "end under the same protocol, over the same tasks"
                )


def _text(value: object) -> str:
    return f"{str(value)[:200]}" if value is not None else "none"


def _row(entry: Entry) -> JsonObject:
    envs = list(dict.fromkeys(episode.env for episode in entry.episodes))
    parts = {env: success([e for e in entry.episodes if e.env == env]) for env in envs}
    return {
        "name": entry.name,
        "model": str(entry.options.get("model") or entry.options.get("policy") or ""),
        "success": asdict(success(entry.episodes)),
        "envs": {env: asdict(part) for env, part in parts.items()} if len(envs) > 1 else {},
        "fault_share": fault_share(entry.episodes),
        "not_comparable": too_many_faults(entry.episodes),
        "differences": {},
    }


def _reference(rows: Sequence[JsonObject], entries: Sequence[Entry], reference: str | Path) -> JsonObject:
    folder = _place(Path(reference)).resolve()
    for row, entry in zip(rows, entries, strict=True):
        if entry.folder.resolve() == folder:
            if row["not_comparable"]:
                raise BadConfig(f"the reference cannot be compared with: {row['not_comparable']}")
            return row
    raise BadConfig(f"reference {reference} is not one of the evaluations on the command line")


def _differing(entries: Sequence[Entry], names: Sequence[str]) -> dict[str, dict[str, object]]:
    """Return the options that differ between entries, by option and entry; the model is left out."""
    every = sorted({name for entry in entries for name in entry.options} - {"model", "policy", "weights"})
    values = {name: [entry.options.get(name) for entry in entries] for name in every}
    return {
        name: dict(zip(names, stated, strict=True))
        for name, stated in values.items()
        if any(value != stated[0] for value in stated)
    }
