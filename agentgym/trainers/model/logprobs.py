"""Log-probabilities of trained tokens under a model; the vocabulary projection is computed only for those tokens."""

# torch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from agentgym.trainers.data.packing import Batch
from agentgym.trainers.model import attention, forward
from agentgym.trainers.model.scores import Scores

CHUNK = 2**25  # logits in memory at once: 128 MB of float32


def token_logprobs(
    logits: Tensor, ids: Tensor, temperature: float | Tensor = 1.0, top: int = 0, *, entropy_gradient: bool = False
) -> Scores:
    """Return the scores of tokens: `log_softmax(logits / temperature)[id]` and entropy, [tokens] each, in float32.

    `logits`: [tokens, vocabulary]. `ids`: [tokens]. `temperature`: one for all tokens, or [tokens]. `entropy_gradient`:
    make the entropy differentiable. `top`: also return the log-probabilities of this many likeliest tokens, [tokens,
    top].

    Raises:
        ValueError: the temperature is not positive.
    """
    if not isinstance(temperature, Tensor) and temperature <= 0:
        raise ValueError(f"temperature is {temperature}; training needs the positive one that sampled the tokens")
    scaled = logits.float()
    if isinstance(temperature, Tensor):
        scaled = scaled / temperature.unsqueeze(-1)
    elif temperature != 1.0:
        scaled = scaled / temperature
    every = torch.log_softmax(scaled, dim=-1)  # [tokens, vocabulary]
    with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
        entropy = -(every.exp() * every).sum(-1)
    likeliest = every.topk(min(top, every.shape[-1]), dim=-1).values if top else None
    return Scores(every.gather(-1, ids.unsqueeze(-1)).squeeze(-1), entropy, top=likeliest)


def policy_logprobs(
    model: PreTrainedModel,
    batch: Batch,
    temperature: float = 1.0,
    method: str = "rows",
    *,
    states: bool = False,
    top: int = 0,
    entropy_gradient: bool = False,
) -> Scores:
    """Return the scores of a micro-batch's trained tokens, [trained] each, under any Hugging Face causal model.

    `method`: the result of `attention.choose` for the model. Hidden states are gathered at the trained places before
    the vocabulary projection, which runs in chunks that are recomputed in the backward pass; models that transform
    their logits afterwards (capping, scaling) compute the logits themselves. `temperature` applies to tokens without a
    temperature in the batch. `states`: also return the hidden states, [trained, width] (in an extra pass for models
    that transform their logits).
    """
    heat = temperature if batch.temperatures is None else batch.temperatures.nan_to_num(nan=temperature)
    if changes_logits(model):
        arguments, places = attention.inputs(batch.ids, batch.places, batch.lengths, method, batch.tree)
        logits = attention.call(model, arguments).logits.flatten(0, 1)[places]
        scores = token_logprobs(logits, batch.targets, heat, top, entropy_gradient=entropy_gradient)
        scores = scores._replace(states=trained_states(model, batch, method)) if states else scores
    else:
        hidden = trained_states(model, batch, method)
        scores = project(model.get_output_embeddings(), hidden, batch.targets, heat, top, entropy_gradient=entropy_gradient)
        scores = scores._replace(states=hidden) if states else scores
    if batch.shares is None:
        return scores
    at = batch.shares
    beside = (None if values is None else values[at] for values in (scores.states, scores.top))
    return Scores(scores.logprobs[at], scores.entropy[at], *beside)


def trained_states(model: PreTrainedModel, batch: Batch, method: str) -> Tensor:
    """Return the final hidden states [scored, width] that predict a micro-batch's trained tokens."""
    if method == "small":
        return forward.hidden_states(model, batch.ids, batch.places, batch.lengths, batch.counts, batch.tree)
    return attention.hidden_states(model, batch.ids, batch.places, batch.lengths, method, batch.tree)


