"""The fast forward pass computes what the library's does, gradients included, and steps aside where it would not."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from agentgym.trainers.model.forward import hidden_states, supported

SHAPE = {
    "vocab_size": 61, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 8, "intermediate_size": 48, "initializer_range": 0.2, "max_position_embeddings": 64,
}  # fmt: skip
PAD = 7  # a policy may sample it: the library gives its embedding no gradient
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 100.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip


def models():
    torch.manual_seed(0)
    yield Qwen3ForCausalLM(Qwen3Config(**SHAPE, tie_word_embeddings=True, pad_token_id=PAD))
    yield Qwen3ForCausalLM(
        Qwen3Config(**SHAPE, tie_word_embeddings=False, rope_parameters={"rope_type": "default", "rope_theta": 50.0})
    )
    yield LlamaForCausalLM(LlamaConfig(**SHAPE))
    yield LlamaForCausalLM(LlamaConfig(**SHAPE, rope_parameters=LLAMA3))


FEW, MANY = [0, 4, 9, 12, 20, 21, 22, 28], [0, 1, 2, 3, 4, 5, 9, 11, 12, 14, 16, 20, 21, 22, 25, 28]


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("method_name", [FEW, MANY])
def test_states_and_gradients_equal_the_librarys(number, method_name):
    model = list(models())[number]
    for name, weight in model.named_parameters():  # norms begin at 1, where a wrong scale would not show
        if "norm" in name:
            torch.nn.init.uniform_(weight, 0.5, 1.5)
    ids = torch.randint(0, 61, (3, 11))
    ids[0, 2] = ids[1, 3] = PAD
    lengths, places = (11, 11, 7), torch.tensor(method_name)
    assert supported(model)
    counts = [sum(row * 11 <= place < row * 11 + 11 for place in method_name) for row in range(3)]
    mine = hidden_states(model, ids, places, lengths, counts)
    theirs = model.model(input_ids=ids, use_cache=False).last_hidden_state.flatten(0, 1)[places]
    torch.testing.assert_close(mine, theirs, atol=2e-5, rtol=1e-4)
    direction = torch.randn_like(mine)
    parameters = [p for n, p in model.named_parameters() if not n.startswith("lm_head")]
    for a, b, parameter in zip(
        torch.autograd.grad(mine, parameters, direction),
        torch.autograd.grad(theirs, parameters, direction),
        parameters,
        strict=True,
    ):
        assert a.shape == parameter.shape
        torch.testing.assert_close(a, b, atol=1e-4 * float(b.abs().max()), rtol=1e-3)


def test_other_models_are_left_to_the_library():
    assert not supported(Qwen3ForCausalLM(Qwen3Config(**SHAPE)).bfloat16())
    assert not supported(LlamaForCausalLM(LlamaConfig(**SHAPE, attention_bias=True)))
    assert not supported(LlamaForCausalLM(LlamaConfig(**SHAPE, hidden_act="gelu")))
    checkpointed = Qwen3ForCausalLM(Qwen3Config(**SHAPE))
    checkpointed.gradient_checkpointing_enable()
    assert not supported(checkpointed)
    adapted = LlamaForCausalLM(LlamaConfig(**SHAPE))
    adapted.model.layers[0].self_attn.q_proj = torch.nn.Sequential(adapted.model.layers[0].self_attn.q_proj)
    assert not supported(adapted)
