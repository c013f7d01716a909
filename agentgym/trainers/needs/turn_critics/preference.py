"""SWEET-RL's critic: advantages of turns whose sums predict which of two episodes at a task is better."""

# torch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from agentgym.trainers.needs.turn_critics.heads import Head, SavedCritic, seeded

Floats = npt.NDArray[np.float32]
ScoredTurns = tuple[float, int, bytes]
"""An episode as (reward, number of turns, their states without and with the action)."""


def packed(reward: float, turns: Sequence[Floats]) -> ScoredTurns:
    """Return an episode as plain data. turns: [2, width] each."""
    return reward, len(turns), np.stack(turns).astype(np.float32).tobytes()


def inputs(episode: ScoredTurns) -> Tensor:
    """Return the turns of an episode, [turns, 2 * width]."""
    return torch.from_numpy(np.frombuffer(episode[2], dtype=np.float32).reshape(episode[1], -1).copy())


def pairs(groups: Sequence[Sequence[ScoredTurns]]) -> list[tuple[ScoredTurns, ScoredTurns]]:
    """Return every two episodes of a group with different rewards, the better one first."""
    return [(item, other) for group in groups for item in group for other in group if item[0] > other[0]]


class PreferenceCritic(SavedCritic):
    """A(s, a) of turns, learned from pairs of episodes at one task by the Bradley-Terry objective."""

    def __init__(self, width: int, hidden: int, *, lr: float, beta: float, seed: int) -> None:
        super().__init__()
        self.beta = beta
        with seeded(seed):
            self.head = Head(2 * width, hidden)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=lr)

    def loss(self, batch: Sequence[tuple[ScoredTurns, ScoredTurns]]) -> Tensor:
        """Return the mean of -log sigmoid(beta (sum of A over the better episode - sum of A over the other)).

        The loss is a scalar, in nats.
        """
        episodes = [episode for pair in batch for episode in pair]
        values = self.head(torch.cat([inputs(episode) for episode in episodes]))
        sums = torch.stack([part.sum() for part in values.split([turns for _, turns, _ in episodes])]).view(-1, 2)
        return -F.logsigmoid(self.beta * (sums[:, 0] - sums[:, 1])).mean()

    def update(self, batch: Sequence[tuple[ScoredTurns, ScoredTurns]]) -> float:
        """Take an optimizer step and return the loss before it."""
        loss = self.loss(batch)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())

    @torch.no_grad()
    def judged(self, episode: ScoredTurns) -> list[float]:
        """Return A of each turn."""
        return self.head(inputs(episode)).tolist()
