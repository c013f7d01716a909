"""SWEET-RL's critic as published: a turn's advantage is the mean log-ratio of a language model to its initial weights."""

# torch and transformers are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import copy
import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from agentgym.episodes.episode import Episode, Turn
from agentgym.trainers.data.packing import pack, token_weights
from agentgym.trainers.data.segments import Segment, build
from agentgym.trainers.learners.step import Scorer
from agentgym.trainers.needs.turn_critics.pairs import PairCritic


class ScoredTokens(NamedTuple):
    """Tokens of an episode, as plain data for the critic and for checkpoints."""

    reward: float
    turns: int
    """Number of turns with tokens."""
    rows: tuple[tuple[bytes, bytes], ...]
    """For each row, its token ids and its turn numbers (-1 outside replies), both as int32 bytes."""
    reference: bytes = b""
    """Mean log-probability of each turn under the initial weights, [turns] as float32 bytes."""


def packed(episode: Episode, plan: Sequence[int]) -> ScoredTokens:
    """Return an episode as data for the critic, with the plan's tokens before every prompt and without reference values."""
    turns = [turn for turn in episode.turns if turn.output_ids and turn.prompt_ids]
    calls = [Turn("", prompt_ids=[*plan, *turn.prompt_ids], output_ids=turn.output_ids) for turn in turns]
    rows = build([Episode(episode.env, episode.task_id, episode.group_id, 0, turns=calls)])
    return ScoredTokens(float(episode.reward), len(turns), tuple((row.ids.tobytes(), row.turns.tobytes()) for row in rows))


class LogRatioCritic(PairCritic[ScoredTokens]):
    """A(o, a, c) = 1 / L sum over the reply's L tokens of log p(a | o, c) - log p_ref(a | o, c).

    It is learned from pairs of episodes of one task by the Bradley-Terry objective. p starts with the policy's weights,
    and p_ref keeps them. c is the plan, which precedes the prompt. Log-probabilities are at temperature 1.
    """

    def __init__(self, model: Any, *, lr: float, beta: float, tokens: int) -> None:
        super().__init__()
        self.beta, self.tokens = beta, tokens
        self.scorer = Scorer(copy.deepcopy(model).float().eval(), 1.0)
        self.initial = {name: value.detach().clone() for name, value in self.scorer.state_dict().items()}
        trained = [parameter for parameter in self.scorer.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.Adam(trained, lr=lr)

    def means(self, episodes: Sequence[ScoredTokens]) -> list[Tensor]:
        """Return the mean log-probability of each turn, [turns] per episode, in nats."""
        rows = [_row(place, *row) for place, episode in enumerate(episodes) for row in episode.rows]
        starts = np.cumsum([0, *(episode.turns for episode in episodes)])
        device = next(self.scorer.parameters()).device
        sums, counts = (torch.zeros(int(starts[-1]), device=device) for _ in range(2))
        for batch in pack(rows, token_weights(rows), self.tokens):
            turns = [starts[rows[i].episode] + rows[i].turns[rows[i].mask] for i in batch.segments]
            at = torch.as_tensor(np.concatenate(turns), device=device)
            logprobs = self.scorer(batch.to(device)).logprobs.float()
            sums = sums.index_add(0, at, logprobs)
            counts = counts.index_add(0, at, torch.ones_like(logprobs))
        return list((sums / counts).split([episode.turns for episode in episodes]))

    @torch.no_grad()
    def referred(self, episodes: Sequence[ScoredTokens]) -> list[ScoredTokens]:
        """Return the episodes with `reference` set: the mean log-probability of each turn under the initial weights."""
        present = {name: value.clone() for name, value in self.scorer.state_dict().items()}
        self.scorer.load_state_dict(self.initial)
        means = self.means(episodes) if episodes else []
        self.scorer.load_state_dict(present)
        arrays = [mean.float().cpu().numpy().tobytes() for mean in means]
        return [episode._replace(reference=array) for episode, array in zip(episodes, arrays, strict=True)]

    def advantages(self, episodes: Sequence[ScoredTokens]) -> list[Tensor]:
        """Return A of each turn with gradient, [turns] per episode, in nats per token."""
        means = self.means(episodes)
        return [
            mean - torch.as_tensor(np.frombuffer(episode.reference, dtype=np.float32).copy(), device=mean.device)
            for mean, episode in zip(means, episodes, strict=True)
        ]

    @torch.no_grad()
    def judged(self, episodes: Sequence[ScoredTokens]) -> list[npt.NDArray[np.float32]]:
        """Return A of each turn as NumPy arrays, [turns] per episode, in nats per token."""
        return [advantages.float().cpu().numpy() for advantages in self.advantages(episodes)]

    def saved_reference(self) -> bytes:
        """Return the initial weights as bytes, for the checkpoint."""
        file = io.BytesIO()
        torch.save(self.initial, file)
        return file.getvalue()

    def load_reference(self, content: bytes) -> None:
        """Restore the initial weights from the bytes that `saved_reference` returned."""
        self.initial = torch.load(io.BytesIO(content), weights_only=True)


def _row(episode: int, ids: bytes, turns: bytes) -> Segment:
    numbers = np.frombuffer(turns, dtype=np.int32)
    blank = np.zeros(len(numbers), dtype=np.float32)
    return Segment(episode, np.frombuffer(ids, dtype=np.int32), numbers >= 0, blank, blank, numbers)
