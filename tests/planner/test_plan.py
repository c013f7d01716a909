"""The plan of a run against real tensors, a real engine's cache, a real process's peak, and numbers worked out by hand."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from planned import FP32, PLAY, shape
from transformers import AutoModelForCausalLM, GPT2Config, Qwen3MoeConfig

import agentgym
from agentgym.cli import main
from agentgym.engines.hf.slots import Row, SlotModel
from agentgym.envs.guess_number import GuessNumber
from agentgym.errors import BadConfig
from agentgym.planner import dry_run, forecast
from agentgym.planner import plan as planning
from agentgym.planner.dry_run import Rows, micro_batch, rollout_bytes, update_bytes
from agentgym.planner.duration import Rates, likely, most
from agentgym.planner.plan import Workload, plan, read_architecture, read_workload
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.learners.optimizers import optimizers
from agentgym.trainers.learners.step import Scorer
from agentgym.trainers.loop import train
from agentgym.trainers.model import lora
from agentgym.trainers.model.memory import Memory
from agentgym.trainers.model.policy import init_policy
from agentgym.trainers.model.precision import DTYPES, masters
from agentgym.trainers.run import fits
from agentgym.trainers.run.fits import cache_bytes, context, parameters

SHAPES = Path(__file__).parent / "shapes"


def test_a_model_that_is_too_large_for_fused_copies_has_none_in_its_plan():
    """Two cuts of few layers lie on both sides of the size from which the engine makes none."""
    config = replace(FP32, model="x/y", concurrency=2, context_tokens=64)
    large = shape(layers=14, width=640, vocabulary=1000, num_attention_heads=4)
    assert parameters(large) > 50_000_000 > parameters(dry_run.cut(large, 4))
    assert 0 <= rollout_bytes(large, config, 20, 60).packed < 10 * 640 * 14 * 4


def mixture():
    sizes = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 500, "num_hidden_layers": 2}
    return Qwen3MoeConfig(hidden_size=64, moe_intermediate_size=32, num_experts=4, num_experts_per_tok=2, **sizes)


def bytes_of(tensors):
    """Return the bytes of tensors, element by element; tied ones once."""
    return sum(t.numel() * t.element_size() for t in {id(t): t for t in tensors}.values())


@pytest.mark.parametrize(
    ("name", "numbers", "cached"),
    [  # embedding + layers * (q + k and v + o + norms of heads + feed-forward + norms) + norm (+ head)
        ("qwen3-0.6b", 155_582_464 + 28 * (2_097_152 * 3 + 256 + 9_437_184 + 2_048) + 1_024, 28 * 2 * 8 * 128 * 2),
        pytest.param(
            "qwen3-1.7b",
            311_164_928 + 28 * (4_194_304 * 3 + 256 + 37_748_736 + 4_096) + 2_048,
            28 * 2 * 8 * 128 * 2,
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "qwen3-4b",
            388_956_160 + 36 * (10_485_760 * 2 + 5_242_880 + 256 + 74_711_040 + 5_120) + 2_560,
            36 * 2 * 8 * 128 * 2,
            marks=pytest.mark.slow,
        ),
        (
            "qwen3-8b",
            2 * 622_329_856 + 36 * (16_777_216 * 2 + 8_388_608 + 256 + 150_994_944 + 8_192) + 4_096,
            36 * 2 * 8 * 128 * 2,
        ),
    ],
)
def test_true_shapes_weigh_what_they_do_by_hand(name, numbers, cached):
    config = TrainConfig(model=str(SHAPES / name), context_tokens=1024, precision="bf16", gradient_checkpointing=True)
    architecture = read_architecture(config)
    assert parameters(architecture) == numbers
    assert cache_bytes(architecture) == cached
    card = Memory("cuda", "a GPU", free=80 * 2**30, total=80 * 2**30)
    made = plan(replace(config, concurrency=8), Workload(architecture, PLAY), card)
    parts = {part.name: part.bytes for part in made.parts}
    assert parts["weights"][0] == pytest.approx(2 * numbers, rel=1e-5)  # the rest are frequencies of rotary embedding
    assert parts["fp32 masters"][1] == parts["gradients"][1] == 4 * numbers
    assert parts["optimizer state"][2] == pytest.approx(8 * numbers, rel=1e-5)
    assert parts["key-value cache"][0] == 8 * 512 * cached  # 256 tokens of room, doubled once for rows of 400
    assert made.fits == (18 * numbers + 8 * 2**30 < 80 * 2**30)


@pytest.mark.parametrize(
    ("architecture", "changes"),
    [
        (shape(), {}),
        (shape(tie_word_embeddings=False), {}),
        (shape(), {"muon": True}),
        (shape(), {"precision": "bf16"}),
        (shape(), {"gradient_checkpointing": True}),
        (shape(), {"model": "x", "lora_rank": 4}),
        (mixture(), {}),
    ],
)
def test_bytes_are_those_of_real_tensors_after_a_real_step(architecture, changes):
    config = replace(FP32, **changes)
    found = update_bytes(architecture, config, Rows(2, 32, 8))
    model = AutoModelForCausalLM.from_config(architecture, dtype=DTYPES[config.precision])
    if config.lora_rank:
        lora.add_adapters(model, config)
    behind = masters(model.eval(), config.precision, 1)
    updated = list((behind or model).parameters())
    made = optimizers(behind or model, 1e-3, muon=config.muon)
    batch = micro_batch(Rows(2, 32, 8))
    Scorer(model, 1.0, gradient_checkpointing=config.gradient_checkpointing)(batch).logprobs.sum().backward()
    gradients = bytes_of(p.grad for p in updated if p.grad is not None)
    for optimizer in made:
        optimizer.step()
    state = [t for o in made for values in o.state.values() for t in values.values() if torch.is_tensor(t)]
    assert found.weights == bytes_of([*model.parameters(), *model.buffers()])
    assert found.masters == (bytes_of(updated) if behind else 0)
    assert found.gradients == gradients
    assert found.optimizer == bytes_of(state)
    assert found.parameters == sum(p.numel() for p in model.parameters())
    assert found.trained == sum(p.numel() for p in updated if p.requires_grad)


def test_a_few_layers_stand_for_many():
    deep = shape(layers=9)
    assert update_bytes(deep, FP32, Rows(3, 40, 9)) == dry_run._update(deep, FP32, Rows(3, 40, 9), False)
    config = replace(FP32, concurrency=6)
    assert rollout_bytes(deep, config, 30, 600) == dry_run._rollout(deep, config, 30, 600, 8192, True)


def test_eight_bits_are_a_quarter_of_adamws_state_in_whole_blocks():
    found = update_bytes(shape(), replace(FP32, optimizer="adamw8bit"), Rows(1, 16, 4))
    # Embedding and head; of each layer q and o, gate, up and down. k and v (64 x 32) and norms stay in 32 bits.
    large = 2 * 500 * 64 + 2 * (2 * 64 * 64 + 3 * 64 * 128)
    small = 2 * (2 * 64 * 32 + 2 * 16 + 2 * 64) + 64
    assert found.parameters == large + small
    assert found.optimizer == large * 2 * (1 + 4 / 256) + small * 8 + 25 * 4  # and a counter for each of 25 tensors


@pytest.mark.parametrize(("longest", "room"), [(200, 256), (257, 512), (700, 1000)])
def test_the_cache_is_that_of_the_real_engine(longest, room):
    architecture = shape(max_position_embeddings=1000)
    found = rollout_bytes(architecture, replace(FP32, concurrency=3), first=20, longest=longest)
    model = AutoModelForCausalLM.from_config(architecture, dtype=torch.float32).eval()
    engine = SlotModel(model, 3, 1000)
    for start in range(0, longest, 20):
        engine.forward([Row(0, start, [1] * min(20, longest - start))])
    assert found.cache == bytes_of([*engine.keys, *engine.values]) == 3 * room * cache_bytes(architecture, 4)
    fused = [part.weight for layer in engine.layers for part in (*layer.qkv, *layer.gate_up)]
    scales = 2 * (4 + 2) * 16 * 4  # of 2 layers, 4 query and 2 key heads
    assert found.packed == bytes_of(fused) + scales + 2 * 256 * 16 * 4  # and sines and cosines of 256 places


@pytest.mark.long
def test_the_peak_of_a_process_is_the_planned_one():
    """In a process of its own, since the most that one has ever held never falls."""
    rows, architecture = Rows(8, 512, 64, batches=1), shape(layers=6, width=256, vocabulary=2000)
    planned = update_bytes(architecture, FP32, rows)
    code = """
