"""The SFT warm start: imitation of expert episodes with mistakes, in the agent's exact tokens."""

import math
from collections.abc import Callable

from agentgym.episodes.episode import Episode
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.learners.step import CannotContinue
from agentgym.trainers.run.metrics import first_fault
from agentgym.trainers.run.tally import Tally

FIRST_TASK = 1_000_000_000
"""Number of the expert's first generated task; reinforcement learning counts from 0 and never plays the expert's tasks."""
Lost = tuple[int, int, str]
"""Counts of one process: (number of demonstrations, number of faults among them, message of the first fault)."""
MOST_LOST = 0.02
"""Maximum share of demonstrations that may be lost to faults."""


def faultless(
    episodes: list[Episode], tally: Tally, config: TrainConfig, gather: Callable[[list[Lost]], list[Lost]]
) -> list[Episode]:
    """Return the faultless demonstrations and count the others over all processes.

    Raises:
        CannotContinue: too many demonstrations are faults.
    """
    by_process = gather([(len(episodes), sum(e.fault for e in episodes), first_fault(episodes))])
    tally.lost += sum(lost for _, lost, _ in by_process)
    attempts = tally.played + tally.lost + sum(count - lost for count, lost, _ in by_process)
    if too_many_lost(tally.lost, attempts, config):
        raise CannotContinue(
            f"{tally.lost} of {attempts} demonstrations were lost to infrastructure errors, more than {MOST_LOST:.0%}; the "
            f"last one: {[reason for _, _, reason in by_process if reason][-1]}"
        )
    return [episode for episode in episodes if not episode.fault]


def too_many_lost(lost: int, attempts: int, config: TrainConfig) -> bool:
    """Return True if more than `MOST_LOST` of the demonstrations so far are faults.

    `attempts`: number of demonstrations so far. The divisor of the share is at least 50 (or `sft_episodes`, if smaller).
    """
    return lost > MOST_LOST * max(attempts, min(config.sft_episodes, 50))


def schedule(step: int, steps: int) -> float:
    """Return the factor of the peak learning rate at a step (counted from 0) of `steps`.

    It rises linearly over the first fiftieth of the steps (at least one), then falls on a cosine that reaches 0.1 one
    step after the last.
    """
    rise = max(1, steps // 50)
    if step < rise:
        return (step + 1) / rise
    return 0.55 + 0.45 * math.cos(math.pi * (step - rise) / max(1, steps - rise))
