"""The arms of the training benchmark that are modes of our own code, and what is measured of them.

`packed` is the library as it ships. `padded` is what per-turn lockstep trainers do: all episodes wait for one another at
every turn; every turn is a training row of its own; so many rows in the order of episodes and turns make a micro-batch,
their prompts padded on the left to the longest prompt, their replies on the right to the longest reply, and the model of
the `transformers` library runs over all of it behind an attention mask. Logits are computed for trained tokens alone, and
the engine keeps its caches across turns and groups, in both.
"""

import asyncio
import copy
import dataclasses
import resource
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor
from train_env import Clock, Errands, PlannedEngine, planned

from agentgym.agents import ChatAgent, WindowAgent
from agentgym.engines import Sampling
from agentgym.episodes.episode import Episode, Group, groups
from agentgym.rollout.collect import jobs_of
from agentgym.rollout.pool import RolloutConfig, RolloutPool
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.credit.interface import resolve
from agentgym.trainers.data.minibatches import credited
from agentgym.trainers.data.packing import Batch, pack, token_weights
from agentgym.trainers.data.segments import Segment, build
from agentgym.trainers.learners.alone import reinforce
from agentgym.trainers.learners.optimizers import optimizers
from agentgym.trainers.learners.step import Scorer, TrainedModel
from agentgym.trainers.losses.policy import policy_loss
from agentgym.trainers.model.logprobs import project
from agentgym.trainers.model.policy import load_policy
from agentgym.trainers.model.scores import Scores


@dataclass(frozen=True)
class Setting:
    """What is the same in all arms of a comparison."""

    agent: str = "chat"
    """`chat` (full history) or `window` (the last two turns)."""
    lengths: tuple[int, ...] = (10,)
    """Turns of an episode, drawn evenly."""
    tasks: int = 8
    group: int = 4
    reply: int = 0
    """Tokens of every reply; 0 draws them from `planned`."""
    credit: str = "gigpo"
    steps: int = 1
    """Training steps that are timed, after one that is not."""
    env: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def episodes(self) -> int:
        return self.tasks * self.group


@dataclass(frozen=True)
class Arm:
    """One way to play and train the same episodes."""

    lockstep: bool = False
    linger: bool = False
    """Generate for finished episodes too, until the last has ended."""
    padded: bool = False
    """A padded row per turn, the library's forward pass."""
    library: bool = False
    """The library's forward pass over merged and packed rows."""
    merge: bool = True
    old_pass: bool = False
    """Also compute the trainer's own log-probabilities before the update, as verl does."""
    rows: int = 4
    """Rows of a padded micro-batch."""


_PADDED = Arm(lockstep=True, padded=True, merge=False)
ARMS = {
    "packed": Arm(),
    "packed, lockstep": Arm(lockstep=True),
    "packed, library's forward pass": Arm(library=True),
    "packed, a row per turn": Arm(merge=False),
    "padded": _PADDED,
    "padded, 32 rows": replace(_PADDED, rows=32),
    "padded, finished": replace(_PADDED, linger=True),
    "padded, finished, old": replace(_PADDED, linger=True, old_pass=True),
    "padded, finished, old, 32 rows": replace(_PADDED, linger=True, old_pass=True, rows=32),
}
"""By name. `finished`: generates for finished episodes; `old`: with a pass for the log-probabilities before the update."""


@dataclass(slots=True)
class PaddedBatch(Batch):
    """Rows with prompts that end, and replies that begin, at the same column."""

    mask: Any = None  # [rows, tokens] int64, 0 on padding
    positions: Any = None  # [rows, tokens] int64


def padded_batch(segments: Sequence[Segment], weights: Sequence[Any]) -> PaddedBatch:
    """Return one micro-batch of rows of one turn each, prompts padded on the left and replies on the right."""
    starts = [int(np.flatnonzero(segment.turns >= 0)[0]) for segment in segments]
    column = max(starts)
    width = column + max(len(segment) - start for segment, start in zip(segments, starts, strict=True))
    ids, mask = (np.zeros((len(segments), width), dtype=np.int64) for _ in range(2))
    for row, (segment, start) in enumerate(zip(segments, starts, strict=True)):
        ids[row, column - start : column - start + len(segment)] = segment.ids
        mask[row, column - start : column - start + len(segment)] = 1
    (packed,) = pack(segments, weights, len(segments) * max(len(segment) for segment in segments))
    order = packed.segments  # `pack` sorts by length: lay the padded rows out likewise
    shift = np.array([column - starts[i] for i in order])
    old_width = packed.ids.shape[1]
    within = packed.places - packed.rows * old_width
    places = packed.rows * width + within + torch.as_tensor(shift)[packed.rows]
    flat = {f.name: getattr(packed, f.name) for f in dataclasses.fields(Batch)}
    flat |= {"ids": torch.as_tensor(ids[list(order)]), "places": places, "lengths": (width,) * len(order)}
    found = torch.as_tensor(mask[list(order)])
    return PaddedBatch(**flat, mask=found, positions=(found.cumsum(1) - 1).clamp(min=0))


