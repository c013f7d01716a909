"""Evaluations that go on where they stopped: every finished episode is kept, only the missing ones are played."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentgym.agents.base import Agent
from agentgym.core import TextEnv
from agentgym.episode import Episode, read_episodes
from agentgym.errors import BadConfig, unknown
from agentgym.evaluate import manifest
from agentgym.evaluate.summary import summarize
from agentgym.registry import make
from agentgym.rollout import collect


@dataclass(frozen=True)
class Plan:
    """What is to be played."""

    worlds: tuple[str, ...]
    split: str | None = None
    """None: the last of each world's splits, which is its test split."""
    tasks: int = 100
    attempts: int = 1
    seed: int = 0
    env_options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def total(self) -> int:
        """Return the number of episodes of the whole evaluation."""
        return len(set(self.worlds)) * self.tasks * self.attempts


def evaluate(
    agent: Agent,
    plan: Plan,
    folder: str | Path,
    *,
    options: Mapping[str, Any] | None = None,
    concurrency: int = 64,
    retry_faults: bool = False,
    started: Callable[[int], None] | None = None,
    progress: Callable[[Episode], None] | None = None,
) -> list[Episode]:
    """Play what the folder does not hold yet and return all its episodes.

    Writes `manifest.json`, `episodes.jsonl` and, at the end, `summary.json`. `options` go into the manifest with the
    plan: what names the agent (model, temperature, prompt). `started` is told how many episodes were there already.
    Interrupted at any moment, the same call goes on; with other options it raises BadConfig.
    """
    folder = Path(folder)
    splits = {world: _split(world, plan) for world in plan.worlds}  # every name is checked before anything is played
    described = {"worlds": splits, "tasks": plan.tasks, "attempts": plan.attempts, "seed": plan.seed}
    manifest.start(folder, {**described, "env_options": dict(plan.env_options), **(options or {})})
    path = folder / "episodes.jsonl"
    kept = _kept(path, drop_faults=retry_faults)
    if started:
        started(len(kept))
    for world, split in splits.items():
        collect(
            agent,
            world,
            split=split,
            tasks=plan.tasks,
            attempts=plan.attempts,
            seed=plan.seed,
            concurrency=concurrency,
            out=path,
            env_options=dict(plan.env_options),
            skip={(e.task_id, e.attempt) for e in kept if e.env == world.rpartition(":")[2]},
            progress=progress,
        )
    episodes = read_episodes(path) if path.exists() else []
    manifest.write_json(folder / "summary.json", summarize(episodes))
    return episodes


def _split(world: str, plan: Plan) -> str:
    """Return the split to play, after making the world once, so that bad names and options fail early."""
    env: TextEnv = make(world, **plan.env_options)
    splits: Sequence[str] = list(env.splits)
    env.close()
    if plan.split is not None and plan.split not in splits:
        raise unknown(f"split of {world}", plan.split, splits)
    if plan.tasks < 1 or plan.attempts < 1:
        raise BadConfig(f"tasks is {plan.tasks} and attempts is {plan.attempts}; both must be at least 1")
    return plan.split or splits[-1]


def _kept(path: Path, *, drop_faults: bool) -> list[Episode]:
    """Return the episodes of an earlier sitting, after cutting off a line it did not finish writing."""
    if not path.exists():
        return []
    with path.open("rb+") as file:
        size = file.seek(0, os.SEEK_END)
        file.truncate(_last_newline(path, size))
    episodes = read_episodes(path)
    if drop_faults and any(episode.fault for episode in episodes):
        episodes = [episode for episode in episodes if not episode.fault]
        part = path.with_name(path.name + ".part")
        part.write_text("".join(episode.to_json() + "\n" for episode in episodes), encoding="utf-8")
        part.replace(path)
    return episodes


def _last_newline(path: Path, size: int) -> int:
    """Return how many bytes of a file are whole lines."""
    with path.open("rb") as file:
        end = size
        while end > 0:
            begin = max(0, end - 65536)
            file.seek(begin)
            found = file.read(end - begin).rfind(b"\n")
            if found >= 0:
                return begin + found + 1
            end = begin
    return 0
