"""The reward `length`: a penalty on long episodes or long replies."""

from collections.abc import Sequence
from typing import Annotated, Literal

from agentgym.episodes.episode import Episode, Turn
from agentgym.errors import BadConfig
from agentgym.trainers.rewards.interface import reward
from agentgym.trainers.seam import Within


@reward("length")
def length(
    episodes: Sequence[Episode],
    *,
    budget: Annotated[int, Within(0)],
    buffer: Annotated[int, Within(0)] = 0,
    unit: Literal["tokens", "turns", "turn_tokens"] = "tokens",
    weight: Annotated[float, Within(0)] = 0.5,
) -> list[dict[str, float | list[float]]]:
    """Pay `-weight * min(1, (length - budget) / buffer)` for lengths above `budget`; `-weight` if `buffer` is 0.

    `unit` is the unit of length of an episode: sampled `tokens` or `turns`. With `turn_tokens`, each turn is paid for
    its own tokens. With `budget = L_max - L_cache` and `buffer = L_cache` it is the soft overlong punishment of DAPO
    (arXiv 2503.14476, eq. 13).

    Raises:
        BadConfig: `unit` counts tokens, and no episode has any.
    """
    if unit == "turns":
        return [{"length": -weight * excess(len(episode.turns), budget, buffer)} for episode in episodes]
    if episodes and not any(_tokens(turn) for episode in episodes for turn in episode.turns):
        raise BadConfig(f"reward 'length' counts {unit}, and these episodes hold none: use --reward.length.unit turns")
    counts = [[_tokens(turn) for turn in episode.turns] for episode in episodes]
    if unit == "turn_tokens":
        return [{"length": [-weight * excess(number, budget, buffer) for number in turns]} for turns in counts]
    return [{"length": -weight * excess(sum(turns), budget, buffer)} for turns in counts]


def excess(number: int, budget: int, buffer: int) -> float:
    """Return the excess over the budget as a share of `buffer`, from 0 to 1; 1 at `budget + buffer` and above."""
    if number <= budget:
        return 0.0
    return min(1.0, (number - budget) / buffer) if buffer else 1.0


def _tokens(turn: Turn) -> int:
    """Return the number of sampled tokens; if the engine returns no tokens, the number that its server reported."""
    return turn.sampled or int(turn.extra.get("completion_tokens", 0))
