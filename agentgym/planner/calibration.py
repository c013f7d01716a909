"""Short measurement of a run's speed on this device: the run's own code on random weights, for seconds up to a minute."""

# torch and transformers are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import time
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import torch

from agentgym.engines import Sampling
from agentgym.engines.hf.library import LibraryModel
from agentgym.engines.hf.sampling import Draw, sample
from agentgym.engines.hf.slots import Row, SlotModel, unsupported
from agentgym.planner.dry_run import Rows, cut, micro_batch
from agentgym.planner.duration import Rates
from agentgym.planner.plan import MemoryPlan, Workload, resolved
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.learners.optimizers import optimizers
from agentgym.trainers.learners.step import Scorer
from agentgym.trainers.model import lora
from agentgym.trainers.model.policy import SMALL as SMALL_MODEL
from agentgym.trainers.model.precision import DTYPES, masters
from agentgym.trainers.run.fits import engine_slots

SMALL = 30_000_000
"""Number of parameters up to which the whole model is measured; a larger model is measured with one and with two layers."""
LARGE = 500_000_000
"""Number of parameters above which a model is not timed on a CPU, because that would take minutes."""
TOKENS = 2048
"""Maximum number of tokens in a measured batch."""
WORK = {"cpu": 1e11, "cuda": 2e13}
"""Approximate multiplications per measured pass, by device; a pass takes seconds on a slow CPU, less on a GPU."""


def calibrate(config: TrainConfig, workload: Workload, plan: MemoryPlan) -> Rates | None:
    """Measure the rates of a run; return None if this would take too long or too much memory.

    Of a model with more than `SMALL` parameters, measure one and two layers, and extrapolate linearly to all layers.
    """
    config = resolved(config, plan.memory)
    depth = int(workload.architecture.num_hidden_layers)
    if config.threads or config.processes > 1 or plan.parameters < SMALL_MODEL:
        torch.set_num_threads(config.threads or 1)  # as in the run itself
    if plan.parameters > LARGE and plan.memory.device == "cpu":
        return None
    if plan.parameters <= SMALL or depth <= 2:
        return _rates(config, workload, plan, depth)
    if 16 * _share(workload.architecture, plan.parameters, 2) * plan.parameters + 2**30 > plan.memory.free / 2:
        return None
    one_layer, two_layers = (_rates(config, workload, plan, layers) for layers in (1, 2))
    line = {f.name: (getattr(one_layer, f.name), getattr(two_layers, f.name)) for f in fields(Rates) if f.name != "layers"}
    return Rates(**{name: max(a + (b - a) * (depth - 1), b) for name, (a, b) in line.items()}, layers=2)


def _share(architecture: Any, parameters: int, layers: int) -> float:
    """Return the fraction of a model's parameters that is left if it has only `layers` layers."""
    outside = int(architecture.vocab_size * architecture.hidden_size) * (1 if architecture.tie_word_embeddings else 2)
    return (outside + (parameters - outside) * layers / architecture.num_hidden_layers) / parameters


def _rates(config: TrainConfig, workload: Workload, plan: MemoryPlan, layers: int) -> Rates:
    from transformers import AutoModelForCausalLM

    device = torch.device(plan.memory.device)
    torch.manual_seed(0)
    model: Any = AutoModelForCausalLM.from_config(cut(workload.architecture, layers), dtype=DTYPES[config.precision])
    if config.lora_rank:
        lora.add_adapters(model, config)
    model = model.to(device).eval()
    prefill, decode, sync = _sampling(config, workload, plan, model) if config.engine_kind.in_process else (0.0, 0.0, 0.0)
    train, optimizer = _training(config, plan, model)
    return Rates(prefill, decode, train, optimizer, sync, layers)


def _sampling(config: TrainConfig, workload: Workload, plan: MemoryPlan, model: object) -> tuple[float, float, float]:
    """Return seconds per prompt token, seconds per decoding step of all slots, and seconds to load new weights."""
    play, slow = workload.play, unsupported(model) is not None
    flying = min(config.concurrency, engine_slots(config), config.tasks_per_step * config.group_size // config.processes)
    count = min(flying, 2) if slow else flying
    backend = (LibraryModel if slow else SlotModel)(model, count, plan.row)
    fresh = max(min(round(play.fresh), plan.row // 2), 1)
    few = _tokens(plan, model)
    fresh = min(fresh, few)
    rows = [Row(slot, 0, [1] * fresh) for slot in range(min(count, max(few // fresh, 1)))]
    prefill = _timed(lambda: backend.forward(rows)) / (len(rows) * fresh)
    draws = [Draw(Sampling(temperature=config.temperature), 0.5, ())] * count
    context = 0 if slow else plan.row // 2  # half of the longest row: the mean over an episode that fills it
    step = [Row(slot, context, [1]) for slot in range(count)]
    decode = _timed(lambda: sample(backend.forward(step), draws)) * flying / count
    return prefill, decode, _timed(backend.refresh)


def _training(config: TrainConfig, plan: MemoryPlan, model: Any) -> tuple[float, float]:
    """Return seconds per token of a forward and backward pass, and seconds per optimizer step."""
    device = torch.device(plan.memory.device)
    scorer = Scorer(model, config.temperature, config.attention, gradient_checkpointing=config.gradient_checkpointing)
    behind = masters(model, config.precision, 1)
    updated = optimizers(model if behind is None else behind, config.lr, muon=config.muon, kind=config.optimizer)
    few = _tokens(plan, model)
    tokens = min(plan.batch.tokens, few)
    rows = min(plan.batch.rows, max(few // tokens, 1))
    batch = micro_batch(Rows(rows, tokens, max(plan.batch.trained * tokens // plan.batch.tokens, 1))).to(device)

    def passes() -> None:
        scorer(batch).logprobs.sum().backward()
        if behind is not None:
            behind.collect()

    def step() -> None:
        for optimizer in updated:
            optimizer.step()
        if behind is not None:
            behind.publish()

    return _timed(passes) / (rows * tokens), _timed(step)


def _tokens(plan: MemoryPlan, model: Any) -> int:
    """Return the number of tokens in a measured pass."""
    return int(min(TOKENS, max(WORK[plan.memory.device] / (3 * model.num_parameters()), 32)))


def _timed(work: Callable[[], object]) -> float:
    """Run `work` twice and return the seconds of the second run; the first includes one-time costs."""
    seconds = 0.0
    for _ in range(2):
        _wait()
        started = time.perf_counter()
        work()
        _wait()
        seconds = time.perf_counter() - started
    return seconds


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
