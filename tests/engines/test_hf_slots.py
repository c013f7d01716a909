"""The fast path against the library's own forward pass."""

from typing import Any

import numpy as np
import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.engines.hf import slots as hf_slots
from agentgym.engines.hf.slots import Row, SlotModel, unsupported

YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 128}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen3 tied": ("Qwen3", {"tie_word_embeddings": True}),
    "qwen3 wide heads": ("Qwen3", {"head_dim": 48, "num_key_value_heads": 1, "attention_bias": True}),
    "qwen3 linear rope": ("Qwen3", {"rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}}),
    "qwen2": ("Qwen2", {"num_key_value_heads": 4}),
    "qwen2 tied": ("Qwen2", {"tie_word_embeddings": True, "hidden_act": "gelu"}),
    "llama": ("Llama", {"attention_bias": True, "mlp_bias": True}),
    "llama3 rope": ("Llama", {"rope_parameters": LLAMA3, "rms_norm_eps": 1e-3}),
    "llama yarn": ("Llama", {"rope_parameters": YARN}),
}


def close(got: torch.Tensor, want: torch.Tensor) -> None:
    assert got.shape == want.shape
    assert (got - want).abs().max() < 1e-5 * max(1.0, want.abs().max().item())


def library(model: Any, ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0]


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("name", CONFIGS)
def test_logits_equal_the_library(name: str, fused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not fused:
        monkeypatch.setattr(hf_slots, "FUSE_BELOW", 0)
    kind, options = CONFIGS[name]
    model = tiny.model(kind, **options)
    assert unsupported(model) is None
    slots = SlotModel(model, 5, 512)
    rng = np.random.default_rng(0)
    texts = [rng.integers(0, 272, size).tolist() for size in (9, 300, 40, 2)]
    want = [library(model, text) for text in texts]
    # Ragged first parts (one long enough to make the cache grow), then single tokens, then both at once.
    parts = [(0, 5), (0, 280), (0, 33), (0, 1)], [(5, 6), (280, 281), (33, 34), (1, 2)], [(6, 9), (281, 300), (34, 40)]
    for step in parts:
        rows = [Row(4 - i, a, texts[i][a:b]) for i, (a, b) in enumerate(step)]
        close(slots.forward(rows), torch.stack([want[i][b - 1] for i, (_, b) in enumerate(step)]))
    assert slots.capacity == 512


MODEL = tiny.model(num_hidden_layers=1)
SLOTS = SlotModel(MODEL, 8, 256)


@pytest.mark.parametrize(("padding", "blocks"), [(100, [2, 3]), (49, [2, 2, 1]), (0, [2, 1, 1, 1]), (10_000, [2, 3])])
def test_prompts_are_padded_together_as_far_as_asked(padding: int, blocks: list[int]) -> None:
    """Tokens alone stay together; 10, 12 and 15 new tokens: 15 is half as much again as 10, a quarter more than 12."""
    slots = SlotModel(MODEL, 8, 256, padding)
    rows = [Row(slot, slot, [1] * size) for slot, size in enumerate((1, 1, 10, 12, 15))]
    counts = np.array([len(row.ids) for row in rows])
    cut = slots._blocks(rows, counts, np.cumsum(counts))
    assert [
        len(range(*block.slots.indices(8))) if isinstance(block.slots, slice) else len(block.slots) for block in cut
    ] == blocks
    close(slots.forward(rows), SLOTS.forward(rows))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_schedule_gives_the_same_logits(data: st.DataObject) -> None:
    """However texts are cut into steps and spread over slots, the last logits are those of the whole text."""
    count = data.draw(st.integers(1, 6))
    numbers = data.draw(st.permutations(range(8)))[:count]
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    texts = {n: rng.integers(0, 272, data.draw(st.integers(1, 40))).tolist() for n in numbers}
    lengths = dict.fromkeys(numbers, 0)
    last: dict[int, torch.Tensor] = {}
    while any(lengths[n] < len(texts[n]) for n in numbers):
        open_ = [n for n in numbers if lengths[n] < len(texts[n])]
        chosen = data.draw(st.lists(st.sampled_from(open_), min_size=1, unique=True))
        sizes = {n: data.draw(st.integers(1, min(len(texts[n]) - lengths[n], 17))) for n in chosen}
        logits = SLOTS.forward([Row(n, lengths[n], texts[n][lengths[n] : lengths[n] + sizes[n]]) for n in chosen])
        for n, row in zip(chosen, logits, strict=True):
            lengths[n] += sizes[n]
            last[n] = row
    for n in numbers:
        close(last[n], library(MODEL, texts[n])[-1])


def test_copied_prefix_is_the_same_cache() -> None:
    slots = SlotModel(MODEL, 3, 256)
    ids = list(range(30))
    slots.forward([Row(0, 0, ids)])
    slots.copy(0, 2, 20)
    close(slots.forward([Row(2, 20, [7, 8])])[0], library(MODEL, [*ids[:20], 7, 8])[-1])


def test_changed_weights_are_seen_after_refresh() -> None:
    model = tiny.model()
    slots = SlotModel(model, 2, 64)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.1)
    slots.refresh()
    close(slots.forward([Row(0, 0, [1, 2, 3])])[0], library(model, [1, 2, 3])[-1])


@pytest.mark.parametrize(
    ("kind", "options", "reason"),
    [
        ("Mistral", {}, "not one of"),
        ("Qwen2", {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}, "full attention"),
        ("Llama", {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}}, "rope type"),
    ],
)
def test_other_models_are_left_to_the_generic_path(kind: str, options: dict[str, Any], reason: str) -> None:
    assert reason in str(unsupported(tiny.model(kind, **options)))


def test_bfloat16_stays_near_the_library() -> None:
    model = tiny.model().to(torch.bfloat16)
    logits = SlotModel(model, 2, 64).forward([Row(0, 0, list(range(40)))])[0]
    assert logits.dtype == torch.float32
    want = library(model, list(range(40)))[-1].float()
    assert torch.nn.functional.cosine_similarity(logits, want, dim=0) > 0.999