def project(
    head: Any,
    hidden: Tensor,
    ids: Tensor,
    temperature: float | Tensor = 1.0,
    top: int = 0,
    *,
    entropy_gradient: bool = False,
) -> Scores:
    """Return the scores of tokens, [trained] each, from the hidden states that predict them.

    `hidden`: [trained, width]. `ids`: [trained]. A head that is more than a matrix (such as one with an adapter)
    computes all its logits at once. With `top`, the logits are computed in parts that the backward pass recomputes.
    """
    if type(head) is not torch.nn.Linear or len(ids) * len(head.weight) <= CHUNK:
        return token_logprobs(head(hidden), ids, temperature, top, entropy_gradient=entropy_gradient)
    if top:

        def part_of(part: slice) -> Scores:
            heat = _flat(temperature, part)
            return token_logprobs(head(hidden[part]), ids[part], heat, top, entropy_gradient=entropy_gradient)

        scored = [checkpoint(part_of, part, use_reentrant=False) for part in _parts(len(ids), len(head.weight))]
        logprobs, entropy, likeliest = (torch.cat([scores[place] for scores in scored]) for place in (0, 1, 3))
        return Scores(logprobs, entropy, top=likeliest)
    scored = _Chunked.apply(hidden, head.weight, head.bias, ids, temperature, entropy_gradient)
    return Scores(*cast("tuple[Tensor, Tensor]", scored))


class _Chunked(torch.autograd.Function):
    """`token_logprobs` of a projection, computed for a few tokens at a time in the forward and the backward pass.

    For log p = z[id] - logsumexp(z) with z = logits / temperature, the gradient with respect to the logits is (onehot -
    softmax(z)) / temperature, and the gradient of the entropy H is -softmax(z) * (log softmax(z) + H) / temperature.
    Only logsumexps and entropies are saved; the logits are recomputed.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        ids: Tensor,
        temperature: float | Tensor,
        entropy_gradient: bool,
    ) -> object:
        logprobs, entropy, totals = (torch.empty(len(ids), device=hidden.device) for _ in range(3))
        for part in _parts(len(ids), len(weight)):
            scaled = F.linear(hidden[part], weight, bias).float().div_(_of(temperature, part))  # [tokens, vocabulary]
            totals[part] = scaled.logsumexp(-1)
            logits_of_ids = scaled.gather(-1, ids[part, None]).squeeze(-1)
            logprobs[part] = logits_of_ids - totals[part]
            mean = scaled.mul_((scaled - totals[part, None]).exp_()).sum(-1)
            entropy[part] = totals[part] - mean
        ctx.save_for_backward(hidden, weight, bias, ids, totals, entropy)
        ctx.temperature, ctx.entropy_gradient = temperature, entropy_gradient
        if not entropy_gradient:
            ctx.mark_non_differentiable(entropy)
        return logprobs, entropy

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, ids, totals, entropy = ctx.saved_tensors
        by_hidden = torch.zeros_like(hidden) if ctx.needs_input_grad[0] else None
        by_weight, by_bias = (  # sums over many parts: in fp32
            torch.zeros_like(tensor, dtype=torch.float32) if needed else None
            for tensor, needed in zip((weight, bias), ctx.needs_input_grad[1:3], strict=True)
        )
        for part in _parts(len(ids), len(weight)):
            share = gradients[0][part, None] / _of(ctx.temperature, part)  # [tokens, 1]
            scaled = F.linear(hidden[part], weight, bias).float().div_(_of(ctx.temperature, part))
            logs, pull = scaled.sub_(totals[part, None]), share
            if ctx.entropy_gradient:
                pull = share + gradients[1][part, None] / _of(ctx.temperature, part) * (logs + entropy[part, None])
            moved = logs.exp_().mul_(-pull)
            moved = moved.scatter_add_(-1, ids[part, None], share).to(hidden.dtype)  # [tokens, vocabulary]
            if by_hidden is not None:
                torch.mm(moved, weight, out=by_hidden[part])
            if by_weight is not None:
                by_weight.add_(moved.T @ hidden[part])
            if by_bias is not None:
                by_bias.add_(moved.sum(0))
        return by_hidden, _like(by_weight, weight), _like(by_bias, bias), None, None, None


def _of(temperature: float | Tensor, part: slice) -> float | Tensor:
    return temperature[part, None] if isinstance(temperature, Tensor) else temperature


def _flat(temperature: float | Tensor, part: slice) -> float | Tensor:
    return temperature[part] if isinstance(temperature, Tensor) else temperature


def _like(gradient: Tensor | None, weight: Tensor | None) -> Tensor | None:
    return None if gradient is None or weight is None else gradient.to(weight.dtype)


def _parts(tokens: int, vocabulary: int) -> list[slice]:
    size = max(CHUNK // vocabulary, 1)
    return [slice(start, start + size) for start in range(0, tokens, size)]


def changes_logits(model: PreTrainedModel) -> bool:
    """Return True if a model caps or scales its logits."""
    config = model.config.get_text_config()
    names = ("final_logit_softcapping", "logit_scale", "logits_scaling")
    return any(getattr(config, name, None) not in (None, 1, 1.0) for name in names)
