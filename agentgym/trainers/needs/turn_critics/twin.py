"""ArCHer's critic: two action values and two state values per turn, learned by temporal differences."""

# torch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import copy
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from agentgym.trainers.needs.turn_critics.heads import Head, SavedCritic, seeded

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Steps:
    """Inputs of the critic for several turns."""

    states: Tensor
    """Hidden state before each action: [turns, width]."""
    actions: Tensor
    """Hidden state after each action: [turns, width]."""
    rewards: Tensor
    """Reward of each turn: [turns]."""
    later: Tensor
    """State before the next turn's action, 0 if there is no next turn: [turns, width]."""
    last: Tensor
    """1 if there is no next turn, else 0: [turns]."""

    @classmethod
    def of(cls, packed: list[bytes]) -> "Steps":
        """Return the turns that the function `packed` has stored as bytes."""
        rows = torch.from_numpy(np.stack([np.frombuffer(row, dtype=np.float32) for row in packed]))
        width = (rows.shape[1] - 2) // 3
        states, actions, later, ends = rows.split([width, width, width, 2], dim=1)
        return cls(states, actions, ends[:, 0], later, ends[:, 1])

    def __len__(self) -> int:
        return len(self.rewards)

    def select(self, rows: npt.NDArray[np.int64]) -> "Steps":
        """Return the turns at the indices `rows`, [n]."""
        at = torch.from_numpy(rows)
        return Steps(self.states[at], self.actions[at], self.rewards[at], self.later[at], self.last[at])


def packed(turn: Floats, reward: float, later: Floats | None) -> bytes:
    """Return a turn as bytes. `turn`, [2, width]: its hidden state without and with the action; `later`: the next turn."""
    after = np.zeros_like(turn[0]) if later is None else later[0]
    ends = np.array([reward, later is None], dtype=np.float32)
    return np.concatenate([turn.reshape(-1), after, ends]).astype(np.float32).tobytes()


class Values(nn.Module):
    """Two networks for action values (Q1, Q2) and two for state values (V1, V2)."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.of_actions = nn.ModuleList([Head(2 * width, hidden) for _ in range(2)])
        self.of_states = nn.ModuleList([Head(width, hidden) for _ in range(2)])

    def q(self, steps: Steps) -> Tensor:
        """Return the action values, [2, turns]."""
        inputs = torch.cat([steps.states, steps.actions], dim=1)
        return torch.stack([head(inputs) for head in self.of_actions])

    def v(self, states: Tensor) -> Tensor:
        """Return the state values, [2, turns]."""
        return torch.stack([head(states) for head in self.of_states])


class TwinCritic(SavedCritic):
    """Two Q and two V networks with a target copy, which moves towards them by a share `tau` per update."""

    def __init__(self, width: int, hidden: int, *, lr: float, seed: int) -> None:
        super().__init__()
        with seeded(seed):
            self.values = Values(width, hidden)
        self.targets = copy.deepcopy(self.values).requires_grad_(False)
        self.optimizer = torch.optim.Adam(self.values.parameters(), lr=lr)

    @torch.no_grad()
    def q_targets(self, steps: Steps, gamma: float) -> Tensor:
        """Return the targets of Q_i, [2, turns]: r + gamma (1 - last) V'_i(s'), where V' is the target copy."""
        return steps.rewards + gamma * (1 - steps.last) * self.targets.v(steps.later)

    @torch.no_grad()
    def v_targets(self, steps: Steps) -> Tensor:
        """Return the targets of V_i, [2, turns]: Q'_i(s, a) of the target copy, for actions of the current policy."""
        return self.targets.q(steps)

    def loss(self, replayed: Steps, fresh: Steps, gamma: float, expectile: float = 0.5) -> Tensor:
        """Return the sum over i of mean (Q_i - its target)^2 over `replayed` and mean w (V_i - its target)^2 over `fresh`.

        w is 2 `expectile` where V_i is below its target, else 2 (1 - `expectile`), so 0.5 gives the mean of Q' over the
        data's actions and 1 its maximum. The loss is a scalar, in squared units of the return.
        """
        of_q = (self.values.q(replayed) - self.q_targets(replayed, gamma)).square().mean(1).sum()
        above = self.v_targets(fresh) - self.values.v(fresh.states)
        weights = torch.where(above > 0, 2 * expectile, 2 - 2 * expectile)
        return of_q + (weights * above.square()).mean(1).sum()

    def update(self, replayed: Steps, fresh: Steps, *, gamma: float, tau: float, expectile: float = 0.5) -> float:
        """Make one optimizer step, update the target copy, and return the loss before the step."""
        loss = self.loss(replayed, fresh, gamma, expectile)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            for target, value in zip(self.targets.parameters(), self.values.parameters(), strict=True):
                target.lerp_(value, tau)
        return float(loss.detach())

    @torch.no_grad()
    def judged(self, steps: Steps) -> Floats:
        """Return min(Q1, Q2) and min(V1, V2), [2, turns]."""
        q, v = self.values.q(steps).amin(0), self.values.v(steps.states).amin(0)
        return torch.stack([q, v]).numpy()
