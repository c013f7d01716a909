"""bf16 with fp32 masters, layers computed again or compiled, optimizer state in 8 bits: what they must not change."""

import importlib.util
import json
import shutil
import subprocess
import sys

import pytest
import torch
from accelerate import Accelerator
from tiny_rows import tiny_model, token_episodes

from agentgym.errors import BadConfig, MissingExtra, how_to_install
from agentgym.trainers import resume, train
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.data.packing import pack, token_weights
from agentgym.trainers.data.segments import build
from agentgym.trainers.learners.optimizers import optimizers, set_lr
from agentgym.trainers.learners.step import Scorer, TrainedModel, imitate
from agentgym.trainers.model.layers import prepare, recomputed
from agentgym.trainers.model.precision import MasterWeights, bytes_per_parameter, resolve

TORCHAO = pytest.mark.skipif(importlib.util.find_spec("torchao") is None, reason="torchao is not installed")
CPU = torch.device("cpu")


def segments():
    return build(*token_episodes(n=8))


def scored(scorer, tokens=10_000):
    rows = segments()
    with torch.no_grad():
        return torch.cat([scorer(batch).logprobs.float() for batch in pack(rows, token_weights(rows), tokens)])


def gradient(scorer, tokens=40):
    rows = segments()
    for batch in pack(rows, token_weights(rows), tokens):
        (-(scorer(batch).logprobs * batch.weights).sum()).backward()
    found = torch.cat([p.grad.flatten() for p in scorer.parameters()]).clone()
    scorer.zero_grad()
    return found


# bf16


def test_bf16_scores_are_those_of_fp32_to_its_own_resolution():
    whole, half = Scorer(tiny_model(), 0.7), Scorer(tiny_model().bfloat16(), 0.7)
    assert (whole.method, half.method) == ("small", "split")
    difference = (scored(whole) - scored(half)).abs()
    assert 1e-4 < float(difference.mean()) < 0.02


def test_an_update_below_the_resolution_of_bf16_is_not_lost():
    """1 + 2^-11 is 1 in bf16, where the next number is 1 + 2^-7: sixteen such steps make one."""
    layer = torch.nn.Linear(1, 1, bias=False).bfloat16()
    torch.nn.init.ones_(layer.weight)
    masters = MasterWeights(layer)
    made = [torch.optim.SGD([p for _, p in masters.named_parameters()], lr=2.0**-11)]
    seen = []
    for _ in range(16):
        (-layer(torch.ones(1, 1, dtype=torch.bfloat16)).sum()).backward()
        masters.collect()
        for optimizer in made:
            optimizer.step()
            optimizer.zero_grad()
        masters.publish()
        seen.append(float(layer.weight.detach()))
    assert seen[0] == 1.0 and seen[-1] == 1.0 + 2.0**-7
    assert float(next(masters.parameters()).detach()) == 1.0 + 16 * 2.0**-11


@pytest.mark.parametrize("early", [True, False])
def test_gradients_of_micro_batches_are_added_up_in_fp32(early):
    """256 + 1 is 256 in bf16: four small parts after a large one would vanish."""
    layer = torch.nn.Linear(1, 1, bias=False).bfloat16()
    masters = MasterWeights(layer, early=early)
    for part in (256.0, 1.0, 1.0, 1.0, 1.0):
        layer(torch.full((1, 1), part, dtype=torch.bfloat16)).sum().backward()
        assert (layer.weight.grad is None) == early
        masters.collect()
        assert layer.weight.grad is None
    (master,) = masters.parameters()
    assert float(master.grad) == 260.0 and master.dtype == torch.float32


def test_weights_that_are_fp32_already_are_their_own_masters():
    model = torch.nn.ModuleDict({"base": torch.nn.Linear(2, 2).bfloat16(), "adapter": torch.nn.Linear(2, 2)})
    model["base"].requires_grad_(False)
    masters = MasterWeights(model)
    assert [p for _, p in masters.named_parameters()] == list(model["adapter"].parameters())
    assert masters.state_dict() == {}


def test_what_is_published_is_the_masters_rounded_and_training_goes_down():
    model = tiny_model().bfloat16()
    masters = MasterWeights(model)
    made = TrainedModel(Accelerator(cpu=True), Scorer(model, 1.0), optimizers(masters, 1e-2, muon=False), masters=masters)
    config, episodes = TrainConfig(batch_tokens=40, precision="bf16"), token_episodes(n=8)[0]
    losses = [imitate(made, episodes, config)["nll"] for _ in range(8)]
    assert losses[-1] < 0.5 * losses[0]
    for (_, master), own in zip(masters.named_parameters(), model.parameters(), strict=True):
        assert own.dtype == torch.bfloat16 and torch.equal(own, master.bfloat16())
        assert not torch.equal(own.float(), master)  # the masters hold what the rounding leaves out