class LibraryScorer(Scorer):
    """The policy through the forward pass of the `transformers` library, padding and all."""

    def forward(self, batch: Batch) -> Scores:
        padding: dict[str, Tensor] = {}
        if isinstance(batch, PaddedBatch):
            padding = {"attention_mask": batch.mask, "position_ids": batch.positions}
        states = self.model.get_decoder()(input_ids=batch.ids, use_cache=False, **padding).last_hidden_state
        return project(
            self.model.get_output_embeddings(), states.flatten(0, 1)[batch.places], batch.targets, self.temperature
        )


class TimedScorer(torch.nn.Module):
    """A scorer that tells the clock what it took; backward is timed where accelerate is asked for it."""

    def __init__(self, scorer: Scorer, clock: Clock) -> None:
        super().__init__()
        self.scorer, self.clock = scorer, clock
        self.skips_padding = not isinstance(scorer, LibraryScorer)

    def forward(self, batch: Batch) -> Scores:
        started = time.perf_counter()
        scores = self.scorer(batch)
        self.clock.forward += time.perf_counter() - started
        self.clock.positions += sum(batch.lengths) if self.skips_padding else batch.ids.numel()
        return scores


def time_backward(accelerator: Any, clock: Clock) -> None:
    """Let the clock count what accelerate's backward passes take."""
    plain = accelerator.backward

    def backward(*arguments: Any, **options: Any) -> None:
        started = time.perf_counter()
        plain(*arguments, **options)
        clock.backward += time.perf_counter() - started

    accelerator.backward = backward


def learner_of(model: Any, arm: Arm, clock: Clock, lr: float = 1e-4) -> TrainedModel:
    """Return what an arm updates the policy with."""
    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    time_backward(accelerator, clock)
    scorer = (LibraryScorer if arm.padded or arm.library else Scorer)(model, 1.0)
    return TrainedModel(accelerator, TimedScorer(scorer, clock), optimizers(model, lr, muon=False))


def update(learner: TrainedModel, found: Sequence[Group], setting: Setting, arm: Arm, config: TrainConfig) -> None:
    """Take one optimizer step on groups of episodes, in the arm's way."""
    credit = resolve(setting.credit)
    if arm.merge:
        reinforce(learner, found, credit, config, 0)
        return
    segments = build(*credited(found, credit(found)), merge=False)
    weights = token_weights(segments)
    if arm.padded:
        pieces = [slice(start, start + arm.rows) for start in range(0, len(segments), arm.rows)]
        batches: Sequence[Batch] = [padded_batch(segments[piece], weights[piece]) for piece in pieces]
    else:
        batches = pack(segments, weights, config.batch_tokens)
    old: list[Tensor | None] = [None] * len(batches)
    if arm.old_pass:
        with torch.no_grad():
            old = [learner.scorer(batch).logprobs for batch in batches]
    for batch, before in zip(batches, old, strict=True):
        loss, _ = policy_loss(learner.scorer(batch), batch, old=before, correction=config.tis_cap)
        learner.accelerator.backward(loss)
    learner.accelerator.clip_grad_norm_(learner.scorer.parameters(), config.grad_clip)
    for optimizer in learner.optimizers:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


class Run:
    """One arm at work: it plays the episodes of a step and trains on them."""

    def __init__(self, setting: Setting, arm: Arm, model: Any, engine: Any, clock: Clock, longest: int) -> None:
        self.setting, self.arm, self.clock, self.model, self.engine = setting, arm, clock, model, engine
        kind, prompt = (WindowAgent, "window") if setting.agent == "window" else (ChatAgent, "bare")
        self.agent = kind(engine, engine.tokenizer, prompt=prompt, sampling=Sampling(), turn_tokens=longest)
        self.config = TrainConfig(minibatches=1, grad_clip=1.0)
        self.learner = learner_of(model, arm, clock)
        self.env_seconds = 0.0

    def make(self) -> Errands:
        setting = self.setting
        return Errands(lengths=setting.lengths, horizon=max(setting.lengths), linger=self.arm.linger, **setting.env)

    async def play(self, step: int) -> list[Episode]:
        """Play the episodes of a step, the same in all arms; step 0, which warms up, has only two."""
        env, setting = self.make(), self.setting
        tasks, attempts = (setting.tasks, setting.group) if step else (1, 2)
        chosen = [env.numbered(step * setting.tasks + i, "train") for i in range(tasks)]
        with closing(RolloutPool({"errands": self.make}, RolloutConfig(concurrency=setting.episodes))) as pool:
            jobs = jobs_of("errands", chosen, attempts, step)
            episodes = await pool.collect(self.agent, jobs, lockstep=self.arm.lockstep)
            self.env_seconds += pool.seconds
        return [without_surplus(episode) for episode in episodes]

    async def step(self, number: int) -> list[Episode]:
        """Play, credit and update once."""
        episodes = await self.play(number)
        update(self.learner, groups(episodes), self.setting, self.arm, self.config)
        await self.engine.load_weights(self.model.named_parameters(), number + 1)
        return episodes


