"""Search for the cheapest change that makes a run fit into memory: each candidate is planned in turn."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace

from agentgym.planner.plan import MARGIN, MemoryPlan, Workload, plan, vllm_share
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.model.memory import Memory
from agentgym.trainers.run.fits import GIB, context, engine_slots


@dataclass(frozen=True)
class Change:
    """A change of a run's configuration, with its command-line flags and its memory plan."""

    flags: str
    config: TrainConfig
    plan: MemoryPlan

    @property
    def fits(self) -> bool:
        """True if the changed run fits."""
        return self.plan.fits


def smallest_change(config: TrainConfig, workload: Workload, memory: Memory) -> Change:
    """Return the cheapest change that makes the run fit: try each change alone first, then several together.

    If none does, return all changes that save memory together, with a plan that does not fit.
    """
    for changed in _alone(config, workload):
        change = Change(flags(config, changed), changed, plan(changed, workload, memory))
        if change.fits:
            return change
    together = Change("", config, plan(config, workload, memory))
    for kind in _KINDS:
        for changed in kind(together.config, workload):
            change = Change(flags(config, changed), changed, plan(changed, workload, memory))
            if change.fits:
                return _pruned(config, change, workload, memory)
            if change.plan.need < together.plan.need:
                together = change
    return together


def _pruned(config: TrainConfig, change: Change, workload: Workload, memory: Memory) -> Change:
    """Undo the parts of a change that are unnecessary, starting with the most expensive."""
    for name in UNDONE:
        value = getattr(config, name)
        if getattr(change.config, name) != value and not (name == "context_tokens" and not value):
            fewer = replace(change.config, **{name: value})
            pruned = Change(flags(config, fewer), fewer, plan(fewer, workload, memory))
            change = pruned if pruned.fits else change
    return change


def refusal(plan: MemoryPlan, change: Change) -> str:
    """Return a message with the reason why a run cannot start, and the remedy."""
    memory = plan.memory
    several = f" in {plan.sharing} processes" if plan.sharing > 1 else ""
    what = (
        f"this run needs about {gib(plan.need)}{several}, and {memory.name} has {gib(memory.limit)}: it would stop for want "
        f"of memory. (Runs are refused from {MARGIN:.2f} times what there is.)"
    )
    return f"{what} {advice(plan, change)} `agentgym train … --plan` shows what takes it"


def advice(plan: MemoryPlan, change: Change) -> str:
    """Return a sentence with the change that makes a run fit, or with the memory that the run needs."""
    if change.fits:
        return f"Smallest change that fits: {change.flags} (then {gib(change.plan.need)})."
    missing = change.plan.need - plan.memory.free
    conclusion = f"Even {change.flags} leaves" if change.flags else "No smaller setting is left: there are"
    device = "a GPU" if plan.memory.device == "cuda" else "a machine"
    return f"{conclusion} {gib(missing)} missing; it takes {device} with {gib(change.plan.need)} free."


def flags(config: TrainConfig, changed: TrainConfig) -> str:
    """Return the command-line flags that turn one configuration into the other."""
    words: list[str] = []
    for field in fields(config):
        value = getattr(changed, field.name)
        if value != getattr(config, field.name):
            name = f"--{field.name.replace('_', '-')}"
            if field.name == "engine_options":
                words += [f"--engine.{key} {of}" for key, of in value.items() if config.engine_options.get(key) != of]
            else:
                words.append(name if value is True else f"{name} {value}")
    return " ".join(words)


def gib(size: float) -> str:
    """Return a number of bytes as text, in GiB."""
    return f"{size / GIB:,.1f} GiB" if size >= GIB else f"{size / 2**20:,.0f} MiB"


def _alone(config: TrainConfig, workload: Workload) -> Iterator[TrainConfig]:
    for kind in _KINDS:
        yield from kind(config, workload)


def _slots(config: TrainConfig, workload: Workload) -> Iterator[TrainConfig]:
    """Yield the run without slots that no episode can use."""
    in_flight = max(config.tasks_per_step * config.group_size // config.processes, config.eval_tasks, config.test_tasks)
    if config.concurrency > in_flight and "slots" not in config.engine_options:
        yield replace(config, concurrency=in_flight)


def _batch(config: TrainConfig, workload: Workload) -> Iterator[TrainConfig]:
    """Yield the run with ever smaller micro-batches, halved down to one row each; the gradient is the same."""
    row, tokens = workload.play.row(context(config, workload.architecture)), config.batch_tokens
    while tokens > row:
        tokens = max(tokens // 2, row)
        yield replace(config, batch_tokens=tokens)


def _gradient_checkpointing(config: TrainConfig, workload: Workload) -> Iterator[TrainConfig]:
    if not config.gradient_checkpointing and config.attention != "small":
        yield replace(config, gradient_checkpointing=True)


def _concurrency(config: TrainConfig, workload: Workload) -> Iterator[TrainConfig]:
    """Yield the run with fewer and fewer concurrent episodes: sampling is slower, the result is the same."""
    number = engine_slots(config)
    while number > 8:
        number = max(number // 2, 8)
        yield _with(config, slots=number) if "slots" in config.engine_options else replace(config, concurrency=number)


def _share(config: TrainConfig, workload: Workload) -> Iterator[TrainConfig]:
    """Yield the run with smaller and smaller GPU shares for the vllm engine, whose cache then holds fewer episodes."""
    share = vllm_share(config)
    while share > 0.2:
        share = round(share - 0.1, 2)
        yield _with(config, gpu_memory_utilization=share)


def _with(config: TrainConfig, **options: object) -> TrainConfig:
    return replace(config, engine_options={**config.engine_options, **options})


def _small_state(config: TrainConfig, workload: Workload) -> Iterator[TrainConfig]:
    if config.optimizer == "adamw":
        yield replace(config, optimizer="adamw8bit")


def _sharding(config: TrainConfig, workload: Workload) -> Iterator[TrainConfig]:
    """Yield the run with weights, gradients and optimizer state sharded over processes; this costs only communication."""
    can = config.attention != "small" and not config.compile and config.gradient_reduction == "micro-batch"
    if config.processes > 1 and not config.sharded and can:
        yield replace(config, sharding="fsdp2")


def _processes(config: TrainConfig, workload: Workload) -> Iterator[TrainConfig]:
    number = config.processes
    while number > (2 if config.sharded else 1):
        number -= 1
        if not config.tasks_per_step % number and not config.sft_batch % number:
            yield replace(config, processes=number)


def _shorter(config: TrainConfig, workload: Workload) -> Iterator[TrainConfig]:
    """Yield the run with shorter and shorter contexts: the last resort, because cutting long episodes changes the policy."""
    row = workload.play.row(context(config, workload.architecture))
    least = workload.play.first + 2 * (config.turn_tokens + int(workload.play.growth))
    while row // 2 > least:
        row //= 2
        yield replace(config, context_tokens=row)


UNDONE = (
    "context_tokens",
    "processes",
    "optimizer",
    "sharding",
    "concurrency",
    "engine_options",
    "gradient_checkpointing",
    "batch_tokens",
)
_KINDS: tuple[Callable[[TrainConfig, Workload], Iterator[TrainConfig]], ...] = (
    _slots,
    _share,
    _batch,
    _gradient_checkpointing,
    _concurrency,
    _sharding,
    _small_state,
    _processes,
    _shorter,
)
"""Kinds of changes, cheapest first: they cost nothing, then time, then precision, and finally change the learned policy."""
