"""Initial weights of a policy that can copy from its context: small layers and a pair of induction heads.

Much of an agent's output appears in its prompt: a name, an id, a word of the goal. Copying takes heads in two layers,
one that attends to the previous token and one that finds an earlier occurrence of the current token and repeats its
successor (Olsson et al., "In-context learning and induction heads", arXiv 2209.11895). From random weights, such heads
form late; here they are set before training, as mimetic initialization does with other structure (Trockman and Kolter,
arXiv 2305.09828).
"""

# transformers' models are typed in parts only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import torch
from torch import Tensor
from torch.nn import Parameter
from transformers import PreTrainedModel

from agentgym.errors import BadConfig

QUIET = 0.02
"""Initial factor of the layers' outputs; at 1 they would drown out the tokens that the heads compare."""
CONSTANT = 4.0
"""Value of the coordinate that all embeddings share, in standard deviations of the others; the first head uses it."""
ENERGY = (0.4, 0.3, 0.2, 0.1)
"""Weights of the fastest rotations in the previous-token head; with one, it would also attend 7, 14, … tokens back."""
SLOW = 0.05
"""Maximum radians per token of the rotations that count as slow: they hardly affect the similarity of two tokens."""
POSITION_SCALE, CONTENT_SCALE = 2.0, 1.6
"""Scales of the norms of queries and keys, in the dimensions that the heads of the first and second layers use."""
PREVIOUS_SIZE, COPIED_SIZE = 2.0, 1.5
"""Scales of the heads' outputs relative to the embeddings."""


@torch.no_grad()
def write_induction_heads(model: PreTrainedModel) -> None:
    """Scale down the layers of a random Qwen3-shaped model; make key-value head 0 of its first two layers induction heads.

    The first layer's head attends to the previous token and writes a projection of it into the free dimensions. The
    second layer's head compares these projections with the current token and writes the token at the matching place:
    the one that followed the current token before. Before training, such a model repeats its input: it needs an SFT
    warm start.

    Raises:
        BadConfig: the model has fewer than two layers or is too narrow.
    """
    weights = dict(model.named_parameters())
    embeddings, head = weights["model.embed_tokens.weight"], len(weights["model.layers.0.self_attn.q_norm.weight"])
    width, half = embeddings.shape[1], head // 2
    if "model.layers.1.self_attn.q_norm.weight" not in weights or width < 3 * head:
        raise BadConfig(
            f"induction heads need at least 2 layers and a width of {3 * head}, three heads; the policy has a width of "
            f"{width} and {model.config.num_hidden_layers} layers"
        )
    for name, weight in weights.items():
        if "down_proj" in name or "o_proj" in name:
            weight.mul_(QUIET)
    unit = float(model.config.initializer_range)
    token, room = slice(1, width - head), slice(width - head, width)  # dimensions that distinguish tokens; free dimensions
    embeddings[:, 0] = CONSTANT * unit
    embeddings[:, room] *= 0.1
    rotations = float(model.config.rope_parameters["rope_theta"]) ** (-torch.arange(half) / half)  # [half], radians a token
    code, copied = (torch.linalg.qr(torch.randn(width - head - 1, head))[0].T for _ in range(2))  # [head, token]

    q, k, v, o = (torch.zeros(head, width) for _ in range(4))  # head of the first layer; o is transposed
    fast = torch.zeros(half)
    fast[: len(ENERGY)] = torch.tensor(ENERGY)[:half].sqrt()
    q[:, 0] = CONSTANT * torch.cat([fast, torch.zeros(half)])
    k[:, 0] = CONSTANT * torch.cat([fast * rotations.cos(), fast * rotations.sin()])  # matches the previous token
    v[:, token] = code
    o[:, room] = PREVIOUS_SIZE * unit * torch.eye(head)
    _write(weights, 0, (q, k, v, o), fast > 0, POSITION_SCALE)

    q, k, v, o = (torch.zeros(head, width) for _ in range(4))
    slow = rotations <= SLOW
    used = torch.cat([slow, slow]).nonzero().flatten()
    q[used, token] = code[: len(used)]
    k[used, room] = torch.eye(head)[: len(used)]
    v[:, token] = copied
    o[:, token] = COPIED_SIZE * unit * copied
    _write(weights, 1, (q, k, v, o), slow, CONTENT_SCALE)


def _write(weights: dict[str, Parameter], layer: int, written: tuple[Tensor, ...], rotations: Tensor, scale: float) -> None:
    """Write queries, keys, values and (transposed) output, [head, width] each, into a layer's first key-value head.

    All query heads of this key-value head get the same queries. `scale` is the norm scale of queries and keys in the
    given `rotations`, [half of a head] bool.
    """
    q, k, v, o = written
    asks, keys, values, writes = (weights[f"model.layers.{layer}.self_attn.{name}_proj.weight"] for name in "qkvo")
    head, sharing = len(q), len(asks) // len(keys)
    asks[: sharing * head] = q.repeat(sharing, 1)
    keys[:head] = k
    values[:head] = v
    writes[:, : sharing * head] = o.T.repeat(1, sharing) / sharing
    for name in ("q_norm", "k_norm"):
        weights[f"model.layers.{layer}.self_attn.{name}.weight"][rotations.repeat(2)] = scale
