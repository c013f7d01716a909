"""Convert rows of a training step to the Tinker API's format, shifted by one token."""

# tinker is an extra and typed in parts only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from agentgym.trainers.data.segments import Segment
from agentgym.trainers.learners.tinker.service import client_package

Floats = npt.NDArray[np.float32]
Reduction = Literal["tokens", "rows"]
"""Server-side loss aggregation: `tokens` (sum over tokens) or `rows` (mean over rows of each row's mean over targets)."""


def scored_datum(ids: Sequence[int]) -> object:
    """Return token ids as a row in which the server scores every token after the first."""
    return _datum(ids, weights=np.ones(len(ids) - 1, dtype=np.float32))


def imitation_datum(row: Segment, weights: Floats) -> object:
    """Return a row to imitate; `weights`, [tokens], are the weights of each token's loss."""
    return _datum(row.ids, weights=np.where(row.mask, weights, 0)[1:])


def policy_datum(row: Segment, behaviour: Floats, pull: Floats, scale: float = 1.0) -> object:
    """Return a row for a policy loss.

    `behaviour`, [tokens], are the log-probabilities in the denominator of the ratio. `pull`, [tokens], is the advantage
    times the weight of the token's loss, 0 for untrained tokens. `scale` multiplies the advantages; see `scales`.
    """
    known = np.where(row.mask, behaviour, 0)
    return _datum(row.ids, logprobs=known[1:], advantages=np.where(row.mask, pull * scale, 0)[1:])


def scales(rows: Sequence[Segment], reduction: Reduction) -> list[float]:
    """Return the factor of each row's advantages that makes the server's loss our sum over tokens."""
    return [1.0 if reduction == "tokens" else float(len(rows) * (len(row) - 1)) for row in rows]


def placed(row: Segment, values: object) -> Floats:
    """Return a server's values per target as values per token, [tokens], NaN for untrained tokens."""
    by_token = np.full(len(row), np.nan, dtype=np.float32)
    by_token[1:] = np.asarray(values, dtype=np.float32)[: len(row) - 1]
    return np.where(row.mask, by_token, np.nan).astype(np.float32)


def _datum(ids: Sequence[int] | npt.NDArray[np.int32], **inputs: Floats) -> object:
    tinker = client_package()
    array = np.asarray(ids, dtype=np.int64)
    arrays = {name: np.ascontiguousarray(values, dtype=np.float32) for name, values in inputs.items()}
    return tinker.Datum(
        model_input=tinker.ModelInput.from_ints(array[:-1].tolist()),
        loss_fn_inputs={"target_tokens": np.ascontiguousarray(array[1:]), **arrays},
    )
