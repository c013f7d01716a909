"""Episodes by what was said in them, and what reward stages pay for them."""

import asyncio
from typing import Any

from agentgym.episodes.episode import Episode, Turn
from agentgym.trainers.rewards.interface import pay, resolve_rewards


def episode(*replies: Any, success: bool | None = True, **fields: Any) -> Episode:
    """Each reply: its token ids, or its text; the last turn of a success is paid 1."""
    turns = [Turn("seen", output_ids=r) if isinstance(r, list) else Turn("seen", text=r) for r in replies]
    found = Episode(
        "e", "train/0/0", "g", 0, turns=turns, success=success, reason="success" if success else "failure", **fields
    )
    if success:
        turns[-1].reward, turns[-1].rewards = 1.0, {"success": 1.0}
        found.reward, found.final_rewards = 1.0, {"agent": 1.0}
    return found


def paid(episodes: list[Episode], names: list[str], step: int = 0, **options: Any) -> list[Episode]:
    stages = resolve_rewards(names, {key.replace("__", "."): value for key, value in options.items()})
    asyncio.run(pay(episodes, stages, step=step, run=None))
    return episodes
