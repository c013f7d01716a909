"""A reward of one's own: agentgym train household --reward brevity:brevity --reward.weight 0.1   (beside this file)"""

from collections.abc import Sequence

import agentgym


@agentgym.reward("brevity")
async def brevity(episodes: Sequence[agentgym.Episode], *, weight: float = 0.05) -> list[dict[str, float]]:
    """Long winning episodes earn a little less."""
    return [{"brevity": -weight * len(e.turns) / e.horizon} if e.success else {} for e in episodes]
