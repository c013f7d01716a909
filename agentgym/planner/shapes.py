"""Architectures of the most commonly trained models, so that a run can be planned without the model's files.

The numbers are from each model's `config.json`. Instruct models have the shape of their base model.
"""

from typing import Any

_QWEN25 = {  # layers, width, heads, key-value heads, feed-forward, vocabulary, tied
    "0.5B": (24, 896, 14, 2, 4864, 151_936, True),
    "1.5B": (28, 1536, 12, 2, 8960, 151_936, True),
    "3B": (36, 2048, 16, 2, 11_008, 151_936, True),
    "7B": (28, 3584, 28, 4, 18_944, 152_064, False),
    "14B": (48, 5120, 40, 8, 13_824, 152_064, False),
    "32B": (64, 5120, 40, 8, 27_648, 152_064, False),
}
_QWEN3 = {
    "0.6B": (28, 1024, 16, 8, 3072, 151_936, True),
    "1.7B": (28, 2048, 16, 8, 6144, 151_936, True),
    "4B": (36, 2560, 32, 8, 9728, 151_936, True),
    "8B": (36, 4096, 32, 8, 12_288, 151_936, False),
    "14B": (40, 5120, 40, 8, 17_408, 151_936, False),
    "32B": (64, 5120, 64, 8, 25_600, 151_936, False),
}
_LLAMA = {
    "Llama-3.2-1B": (16, 2048, 32, 8, 8192, 128_256, True),
    "Llama-3.2-3B": (28, 3072, 24, 8, 8192, 128_256, True),
    "Llama-3.1-8B": (32, 4096, 32, 8, 14_336, 128_256, False),
    "Llama-3.1-70B": (80, 8192, 64, 8, 28_672, 128_256, False),
}


def _table() -> dict[str, dict[str, Any]]:
    shapes: dict[str, dict[str, Any]] = {}
    for size, sizes in _QWEN25.items():
        shape = {**_shape(*sizes), "model_type": "qwen2", "max_position_embeddings": 32_768}
        shapes[f"Qwen/Qwen2.5-{size}"] = shapes[f"Qwen/Qwen2.5-Coder-{size}"] = shape
        if size in ("1.5B", "7B"):
            shapes[f"Qwen/Qwen2.5-Math-{size}"] = {**shape, "max_position_embeddings": 4096}
    for size, sizes in _QWEN3.items():
        shape = {**_shape(*sizes), "model_type": "qwen3", "head_dim": 128, "max_position_embeddings": 40_960}
        shapes[f"Qwen/Qwen3-{size}"] = shape
    for name, sizes in _LLAMA.items():
        width = {"head_dim": sizes[1] // sizes[2], "max_position_embeddings": 131_072}
        shapes[f"meta-llama/{name}"] = {**_shape(*sizes), "model_type": "llama", **width}
    return shapes


def _shape(
    layers: int, width: int, heads: int, shared: int, feed_forward: int, vocabulary: int, tied: bool
) -> dict[str, object]:
    return {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": heads,
        "num_key_value_heads": shared,
        "intermediate_size": feed_forward,
        "vocab_size": vocabulary,
        "tie_word_embeddings": tied,
    }


KNOWN = _table()
"""Architectures by name on the hub, without the suffixes `-Instruct` and `-Base`."""


def published(name: str) -> dict[str, Any] | None:
    """Return the architecture of a model by its hub name, with or without owner; None if it is unknown."""
    plain = name.removesuffix("-Instruct").removesuffix("-Base").lower()
    names = {word: shape for known, shape in KNOWN.items() for word in (known.lower(), known.rpartition("/")[2].lower())}
    return names.get(plain)
