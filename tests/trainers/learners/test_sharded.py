"""Several processes with a part of the weights each take the steps of one, serve its weights, and resume exactly."""

import importlib.util
import json
import socket
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from several import run_several
from sharded_cases import CASES
from small_runs import curve, small
from tiny_rows import MIXTURE, SHAPE
from torch import distributed, nn
from torch.optim import AdamW
from transformers import AutoConfig, AutoModelForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

from agentgym.engines.kinds import EngineKind
from agentgym.errors import BadConfig, BadData
from agentgym.trainers import TrainConfig
from agentgym.trainers.config.recipe_files import read_config
from agentgym.trainers.learners import parts
from agentgym.trainers.model.policy import PolicySize, init_policy
from agentgym.trainers.run.record import Record
from agentgym.trainers.weights import saved_parts

TORCHAO = pytest.mark.skipif(importlib.util.find_spec("torchao") is None, reason="torchao is not installed")
FEW = ("fp32", "lora bf16")  # the slow test has all
SIZE = PolicySize(width=32, layers=2, heads=2, vocabulary=300)
WIDE = replace(SIZE, width=48, feed_forward=384)
"""A part of four of its feed-forward matrices has 4,608 numbers, 18 blocks of 256: torchao keeps the state of parts of fewer
than 4,096, or of broken blocks, in 32 bits, and here those of one, two and four processes are the same."""