def test_auto_is_fp32_on_a_cpu():
    assert [resolve(name, CPU) for name in ("auto", "fp32", "bf16")] == ["fp32", "fp32", "bf16"]


@pytest.mark.parametrize(
    "changes",
    [
        {"attention": "small", "precision": "bf16"},
        {"attention": "small", "gradient_checkpointing": True},
        {"attention": "small", "compile": True},
        {"attention": "split", "compile": True},
        {"attention": "flash", "precision": "fp32"},
    ],
)
def test_settings_that_do_not_go_together_are_refused(changes):
    with pytest.raises(BadConfig, match=f"attention '{changes['attention']}' with"):
        TrainConfig(**changes)


# A run


def small(out, **changes):
    options = {
        "env": "rlvr/GuessNumber-v0", "out": str(out), "sft_episodes": 8, "sft_batch": 2, "steps": 3, "tasks_per_step": 2,
        "group_size": 4, "eval_every": 0, "test_tasks": 2, "checkpoint_every": 1, "select": "keep",
        "turn_tokens": 6, "threads": 1, "credit_options": {"penalty": 0.1}, "policy_width": 64, "policy_layers": 1,
        "policy_episodes": 20, "vocabulary": 300,
    }  # fmt: skip
    return TrainConfig(**{**options, **changes})


STEPS = [
    {"precision": "bf16", "gradient_checkpointing": True, "minibatches": 1},
    pytest.param({"optimizer": "adamw8bit"}, marks=[TORCHAO, pytest.mark.slow]),
]


@pytest.mark.parametrize("changes", STEPS)
def test_a_run_goes_on_to_the_last_digit(tmp_path, changes):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    train(small(whole, **changes))
    shutil.copytree(whole, cut)
    last = sorted((cut / "checkpoints").glob("step-*"))[-1]
    assert "00000007" in last.name
    shutil.rmtree(last)
    resume(cut)
    for name in ("model.safetensors",):
        assert (cut / "checkpoints" / last.name / name).read_bytes() == (
            whole / "checkpoints" / last.name / name
        ).read_bytes()
    states = (torch.load(folder / "checkpoints" / last.name / "trainer.pt") for folder in (cut, whole))
    ours, theirs = (state["learner"]["masters"] for state in states)
    assert ours.keys() == theirs.keys()
    assert bool(ours) == ("precision" in changes)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    rows = [json.loads(line) for line in (cut / "metrics.jsonl").read_text().splitlines()]
    assert ("correction" in rows[-1]) == ("precision" in changes)  # in bf16 the hf engine rounds otherwise


# Layers


@pytest.mark.parametrize("moe", [False, True])
def test_layers_computed_again_give_the_same_gradient(moe):
    plain, again = Scorer(tiny_model(moe=moe), 0.7, "split"), Scorer(tiny_model(moe=moe), 0.7, gradient_checkpointing=True)
    assert again.method == "split" and len(again.layers) == 2
    calls = []
    again.model.model.layers[0].mlp.register_forward_pre_hook(lambda *_: calls.append(1))
    rows = segments()
    batch = pack(rows, token_weights(rows), 10_000)[0]
    loss = again(batch).logprobs.sum()
    assert len(calls) == 1 and not any(layer.training for layer in again.layers)
    loss.backward()
    assert len(calls) == 2
    again.zero_grad()
    torch.testing.assert_close(gradient(again), gradient(plain), rtol=1e-5, atol=1e-6)


def test_dropout_stays_off_in_layers_that_are_computed_again():
    model = tiny_model()
    model.model.layers[0].mlp = torch.nn.Sequential(model.model.layers[0].mlp, torch.nn.Dropout(0.5).eval())
    again = Scorer(model, 0.7, "rows", gradient_checkpointing=True)
    assert torch.equal(scored(again), scored(again))


def test_a_model_without_such_layers_is_refused():
    with pytest.raises(BadConfig, match="gradient_checkpointing: Linear has no layers"):
        prepare(torch.nn.Linear(1, 1), gradient_checkpointing=True, compiled=False)
    with recomputed(()):
        pass


