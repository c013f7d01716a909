"""A tiny random Qwen3, dense or a mixture of experts, and token episodes for tests of the training step."""

import numpy as np
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

from agentgym.episodes.episode import Episode, Turn

VOCABULARY = 61


SHAPE = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 48, "tie_word_embeddings": True,
    "initializer_range": 0.2,
}  # fmt: skip
MIXTURE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "norm_topk_prob": True}


def tiny_model(seed=0, moe=False):
    torch.manual_seed(seed)
    if moe:
        return Qwen3MoeForCausalLM(Qwen3MoeConfig(**SHAPE, **MIXTURE)).eval()
    return Qwen3ForCausalLM(Qwen3Config(**SHAPE)).eval()


def token_episode(rng, turns=3, window=False, task="t"):
    """An episode whose prompts extend one another, or, with a window, start anew each turn."""
    held_ids, made = [], []
    for _ in range(turns):
        fresh = rng.integers(0, VOCABULARY, rng.integers(2, 6)).tolist()
        prompt = fresh if window else held_ids + fresh
        output = rng.integers(0, VOCABULARY, rng.integers(1, 5)).tolist()
        made.append(Turn("o", prompt_ids=prompt, output_ids=output, logprobs=(-rng.random(len(output)) * 4).tolist()))
        held_ids = prompt + output
    return Episode("e", task, task, 0, turns=made)


def token_episodes(seed=0, n=5, window=False):
    rng = np.random.default_rng(seed)
    episodes = [token_episode(rng, int(rng.integers(1, 5)), window, f"t{i}") for i in range(n)]
    return episodes, [rng.normal(size=len(e.turns)) for e in episodes]
