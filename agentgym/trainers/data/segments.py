"""Lay out turns of episodes as rows of training tokens."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from agentgym.core.outcome import Finish
from agentgym.episodes.episode import Episode, Turn
from agentgym.errors import BadData


@dataclass(slots=True)
class Segment:
    """One training row: consecutive turns of an episode whose prompts extend one another exactly. Arrays are [tokens]."""

    episode: int
    """Index of the episode in the input of `build`."""
    ids: npt.NDArray[np.int32]
    mask: npt.NDArray[np.bool_]
    """Mask of the tokens to train: those that the policy sampled in a trained turn."""
    advantages: npt.NDArray[np.float32]
    """Advantage of each token; 0 where the mask is False."""
    logprobs: npt.NDArray[np.float32]
    """The engine's log-probabilities; NaN for prompts and demonstrations, which have none."""
    turns: npt.NDArray[np.int32]
    """For every sampled token, index of the model's call in its episode, notes (`turn.notes`) included; -1 for others."""
    temperatures: npt.NDArray[np.float32] | None = None
    """Sampling temperature of each token, NaN for the run's temperature; None if all tokens have the run's temperature."""
    shares: npt.NDArray[np.float32] | None = None
    """Weight of each token, below 1 if several rows share it (`extra["weight"]` of its turn); None if all weigh 1."""
    extra: dict[str, npt.NDArray[np.float32]] = field(default_factory=dict[str, npt.NDArray[np.float32]])
    """Further inputs of the loss by name: [tokens], NaN for tokens without a value."""
    hint_removed: bool = False
    """True if the row's tokens were sampled from a prompt with a hint that `ids` lacks. Ratios then divide by
    `logprobs`, not by the trainer's scores."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def trained(self) -> int:
        """Number of trained tokens."""
        return int(self.mask.sum())

    @property
    def counted(self) -> npt.NDArray[np.float64]:
        """Weight of each token in the sums of a loss, [tokens]: 0 if it is not trained, else 1 or its share."""
        return self.mask * np.float64(1) if self.shares is None else self.mask * self.shares.astype(np.float64)

    @property
    def scored(self) -> bool:
        """True if the engine's log-probability of every trained token is known; False for demonstrations."""
        return not bool(np.isnan(self.logprobs[self.mask]).any())


def build(
    episodes: Sequence[Episode], advantages: Sequence[npt.ArrayLike] | None = None, *, merge: bool = True
) -> list[Segment]:
    """Return the rows of all episodes, in order.

    A turn whose prompt starts with exactly the previous tokens (earlier prompts and outputs) is appended to their
    row; any other turn starts a new row, and nothing is ever realigned. `advantages` has an array per episode:
    [turns] or [output tokens of all turns, in order]; None means 1 everywhere (demonstrations). A turn's notes
    (other model calls of the turn) get its advantage (the mean if it is per token) and are laid out like turns
    before it. Turns with `extra["train"] = False` are only context, `extra["weight"]` is the weight of a turn's
    tokens, and turns without output (`finish="context"`) and rows without any trained token are left out. An
    episode with a hint that training removes is laid out from its prompts without the hint. `merge=False` gives
    every turn its own row.

    Raises:
        ValueError: `advantages` does not have one array per episode, or an array has the wrong shape.
        BadData: a turn lacks token ids, prompt ids, or some of its log-probabilities.
    """
    rows: list[Segment] = []
    if advantages is not None and len(advantages) != len(episodes):
        raise ValueError(f"{len(advantages)} arrays of advantages for {len(episodes)} episodes; expected one each")
    for index, episode in enumerate(episodes):
        per_turn = _per_turn(episode, None if advantages is None else np.asarray(advantages[index], dtype=np.float32))
        current: list[Call] = []  # calls of the row being filled
        context: list[int] = []
        for number, (k, call, note) in enumerate((k, c, c is not t) for k, t in enumerate(episode.turns) for c in t.calls):
            if not call.output_ids:
                _refuse_text(episode, k, call)
                continue
            prompt = trained_prompt(episode, call)
            if not prompt:
                raise BadData(
                    f"{_where(episode, k)} has output ids but no prompt ids: its tokens have no context to train on"
                )
            if current and not (merge and prompt[: len(context)] == context):
                rows.append(_row(index, episode, current, context))
                current = []
            current.append(Call(number, k, call, per_turn[k].mean() if note else per_turn[k], len(prompt)))
            context = [*prompt, *call.output_ids]
        if current:
            rows.append(_row(index, episode, current, context))
    return [row for row in rows if row.mask.any()]


