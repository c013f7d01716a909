"""The critics of turns by as many processes as were started, each with its share of the groups; run by test_turn_critics.

`python two_critics.py OUT`, with RANK and WORLD_SIZE set.
"""

import asyncio
import sys
from types import SimpleNamespace

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from tiny_rows import token_episode

from agentgym.episodes.episode import groups
from agentgym.trainers.needs.preference import preference
from agentgym.trainers.needs.turn_q import turn_q


def embed(rows):
    """A direction for each token that was read last."""
    table = np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32)
    return [table[row.ids[np.flatnonzero(row.mask) - 1]] for row in rows]


async def nothing(agent, jobs):
    return []


def stored():
    """Four groups of three; the last has no episodes that differ."""
    rng, made = np.random.default_rng(3), []
    for number in range(4):
        for attempt in range(3):
            episode = token_episode(rng, int(rng.integers(1, 4)), task=f"t{number}")
            episode.reward = episode.turns[-1].reward = float(number < 3 and attempt % 2)
            made.append(episode)
    return groups(made)


def judged(mine, gather):
    """Return what the turns of two steps are credited with, and the critics after them."""
    run = SimpleNamespace(
        gather=gather, env_name=lambda episode: "e", config=SimpleNamespace(seed=0, temperature=1.0),
        learner=SimpleNamespace(embed=embed, engine=None),
        rollouts=SimpleNamespace(pool=SimpleNamespace(collect=nothing), agents=lambda heat: {}),
    )  # fmt: skip
    states, rows = ({}, {}), []
    for step in range(2):
        turn_q(mine, run=run, step=step, state=states[0], updates=4, batch=6, hidden=4)
        asyncio.run(preference(mine, run=run, step=step, state=states[1], updates=4, batch=6, hidden=4, plan_tokens=0))
        rows += [[turn.extra[n] for n in ("turn_q", "turn_v", "preference")] for g in mine for e in g for turn in e.turns]
    return rows, [state.get("critic") for state in states]


if __name__ == "__main__":
    accelerator = Accelerator(cpu=True)
    mine = stored()[accelerator.process_index :: accelerator.num_processes]
    everything = gather_object([judged(mine, gather_object)])
    if accelerator.is_main_process:
        torch.save(everything, sys.argv[1])
