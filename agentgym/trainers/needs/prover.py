"""The need `prover`: the return that a prover, a stronger or different version of the policy, would get from each turn."""

from collections.abc import Sequence
from math import comb, nan
from typing import TYPE_CHECKING, Annotated, Any

from agentgym.core.env import TextEnv
from agentgym.episodes.episode import Group
from agentgym.errors import BadConfig
from agentgym.trainers.data.trees import copy_extra
from agentgym.trainers.needs.branches import Continuations, Discount, Every, Number, uncontinuable
from agentgym.trainers.needs.interface import needs
from agentgym.trainers.seam import Within, given_to

if TYPE_CHECKING:
    from agentgym.trainers.config.train_config import TrainConfig

K, BEST_OF = 8, 4


def _check(config: "TrainConfig", env: TextEnv, name: str) -> None:
    reason, own = uncontinuable(config, env, name), given_to(config.needs_options, "prover")
    k, best_of = int(str(own.get("k", K))), int(str(own.get("best_of", BEST_OF)))
    if not reason and best_of > k:
        reason = f"best_of is {best_of} and k {k}; the best of {best_of} needs at least as many continuations"
    if reason:
        raise BadConfig(f"needs 'prover': {reason}. Choose a credit that does not need it, or other options")


@needs("prover", check=_check)
async def prover(
    groups: Sequence[Group],
    *,
    run: Any,
    step: int = 0,
    k: Number = K,
    best_of: Number = BEST_OF,
    every: Every = 1,
    temperature: Annotated[float, Within(0, 100)] = 0.0,
    gamma: Discount = 1.0,
) -> dict[str, float]:
    """Estimate a prover's return from each turn, which is sampled again: the best of `best_of` attempts of the policy.

    Source: PAV, arXiv 2410.08146, which estimates the value of a prover policy mu by Monte Carlo rollouts and proposes
    best-of-K of the policy as mu. Here it is the expected maximum of `best_of` continuations drawn without replacement
    from `k`, an unbiased estimate: sum over i of r_(i) C(i - 1, best_of - 1) / C(k, best_of), where r_(i) is the i-th
    smallest reward; continuations with faults do not count in k. With `best_of` 1 it is the mean, the policy's own
    value. `temperature` is the prover's sampling temperature; 0 means the run's.

    Every `every`-th turn is measured; other turns, turns that a replay does not reach, and turns with fewer than
    `best_of` continuations without faults get nan. A reward j turns later is discounted by gamma^j. Returns
    the numbers `prover_episodes`, `prover_tokens` (sampled), `prover_faults` and `prover_turns_lost` (not reached by a
    replay), by name.
    """
    played = Continuations(run, step, k, every, gamma, "prover", temperature or run.config.temperature)
    turn_ids = {id(turn) for group in groups for episode in group for turn in episode.turns}
    paid = await played.of(groups, turn_ids)
    for turn in (turn for group in groups for episode in group for turn in episode.turns):
        turn.extra["prover"] = expected_best(paid.get(id(turn), []), best_of)
    copy_extra(groups, ("prover",))
    return {f"prover_{name}": number for name, number in played.took.items()}


def expected_best(rewards: Sequence[float], best_of: int) -> float:
    """Return the expected maximum of `best_of` rewards drawn without replacement; nan if there are too few."""
    number = len(rewards)
    if number < best_of:
        return nan
    total = comb(number, best_of)
    return sum(reward * comb(place, best_of - 1) / total for place, reward in enumerate(sorted(rewards)))
