"""Manifest of an evaluation: options, model, prompt, versions, commit and hardware."""

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, cast

import agentgym
from agentgym.core import provenance
from agentgym.core.provenance import write_json
from agentgym.errors import BadConfig, BadData

FORMAT = 1
ADDED = ("wordings", "trained_wordings")
"""Options that earlier versions did not record; an evaluation without them can be continued."""
EDGE = 1 << 20  # bytes read at each end of a file of weights


def start(folder: Path, options: Mapping[str, object], skipped: Collection[str] = ()) -> dict[str, Any]:
    """Write `manifest.json`, or add a session to the existing one, and return it.

    `options` (JSON values) decide the episodes. Between sessions only the numbers of tasks and attempts may grow, so that
    no table mixes two kinds of episodes. `skipped` are environments that cannot be played in this
    session; since another session may play them, their options are not compared.

    Raises:
        BadConfig: the folder was started with other options.
    """
    path = folder / "manifest.json"
    new_options = json.loads(json.dumps(dict(options), sort_keys=True))
    fresh: dict[str, Any] = {"format": FORMAT, "options": new_options, "sessions": []}
    manifest = read(path) if path.exists() else fresh
    before, ignored = manifest["options"], {*skipped, *manifest.get("skipped", ())}
    a, b = _grown(_without(before, ignored), new_options), _without(new_options, ignored)
    differing = [name for name in sorted({*a, *b}) if a.get(name) != b.get(name)]
    if differing:
        what = "; ".join(f"{name} was {a.get(name)!r}, now {b.get(name)!r}" for name in differing)
        raise BadConfig(f"{folder} holds an evaluation with other options ({what}): repeat those, or choose another --out")
    for name, value in new_options.items():
        before[name] = {**before[name], **value} if isinstance(value, dict) else value
    manifest["skipped"] = sorted(ignored - {*before.get("envs", ())})
    manifest["sessions"].append(provenance.session(agentgym.__version__))
    folder.mkdir(parents=True, exist_ok=True)
    write_json(path, manifest)
    return manifest


def _grown(before: Mapping[str, Any], new_options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the earlier options with the permitted changes: more tasks or attempts, and options of `ADDED` that are new."""
    grown = dict(before)
    for name in ("tasks", "attempts"):
        if type(before.get(name)) is int and type(new_options.get(name)) is int:
            grown[name] = max(before[name], new_options[name])
    for name in ADDED:
        if name in new_options:
            grown.setdefault(name, new_options[name])
    envs, new_envs = before.get("envs"), new_options.get("envs")
    if isinstance(envs, dict) and isinstance(new_envs, dict):
        by_env, now = cast("dict[str, dict[str, Any]]", envs), cast("dict[str, dict[str, Any]]", new_envs)
        grown["envs"] = {env: _grown(about, now.get(env, {})) for env, about in by_env.items()}
    return grown


def _without(options: Mapping[str, object], ignored: Collection[str]) -> dict[str, object]:
    """Return options without the entries of some environments."""
    return {
        name: {key: inner for key, inner in cast("dict[str, object]", value).items() if key not in ignored}
        if isinstance(value, dict)
        else value
        for name, value in options.items()
    }


def fingerprint(path: Path) -> str:
    """Return a hash of a model folder: names and sizes of its files, and the first and last megabyte of each."""
    digest = hashlib.blake2b(digest_size=8)
    for file in sorted(p for p in path.iterdir() if p.is_file()):
        size = file.stat().st_size
        digest.update(f"{file.name}\x1f{size}\x1f".encode())
        with file.open("rb") as stream:
            digest.update(stream.read(EDGE))
            if size > EDGE:
                stream.seek(max(EDGE, size - EDGE))
                digest.update(stream.read(EDGE))
    return digest.hexdigest()


def met(manifest: Mapping[str, Any]) -> dict[str, int]:
    """Return the count of each problem (`status 429`, `not JSON`, …) over all sessions, most frequent first."""
    total: Counter[str] = Counter()
    for past in manifest["sessions"]:
        total.update(past.get("met", {}))
    return dict(total.most_common())


def numbers_of_tasks(path: Path) -> dict[str, int]:
    """Return the number of tasks by environment in a manifest; empty if the file does not exist yet."""
    envs: dict[str, dict[str, Any]] = read(path)["options"].get("envs", {}) if path.exists() else {}
    numbers = {env: about.get("tasks") for env, about in envs.items()}
    return {env: number for env, number in numbers.items() if isinstance(number, int)}  # the file is untrusted


def adapted(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return the parameters that servers rejected in any session, each with the adaptation that was made."""
    return {name: str(what) for past in manifest["sessions"] for name, what in past.get("adapted", {}).items()}


def read(path: Path) -> dict[str, Any]:
    """Return a manifest.

    Raises:
        BadData: the file is not a manifest.
    """
    try:
        manifest = cast("dict[str, object]", json.loads(path.read_text(encoding="utf-8")))
        if manifest["format"] == FORMAT and isinstance(manifest["options"], dict) and isinstance(manifest["sessions"], list):
            return manifest
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    raise BadData(f"{path} is not a manifest of format {FORMAT}: delete it to start over, or choose another --out")


def read_object(path: Path) -> dict[str, object]:
    """Return the object in a JSON file.

    Raises:
        BadData: the file contains no JSON object.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise BadData(f"{path} does not hold a JSON object: delete it, and it is written again")
    return cast("dict[str, object]", content)