def run_of(folder: Path, setting: Setting, arm: Arm) -> Run:
    """Return an arm with the policy in a folder and the hf engine."""
    model, tokenizer = load_policy(folder)
    clock, lengths = Clock(), [setting.reply] if setting.reply else planned(997, 0)
    engine = PlannedEngine(model, tokenizer, clock, lengths, slots=setting.episodes)
    return Run(setting, arm, model, engine, clock, max(lengths))


def without_surplus(episode: Episode) -> Episode:
    """Return the episode up to the turn that was paid: what came after was generated for a finished one."""
    assert episode.error is None, episode.error
    paid = next(k for k, turn in enumerate(episode.turns) if turn.reward)
    episode.turns = episode.turns[: paid + 1]
    return episode


def first_gradient(folder: Path, episodes: Sequence[Episode], setting: Setting, arm: Arm) -> Tensor:
    """Return the summed gradient of an arm's first update on given episodes, flat."""
    model = load_policy(folder)[0]
    learner = learner_of(model, arm, Clock())
    gradients: list[Tensor] = []

    class Keep:
        def step(self) -> None:
            gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))

        def zero_grad(self, set_to_none: bool) -> None:
            del set_to_none

    learner.optimizers = [Keep()]
    config = TrainConfig(minibatches=1, grad_clip=1e9)
    update(learner, groups(copy.deepcopy(list(episodes))), setting, arm, config)
    return gradients[0]


def measure(folder: Path, setting: Setting, arm: Arm) -> dict[str, Any]:
    """Run one step to warm up and the setting's steps on the clock; return what they took."""
    return timed(run_of(folder, setting, arm), setting)


def timed(run: Run, setting: Setting) -> dict[str, Any]:
    """Return speeds, shares of time, tokens and memory of a run's steps."""
    before_memory = memory()

    async def steps() -> tuple[list[Episode], float, float]:
        await run.step(0)
        run.env_seconds = 0.0
        for name, value in vars(Clock()).items():
            setattr(run.clock, name, value)
        run.engine.prefilled = run.engine.decoded = 0
        started, cpu = time.perf_counter(), time.process_time()
        episodes = [episode for number in range(setting.steps) for episode in await run.step(1 + number)]
        return episodes, time.perf_counter() - started, time.process_time() - cpu

    episodes, wall, cpu = asyncio.run(steps())
    sampled = sum(len(turn.output_ids) for episode in episodes for turn in episode.turns)
    clock, engine = run.clock, run.engine
    shares = {"rollout": clock.engine, "forward": clock.forward, "backward": clock.backward}
    shares |= {"env": run.env_seconds, "waiting": max(wall - cpu, 0.0)}
    processed = engine.prefilled + engine.decoded + clock.positions
    return summary(len(episodes), sampled, processed, wall, cpu, shares, before_memory) | {
        "turns": sum(len(episode.turns) for episode in episodes),
        "prefilled": engine.prefilled,
        "decoded": engine.decoded,
        "positions": clock.positions,
        "row_tokens": sum(len(segment) for segment in build(episodes)),
        "rows_per_engine_step": clock.engine_rows / clock.engine_steps,
    }


def summary(
    episodes: int, sampled: int, processed: int, wall: float, cpu: float, shares: dict[str, float], before: float
) -> dict[str, Any]:
    """Return the measures that every arm has, whosever code it is."""
    return {
        "episodes_per_second": episodes / wall,
        "episodes_per_cpu_second": episodes / cpu,
        "tokens_per_second": sampled / wall,
        "sampled": sampled,
        "trained_over_processed": sampled / processed,
        "shares": {name: seconds / wall for name, seconds in shares.items()},
        "peak_mb": memory(),
        "peak_mb_over_model": memory() - before,
        "seconds": wall,
        "cpu_seconds": cpu,
    }


def memory() -> float:
    """Return the most memory this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
