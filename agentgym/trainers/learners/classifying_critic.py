"""A critic that predicts a histogram over ranges of the return; its value is the histogram's mean."""

# torch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from agentgym.errors import BadConfig
from agentgym.trainers.data.packing import Batch
from agentgym.trainers.learners.critic import ERROR, SQUARE, TARGET, Critic
from agentgym.trainers.losses.policy import Sums, total_of
from agentgym.trainers.model.scores import Scores

RANGE = (-1.0, 2.0)
"""Defaults of `low` and `high`, for outcomes of 0 or 1 and shaping rewards below 1."""
SMOOTHING = 0.75
"""Standard deviation of a target's histogram, as a multiple of the width of one range (HL-Gauss)."""


def critic_of(accelerator: Any, width: int, options: Mapping[str, Any]) -> Critic:
    """Return the critic for the options of the need `values`.

    Raises:
        BadConfig: `low` or `high` is set without `classes`, or the options are invalid for a critic with classes.
    """
    own = {name: options[name] for name in ("lr", "policy_weight", "clip")}
    if not options["classes"]:
        if (options["low"], options["high"]) != RANGE:
            raise BadConfig(
                f"the critic's range is {options['low']:g} to {options['high']:g} and has no effect without classes: give "
                "--needs.classes 51, or leave low and high out"
            )
        return Critic(accelerator, width, **own)
    return ClassifyingCritic(accelerator, width, **own, **{name: options[name] for name in ("classes", "low", "high")})


class ClassifyingCritic(Critic):
    """Predict the expected return as the mean of a histogram over `classes` equal ranges from `low` to `high`.

    A target becomes a histogram, a normal distribution around it integrated over the ranges, and the loss is the
    cross-entropy (HL-Gauss: Imani and White, arXiv 1806.04613; for values: Stop Regressing, arXiv 2403.03950). Targets
    outside the range are clamped. Initially every value is near 0 or, if 0 is out of range, near the end of the range
    closest to 0. Compared with the squared error it is robust to rare large targets, and a value need not be linear in
    the hidden state. `lr` is approximately the largest change of a value in one update.
    """

    def __init__(
        self,
        accelerator: Any,
        width: int,
        *,
        lr: float,
        policy_weight: float,
        clip: float,
        classes: int,
        low: float,
        high: float,
    ) -> None:
        super().__init__(accelerator, width, lr=lr, policy_weight=policy_weight, clip=clip)
        if clip:
            raise BadConfig(f"clip of the critic is {clip:g} with {classes} classes: it clips squared errors; leave it out")
        if not low < high or classes < 2:
            raise BadConfig(
                f"the critic has {classes} classes from {low:g} to {high:g}; expected 2 or more, and low below high"
            )
        self.low, self.high, self.edges = low, high, torch.linspace(low, high, classes + 1, device=accelerator.device)
        self.weight = nn.Parameter(torch.zeros(width, classes, device=accelerator.device))
        self.bias = nn.Parameter(self.histogram(torch.zeros(1, device=accelerator.device))[0].clamp(min=1e-6).log())
        self.optimizer = torch.optim.AdamW(self.parameters(), lr=lr * classes / (high - low), weight_decay=0.0)

    def histogram(self, targets: Tensor) -> Tensor:
        """Return the share in each range of a normal distribution around each target, [targets, classes]."""
        spread = SMOOTHING * (self.high - self.low) / (len(self.edges) - 1)
        inside = targets.clamp(self.low, self.high)
        below = torch.special.ndtr((self.edges - inside[:, None]) / spread)  # [targets, edges]
        return below.diff(dim=-1) / (below[:, -1:] - below[:, :1])

    def logits(self, scores: Scores) -> Tensor:
        """Return the logits [trained, classes], in float32.

        Raises:
            ValueError: `scores` has no hidden states.
        """
        if scores.states is None:
            raise ValueError("a critic needs the hidden states: make the Scorer with states=True")
        states = scores.states if self.policy_weight else scores.states.detach()
        return states.float() @ self.weight / len(self.weight) + self.bias

    def forward(self, scores: Scores) -> Tensor:
        """Return the values [trained]: the means of the histograms."""
        return self._mean(self.logits(scores))

    def _mean(self, logits: Tensor) -> Tensor:
        return logits.softmax(-1) @ ((self.edges[1:] + self.edges[:-1]) / 2)

    def loss(self, scores: Scores, batch: Batch, total: float) -> tuple[Tensor, Sums]:
        """Return a micro-batch's share of the mean cross-entropy over `total` tokens, and its metrics.

        `total` counts the tokens with a target in all micro-batches and processes. The loss is a scalar, in nats.
        """
        logits = self.logits(scores)
        targets = batch.extra.get(TARGET)
        if targets is None:  # an idle micro-batch
            return 0.0 * logits.sum(), {}
        known = ~targets.isnan()
        logits, targets = logits[known], targets[known]
        entropies = -(self.histogram(targets) * logits.log_softmax(-1)).sum(-1)
        plain = (self._mean(logits) - targets).square()
        sums = {"value_loss": entropies, "value_target": targets, ERROR: plain, SQUARE: targets.square()}
        scale = self.policy_weight or 1.0
        return scale * entropies.sum() / max(total, 1), {name: total_of(v.detach()) for name, v in sums.items()}