def cases(folder, numbers, names, size=SIZE):
    """Return what processes of these numbers made of cases, [number][case]."""
    init_policy("small/File-v0", folder / "policy", size=size, episodes=20)
    for number in numbers:
        run_several("sharded_cases.py", number, folder, *names, seconds=1200)
    return {number: json.loads((folder / f"{number}.json").read_text()) for number in numbers}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What one and two processes make of three steps."""
    folder = tmp_path_factory.mktemp("sharded")
    return folder, cases(folder, (1, 2), FEW)


@pytest.mark.long
@pytest.mark.parametrize("name", FEW)
def test_two_processes_with_a_part_each_take_the_steps_of_one(found, name):
    folder, made = found
    check_equal(made[1][name], made[2][name], "bf16" in name)
    one, two = (torch.load(folder / f"{name} {number}" / "weights.pt", weights_only=True) for number in (1, 2))
    most = 0.02 if "bf16" in name else 2e-5
    for key, value in one.items():
        torch.testing.assert_close(two[key], value, rtol=0, atol=most, msg=key)


def check_equal(one, several, rough):
    """Hold the curve of several processes to that of one, their resumed step and their engine to their own."""
    for expected, made in zip(one["curve"], several["curve"], strict=True):
        # rows of other micro-batches round otherwise in bf16, which after twenty updates shows in norms most of all
        assert made == pytest.approx(expected, rel=0.1 if rough else 1e-5, abs=0.02 if rough else 1e-6)
    assert several["resumed"] == several["curve"][-1] and several["alike"] == 0.0  # to the last digit
    assert several["apart"] == 0.0


@pytest.mark.parametrize("name", FEW)
def test_each_process_holds_half_of_weights_and_averages_and_its_masters_are_fp32(found, name):
    made = found[1][2][name]
    weights, averages, all_weights, all_averages = made["shares"]
    assert 0 < weights <= 0.51 * all_weights and 0 < averages <= 0.51 * all_averages
    assert made["types"] == (["torch.bfloat16", "torch.float32"] if name == "lora bf16" else ["torch.float32"])


def test_the_model_folder_of_a_checkpoint_is_one_that_the_library_loads(found):
    folder, _ = found
    models = [AutoModelForCausalLM.from_pretrained(folder / f"fp32 {number}" / "saved") for number in (1, 2)]
    for one, two in zip(*(model.state_dict().values() for model in models), strict=True):
        torch.testing.assert_close(two, one, rtol=0, atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=TORCHAO if name == "8 bits" else ()) for name in CASES])
def test_ten_steps_by_one_two_and_four_processes_and_each_goes_on_from_the_others(name, tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_TEST_STEPS", "10")
    size = WIDE if name == "8 bits" else SIZE
    made = {number: of[name] for number, of in cases(tmp_path, (1, 2, 4), [name], size).items()}
    for number in (2, 4):
        check_equal(made[1], made[number], "b" in name.split()[-1])
        weights, averages, all_weights, all_averages = made[number]["held"]
        assert 0 < weights <= 1.1 / number * all_weights and 0 < averages <= 1.1 / number * all_averages
        assert ("OptimState8bit" in made[number]["states"]) == (name == "8 bits")
    close = 0.05 if "bf16" in name else 1e-5
    assert made[4]["elsewhere"] == pytest.approx(made[2]["resumed"], rel=close, abs=close)  # what two saved, read by four


def test_each_process_samples_on_its_own_gpu_though_its_model_is_still_in_main_memory(monkeypatch, tmp_path):
    """A model that is yet to be sharded is not where it will be: vLLM engines of all processes came to the first GPU."""
    devices = {}

    class Recorded:
        def __init__(self, model, **options):
            devices.update(options, model=model)

    monkeypatch.setattr(EngineKind, "engine_class", lambda kind: Recorded)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    changes = {"tasks_per_step": 4, "engine": "vllm", "sharding": "fsdp2", "processes": 2}
    model = init_policy("small/File-v0", tmp_path / "policy", size=SIZE, episodes=20)
    config = small(tmp_path / "run", str(model), **changes)
    parts.engine(config, tmp_path, nn.Linear(1, 1), None, torch.device("cuda", 1))
    assert (devices["device_ids"], devices["weight_transport"], devices["model"]) == ([1], "ipc", str(tmp_path))
    assert "dtype" not in devices, "which is float32 on a CPU"


@pytest.mark.long
def test_a_run_goes_on_to_the_last_digit_and_in_another_number_of_processes(tmp_path):
    model = init_policy("small/File-v0", tmp_path / "policy", size=SIZE, episodes=20)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    run_several("sharded_runs.py", 2, whole, model, 2)
    for steps in (1, 2):
        run_several("sharded_runs.py", 2, cut, model, steps)
    assert curve(cut) == curve(whole)
    weights = [(run / "checkpoints" / "step-00000003" / "model.safetensors").read_bytes() for run in (whole, cut)]
    assert weights[0] == weights[1]
    run_several("sharded_runs.py", 4, cut, model, 3)
    assert len(curve(cut)) == 4 and read_config(cut / "config.toml").processes == 4


TAUGHT = {"sft_episodes": 64, "steps": 3, "lr": 1e-3}
TOGETHER = {
    "critic": {"credit": "turn_gae", "credit_options": {"gamma": 0.9, "lam": 1.0}, "needs_options": {"policy_weight": 0.5}},
    "experts": {"credit": "turn_mc", "credit_options": {}},
    "overlap": {"credit": "turn_mc", "credit_options": {}, "async_level": 1},
    "best": {"credit": "turn_mc", "credit_options": {}, "keep_best": True, "eval_every": 1, "eval_tasks": 2},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TOGETHER)
def test_what_goes_with_sharding_does_what_it_does_with_whole_copies(name, tmp_path):
    """A critic, a mixture of experts, rollouts beside the update, and the best checkpoint, in two processes."""
    model = init_policy("small/File-v0", tmp_path / "policy", size=SIZE, episodes=20)
    if name == "experts":
        config = AutoConfig.from_pretrained(model)
        ours = {key: getattr(config, key) for key in ("vocab_size", "eos_token_id", "max_position_embeddings")}
        Qwen3MoeForCausalLM(Qwen3MoeConfig(**{**SHAPE, **MIXTURE, **ours})).save_pretrained(model)
    for sharding in ("none", "fsdp2"):
        changes = json.dumps({**TAUGHT, **TOGETHER[name], "sharding": sharding})
        run_several("sharded_runs.py", 2, tmp_path / sharding, model, 3, changes)
    whole, sharded = (curve(tmp_path / sharding) for sharding in ("none", "fsdp2"))
    assert len(whole) == len(sharded) == 4 and any(row["grad_norm"] > 0.1 for row in whole[1:])
    for one, other in zip(whole, sharded, strict=True):
        for key in one.keys() & {"loss", "nll", "grad_norm", "value_loss", "success_valid"}:
            assert other[key] == pytest.approx(one[key], rel=1e-4, abs=1e-5), key
    if name == "best":
        best_records = [
            (tmp_path / sharding / "checkpoints" / "best" / "best.json").read_text() for sharding in ("none", "fsdp2")
        ]
        assert best_records[0] == best_records[1]
        AutoModelForCausalLM.from_pretrained(tmp_path / "fsdp2" / "checkpoints" / "best")


def test_a_checkpoint_does_not_count_until_every_process_has_written_its_part(tmp_path):
    def save(folder):
        folder.mkdir()

    config = TrainConfig(out=str(tmp_path / "run"))
    with closing(Record.fresh(config)) as record:
        record.checkpoint(save, 1, {}, together=True)
        assert record.newest() is None
        record.finish()
        record.checkpoint(save, 2, {}, together=True)
        assert record.newest().name == "step-00000001"  # killed here, the run goes on from it
    with closing(Record(tmp_path / "run", config)) as again:
        again.tidy()
        assert [path.name for path in again.checkpoints.iterdir()] == ["step-00000001"]


def failing(*_args, **_options):
    raise OSError(28, "No space left on device")


def test_parts_that_cannot_be_written_or_read_say_so_in_one_line(tmp_path, monkeypatch):
    """torch tells every process by an exception that is no Exception, and would end the command with its stacks."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    distributed.init_process_group("gloo", init_method=address, rank=0, world_size=1)
    try:
        model = nn.Linear(2, 2)
        writing, adam = saved_parts.PartWriter(), [AdamW(model.parameters())]
        writing.begin(tmp_path / "parts", model, adam)
        assert writing.done(wait=True)
        saved_parts.load(tmp_path / "parts", model, adam)
        for part in (tmp_path / "parts").glob("*.distcp"):
            part.write_bytes(part.read_bytes()[:100])
        with pytest.raises(BadData, match=r"damaged checkpoint \(process 0: \w+: [^\n]*\); remove its folder"):
            saved_parts.load(tmp_path / "parts", model, adam)
        monkeypatch.setattr("torch.distributed.checkpoint.filesystem._write_item", failing)
        full = r"could not be written \(process 0: OSError: \[Errno 28\] No space left on device\)\. The earlier ones are"
        writing.begin(tmp_path / "next", model, adam)
        with pytest.raises(BadData, match=full):
            writing.done(wait=True)
        monkeypatch.setattr(saved_parts, "Tensor", object)  # as state in 8 bits, which is written at once
        with pytest.raises(BadData, match=full):
            writing.begin(tmp_path / "third", model, adam)
    finally:
        distributed.destroy_process_group()


