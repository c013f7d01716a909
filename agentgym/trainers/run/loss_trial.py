"""Trial of a user's loss on a few made-up tokens, before a model is loaded."""

from functools import partial

import numpy as np
import torch

from agentgym.episodes.episode import Group
from agentgym.errors import BadConfig
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.data.minibatches import minibatches, training_rows
from agentgym.trainers.data.packing import Batch, pack
from agentgym.trainers.data.segments import Segment
from agentgym.trainers.losses.interface import top_of
from agentgym.trainers.losses.policy import policy_loss
from agentgym.trainers.model.scores import Scores
from agentgym.trainers.needs import interface as needs
from agentgym.trainers.seam import Stage


def try_loss(loss: Stage, config: TrainConfig, group: Group) -> None:
    """Compute the loss of a made-up group and the gradient, as an update does.

    Raises:
        BadConfig: the loss or the gradient is not finite.
    """
    advantages = [[np.full(len(episode.turns), 2 * episode.reward - 1) for episode in group]]
    training = training_rows([group], advantages, extra=loss.attributes["needs"])
    for minibatch in minibatches(training, loss, config, 0, gather=list, score=_scored):
        for batch in pack(minibatch.rows, minibatch.weights, config.batch_tokens):
            scores = _scores(batch, top_of(loss))
            total, _ = policy_loss(scores, batch, function=partial(loss, step=0), correction=None)
            (gradient,) = torch.autograd.grad(total, scores.logprobs)
            if not bool(torch.isfinite(total) & torch.isfinite(gradient).all()):
                value = float(total.detach())
                raise BadConfig(f"loss {loss.name!r} is {value:g}, its gradient {gradient}; expected finite numbers")


def _scores(batch: Batch, top: int) -> Scores:
    """Return made-up scores of the trained tokens, close to the engine's."""
    steps = torch.linspace(-0.2, 0.1, batch.trained)
    likeliest = torch.linspace(-0.5, -5.0, top).expand(batch.trained, top) if top else None
    return Scores((batch.logprobs + steps).requires_grad_(), torch.full((batch.trained,), 0.7), top=likeliest)


def _scored(rows: list[Segment]) -> needs.Values:
    return {"logprobs": [row.logprobs for row in rows]}
