"""What all arms of the training benchmark share: an environment with planned ends, a policy, replies of planned lengths.

Weights are random, so no reply makes sense: the environment draws each command itself, and an episode takes the turns it was
given. What a reply says is sampled and trained as ever; only how long it is, is planned.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from agentgym import agents
from agentgym.core.env import Outcome
from agentgym.core.seeding import generator
from agentgym.core.tasks import Task
from agentgym.engines import Completion, Request
from agentgym.engines.hf.engine import HFEngine
from agentgym.envs.household import Household
from agentgym.trainers.model.policy import END, PAD, PolicySize, env_text, save_policy, train_tokenizer

WORTH = 0.5  # most that an episode is paid
SIZES = {
    "tiny": PolicySize(width=32, layers=2, heads=2, feed_forward=64),
    "small": PolicySize(),
    "medium": PolicySize(width=320, layers=8, heads=8, feed_forward=960, context=4096),
}
"""Shapes of the policy by name: about 0.1, 0.5 and 10 million parameters."""


class Errands(Household):
    """Household played by itself: commands are drawn from the admissible ones, whatever the reply says.

    An episode lasts one of `lengths` turns, drawn like its pay by task and seed alone, and pays a number of its own, so
    that no two episodes of a group are equal and no row goes without gradient. With `linger` it goes on after that to
    the horizon without anything happening: for a trainer that generates for finished episodes too.
    """

    settings: ClassVar[tuple[str, ...]] = (*Household.settings, "lengths", "linger")
    shaping = {"worth": WORTH}  # noqa: RUF012
    lengths: Sequence[int] = (10,)
    linger: bool = False

    def begin(self, task: Task) -> str:
        intro = super().begin(task)
        self.length = int(self.np_random.choice(list(self.lengths)))
        self.text = intro
        return intro

    def act(self, action: str) -> str | Outcome:
        del action
        if self.turn > self.length:
            return self.text
        commands = self.admissible()
        self.text = self.play.act(commands[int(self.np_random.integers(len(commands)))]) or ""
        if self.turn < self.length:
            return self.text
        worth = {"worth": float(self.np_random.uniform(0.1, 1.0))}
        return Outcome(self.text, success=None if self.linger else False, measures=worth)


@dataclass
class Clock:
    """Seconds by what they were spent on, and tokens computed."""

    engine: float = 0.0
    forward: float = 0.0
    backward: float = 0.0
    engine_steps: int = 0
    engine_rows: int = 0
    positions: int = 0
    """Token positions of all forward passes of the update, padding included where it is computed."""


def planned(count: int, seed: int, *, median: float = 20.0, most: int = 64) -> list[int]:
    """Return lengths of replies in tokens: log-normal, as replies with a short thought are, from 6 to `most`."""
    drawn = generator("lengths", seed).lognormal(np.log(median), 0.6, count)
    return np.clip(drawn.round(), 6, most).astype(int).tolist()


class PlannedEngine(HFEngine):
    """The hf engine with replies of planned lengths, a function of the turn's seed, so of task, attempt and turn."""

    def __init__(self, model: Any, tokenizer: Any, clock: Clock, lengths: Sequence[int], **options: Any) -> None:
        super().__init__(model, tokenizer, **options)
        self.clock, self.lengths = clock, list(lengths)

    async def complete(self, request: Request) -> Completion:
        length = self.lengths[request.sampling.seed % len(self.lengths)]
        return await super().complete(
            replace(request, sampling=replace(request.sampling, max_tokens=length, stop_ids=(-1,)))
        )

    def _step(self) -> None:
        started, before = time.perf_counter(), self.decoded
        super()._step()
        self.clock.engine += time.perf_counter() - started
        self.clock.engine_steps += 1
        self.clock.engine_rows += self.decoded - before


def make_policy(folder: Path, size: str) -> Path:
    """Write a policy of random weights and its tokenizer."""
    shape, tokenizer = SIZES[size], env_tokenizer()
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=shape.width,
            intermediate_size=shape.feed_forward,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            num_key_value_heads=max(1, shape.heads // 2),
            head_dim=shape.width // shape.heads,
            max_position_embeddings=4096,
            tie_word_embeddings=True,
            eos_token_id=tokenizer.vocab[END],
            pad_token_id=tokenizer.vocab[PAD],
            bos_token_id=None,
        )
    )
    return save_policy(model, tokenizer, folder)


def env_tokenizer() -> Any:
    """Return a tokenizer trained on the environment's text and the agents' prompt."""
    prompt = (Path(agents.__file__).parent / "prompts" / "window.txt").read_text(encoding="utf-8")
    texts = [*env_text("rlvr/Household-v0", {}, 300, 0), *[prompt] * 300]
    return train_tokenizer(texts, PolicySize().vocabulary)
