"""Hidden states before and after the actions of turns, as inputs of value functions and other predictors."""

# torch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch

from agentgym.episodes.episode import Episode, Turn
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.data.packing import pack, token_weights
from agentgym.trainers.data.segments import Segment, build
from agentgym.trainers.learners.step import TrainedModel, even

Floats = npt.NDArray[np.float32]
Embed = Callable[[list[Segment]], list[Floats]]
"""Maps rows to the hidden states that predict their trained tokens: [trained, width] per row."""


def embedded(learner: TrainedModel, rows: list[Segment], config: TrainConfig, *, alone: bool = False) -> list[Floats]:
    """Return the last hidden states that predict the trained tokens under current weights, [trained, width] per row.

    All processes must call it together. With `alone`, one process may call it by itself; sharded weights do not support
    this.
    """
    scorer = learner.accelerator.unwrap_model(learner.scorer)
    packed = pack(rows, token_weights(rows), config.batch_tokens, share=config.share_prefixes)
    device, states_before = learner.accelerator.device, scorer.states
    scorer.states = True
    try:
        with torch.no_grad():
            batches = [batch.to(device) for batch in packed] if alone else even(learner, packed)
            states = [scorer(batch).states.float().cpu().numpy() for batch in batches][: len(packed)]
    finally:
        scorer.states = states_before
    arrays = [np.zeros((0, 0), dtype=np.float32)] * len(rows)
    for batch, flat in zip(packed, states, strict=True):
        pieces = np.split(flat, np.cumsum([rows[i].trained for i in batch.segments])[:-1])
        for i, piece in zip(batch.segments, pieces, strict=True):
            arrays[i] = piece
    return arrays


def turn_states(
    episodes: Sequence[Episode], embed: Embed, prefixes: Sequence[Sequence[int]] | None = None
) -> list[list[Floats | None]]:
    """Return the hidden states before and after each turn's action, [2, width] each; None without output or prompt ids.

    The state before is at the last token of the prompt, and predicts the turn's first token; the state after is at the
    last output token. `prefixes`: tokens per episode to prepend to all prompts, in this pass only.
    """
    sequences = [_probes(episode, list(prefixes[place]) if prefixes else []) for place, episode in enumerate(episodes)]
    rows = build(sequences)
    states_by_episode: list[dict[int, Floats]] = [{} for _ in episodes]
    for row, states in zip(rows, embed(rows), strict=True):
        for call, state in zip(row.turns[row.mask].tolist(), states, strict=True):
            states_by_episode[row.episode][call] = state
    by_episode: list[list[Floats | None]] = []
    for episode, states in zip(episodes, states_by_episode, strict=True):
        numbers = iter(range(len(episode.turns)))
        calls = [next(numbers) if turn.output_ids and turn.prompt_ids else None for turn in episode.turns]
        by_episode.append([None if k is None else np.stack([states[2 * k], states[2 * k + 1]]) for k in calls])
    return by_episode


def _probes(episode: Episode, prefix: list[int]) -> Episode:
    """Return an episode with two calls per turn: one predicts its first token, the other the token after the turn."""
    turns = [turn for turn in episode.turns if turn.output_ids and turn.prompt_ids]
    calls: list[Turn] = []
    for turn, later in zip(turns, [*turns[1:], None], strict=True):
        prompt = [*prefix, *turn.prompt_ids]
        tokens = [*prompt, *turn.output_ids]
        after = [] if later is None else [*prefix, *later.prompt_ids]
        follows = after[len(tokens)] if len(after) > len(tokens) and after[: len(tokens)] == tokens else 0
        calls.append(Turn("", prompt_ids=prompt, output_ids=turn.output_ids[:1]))
        calls.append(
            Turn("", prompt_ids=tokens, output_ids=[follows])
        )  # the next token if known, so that rows can be merged
    return Episode(episode.env, episode.task_id, episode.group_id, 0, turns=calls)