class Call(NamedTuple):
    """A call of the model: a turn, or one of its notes (other model calls of the turn, such as a summary)."""

    number: int
    turn: int
    written: Turn
    advantage: npt.NDArray[np.float32] | np.float32
    """Advantage of the call: a scalar, or an array [output tokens]."""
    start: int
    """Position of the call's first token in the row."""


def removes_hint(episode: Episode) -> bool:
    """Return True if an episode was played with a hint that training removes."""
    return episode.hint is not None and not episode.hint.in_training


def trained_prompt(episode: Episode, call: Turn) -> Sequence[int]:
    """Return the prompt of a call for training: as sampled, or without the hint if training removes hints."""
    return call.plain_ids if removes_hint(episode) else call.prompt_ids


def _row(index: int, episode: Episode, calls: list[Call], context: list[int]) -> Segment:
    ids = np.array(context, dtype=np.int32)
    n = len(ids)
    row = Segment(
        index,
        ids,
        mask=np.zeros(n, dtype=np.bool_),
        advantages=np.zeros(n, dtype=np.float32),
        logprobs=np.full(n, np.nan, dtype=np.float32),
        turns=np.full(n, -1, dtype=np.int32),
        hint_removed=removes_hint(episode),
    )
    for number, k, turn, advantage, start in calls:
        span = slice(start, start + len(turn.output_ids))
        row.turns[span] = number
        if turn.logprobs:
            if len(turn.logprobs) != len(turn.output_ids):
                raise BadData(
                    f"{_where(episode, k)} has {len(turn.output_ids)} output ids and {len(turn.logprobs)} logprobs; "
                    "expected as many, or none"
                )
            row.logprobs[span] = turn.logprobs
        if "temperature" in turn.extra:
            row.temperatures = np.full(n, np.nan, dtype=np.float32) if row.temperatures is None else row.temperatures
            row.temperatures[span] = turn.extra["temperature"]
        if "weight" in turn.extra:
            row.shares = np.ones(n, dtype=np.float32) if row.shares is None else row.shares
            row.shares[span] = turn.extra["weight"]
        if turn.extra.get("train") is not False:
            row.mask[span] = True
            row.advantages[span] = advantage
    return row


def behaviours(rows: Sequence[Segment], scored: Sequence[npt.NDArray[np.float32]]) -> list[npt.NDArray[np.float32]]:
    """Return the denominators of the ratios, [tokens] per row.

    They are the trainer's scores from before the update, or the engine's if the row lacks a hint that the tokens were
    sampled with.
    """
    return [row.logprobs if row.hint_removed else own for row, own in zip(rows, scored, strict=True)]


def mismatches(rows: Sequence[Segment], scored: Sequence[npt.NDArray[np.float32]]) -> npt.NDArray[np.float32]:
    """Return the trainer's minus the engine's log-probabilities of the trained tokens, [trained tokens of all rows].

    They are NaN if a hint was removed, because the two scores then belong to different prompts.
    """
    gaps = [
        np.full(row.trained, np.nan, dtype=np.float32) if row.hint_removed else (own - row.logprobs)[row.mask]
        for row, own in zip(rows, scored, strict=True)
    ]
    return np.concatenate(gaps) if gaps else np.empty(0, dtype=np.float32)


def _per_turn(episode: Episode, values: npt.NDArray[np.float32] | None) -> list[npt.NDArray[np.float32]]:
    """Split an episode's advantages by turn, [1] or [output tokens] each; None gives every turn the advantage 1.

    Raises:
        ValueError: the shape is neither [turns] nor [output tokens].
    """
    turns = len(episode.turns)
    if values is None:
        return [np.ones(1, dtype=np.float32)] * turns
    if values.shape == (turns,):
        return list(values.reshape(turns, 1))
    lengths = [len(turn.output_ids) for turn in episode.turns]
    if values.shape != (sum(lengths),):
        raise ValueError(
            f"advantages of {_where(episode)} have shape {values.shape}; "
            f"expected ({turns},), one per turn, or ({sum(lengths)},), one per output token"
        )
    return np.split(values, np.cumsum(lengths)[:-1])


def _refuse_text(episode: Episode, k: int, turn: Turn) -> None:
    if not turn.prompt_ids and (turn.text or turn.action or turn.finish != Finish.CONTEXT):
        raise BadData(
            f"{_where(episode, k)} has text but no token ids: it came from an engine without token access; "
            "collect training episodes with hf: or vllm:"
        )


def _where(episode: Episode, k: int | None = None) -> str:
    place = f"episode {episode.task_id!r}, attempt {episode.attempt}"
    return place if k is None else f"{place}, turn {k}"
