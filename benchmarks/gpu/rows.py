"""Rows of random tokens to train on: as a micro-batch, and as groups of episodes that all have a gradient."""

from collections.abc import Sequence

import numpy as np

from agentgym.episodes.episode import Episode, Turn
from agentgym.trainers.data.packing import Batch, pack, token_weights
from agentgym.trainers.data.segments import build

REPLY = 32


def batch_of(replies: Sequence[tuple[list[int], list[int], list[float]]]) -> Batch:
    """Return one micro-batch of rows of one turn: prompt, reply and the engine's log-probabilities of each."""
    episodes = [
        Episode("measured", f"t{i}", f"t{i}", 0, turns=[Turn("o", prompt_ids=prompt, output_ids=ids, logprobs=logprobs)])
        for i, (prompt, ids, logprobs) in enumerate(replies)
    ]
    segments = build(episodes)
    (batch,) = pack(segments, token_weights(segments), sum(len(segment) for segment in segments) * 2)
    return batch


def episodes_of(number: int, length: int, trained: int, vocabulary: int) -> list[Episode]:
    """Return episodes of one row each: turns of 32 tokens between observations; of two of a task one succeeds."""
    rng = np.random.default_rng(0)
    turns = trained // REPLY
    gap = (length - trained) // turns
    episodes: list[Episode] = []
    for index in range(number):
        ids: list[int] = []
        made: list[Turn] = []
        for _ in range(turns):
            ids = ids + rng.integers(1, vocabulary, gap).tolist()
            output = rng.integers(1, vocabulary, REPLY).tolist()
            made.append(Turn("o", prompt_ids=ids, output_ids=output, logprobs=[-float(np.log(vocabulary))] * REPLY))
            ids = ids + output
        won = bool(index % 2)
        made[-1].reward = float(won)
        name = f"task {index // 2}"
        episodes.append(Episode("measured", name, name, index % 2, turns=made, success=won, reward=float(won)))
    return episodes