def test_a_kill_between_two_renames_keeps_the_only_checkpoint(tmp_path, monkeypatch):
    """A checkpoint takes the place of the one at the same step, the only one; the run is killed in between."""

    def save(folder):
        folder.mkdir()

    config = TrainConfig(out=str(tmp_path / "run"))
    with closing(Record.fresh(config)) as record:
        record.checkpoint(save, 1, {})
        record.finish()
        record.checkpoint(save, 1, {})
        rename = Path.rename

        def killed(path, to):
            if path.name == ".step-00000001":
                raise KeyboardInterrupt
            return rename(path, to)

        monkeypatch.setattr(Path, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            record.finish()
        monkeypatch.undo()
        assert record.newest() is None
    with closing(Record(tmp_path / "run", config)) as again:
        again.tidy()
        assert again.newest().name == "step-00000001" and again.newest_state()["folder"] == str(again.newest())
        assert [path.name for path in again.checkpoints.iterdir()] == ["step-00000001"]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, "sharding 'fsdp2' has no effect with one process"),
        (
            {"processes": 2, "tasks_per_step": 4, "attention": "small"},
            "attention 'small' with sharding 'fsdp2': that pass reads weights past",
        ),
        ({"processes": 2, "tasks_per_step": 4, "compile": True}, "compile True with sharding 'fsdp2'"),
        (
            {"processes": 2, "tasks_per_step": 4, "gradient_reduction": "update"},
            "gradient_reduction 'update' with sharding 'fsdp2': gradients",
        ),
        ({"learner": "tinker:http://h", "lora_rank": 4}, "has no effect with learner 'tinker:http://h'"),
    ],
)
def test_what_cannot_go_together_is_refused_with_the_reason(changes, why):
    with pytest.raises(BadConfig, match=why):
        small("out", "model", sharding="fsdp2", **changes)
