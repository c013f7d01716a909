"""SWEET-RL's critic as a small head: turn advantages whose sum predicts which of two episodes of a task is better."""

# torch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from agentgym.trainers.needs.turn_critics.heads import Head, seeded
from agentgym.trainers.needs.turn_critics.pairs import PairCritic

Floats = npt.NDArray[np.float32]
ScoredTurns = tuple[float, int, bytes]
"""An episode as (reward, number of turns, the turns' hidden states without and with the action as float32 bytes)."""


def packed(reward: float, turns: Sequence[Floats]) -> ScoredTurns:
    """Return an episode as plain data; each turn is [2, width], its hidden state without and with the action."""
    return reward, len(turns), np.stack(turns).astype(np.float32).tobytes()


def inputs(episode: ScoredTurns) -> Tensor:
    """Return the critic's inputs for an episode, [turns, 2 * width]."""
    return torch.from_numpy(np.frombuffer(episode[2], dtype=np.float32).reshape(episode[1], -1).copy())


class PreferenceCritic(PairCritic[ScoredTurns]):
    """Advantages A(s, a) of turns, learned from pairs of episodes of one task by the Bradley-Terry objective."""

    def __init__(self, width: int, hidden: int, *, lr: float, beta: float, seed: int) -> None:
        super().__init__()
        self.beta = beta
        with seeded(seed):
            self.head = Head(2 * width, hidden)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=lr)

    def advantages(self, episodes: Sequence[ScoredTurns]) -> Sequence[Tensor]:
        """Return A of each turn with gradient, [turns] per episode."""
        values = self.head(torch.cat([inputs(episode) for episode in episodes]))
        return values.split([turns for _, turns, _ in episodes])

    @torch.no_grad()
    def judged(self, episode: ScoredTurns) -> list[float]:
        """Return A of each turn as floats."""
        return self.head(inputs(episode)).tolist()
