"""What a plan says of the room there is: the smallest change that fits, vLLM's share, sharding."""

import math
from dataclasses import replace

import pytest
from fresh_run import fresh
from planned import FP32, PLAY, shape

from agentgym.cli.plan import left_out
from agentgym.errors import BadConfig
from agentgym.planner import fitting
from agentgym.planner import plan as planning
from agentgym.planner.plan import Workload, plan, with_share
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.model.memory import Memory
from agentgym.trainers.run.fits import parameters

ROOM = Memory("cuda", "four", 2**34, 2**34, devices=4)


def test_the_smallest_change_is_found_and_taken_back_as_far_as_it_goes():
    workload = Workload(shape(layers=1, vocabulary=5000), PLAY)
    config = replace(FP32, concurrency=512, tasks_per_step=8, group_size=8, eval_tasks=0, test_tasks=0)
    whole = plan(config, workload, Memory("cpu", "a machine", 2**50, 2**50))
    free = whole.need - 2**20
    change = fitting.smallest_change(config, workload, Memory("cpu", "a machine", free, free))
    assert change.flags == "--concurrency 64" and change.fits  # 64 episodes are in flight: other slots stay empty
    little = replace(config, concurrency=8, batch_tokens=400, gradient_checkpointing=True, optimizer="adamw8bit")
    change = fitting.smallest_change(little, workload, Memory("cpu", "a machine", 2**20, 2**20))
    assert not change.fits and change.flags == ""  # shorter rows need no less while the optimizer steps
    assert "it takes a machine with" in fitting.advice(whole, change)


def test_flags_are_as_they_are_typed():
    changed = replace(FP32, gradient_checkpointing=True, batch_tokens=512)
    assert fitting.flags(FP32, changed) == "--batch-tokens 512 --gradient-checkpointing"


def test_the_plan_says_what_it_leaves_out():
    """A critic is too small to matter, and a prefix that is shared only saves: neither goes by unsaid."""
    assert left_out(fresh(TrainConfig())) == []
    critic = left_out(fresh(TrainConfig(credit="turn_gae", select="keep", share_prefixes=True)))
    assert [line.partition(" is not counted")[0] for line in critic] == ["The critic", "share_prefixes"]


def test_the_shortest_change_of_vllm_is_its_share_of_the_gpu():
    workload, card = Workload(shape(), PLAY), Memory("cuda", "a GPU", free=80 * 2**30, total=80 * 2**30)
    config = TrainConfig(engine="vllm", model="x", precision="bf16", test_tasks=0, eval_tasks=0, concurrency=8)
    made = {part.name: part.bytes[0] for part in plan(config, workload, card).parts}
    assert made["vLLM"] == int(0.92 * card.total)
    tight = replace(card, free=int(0.9 * card.total))
    assert fitting.smallest_change(config, workload, tight).flags == "--engine.gpu_memory_utilization 0.82"
    beside = replace(config, engine_options={"device_ids": [1]})
    assert "vLLM" not in [part.name for part in plan(beside, workload, card).parts]
    on_cpu = {p.name: p.bytes[0] for p in plan(config, workload, Memory("cpu", "a machine", 2**40, 2**40)).parts}
    assert on_cpu["engine's own weights"] == 4 * parameters(workload.architecture)