@pytest.mark.slow
def test_compiled_layers_score_alike():
    """Minutes of a C++ compiler; where there is none, the reason is printed."""
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("torch.compile on a CPU needs a C++ compiler")
    plain, fast = Scorer(tiny_model(), 0.7), Scorer(tiny_model(), 0.7, compiled=True)
    assert fast.method == "sdpa"
    for tokens in (10_000, 40):
        torch.testing.assert_close(scored(fast, tokens), scored(plain, tokens), atol=1e-5, rtol=0)
    torch.testing.assert_close(gradient(fast), gradient(plain), rtol=1e-4, atol=1e-5)


# Optimizers


def test_an_optimizer_that_is_not_installed_names_the_extra():
    code = (
        "import sys; sys.modules['torchao'] = None\nimport torch\n"
        "from agentgym.trainers.learners.optimizers import optimizers\n"
        "optimizers(torch.nn.Linear(2, 2), 1e-3, muon=False, kind='adamw8bit')"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert f"{MissingExtra.__name__}: optimizer 'adamw8bit' needs torchao: {how_to_install('adam8bit')}" in found.stderr


@TORCHAO
@pytest.mark.slow
def test_eight_bits_of_state_learn_as_32_do():
    def losses(kind):
        model = tiny_model()
        made = TrainedModel(Accelerator(cpu=True), Scorer(model, 1.0), optimizers(model, 1e-2, muon=False, kind=kind))
        found = []
        for step in range(12):
            made.set_lr(1e-2 * (12 - step) / 12)
            found.append(imitate(made, token_episodes(n=8)[0], TrainConfig(batch_tokens=10_000))["nll"])
        return found

    plain, small = losses("adamw"), losses("adamw8bit")
    assert small[0] == pytest.approx(plain[0])
    assert small[-1] < 0.5 * small[0] and small[-1] == pytest.approx(plain[-1], rel=0.05)


def test_a_rate_in_a_tensor_is_set_where_it_lies():
    layer = torch.nn.Linear(1, 1)
    rate = torch.tensor(1.0)
    optimizer = torch.optim.AdamW(
        [{"params": list(layer.parameters()), "share": 5.0}], lr=rate, foreach=False, capturable=False
    )
    set_lr(optimizer, 0.5)
    assert optimizer.param_groups[0]["lr"] is rate and float(rate) == 2.5


# Bytes


def tensors(*groups):
    """The bytes of all different tensors."""
    return sum({t.data_ptr(): t.numel() * t.element_size() for group in groups for t in group if t.numel() > 1}.values())


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("muon", [False, True])
def test_bytes_per_parameter_are_those_of_the_tensors(precision, muon):
    model = tiny_model().to(torch.bfloat16 if precision == "bf16" else torch.float32)
    masters = MasterWeights(model) if precision == "bf16" else None
    made = optimizers(masters or model, 1e-3, muon=muon)
    for p in model.parameters():
        p.sum().backward()
    updated = list((masters or model).parameters())
    gradients = [p.grad for p in updated]
    all_tensors = [*model.parameters(), *updated, *gradients, *(p.grad for p in model.parameters() if p.grad is not None)]
    for optimizer in made:
        optimizer.step()
        all_tensors += [t for state in optimizer.state.values() for t in state.values() if isinstance(t, torch.Tensor)]
    inner = sum(p.numel() for n, p in model.named_parameters() if muon and p.ndim == 2 and "embed" not in n)
    rest = sum(p.numel() for p in model.parameters()) - inner
    expected = rest * bytes_per_parameter(precision).resident + inner * bytes_per_parameter(precision, muon=True).resident
    assert tensors(all_tensors) == expected
    assert bytes_per_parameter(precision).resident == (18 if precision == "bf16" else 16)


@pytest.mark.parametrize("optimizer", ["adamw", "adamw8bit"])
def test_a_matrix_of_muon_takes_the_same_bytes_beside_either_adamw(optimizer):
    found = bytes_per_parameter("fp32", optimizer, muon=True)
    assert (found.state, found.update) == (4, 4)
    assert bytes_per_parameter("fp32", optimizer).update == 0


@TORCHAO
@pytest.mark.slow
def test_bytes_of_state_in_eight_bits():
    weight = torch.nn.Parameter(torch.randn(64, 256))
    (made,) = optimizers(torch.nn.ParameterDict({"w": weight}), 1e-3, muon=False, kind="adamw8bit")
    weight.sum().backward()
    made.step()
    states = [made.state[weight][name] for name in ("exp_avg", "exp_avg_sq")]
    state_bytes = sum(t.codes.numel() * t.codes.element_size() + t.scale.numel() * t.scale.element_size() for t in states)
    assert state_bytes == weight.numel() * bytes_per_parameter("fp32", "adamw8bit").state
