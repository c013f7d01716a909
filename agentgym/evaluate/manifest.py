"""What an evaluation was made with: options, model, prompt, versions, commit, hardware."""

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
EDGE = 1 << 20  # bytes read at each end of a file of weights


def start(folder: Path, options: Mapping[str, object], skipped: Collection[str] = ()) -> dict[str, Any]:
    """Write `manifest.json`, or add a session to the one that is there, and return it.

    `options` (JSON values) are what decides the episodes. Raises BadConfig where the folder was begun with others:
    episodes of two kinds must not end up in one table. More tasks and more attempts are the same kind. `skipped` are
    environments that cannot be played in this session: they may be in another, so what is said of them, under their names,
    is not compared.
    """
    path = folder / "manifest.json"
    wanted = json.loads(json.dumps(dict(options), sort_keys=True))
    fresh: dict[str, Any] = {"format": FORMAT, "options": wanted, "sessions": []}
    manifest = read(path) if path.exists() else fresh
    before, apart = manifest["options"], {*skipped, *manifest.get("skipped", ())}
    a, b = _grown(_without(before, apart), wanted), _without(wanted, apart)
    differing = [name for name in sorted({*a, *b}) if a.get(name) != b.get(name)]
    if differing:
        what = "; ".join(f"{name} was {a.get(name)!r}, now {b.get(name)!r}" for name in differing)
        raise BadConfig(f"{folder} holds an evaluation with other options ({what}): repeat those, or choose another --out")
    for name, value in wanted.items():
        before[name] = {**before[name], **value} if isinstance(value, dict) else value
    manifest["skipped"] = sorted(apart - {*before.get("envs", ())})
    manifest["sessions"].append(provenance.session(agentgym.__version__))
    folder.mkdir(parents=True, exist_ok=True)
    write_json(path, manifest)
    return manifest


def _grown(before: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return earlier options with the numbers of tasks and attempts that are wanted now, where these are larger."""
    grown = dict(before)
    for name in ("tasks", "attempts"):
        if type(before.get(name)) is int and type(wanted.get(name)) is int:
            grown[name] = max(before[name], wanted[name])
    envs, asked = before.get("envs"), wanted.get("envs")
    if isinstance(envs, dict) and isinstance(asked, dict):
        by_env, now = cast("dict[str, dict[str, Any]]", envs), cast("dict[str, dict[str, Any]]", asked)
        grown["envs"] = {env: _grown(about, now.get(env, {})) for env, about in by_env.items()}
    return grown


def _without(options: Mapping[str, object], apart: Collection[str]) -> dict[str, object]:
    """Return options without what is said of some environments under their names."""
    return {
        name: {key: inner for key, inner in cast("dict[str, object]", value).items() if key not in apart}
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
    """Return how often each kind of trouble (`status 429`, `not JSON`, …) was met in all sessions, most frequent first."""
    total: Counter[str] = Counter()
    for past in manifest["sessions"]:
        total.update(past.get("met", {}))
    return dict(total.most_common())


def numbers_of_tasks(path: Path) -> dict[str, int]:
    """Return the number of tasks by environment in a manifest; none where there is no such file yet."""
    envs: dict[str, dict[str, Any]] = read(path)["options"].get("envs", {}) if path.exists() else {}
    numbers = {env: about.get("tasks") for env, about in envs.items()}
    return {env: number for env, number in numbers.items() if isinstance(number, int)}  # the file may be a stranger's


def adapted(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return what servers refused to be told in any session, and what was done about it."""
    return {name: str(what) for past in manifest["sessions"] for name, what in past.get("adapted", {}).items()}


def read(path: Path) -> dict[str, Any]:
    """Return a manifest; raises BadData where the file is none."""
    try:
        manifest = cast("dict[str, object]", json.loads(path.read_text(encoding="utf-8")))
        if manifest["format"] == FORMAT and isinstance(manifest["options"], dict) and isinstance(manifest["sessions"], list):
            return manifest
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    raise BadData(f"{path} is not a manifest of format {FORMAT}: delete it to start over, or choose another --out")


def read_object(path: Path) -> dict[str, object]:
    """Return the object in a JSON file; raises BadData where the file holds none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise BadData(f"{path} does not hold a JSON object: delete it, and it is written again")
    return cast("dict[str, object]", content)
