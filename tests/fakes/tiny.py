"""Tiny random models for engine tests, in memory and as folders with a tokenizer and a hostile generation config."""

import json
from pathlib import Path
from typing import Any

import torch
import transformers

from agentgym.engines.scripted import ByteTokenizer

SHAPE = {
    "vocab_size": 272,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 512,
    "initializer_range": 0.2,
}
MIXTURE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 48, "norm_topk_prob": True}
HOSTILE = {
    "do_sample": True,
    "temperature": 0.01,
    "top_k": 1,
    "top_p": 0.1,
    "repetition_penalty": 5.0,
    "max_new_tokens": 2,
    "eos_token_id": 5,
}


def model(kind: str = "Qwen3", seed: int = 0, **options: Any) -> Any:
    """Return a random model of a kind (Qwen3, Qwen3Moe, Qwen2, Llama, …) in float32."""
    shape = {**SHAPE, **(MIXTURE if kind == "Qwen3Moe" else {}), **options}
    if kind == "Qwen2":
        shape["hidden_size"] = shape["num_attention_heads"] * shape.pop("head_dim")
    torch.manual_seed(seed)
    made = getattr(transformers, f"{kind}ForCausalLM")(getattr(transformers, f"{kind}Config")(**shape)).eval()
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if name.endswith("bias"):  # the library starts them at zero, where a forgotten one would not show
                parameter.normal_(std=0.2)
            elif "norm" in name:
                parameter.uniform_(0.5, 1.5)
    return made


def folder(path: Path, seed: int = 0, hostile: bool = True, kind: str = "Qwen3", **options: Any) -> Path:
    """Write a random model with a byte tokenizer."""
    ids = {"eos_token_id": 258, "pad_token_id": 256, "bos_token_id": None}
    model(kind, seed, **{"tie_word_embeddings": True, **ids, **options}).save_pretrained(path)
    byte = ByteTokenizer()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=byte.backend_tokenizer,
        eos_token=byte.eos_token,
        pad_token="<|endoftext|>",
        chat_template=byte.chat_template,
    )
    tokenizer.save_pretrained(path)
    if hostile:
        (path / "generation_config.json").write_text(json.dumps(HOSTILE))
    return path
