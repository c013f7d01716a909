"""Row lengths and environment costs of a run, measured in a few episodes of the expert and of a random policy."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from agentgym import registry
from agentgym.agents.demonstrator import Demonstrator
from agentgym.agents.policies import Noise
from agentgym.core.seeding import derive
from agentgym.engines import Sampling
from agentgym.engines.scripted import ScriptedEngine
from agentgym.engines.slots import common_prefix
from agentgym.episodes.episode import Episode
from agentgym.rollout.collect import jobs_of
from agentgym.rollout.pool import RolloutConfig, RolloutPool
from agentgym.trainers.config.settings import EnvSpec
from agentgym.trainers.config.train_config import TrainConfig, settings_in
from agentgym.trainers.data.segments import build

EPISODES = 4
FIRST_TASK = 2_000_000_000
"""Number of the first task that is played; training does not reach numbers this high."""


@dataclass(frozen=True)
class Play:
    """Shape of a run's episodes; lengths are in tokens."""

    horizon: int
    """Maximum turns of an episode."""
    turns: float
    """Mean turns of an expert's episode."""
    first: int
    """Maximum length of an episode's first prompt."""
    reply: float
    """Mean length of a reply, over episodes of the expert and of the random policy."""
    growth: float
    """Mean tokens by which a prompt is longer than the previous prompt and reply together."""
    fresh: float
    """Mean tokens of a prompt, after the first, that the engine has not seen in an earlier turn."""
    rows: float
    """Mean number of training rows per episode."""
    longest: int
    """Length of the longest row if every reply has `turn_tokens` tokens and the context is unlimited."""
    replies: int
    """Number of replies in that row."""
    tokens: float
    """Mean tokens of all rows of an expert's episode."""
    env_seconds: float
    """Mean seconds per turn in the environment, resets included."""
    agent_seconds: float
    """Mean seconds per turn in the agent: prompts, tokenization, parsing."""
    episodes: int = 0
    """Number of episodes played; 0 if all numbers are assumptions."""

    def row(self, context: int) -> int:
        """Return the length of the longest row within a context of `context` tokens."""
        return min(self.longest, context)

    def trained(self, context: int, turn_tokens: int) -> int:
        """Return the maximum number of trained tokens in the longest row."""
        return min(self.row(context), self.replies * turn_tokens)


def trial_play(config: TrainConfig, tokenizer: object) -> Play | None:
    """Play a few training tasks with the run's agent; None without an expert, or if every episode is a fault."""
    plays = [(_trial(settings_in(config, env), env, tokenizer), env.weight) for env in config.mix]
    weighted = [(play, weight) for play, weight in plays if play is not None]
    return _joined(weighted) if len(weighted) == len(plays) else None


def _trial(config: TrainConfig, env: EnvSpec, tokenizer: object) -> Play | None:
    """Play a few tasks in one of the run's environments; None without an expert, or if every episode is a fault."""
    chat = replace(config, agent="chat", sft_episodes=0) if not config.spec.kind.demonstrable else config
    agent: Any = chat.spec.make(ScriptedEngine([], tokenizer), Sampling(temperature=config.temperature), tokenizer)
    probe = registry.make(env.id, **env.options)
    horizon = max(env.horizon, default=probe.horizon)
    tasks = [probe.numbered(FIRST_TASK + i, env.train_split or "train") for i in range(EPISODES)]
    pool = RolloutPool({env.name: registry.Maker(env.id, env.options)}, RolloutConfig(EPISODES))

    async def play(noise: float) -> list[Episode]:
        jobs = jobs_of(env.name, tasks, 1, derive("trial play", config.seed), horizon)
        return _faultless(await pool.collect(Demonstrator(agent, Noise(random=noise)), jobs))

    async def both() -> tuple[list[Episode], list[Episode]]:
        with closing(pool):
            return await play(0.0), await play(1.0)

    started = time.perf_counter()
    expert, chance = asyncio.run(both())
    played = time.perf_counter() - started
    if not expert or not chance:
        return None
    turns = sum(len(e.turns) for e in (*expert, *chance))
    environment = pool.seconds
    plays_measured = _measured(expert, chance, horizon, config.turn_tokens)
    seconds = {"env_seconds": environment / turns, "agent_seconds": max(played - environment, 0.0) / turns}
    return replace(plays_measured, **seconds, episodes=len(expert) + len(chance))


def _joined(plays: Sequence[tuple[Play, float]]) -> Play:
    """Combine the shapes of several environments: maxima, and means weighted by the environments' weights."""
    if len(plays) == 1:
        return plays[0][0]
    total = sum(weight for _, weight in plays)
    means = ("turns", "reply", "growth", "fresh", "rows", "tokens", "env_seconds", "agent_seconds")
    values = {name: sum(weight * getattr(play, name) for play, weight in plays) / total for name in means}
    longest = max((play for play, _ in plays), key=lambda play: play.longest)
    most = {name: max(getattr(play, name) for play, _ in plays) for name in ("horizon", "first")}
    return replace(longest, **values, **most, episodes=sum(play.episodes for play, _ in plays))


def assumed(config: TrainConfig, context: int) -> Play:
    """Return the shape to assume if no trial episodes can be played: rows as long as the context."""
    horizon = max(max(env.horizon, default=registry.make(env.id, **env.options).horizon) for env in config.mix)
    reply = float(config.turn_tokens)
    return Play(
        horizon=horizon,
        turns=horizon,
        first=min(context, 512),
        reply=reply,
        growth=reply,
        fresh=reply,
        rows=1.0,
        longest=context,
        replies=horizon,
        tokens=context,
        env_seconds=0.0,
        agent_seconds=0.0,
    )


def _measured(expert: Sequence[Episode], chance: Sequence[Episode], horizon: int, turn_tokens: int) -> Play:
    played = [*expert, *chance]
    replies = [len(t.output_ids) for e in played for t in e.turns]
    pairs = [(a, b) for e in played for a, b in zip(e.turns, e.turns[1:], strict=False)]
    added = [len(b.prompt_ids) - len(a.prompt_ids) - len(a.output_ids) for a, b in pairs] or [0]
    growth = max(sum(added) / len(added), 0.0)
    fresh = [len(b.prompt_ids) - common_prefix([*a.prompt_ids, *a.output_ids], list(b.prompt_ids)) for a, b in pairs] or [0]
    longest, most, rows = 0, 1, 0
    for episode in played:
        segments = build([episode])
        rows += len(segments)
        for segment in segments:
            calls = len(set(segment.turns[segment.mask].tolist()))
            length = len(segment) + calls * turn_tokens - segment.trained
            if len(segments) == 1 and calls < horizon:  # all turns are one row, and further turns would extend it
                length, calls = length + int((horizon - calls) * (growth + turn_tokens)), horizon
            longest, most = max(longest, length), max(most, calls)
    return Play(
        horizon=horizon,
        turns=sum(len(e.turns) for e in expert) / len(expert),
        first=max(len(e.turns[0].prompt_ids) for e in played),
        reply=sum(replies) / len(replies),
        growth=growth,
        fresh=sum(fresh) / len(fresh),
        rows=rows / len(played),
        longest=longest,
        replies=most,
        tokens=sum(len(segment) for segment in build(expert)) / len(expert),
        env_seconds=0.0,
        agent_seconds=0.0,
    )


def _faultless(episodes: Sequence[Episode]) -> list[Episode]:
    return [episode for episode in episodes if not episode.fault and episode.turns]
