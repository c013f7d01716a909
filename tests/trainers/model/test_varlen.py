"""Attention over rows by whichever kernel torch has: with or without a word for heads that are shared."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from test_attention import make

from agentgym.trainers.model import attention
from agentgym.trainers.model.varlen import _torchs

ENDS = torch.tensor([0, 5, 8], dtype=torch.int32)


def rows_alone(query, key, value, window, ends=ENDS):
    """Return what each row gathers by itself; a token sees itself and at most window - 1 before it."""
    parts = []
    for start, end in itertools.pairwise(ends.tolist()):
        q, k, v = (tensor[start:end].transpose(0, 1)[None] for tensor in (query, key, value))
        distance = torch.arange(end - start)[:, None] - torch.arange(end - start)
        seen = (distance >= 0) & (distance < (window or 100))
        parts.append(F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)[0].transpose(0, 1))
    return torch.cat(parts)


def of_2_13(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, scale=None, window_size=(-1, -1), enable_gqa=False):
    assert enable_gqa == (query.shape[1] != key.shape[1])
    assert (max_q, max_k) == (5, 5) and cu_seq_q is cu_seq_k
    return rows_alone(query, key, value, None if window_size[0] < 0 else window_size[0] + 1)


def of_2_11(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, scale=None, window_size=(-1, -1)):
    """Has no such option: torch 2.10 and 2.11."""
    assert query.shape == key.shape == value.shape
    return rows_alone(query, key, value, None if window_size[0] < 0 else window_size[0] + 1)


def test_heads_that_share_keys_are_the_same_in_old_and_new_torch():
    query, key, value = (
        torch.randn(8, heads, 16, generator=torch.Generator().manual_seed(i)) for i, heads in enumerate((6, 2, 2))
    )
    for window in (None, 3):
        expected = rows_alone(query, key, value, window)
        for kernel in (of_2_13, of_2_11):
            computed = _torchs(kernel)(query, key, value, ENDS, 5, None, window, None)
            assert torch.allclose(computed, expected, atol=1e-6), (kernel.__name__, window)
    alike = _torchs(of_2_13)(query, query, query, ENDS, 5, None, None, None)
    assert torch.allclose(alike, _torchs(of_2_11)(query, query, query, ENDS, 5, None, None, None))


@pytest.mark.parametrize("kind", ["qwen3", "mistral"])
def test_the_library_takes_our_flash_attention_and_computes_each_row_alone(kind, monkeypatch):
    """As on a GPU, with a kernel in its place: the library must not look for one of its own under our name."""
    model = make(kind)
    ids = torch.arange(12).remainder(50).view(2, 6)
    expected = attention.hidden_states(model, ids, torch.arange(11), (6, 5), "rows")
    monkeypatch.setattr(attention, "varlen", lambda: any_rows)
    model.set_attn_implementation(attention.NAMES["flash"])
    computed = attention.hidden_states(model, ids, torch.arange(11), (6, 5), "flash")
    assert torch.allclose(computed, expected, atol=1e-5)


def any_rows(query, key, value, ends, longest, scale, window, cap):
    assert longest == int(ends.diff().max()) and cap is None
    return rows_alone(query, key, value, window, ends)
