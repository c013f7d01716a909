"""Patches in episodes, and predictions in SWE-bench's format: `instance_id`, `model_name_or_path`, `model_patch`."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from agentgym.episodes.episode import Episode
from agentgym.errors import BadData

OPEN, CLOSE = "<patch>\n", "</patch>"
LONGEST = 60_000
"""Maximum characters of a patch in an episode's last observation."""


def last_observation(summary: str, patch: str | None) -> str:
    """Return an episode's last observation: the verdict, and the judged patch or a note that it is too long."""
    if patch is None:
        return f"{summary}\n{OPEN}left out: more than {LONGEST} characters\n{CLOSE}"
    patch = patch.encode("utf-8", "replace").decode()
    if len(patch) > LONGEST:
        patch = f"left out: {len(patch)} characters\n"
    return f"{summary}\n{OPEN}{patch}{CLOSE}"


def patch_of(episode: Episode) -> str | None:
    """Return an episode's submitted patch; empty if there is none, None if it was too long to include."""
    _, opened, rest = episode.final_observation.partition(f"\n{OPEN}")
    if not opened or episode.success is None or episode.reason == "horizon":
        return ""
    patch = rest.removesuffix(CLOSE)
    return None if patch.startswith("left out: ") else patch


def predictions(episodes: Iterable[Episode], name: str, attempt: int = 0) -> list[dict[str, str]]:
    """Return a prediction in SWE-bench's format for each task, from the episode numbered `attempt`; leave out faults.

    Raises:
        BadData: a patch is too long, so its episode does not contain it.
    """
    patches: dict[str, dict[str, str]] = {}
    for episode in episodes:
        if episode.attempt != attempt or episode.fault:
            continue
        patch = patch_of(episode)
        if patch is None:
            raise BadData(
                f"task {episode.task_id}: the patch has more than {LONGEST} characters, and its episode left it out"
            )
        patches[episode.task_id] = {"instance_id": episode.task_id, "model_name_or_path": name, "model_patch": patch}
    return list(patches.values())


def read_predictions(path: str | Path) -> dict[str, str]:
    """Return the patches by instance in a file of predictions: JSON Lines, a list, or an object by instance.

    An entry has `instance_id` and `model_patch` (SWE-bench) or `patch` (SWE-bench Pro, SWE-rebench-V2), or `org`, `repo`,
    `number` and `fix_patch` (Multi-SWE-bench).

    Raises:
        BadData: the file does not have one of these forms.
    """
    text = Path(path).read_text(encoding="utf-8-sig")
    try:
        raw: object = (
            [json.loads(line) for line in text.split("\n") if line.strip()] if _is_lines(path) else json.loads(text)
        )
    except ValueError as error:
        raise BadData(f"{path}: {error}") from error
    if isinstance(raw, dict):
        raw = list(cast("dict[str, object]", raw).values())
    if not isinstance(raw, list):
        raise BadData(f"{path}: expected predictions, found {text[:80]!r}")
    patches: dict[str, str] = {}
    for number, item in enumerate(cast("list[object]", raw), 1):
        entry = cast("dict[str, object]", item if isinstance(item, dict) else {})
        id, patch = entry.get("instance_id"), entry.get("model_patch") or entry.get("patch") or ""
        if "fix_patch" in entry:
            id, patch = "{org}/{repo}:pr-{number}".format_map({**_NOWHERE, **entry}), entry["fix_patch"] or ""
        if not isinstance(id, str) or not isinstance(patch, str):
            raise BadData(f"{path}, prediction {number}: expected instance_id and model_patch")
        patches[id] = patch
    return patches


_NOWHERE = {"org": "", "repo": "", "number": ""}


def _is_lines(path: str | Path) -> bool:
    return Path(path).suffix == ".jsonl"