def test_vllm_gets_what_the_trainer_leaves_of_a_gpu():
    """By hand: (free - the trainer's peak) / total, less 0.03, rounded down to whole percent.

    An engine that sleeps has to leave room only for what the trainer holds during rollouts.
    """
    workload, card = Workload(shape(), PLAY), Memory("cuda", "a GPU", free=60 * 2**30, total=80 * 2**30)
    config = TrainConfig(engine="vllm", model="x", precision="bf16", test_tasks=0, eval_tasks=0, concurrency=8)
    alone = plan(replace(config, engine_options={"device_ids": [1]}), workload, card).phases
    shared = with_share(config, workload, card)
    share = shared.engine_options["gpu_memory_utilization"]
    assert (
        share == math.floor(100 * ((card.free - max(alone)) / card.total - 0.03)) / 100 and plan(shared, workload, card).fits
    )
    tight = replace(card, free=max(alone) + card.total // 10)
    assert with_share(config, workload, tight).engine_options == {"gpu_memory_utilization": 0.07}
    asleep = with_share(replace(config, engine_options={"enable_sleep_mode": True}), workload, tight)
    room = math.floor(100 * ((tight.free - alone[0]) / card.total - 0.03)) / 100
    assert asleep.engine_options["gpu_memory_utilization"] == room >= 0.07 and plan(asleep, workload, tight).fits
    typed = replace(config, engine_options={"gpu_memory_utilization": 0.5})
    beside = replace(config, engine_options={"device_ids": [1]})
    full = replace(card, free=max(alone))
    assert with_share(typed, workload, card) is typed and with_share(beside, workload, card) is beside
    assert with_share(config, workload, full) is config  # and the plan refuses it, with what would fit
    with pytest.raises(BadConfig, match="cannot release its memory"):
        replace(config, engine_options={"enable_sleep_mode": True}, async_level=1)


def test_slots_and_prefill_of_the_engine_are_what_the_run_says():
    workload, memory = Workload(shape(), PLAY), Memory("cpu", "a machine", 2**40, 2**40)

    def bytes_of(name, **options):
        config = replace(FP32, concurrency=64, engine_options=options)
        return next(part.bytes[0] for part in plan(config, workload, memory).parts if part.name == name)

    assert bytes_of("key-value cache") == 8 * bytes_of("key-value cache", slots=8)
    assert bytes_of("sampling") > bytes_of("sampling", prefill_tokens=64)


def test_sharded_weights_are_counted_in_parts_and_an_engine_in_this_process_whole():
    config = replace(FP32, model="x/y", precision="bf16", processes=4, tasks_per_step=4, sft_batch=4, concurrency=2)
    workload = Workload(shape(layers=8), PLAY)
    memory = Memory("cpu", "here", 2**34, 2**34)
    plans = [plan(changed, workload, memory) for changed in (config, replace(config, sharding="fsdp2"))]
    whole, parts = ({part.name: part.bytes for part in of.parts} for of in plans)
    numbers = parameters(shape(layers=8))
    assert whole["weights"][0] == pytest.approx(2 * numbers, rel=1e-3) and whole["fp32 masters"][0] == 4 * numbers
    assert parts["weights"][0] == pytest.approx(numbers, rel=1e-3) and "fp32 masters" not in parts  # 4 bytes in 4 processes
    assert parts["optimizer state"][2] == whole["optimizer state"][2] // 4
    assert parts["gradients"] == (0, numbers, numbers) and whole["gradients"][1] == 2 * 4 * numbers
    assert parts["engine's copy"][0] == whole["weights"][0]  # whole, in bf16
    layer = parameters(shape(layers=2)) - parameters(shape(layers=1))
    beside = numbers - 8 * layer
    # two layers, embedding and head: bf16 weights, fp32 gradients
    assert parts["gathered"][1] == pytest.approx(6 * (beside + 2 * layer), rel=1e-3)
    assert parts["activations"] == whole["activations"] and plans[0].token == plans[1].token > 0


def test_sharding_is_proposed_where_it_makes_a_run_fit_and_recomputing_is_said_to_keep_less():
    config = replace(FP32, model="x/y", processes=4, tasks_per_step=4, sft_batch=4, concurrency=1, batch_tokens=100)
    config = replace(config, engine="vllm", engine_options={"device_ids": [4]})  # which has a GPU of its own
    workload = Workload(shape(layers=8, width=256), PLAY)
    enough = plan(replace(config, sharding="fsdp2"), workload, ROOM).need + 2**20
    change = fitting.smallest_change(config, workload, replace(ROOM, free=enough, total=enough))
    assert change.flags == "--sharding fsdp2"
    assert 0 < planning.recomputed_token(config, workload, ROOM) < plan(config, workload, ROOM).token
    assert planning.recomputed_token(replace(config, gradient_checkpointing=True), workload, ROOM) == 0
