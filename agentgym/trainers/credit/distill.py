"""On-policy distillation: credit each sampled token with the teacher's log-probability minus the student's."""

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
    """Credit token t with weight * the sum over tokens u >= t of gamma^(u - t) * (log T_u - log p_u).

    T_u is the teacher's probability of token u (the need `teacher_logprobs`), p_u the student's probability when it
    sampled the token. With gamma 0, the update follows the gradient of each token's reverse KL in the states that the
    student visits. With gamma 1, it follows the reverse KL of whole episodes, which includes the effect of a token on
    later states.

    Source: Thinking Machines' cookbook and GKD, arXiv 2306.13649 (gamma 0); MiniLLM, arXiv 2306.08543, without its
    variance reduction (gamma 1). `base` names a credit without needs; its advantages are added, with `base_options`.
    Without a base, the environment's reward has no effect.
    Statistics: none (no mean, no ddof). Groups of one episode or without spread also get credit: keep them with
    `--select keep`. Rejected actions get no penalties. Other model calls of a turn (`turn.notes`) get the mean over
    the turn's tokens.
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
