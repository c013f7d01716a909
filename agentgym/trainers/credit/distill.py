"""On-policy distillation: credit the student's own tokens with the teacher's log-probability above the student's."""

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from agentgym.episodes.episode import Episode, Group
from agentgym.errors import BadConfig
from agentgym.trainers.credit.base import Options, by_base, of_turns
from agentgym.trainers.credit.interface import Floats, credit
from agentgym.trainers.credit.scores import NotNegative, Share, discounted
from agentgym.trainers.seam import SHAPES, Processes


@credit("distill", scope="batch", needs=("teacher_logprobs",), uniform=True)
def distill(
    groups: Sequence[Group],
    *,
    state: dict[str, Any],
    step: int = 0,
    run: Processes | None = None,
    weight: NotNegative = 1.0,
    gamma: Share = 0.0,
    base: Annotated[str, SHAPES] = "",
    base_options: Annotated[Options, SHAPES] = None,
) -> list[list[Floats]]:
    """Credit each token with weight * sum over later tokens u, its own included, of gamma^(u-t) (log T_u - log p_u).

    T is the teacher's probability of the token (`teacher_logprobs`), p that with which the student sampled it. With gamma
    0 the update is the gradient of the reverse KL of each token at the states that the student visits; with gamma 1, of
    the reverse KL of whole episodes, what a token does to later states included. Source: on-policy distillation as in
    Thinking Machines' cookbook (gamma 0) and GKD, arXiv 2306.13649; gamma 1 is MiniLLM's objective, arXiv 2306.08543,
    without its variance reduction. `base` names a credit without needs, whose advantages are added (with `base_options`);
    without a base, the environment's reward has no effect. Nothing is centred or divided, so groups of one or without
    spread have a signal: train with `--select keep`. A turn's notes get the mean of the turn's tokens. No penalties.
    Statistics: none of its own, hence no ddof.
    Returns an array [output tokens of all turns, in order] per episode, in nats times `weight`.
    """
    own = [[_towards(episode, weight, gamma) for episode in group] for group in groups]
    if not base:
        return own
    others = by_base(groups, base, base_options, step=step, state=state, run=run)
    return [[a + b for a, b in zip(*pair, strict=True)] for pair in zip(own, others, strict=True)]


def _towards(episode: Episode, weight: float, gamma: float) -> Floats:
    """Return the discounted sums as an array [output tokens of the episode]; unscored tokens contribute 0.

    Raises:
        BadConfig: a trained turn lacks log-probabilities for some of its tokens.
    """
    for turn in episode.turns:
        if len(turn.logprobs) != len(turn.output_ids) and turn.extra.get("train") is not False:
            raise BadConfig(
                f"credit 'distill': task {episode.task_id!r}, attempt {episode.attempt} has a turn of "
                f"{len(turn.output_ids)} tokens with {len(turn.logprobs)} log-probabilities; expected one for each. Leave "
                "out the selection that puts in turns which the policy did not sample"
            )
    own_logprobs = [p for t in episode.turns for p in (t.logprobs or [np.nan] * len(t.output_ids))]
    gap = of_turns(episode, "teacher_logprobs") - np.array(own_logprobs, dtype=np.float64)
    return weight * discounted(np.nan_to_num(gap), gamma)
