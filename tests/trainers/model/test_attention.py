"""Rows that share a forward pass: whatever keeps them apart, each token is scored as in its row alone."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_families import MODELS, VOCABULARY, make

from agentgym.errors import BadConfig
from agentgym.trainers.data.packing import Batch
from agentgym.trainers.model.attention import choose, hidden_states
from agentgym.trainers.model.logprobs import policy_logprobs


def batch(lengths, seed=0):
    lengths = tuple(sorted(lengths, reverse=True))
    random = torch.Generator().manual_seed(seed)
    ids = torch.zeros(len(lengths), lengths[0], dtype=torch.long)
    places, targets = [], []
    for row, length in enumerate(lengths):
        ids[row, :length] = torch.randint(1, VOCABULARY, (length,), generator=random)
        chosen = [i for i in range(length - 1) if i % 3 or length < 4]
        places += [row * lengths[0] + i for i in chosen]
        targets += [int(ids[row, i + 1]) for i in chosen]
    empty = torch.zeros(len(places))
    flat = torch.tensor(places), torch.tensor(targets), empty, empty, empty, empty.long(), empty.long()
    return Batch(ids, *flat, lengths)


def row_by_row(model, rows, temperature):
    """The library's own logits of each row alone, by its plainest attention."""
    model.set_attn_implementation("eager")
    found = []
    for row, length in enumerate(rows.lengths):
        every = torch.log_softmax(model(input_ids=rows.ids[row : row + 1, :length]).logits[0] / temperature, -1)
        width = rows.ids.shape[1]
        mine = (rows.places >= row * width) & (rows.places < (row + 1) * width)
        found.append(every[rows.places[mine] - row * width].gather(-1, rows.targets[mine, None]).squeeze(-1))
    return torch.cat(found)


def close(model, method, rows, temperature=0.7):
    def gradients(values):
        direction, learned = torch.linspace(-1, 1, len(values)), [p for p in model.parameters() if p.requires_grad]
        return torch.autograd.grad(values @ direction, learned, allow_unused=True)

    mine = policy_logprobs(model, rows, temperature, method).logprobs
    moved = gradients(mine)
    theirs = row_by_row(model, rows, temperature)
    torch.testing.assert_close(mine, theirs, atol=1e-4, rtol=0)
    for a, b in zip(moved, gradients(theirs), strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, atol=1e-4 * max(float(b.abs().max()), 1.0), rtol=1e-3)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("method_name", ["auto", "split", "sdpa", "rows"])
def test_log_probabilities_and_gradients_equal_those_of_single_rows(name, method_name):
    model = make(name)
    if method_name in ("split", "sdpa") and MODELS[name][0] == "rows":
        with pytest.raises(BadConfig, match=f"attention '{method_name}' cannot run here: .*(rows|cap|s_aux|scaled_dot)"):
            choose(model, method_name)
        return
    method = choose(model, method_name)
    assert method == (MODELS[name][0] if method_name == "auto" else method_name)
    close(model, method, batch([11, 11, 7, 2, 5]))


MODEL = {name: make(name) for name in ("qwen3 sliding", "mistral", "moe")}


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(2, 14), min_size=1, max_size=6), st.sampled_from(sorted(MODEL)), st.sampled_from(["split", "sdpa"])
)
def test_any_lengths_of_rows(lengths, name, method):
    assert choose(MODEL[name], method) == method
    close(MODEL[name], method, batch(lengths, seed=sum(lengths)))


def test_rows_are_kept_apart_by_the_method_and_not_by_luck():
    """The same packed tokens as one row: what the second row says of its tokens then depends on the first."""
    model, rows = make("llama"), batch([6, 6])
    method = choose(model, "split")
    packed = hidden_states(model, rows.ids, torch.arange(12), (6, 6), method)
    one = hidden_states(model, rows.ids.view(1, 12), torch.arange(12), (12,), method)
    torch.testing.assert_close(packed[:6], one[:6])
    assert float((packed[6:] - one[6:]).detach().abs().max()) > 0.1


def test_what_cannot_run_here_says_why():
    model = make("llama")
    with pytest.raises(
        BadConfig, match=r"flash attention needs a GPU and precision 'bf16'; the model is torch.float32 on cpu"
    ):
        choose(model, "flash")
    with pytest.raises(BadConfig, match="flex attention has no backward pass on cpu"):
        choose(model, "flex")
    with pytest.raises(BadConfig, match="'small' cannot run here: it is for dense Llama and Qwen3 models"):
        choose(make("moe"), "small")
    with pytest.raises(BadConfig, match="linear_attention"):
        choose(make("hybrid"), "split")


class Leak(torch.nn.Module):
    """What a recurrent or convolving layer does: each token also gets something of the one before it."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, states):
        return self.inner(states) + torch.nn.functional.pad(states, (0, 0, 1, -1))


def test_a_layer_that_leaks_between_rows_is_found_though_its_configuration_says_nothing():
    model = make("moe")
    model.model.layers[0].mlp = Leak(model.model.layers[0].mlp)
    for method in ("sdpa", "split"):
        with pytest.raises(BadConfig, match=r"rows together differ by .* from rows alone"):
            choose(model, method)
    assert choose(model) == "rows"
    close(model, "rows", batch([9, 5, 5]))


@pytest.mark.parametrize("name", ["qwen3", "mistral"])
def test_an_adapted_model_is_scored_with_its_adapter(name):
    import peft

    model = peft.get_peft_model(make(name), peft.LoraConfig(target_modules=["q_proj", "o_proj"], init_lora_weights=False))
    assert choose(model) == "split"
    close(model, "split", batch([9, 5, 5]))


@pytest.mark.parametrize("name", ["mistral", "capped"])
def test_generation_with_a_cache_goes_on_as_before(name):
    """An engine may share the model: what it samples is what the library's own attention would."""
    model, prompt = make(name), torch.tensor([[3, 5, 7, 9, 11, 2]])
    model.set_attn_implementation("eager")
    before = model.generate(prompt, max_new_tokens=8, do_sample=False)
    choose(model)
    assert torch.equal(before, model.generate(prompt, max_new_tokens=8, do_sample=False))
