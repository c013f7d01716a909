"""Settings of benchmarks/losses.py: short tasks and a policy of a few thousand numbers, trained by the package's losses."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from agentgym.trainers.data.packing import Batch
from agentgym.trainers.losses.interface import LOSSES, factors, top_of
from agentgym.trainers.losses.policy import Update, policy_loss
from agentgym.trainers.model.scores import Scores
from agentgym.trainers.seam import Stage

WINDOW = 50  # steps in the mean of the need `entropy_mean`, as its default


@dataclass(frozen=True)
class Setting:
    """A task and its training.

    A prompt shows one of `plans` cues. The first token of a reply chooses a plan: the cue's own is right with chance
    `reliable`, otherwise another one. The other tokens carry the plan out: each has one right value, which depends on the
    plan and on the position. A reply succeeds if all tokens are right.
    """

    plans: int
    vocabulary: int
    tokens: int
    turn_tokens: int
    """Tokens of a turn; an episode is one row of turns."""
    reliable: float
    skill: float
    """Chance that a token of a demonstration after the first is right."""
    lr: float
    steps: int = 150
    prompts: int = 16
    size: int = 8
    minibatches: int = 2
    epochs: int = 1
    staleness: int = 0
    """Age in steps of the weights that sample."""
    width: int = 32
    warm: int = 200


SETTINGS = {
    "plans": Setting(
        **{"plans": 8, "vocabulary": 16, "tokens": 4, "turn_tokens": 4, "reliable": 0.5, "skill": 0.8},
        **{"lr": 1e-2, "steps": 60, "minibatches": 4},
    ),
    "collapse": Setting(
        **{"plans": 4, "vocabulary": 64, "tokens": 8, "turn_tokens": 2, "reliable": 1.0, "skill": 0.82},
        **{"lr": 0.2, "steps": 60, "minibatches": 4, "epochs": 4},
    ),
    **{
        f"stale-{age}": Setting(
            **{"plans": 8, "vocabulary": 16, "tokens": 6, "turn_tokens": 6, "reliable": 0.9, "skill": 0.9},
            **{"lr": 3e-2, "steps": 50, "minibatches": 4, "staleness": age},
        )
        for age in (0, 1, 4)
    },
}
ARMS: Mapping[str, Mapping[str, object]] = {
    "clip": {},
    "aepo": {},
    "cispo": {},
    "clip_cov": {"share": 0.02},
    "kl_cov": {"share": 0.02},
    "dppo": {},
    "entropy_band": {"weight": 0.01},
    "epo": {"weight": 0.01},
    "gspo": {},
    "high_entropy": {},
    "icepop": {},
    "llds": {},
    "simko": {},
}
"""Options of each loss. Shares of `clip_cov` and `kl_cov` are published for updates of millions of tokens; an update has
hundreds here. The entropy bonus of `epo` is ten times its default, for as many fewer steps."""


class Policy(torch.nn.Module):
    """Logits of the next token from the cue, the plan, the previous token and the position: one policy for each seed."""

    def __init__(self, setting: Setting, seeds: int) -> None:
        super().__init__()
        s, self.seeds = setting, torch.arange(seeds)
        words = s.vocabulary + 1
        shapes = {"cue": s.plans, "previous": words, "plan": words, "position": s.tokens}
        self.inputs = torch.nn.ParameterDict(
            {name: torch.nn.Parameter(torch.randn(seeds, number, s.width)) for name, number in shapes.items()}
        )
        self.out = torch.nn.Parameter(torch.randn(seeds, s.width, s.vocabulary) / s.width**0.5)

    def forward(self, **indices: Tensor) -> Tensor:
        """Return log-probabilities, [seeds, rows, vocabulary], by inputs of [seeds, rows]."""
        hidden = sum(self.inputs[name][self.seeds[:, None], index] for name, index in indices.items())
        return (torch.as_tensor(hidden).tanh() @ self.out).log_softmax(-1)


class Replies(NamedTuple):
    """Sampled replies of one step."""

    cues: Tensor  # [seeds, rows]
    tokens: Tensor  # [seeds, rows, tokens]
    logprobs: Tensor  # [seeds, rows, tokens], of the weights that sampled
    success: Tensor  # [seeds, rows] float32


class Trainer:
    """Runs of several seeds at once, each with its own weights: warm start, then steps of sampling, credit and updates."""

    def __init__(self, setting: Setting, loss: str, options: Mapping[str, object], seeds: int) -> None:
        self.setting, self.seeds, self.name = setting, seeds, loss
        self.loss: Stage = LOSSES.resolve(loss, options)
        self.random = torch.Generator().manual_seed(0)
        torch.manual_seed(0)
        self.policy, self.sampler = Policy(setting, seeds), Policy(setting, seeds)
        self.key = torch.randint(setting.vocabulary, (setting.plans, setting.tokens), generator=self.random)
        self.key[:, 0] = torch.arange(setting.plans)
        self._warm()
        self.optimizer = torch.optim.AdamW(self.policy.parameters(), lr=setting.lr, weight_decay=0.0)
        self.past: deque[dict[str, Tensor]] = deque(maxlen=setting.staleness + 1)
        self.entropies: deque[Tensor] = deque(maxlen=WINDOW)

    def _prompts(self, number: int) -> tuple[Tensor, Tensor]:
        """Return cues and right plans, [seeds, number]."""
        s, shape = self.setting, (self.seeds, number)
        cues = torch.randint(s.plans, shape, generator=self.random)
        other = (cues + torch.randint(1, s.plans, shape, generator=self.random)) % s.plans
        return cues, torch.where(torch.rand(shape, generator=self.random) < s.reliable, cues, other)

    def _warm(self) -> None:
        """Imitate demonstrations whose plan is often another and whose tokens are right with chance `skill`."""
        s, optimizer = self.setting, torch.optim.AdamW(self.policy.parameters(), lr=1e-2, weight_decay=0.0)
        for _ in range(s.warm):
            cues, plans = self._prompts(128)
            tokens = self.key[plans]
            wrong = torch.rand(tokens.shape, generator=self.random) > s.skill
            wrong[..., 0] &= s.reliable == 1
            noise = torch.randint(s.vocabulary, tokens.shape, generator=self.random)
            tokens = torch.where(wrong, noise, tokens)
            optimizer.zero_grad()
            (-token_logprobs(self._score(cues, tokens), tokens).mean((1, 2)).sum()).backward()
            optimizer.step()

    def _score(self, cues: Tensor, tokens: Tensor) -> Tensor:
        """Return log-probabilities at every position, [seeds, rows, tokens, vocabulary]."""
        first = torch.full_like(tokens[..., :1], self.setting.vocabulary)
        indices = {
            "cue": cues[..., None].expand_as(tokens),
            "previous": torch.cat([first, tokens[..., :-1]], -1),
            "plan": torch.cat([first, tokens[..., :1].expand_as(tokens[..., 1:])], -1),
            "position": torch.arange(tokens.shape[-1]).expand_as(tokens),
        }
        return self.policy(**{name: index.flatten(1) for name, index in indices.items()}).unflatten(1, tokens.shape[1:])

    @torch.no_grad()
    def play(self, policy: Policy, cues: Tensor, targets: Tensor) -> Replies:
        """Sample a reply to every prompt."""
        previous = plan = torch.full_like(cues, self.setting.vocabulary)
        tokens: list[Tensor] = []
        logprobs: list[Tensor] = []
        for place in range(self.setting.tokens):
            scores = policy(cue=cues, previous=previous, plan=plan, position=torch.full_like(cues, place))
            previous = torch.multinomial(scores.flatten(0, 1).exp(), 1, generator=self.random).view_as(cues)
            plan = previous if place == 0 else plan
            tokens.append(previous)
            logprobs.append(token_logprobs(scores, previous))
        made = torch.stack(tokens, -1)
        return Replies(cues, made, torch.stack(logprobs, -1), (made == self.key[targets]).all(-1).float())

    def step(self, number: int) -> dict[str, Tensor]:
        """Play the groups of a step with weights that are `staleness` steps old, update, and return numbers by seed."""
        s = self.setting
        self.past.append({name: value.clone() for name, value in self.policy.state_dict().items()})
        self.sampler.load_state_dict(self.past[0])
        cues, targets = (values.repeat_interleave(s.size, 1) for values in self._prompts(s.prompts))
        replies = self.play(self.sampler, cues, targets)
        groups = replies.success.view(self.seeds, s.prompts, s.size)
        spread = groups.std(-1, keepdim=True, unbiased=False)
        advantages = ((groups - groups.mean(-1, keepdim=True)) / (spread + 1e-6)).flatten(1)
        with torch.no_grad():
            before = self._score(cues, replies.tokens)
        old, entropy = token_logprobs(before, replies.tokens), -(before.exp() * before).sum(-1)
        self.entropies.append(entropy.mean((1, 2)))
        for _ in range(s.epochs):
            for rows in torch.randperm(cues.shape[1], generator=self.random).chunk(s.minibatches):
                own = Replies._make(values[:, rows] for values in replies)
                self._update(own, advantages[:, rows], old[:, rows], entropy[:, rows], number)
        return {"success": replies.success.mean(1), "entropy": entropy.mean((1, 2))}

    def _update(self, replies: Replies, advantages: Tensor, old: Tensor, entropy: Tensor, number: int) -> None:
        """Make one optimizer update with some rows of a step."""
        s, loss, shape = self.setting, self.loss, replies.tokens.shape
        rows = torch.arange(shape[0] * shape[1]).view(shape[:2])[..., None].expand(shape)
        turns = rows * (s.tokens // s.turn_tokens) + torch.arange(s.tokens) // s.turn_tokens
        trainers = self.name == "icepop"  # compares engine and trainer, so its ratios are to the trainer's own scores
        advantage = advantages[..., None].expand(shape)
        weights = torch.full(shape, 1 / (shape[1] * shape[2]))
        mean = torch.stack(list(self.entropies)).mean(0)[:, None, None].expand(shape)
        extra = {"entropy_mean": mean.flatten(), "turn_entropy_mean": mean.flatten()}
        if loss.attributes["choose"] is not None:
            fields = (advantage, old if trainers else replies.logprobs, turns, rows, entropy)
            chosen = torch.stack([self._chosen(number, seed, [f[seed] for f in fields]) for seed in range(self.seeds)])
            if loss.attributes["marks"]:
                extra["chosen"] = chosen.flatten()
            else:
                weights = weights * chosen
        empty, count = torch.zeros(rows.numel(), dtype=torch.int64), (rows.numel(),)
        flat = [values.flatten() for values in (advantage, replies.logprobs, weights, turns, rows)]
        batch = Batch(empty[None], empty, empty, *flat, lengths=count, counts=count, extra=extra)
        scores = self._score(replies.cues, replies.tokens)
        top = scores.flatten(0, 2).topk(top_of(loss)).values if top_of(loss) else None
        total, _ = policy_loss(
            Scores(token_logprobs(scores, replies.tokens).flatten(), -(scores.exp() * scores).sum(-1).flatten(), top=top),
            batch,
            old=old.flatten() if trainers else None,
            correction=5.0,
            function=lambda tokens: loss(tokens, step=number),
        )
        self.optimizer.zero_grad()
        total.backward()
        self.optimizer.step()

    def _chosen(self, number: int, seed: int, fields: list[Tensor]) -> Tensor:
        """Return the loss's factors for the tokens of one seed: advantages, log-probabilities, turns, rows, entropies."""
        advantages, logprobs, turns, rows, entropies = (values.flatten().numpy() for values in fields)
        numbers, old = advantages.astype(np.float64), logprobs.astype(np.float64)
        update = Update(numbers, old, turns, rows, {"entropy": entropies}, seed=seed)
        return torch.as_tensor(np.asarray(factors(self.loss, update, number), dtype=np.float32)).view_as(fields[0])

    def pass_at(self, prompts: int = 256, samples: int = 64) -> dict[str, list[float]]:
        """Return the unbiased pass@k of new prompts, by seed."""
        cues, targets = (values.repeat_interleave(samples, 1) for values in self._prompts(prompts))
        right = self.play(self.policy, cues, targets).success.view(self.seeds, prompts, samples).sum(-1)
        missed, rates = torch.ones_like(right), dict[str, list[float]]()
        for k in range(1, 17):
            missed = missed * (samples - right - k + 1).clamp(min=0) / (samples - k + 1)
            if k in (1, 4, 16):
                rates[str(k)] = (1 - missed.mean(1)).tolist()
        return rates


def token_logprobs(scores: Tensor, tokens: Tensor) -> Tensor:
    """Return the log-probabilities of tokens, [..., tokens], from those of the whole vocabulary."""
    return scores.gather(-1, tokens[..., None])[..., 0]


def run(setting: str, arm: str, seeds: int) -> dict[str, object]:
    """Train by one loss in one setting and return the row of the run: lists by seed, and by step and seed."""
    trainer = Trainer(SETTINGS[setting], arm, ARMS[arm], seeds)
    before = trainer.pass_at()
    steps = [trainer.step(number) for number in range(SETTINGS[setting].steps)]
    curves = {name: [[round(float(value), 4) for value in step[name]] for step in steps] for name in ("success", "entropy")}
    return {
        "setting": setting,
        "loss": arm,
        "options": dict(ARMS[arm]),
        "warm": before,
        "pass_at": trainer.pass_at(),
        **curves,
    }
