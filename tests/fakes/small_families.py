"""Small models of every family, made here."""

import torch
import transformers as library

VOCABULARY = 61


SHAPE = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 8, "intermediate_size": 48, "initializer_range": 0.2, "max_position_embeddings": 64, "pad_token_id": 0,
}  # fmt: skip


EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}


SLIDING = ["sliding_attention", "full_attention"]


LINEAR = {
    "layer_types": ["linear_attention", "full_attention"], "linear_num_value_heads": 2, "linear_num_key_heads": 2,
    "linear_key_head_dim": 8, "linear_value_head_dim": 8, "shared_expert_intermediate_size": 16,
}  # fmt: skip


MODELS = {  # what `auto` takes on a CPU, the family, and what is special
    "llama": ("small", "Llama", {}),
    "qwen3": ("small", "Qwen3", {}),
    "mistral": ("split", "Mistral", {"sliding_window": 4}),
    "qwen3 sliding": ("split", "Qwen3", {"sliding_window": 4, "use_sliding_window": True, "layer_types": SLIDING}),
    "gemma": ("split", "Gemma", {}),
    "gemma3": ("split", "Gemma3", {"sliding_window": 4, "layer_types": SLIDING}),
    "cohere": ("split", "Cohere", {"logit_scale": 0.25}),
    "moe": ("split", "Qwen3Moe", EXPERTS),
    "capped": ("rows", "Gemma2", {"sliding_window": 4, "layer_types": SLIDING, "attn_logit_softcapping": 0.5}),
    "sinks": ("rows", "GptOss", {"sliding_window": 4, "layer_types": SLIDING, "num_local_experts": 4}),
    "hybrid": ("rows", "Qwen3Next", {**EXPERTS, **LINEAR}),
}


def make(name):
    torch.manual_seed(0)
    _, family, special = MODELS[name]
    family = {"Gemma3": "Gemma3Text"}.get(family, family)
    config = getattr(library, f"{family}Config")(**SHAPE, **special)
    return getattr(library, f"{family.removesuffix('Text')}ForCausalLM")(config).eval()
