"""Critics of turns that learn which of two episodes of a task is better (SWEET-RL)."""

# torch is typed in part only.
# pyright: reportUnknownMemberType=false

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from agentgym.trainers.needs.turn_critics.heads import SavedCritic

Scored = TypeVar("Scored", bound=tuple[Any, ...])
"""An episode as plain data for a critic; the first entry is its reward."""


def pairs(groups: Sequence[Sequence[Scored]]) -> list[tuple[Scored, Scored]]:
    """Return all pairs of episodes of a group with different rewards, each with the better episode first."""
    return [(item, other) for group in groups for item in group for other in group if item[0] > other[0]]


class PairCritic(SavedCritic, Generic[Scored]):
    """A critic that learns advantages A of turns from pairs of episodes, by the Bradley-Terry objective."""

    beta: float

    def advantages(self, episodes: Sequence[Scored]) -> Sequence[Tensor]:
        """Return A of each turn with gradient, [turns] per episode."""
        raise NotImplementedError

    def loss(self, batch: Sequence[tuple[Scored, Scored]]) -> Tensor:
        """Return the mean of -log sigmoid(beta (sum of A over the better episode - sum of A over the other)).

        The loss is a scalar, in nats.
        """
        episodes = [episode for pair in batch for episode in pair]
        sums = torch.stack([advantages.sum() for advantages in self.advantages(episodes)]).view(-1, 2)
        return -F.logsigmoid(self.beta * (sums[:, 0] - sums[:, 1])).mean()

    def update(self, batch: Sequence[tuple[Scored, Scored]]) -> float:
        """Make one optimizer step and return the loss before it."""
        loss = self.loss(batch)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())
