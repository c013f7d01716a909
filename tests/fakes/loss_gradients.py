"""The gradient of a loss by token, and updates to choose tokens of."""

import numpy as np
import torch
from loss_batches import batch, scores

from agentgym.trainers.losses.policy import Update, means, policy_loss


def gradient(loss, new, old, advantages, engine=None, **options):
    """Return the losses of tokens, each times 1 / tokens, and the gradient by their log-probabilities."""
    logprobs, made = scores(np.log(new).tolist())
    old = torch.log(torch.tensor(old))
    recorded = old if engine is None else torch.log(torch.tensor(engine))
    one = batch(advantages, recorded.tolist())
    total, sums = policy_loss(made, one, old=None if engine is None else old, function=loss, **options)
    total.backward()
    return float(total.detach()), logprobs.grad.tolist(), means(sums)


def update(logprobs, advantages, **extra):
    n = np.arange(len(logprobs))
    return Update(np.array(advantages), np.array(logprobs), n, n, {k: np.array(v) for k, v in extra.items()})