import resource, sys, json, torch
from transformers import AutoModelForCausalLM, GPT2Config, Qwen3Config
from agentgym.planner.dry_run import Rows, micro_batch
from agentgym.trainers.model.memory import process_bytes
from agentgym.trainers.learners.step import Scorer
torch.set_num_threads(1)
make = lambda **c: AutoModelForCausalLM.from_config(Qwen3Config(**c), dtype=torch.float32).eval()
options = json.loads(sys.argv[1])
tiny = {**options, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "vocab_size": 50}
Scorer(make(**tiny), 1.0)(micro_batch(Rows(1, 8, 2))).logprobs.sum().backward()  # libraries take what they need
before = process_bytes()
Scorer(make(**options), 1.0)(micro_batch(Rows(8, 512, 64))).logprobs.sum().backward()
try:  # the system's own count begins with what the parent had
    peak = int(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0]) * 1024
except OSError:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(peak - before)
"""
    options = json.dumps({k: v for k, v in architecture.to_dict().items() if isinstance(v, int) and not isinstance(v, bool)})
    done = subprocess.run([sys.executable, "-c", code, options], capture_output=True, text=True, check=True)
    whole = planned.weights + planned.activations + planned.logits
    assert int(done.stdout) == pytest.approx(whole, rel=0.25)


def test_train_refuses_what_cannot_fit_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(fits, "available", lambda: Memory("cpu", "this machine", 2**30, 2**30))
    monkeypatch.setattr(planning, "process_bytes", lambda: 400 * 2**20)  # whatever other tests have left in this one
    config = TrainConfig(env="rlvr/GuessNumber-v0", out=str(tmp_path / "run"), concurrency=4000, turn_tokens=24, steps=1)
    with pytest.raises(BadConfig, match=r"needs about .* GiB, and this machine has 1\.0 GiB.*--concurrency 200 \(then"):
        train(config)
    assert not (tmp_path / "run").exists()


def test_what_is_there_only_just_too_little_is_not_refused():
    workload = Workload(shape(), PLAY)
    need = plan(FP32, workload).need
    for share, hopeless in ((0.79, True), (0.81, False)):
        made = plan(FP32, workload, Memory("cpu", "a machine", int(share * need), int(share * need)))
        assert not made.fits and made.hopeless == hopeless
    others = plan(FP32, workload, Memory("cpu", "a machine", 0, 2 * need))
    assert not others.fits and not others.hopeless  # others on the machine may give theirs back


def test_seconds_by_hand():
    rates = Rates(prefill=0.001, decode=0.01, train=0.002, optimizer=0.5, sync=0.25, layers=2)
    config = TrainConfig(
        tasks_per_step=2, group_size=4, concurrency=4, minibatches=2, steps=10, eval_every=5, eval_tasks=4, test_tasks=0
    )
    found = likely(config, PLAY, rates, row=400)
    # 8 episodes in two batches of 4 slots, 4 turns of 5 tokens; prompts of 40 + 3 * 20 tokens; 1 ms of the agent a turn
    assert found.rollout == pytest.approx(2 * 4 * 5 * 0.01 + 8 * 100 * 0.001 + 8 * 4 * 0.001)
    assert found.env == pytest.approx(8 * 4 * 0.002)
    assert found.train == pytest.approx(8 * 120 * 0.002 + 2 * 0.5)
    assert found.evaluation == pytest.approx((4 * 5 * 0.01 + 4 * 100 * 0.001 + 4 * 4 * 0.003) / 5)
    assert found.whole == pytest.approx(10 * found.update)
    worst = most(replace(config, turn_tokens=20), PLAY, rates, row=400)
    assert worst.train == pytest.approx(8 * 400 * 0.002 + 2 * 0.5)
    assert worst.rollout == pytest.approx(2 * 10 * 20 * 0.01 + 8 * (40 + 9 * 20) * 0.001 + 8 * 10 * 0.001)


def test_the_command_prints_the_plan_and_starts_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "120")
    words = ["train", "--env", "rlvr/GuessNumber-v0", "--out", str(tmp_path / "run"), "--concurrency", "8", "--plan"]
    assert main(words) == 0
    output = capsys.readouterr().out
    for part in ("weights", "optimizer state", "key-value cache", "activations", "logits", "as the expert plays", "It fits"):
        assert part in output
    assert main([*words, "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    assert numbers["fits"] and numbers["need"] == max(
        sum(part[phase] for part in numbers["bytes"].values()) for phase in ("rollout", "update", "optimizer step")
    )
    assert set(numbers["seconds_likely"]) == {"rollout", "env", "train", "sync", "evaluation", "update", "whole"}
    assert not (tmp_path / "run").exists()
    assert main(["train", "--json"]) == 2 and "--plan" in capsys.readouterr().err
    assert main(["train", "--model", str(tmp_path), "--plan"]) == 2 and "config.json" in capsys.readouterr().err


class NoExpert(GuessNumber):
    def expert(self):
        raise NotImplementedError


@pytest.mark.long
def test_what_cannot_be_played_beforehand_is_assumed_and_refused_only_when_hopeless(monkeypatch, tmp_path):
    monkeypatch.setattr(planning, "process_bytes", lambda: 400 * 2**20)
    policy = init_policy("rlvr/GuessNumber-v0", tmp_path)
    agentgym.register("test/NoExpert-v0", NoExpert)
    for config in (
        TrainConfig(env="test/NoExpert-v0", model=str(policy)),
        TrainConfig(env="rlvr/GuessNumber-v0", model=str(policy), agent="some_module:play"),
    ):
        workload = read_workload(config)
        assert not workload.play.episodes and workload.play.longest == context(config, workload.architecture)
        monkeypatch.setattr(fits, "available", lambda: Memory("cpu", "this machine", 2 * 2**30, 2 * 2**30))
        fits.check(replace(config, concurrency=8))  # rows as long as the context would not fit
        monkeypatch.setattr(fits, "available", lambda: Memory("cpu", "this machine", 2**27, 2**27))
        with pytest.raises(BadConfig, match="would stop for want of memory"):
            fits.check(replace(config, concurrency=8))


def test_a_model_that_cannot_be_planned_may_be_trained(monkeypatch, tmp_path):
    GPT2Config(n_embd=32, n_layer=2, n_head=2, vocab_size=100).save_pretrained(tmp_path)
    config = TrainConfig(env="rlvr/GuessNumber-v0", model=str(tmp_path))
    assert fits.plainly_fits(config, read_architecture(config), Memory("cpu", "a machine", 2**50, 2**50))
    monkeypatch.setattr(fits, "available", lambda: Memory("cpu", "this machine", 2**30, 2**30))
    monkeypatch.setattr(forecast, "read_workload", lambda config: Workload(None, PLAY))
    with pytest.warns(UserWarning, match="whether this run fits into memory is not known"):
        fits.check(config)
    with pytest.raises(BadConfig, match=r"cannot be planned.*Training may still work"):
        plan(config, Workload(None, PLAY))


@pytest.mark.long
def test_a_run_that_plainly_fits_never_imports_the_planner():
    """Counted in a process of its own: what `train` imports, and what checking a small run adds to it."""
    code = """
import sys
import agentgym.cli.train, agentgym.trainers.loop
from agentgym.trainers.run import fits
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.model.memory import Memory
for gib in (1024, 1):
    fits.available = lambda: Memory("cpu", "this machine", gib * 2**30, 1024 * 2**30)
    fits.check(TrainConfig(env="rlvr/GuessNumber-v0"))
    print(sum(name.startswith("agentgym.planner") for name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    plainly, closely = map(int, done.stdout.split())
    assert plainly == 0 and closely > 5


def test_a_context_that_is_shorter_than_the_default_reply_is_planned():
    assert plan(replace(FP32, context_tokens=100), Workload(shape(), PLAY)).need > 0
