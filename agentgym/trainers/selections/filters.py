"""Selections within and between groups: drop episodes with void turns, keep clean successes, bound the success rate."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np

from agentgym.core.seeding import generator
from agentgym.episodes.episode import Episode, Group
from agentgym.trainers.seam import Within
from agentgym.trainers.selections.interface import drop, select

Share = Annotated[float, Within(0, 1)]


@select("void_turns")
def void_turns(groups: Sequence[Group], *, void: Literal["parsed", "valid"] = "parsed") -> list[Group]:
    """Select the episodes without a void turn; drop groups that then have fewer than two, or equal returns (SimpleTIR).

    Source: arXiv 2509.02479. A turn is void if no action was found in the reply (`parsed`; SimpleTIR: neither code nor
    an answer), or if the environment rejected the action (`valid`). An episode with a void turn is removed completely:
    it is neither trained on nor part of a baseline. The paper does not say if its baselines include such episodes.
    """
    whole = [_with(group, [e for e in group if all(getattr(turn, void) for turn in e.turns)]) for group in groups]
    return drop([group for group in whole if len(group) > 1])


@select("resample_on_correct")
def resample_on_correct(
    groups: Sequence[Group],
    *,
    share: Share = 0.5,
    floor: Annotated[float, Within(0.001, 1000)] = 0.1,
    step: int = 0,
    run: Any = None,
) -> list[Group]:
    """Select a `share` of each group's successes, preferably clean ones, and the same share of its failures.

    Source: resample on correct (rStar2-Agent, arXiv 2508.20722). Set `group_size` to the number of attempts that are
    sampled; with a `share` of 0.5, half of them are trained on. Failures are drawn uniformly. Successes are drawn with
    a probability that falls with their penalty: 1 / (`floor` + share of invalid turns + share of replies without an
    action). At least one success and one failure are selected, if the group has them. The paper does not say how it
    converts penalties into probabilities. The draw depends on seed, step and group. Groups that then have a single
    episode or equal returns are dropped.
    """
    seed = 0 if run is None else run.config.seed
    resampled: list[Group] = []
    for group in groups:
        rng = generator("resample_on_correct", seed, step, group[0].group_id, group.role)
        places_kept: set[int] = set()
        for won in (True, False):
            places = [place for place, episode in enumerate(group) if (episode.success is True) == won]
            if places:
                chances = np.array([1 / (floor + _penalty(group[place])) if won else 1.0 for place in places])
                number = max(round(share * len(places)), 1)
                places_kept |= set(rng.choice(places, number, replace=False, p=chances / chances.sum()).tolist())
        resampled.append(_with(group, [episode for place, episode in enumerate(group) if place in places_kept]))
    return drop([group for group in resampled if len(group) > 1])


@select("accuracy")
def accuracy(
    groups: Sequence[Group],
    *,
    low: Share = 0.2,
    high: Share = 0.8,
    rounds: Annotated[int, Within(1, 10_000)] = 4,
) -> list[Group]:
    """Select groups with a success rate from `low` to `high`, and play fresh tasks in place of the others.

    Source: online difficulty filtering, arXiv 2504.03380, with bounds on both sides. A step has at most `rounds`
    rounds, the first included. We did not find the paper's bounds; the defaults are ours. Groups with equal returns are
    never selected.
    """
    rates = [sum(episode.success is True for episode in group) / len(group) for group in groups]
    return drop([group for group, rate in zip(groups, rates, strict=True) if low <= rate <= high])


def _with(group: Group, episodes: list[Episode]) -> Group:
    return Group(group.task_id, group.role, episodes)


def _penalty(episode: Episode) -> float:
    """Return the share of invalid turns plus the share of replies without an action."""
    return sum((not turn.valid) + (not turn.parsed) for turn in episode.turns) / len(episode.turns)
