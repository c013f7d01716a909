"""Checks of the values of a training run: type, bounds and choices of every field, and combinations of fields.

No heavy module is imported and only the model's folder is read; `preflight` checks the environment, credit and prompt.
"""

import dataclasses
import functools
import math
from typing import TYPE_CHECKING, Any, Literal, cast, get_args, get_origin, get_type_hints

from agentgym.agents.spec import NAMED
from agentgym.agents.table import AGENTS
from agentgym.engines.kinds import RUN_SETS
from agentgym.errors import BadConfig, UnknownName, no_such
from agentgym.harness.description import is_harness
from agentgym.harness.description import load as load_harness
from agentgym.trainers.model import lora
from agentgym.trainers.run.launch import launched

if TYPE_CHECKING:
    from agentgym.trainers.config.settings import EnvSpec
    from agentgym.trainers.config.train_config import TrainConfig

MANY = 2**31 - 1
BOUNDS: dict[str, tuple[float, float]] = {
    "vocabulary": (300, 1_000_000),
    "policy_width": (64, 4096),
    "policy_layers": (1, 128),
    "policy_context": (16, 1_000_000),
    "policy_episodes": (1, 1_000_000),
    "attempt_seconds": (1, 604_800),
    "attempt_turns": (0, MANY),
    "attempt_tokens": (0, MANY),
    "seed": (0, 2**63 - 1),
    "processes": (1, 1024),
    "threads": (0, 4096),
    "lora_rank": (0, 65_536),
    "lora_alpha": (1, 1_000_000),
    "sft_episodes": (0, MANY),
    "sft_batch": (1, MANY),
    "sft_lr": (0, 1),
    "sft_noise": (0, 1),
    "sft_invalid": (0, 1),
    "sft_forget": (0, 1),
    "sft_eval_every": (0, MANY),
    "steps": (0, MANY),
    "tasks_per_step": (1, 1_000_000),
    "group_size": (1, 1_000_000),
    "concurrency": (1, 1_000_000),
    "temperature": (0, 100),
    "async_level": (0, 1000),
    "workers": (0, 1024),
    "step_seconds": (0.001, 604_800),
    "window_turns": (0, 1_000_000),
    "observation_tokens": (1, 100_000_000),
    "turn_tokens": (1, 10_000_000),
    "context_tokens": (0, 100_000_000),
    "horizon": (1, 1_000_000),
    "horizon_steps": (1, MANY),
    "negative_advantage_weight": (0, 1000),
    "lr": (0, 1),
    "lr_warmup": (0, MANY),
    "min_lr_ratio": (0, 1),
    "weight_decay": (0, 10),
    "minibatches": (1, 1_000_000),
    "epochs": (1, 10_000),
    "clip_low": (0, 1),
    "clip_high": (0, 1000),
    "constant": (0, 100_000_000),
    "kl": (0, 1000),
    "entropy_bonus": (0, 1000),
    "tis_cap": (1, 1_000_000),
    "grad_clip": (0, 1_000_000_000),
    "batch_tokens": (1, 100_000_000),
    "eval_every": (0, MANY),
    "eval_tasks": (0, MANY),
    "test_tasks": (0, MANY),
    "test_temperature": (0, 100),
    "checkpoint_every": (1, MANY),
    "keep_episodes": (0, MANY),
}
"""(minimum, maximum) of each numeric field; a field with several numbers has the same bounds for each."""
POSITIVE = ("lr", "sft_lr", "temperature", "grad_clip")
"""Numeric fields whose value must be above the minimum, not equal to it."""
MISTAKES = ("random", "invalid", "forget")
"""Mistakes that may replace an expert's turn in a demonstration."""
PER_ENV = ("prompt", *NAMED)
"""Agent settings that may differ per environment; the others belong to the model or the loss."""
FILLED = ("env", "model", "engine", "agent", "out", "credit", "sampler", "generation", "select", "loss", "learner")
"""Text fields that must not be empty."""


def check(config: "TrainConfig") -> None:
    """Check every field of a training run and their combinations.

    Raises:
        BadConfig: a value is out of bounds or has the wrong type, or fields contradict each other; the message names
            the field.
        UnknownName: a value is not in a closed list.
    """
    for field in dataclasses.fields(config):
        _check_value(field.name, getattr(config, field.name), types(type(config))[field.name])
    if config.group_size < 2 and config.steps:
        raise BadConfig("group_size is 1; credit compares the episodes of a group and needs at least 2")
    for name in ("tasks_per_step", "sft_batch"):
        if getattr(config, name) % config.processes:
            raise BadConfig(f"{name} is {getattr(config, name)}; expected a multiple of processes, {config.processes}")
    if config.policy_width % 64:
        raise BadConfig(
            f"policy_width is {config.policy_width}; expected a multiple of 64 (heads are 32 wide and come in pairs)"
        )
    if config.policy_induction_heads and (config.policy_layers < 2 or config.policy_width < 128):
        raise BadConfig(
            "policy_induction_heads needs at least 2 layers and a width of 128; policy_layers is "
            f"{config.policy_layers} and policy_width is {config.policy_width}"
        )
    for name in config.sft_masked:
        if name not in MISTAKES:
            raise UnknownName(no_such("mistake in sft_masked", name, MISTAKES))
    noise = config.sft_noise + config.sft_invalid + config.sft_forget
    if noise > 1:
        raise BadConfig(f"sft_noise, sft_invalid and sft_forget are shares of the expert's turns and sum to {noise:g}")
    _check_envs(config)
    if config.keep_best and not (config.eval_every and config.eval_tasks and config.eval_every <= config.steps):
        raise BadConfig(
            f"keep_best with eval_every {config.eval_every}, eval_tasks {config.eval_tasks} and steps {config.steps}: "
            "success on the validation split is never measured, so none is the best; give an eval_every from 1 to the steps"
        )
    _check_loss(config)
    _check_attention(config)
    check_precision(config)
    config.check_workers()
    _check_engine(config)
    _check_agent(config)
    lora.check(config)
    config.learner_kind.check(config)
    if config.sharded:
        _check_sharding(config)
    if not config.engine_kind.in_process and config.model == "init":
        raise BadConfig(
            f"engine {config.engine!r} needs a model folder: make one with `agentgym init-policy {config.mix[0].id}`"
        )


types = functools.cache(get_type_hints)


def _check_value(name: str, value: Any, kind: Any) -> None:
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise UnknownName(no_such(f"value of {name}", str(value), get_args(kind)))
        return
    several = get_origin(kind) is tuple
    if several and type(value) is not tuple:
        raise BadConfig(f"{name} is {value!r}; expected a tuple")
    items = cast("tuple[object, ...]", value if several else (value,))
    for item in items:
        _check_item(name, item, get_args(kind)[0] if several else get_origin(kind) or kind)


def _check_item(name: str, value: Any, kind: type) -> None:
    type_name: str = value.__class__.__name__
    if type_name != kind.__name__ and (type_name, kind) != ("int", float):
        raise BadConfig(f"{name} is {value!r}; expected {kind.__name__}")
    if name in BOUNDS:
        _check_bounds(name, value)
    if name in FILLED and not value.strip():
        raise BadConfig(f"{name} is empty; see `agentgym train --help`")


def _check_bounds(name: str, value: float) -> None:
    least, most = BOUNDS[name]
    if not math.isfinite(value):
        raise BadConfig(f"{name} is {value}; expected a finite number")
    if value < least or (value == least and name in POSITIVE):
        raise BadConfig(f"{name} is {value}; expected {'more than' if name in POSITIVE else 'at least'} {least:g}")
    if value > most:
        raise BadConfig(f"{name} is {value}; expected at most {most:,}")


def _check_envs(config: "TrainConfig") -> None:
    names = [env.name for env in config.envs]
    if len(set(names)) < len(names):
        raise BadConfig(f"envs are {', '.join(names)}; two of one id need a label each")
    for env in config.envs:
        check_env(env)
    for name in names:
        if any(other.startswith(f"{name}/") for other in names):  # `NAME/TASK` could then be a task of either
            raise BadConfig(f"envs are {', '.join(names)}; a name must not go on from another with a slash: give a label")
    if config.envs and (config.env != type(config).env or config.env_options):
        raise BadConfig(f"env is {config.env!r}, and [[envs]] names {', '.join(names)}: give one of the two")
    if len(names) > 1 and config.agent not in AGENTS:
        raise BadConfig(f"agent {config.agent!r} brings its own environment: leave [[envs]] out")


def check_env(env: "EnvSpec") -> None:
    """Check an entry of `[[envs]]`.

    Raises:
        BadConfig: a field has the wrong type or value, or an agent setting may not differ per environment.
        UnknownName: the agent is unknown.
    """
    kinds = {
        "id": str,
        "label": str,
        "train_split": str,
        "valid_split": str,
        "test_split": str,
        "options": dict,
        "agent": dict,
    }
    for name, kind in kinds.items():
        if type(getattr(env, name)) is not kind:
            raise BadConfig(f"{name} of an entry of [[envs]] is {getattr(env, name)!r}; expected {kind.__name__}")
    where = f"of environment {env.name}"
    if not env.name.isprintable() or not env.id.strip():
        raise BadConfig(
            f"envs has the name {env.name!r} for {env.id!r}; expected an id, and a label of printable characters"
        )
    if type(env.weight) not in (int, float) or not 0 < env.weight < math.inf:
        raise BadConfig(f"weight {where} is {env.weight!r}; expected a number above 0")
    for stage in env.horizon:
        if type(stage) is not int:
            raise BadConfig(f"horizon {where} is {env.horizon!r}; expected whole numbers, for example [10, 20]")
        _check_bounds("horizon", stage)
    for name in env.agent:
        if name not in PER_ENV:
            raise BadConfig(no_such(f"setting of the agent {where}:", name, PER_ENV))
    if env.agent.get("agent", "chat") not in AGENTS:
        raise UnknownName(no_such(f"agent {where}", str(env.agent["agent"]), AGENTS))


def _check_loss(config: "TrainConfig") -> None:
    if config.loss_aggregation == "constant" and not config.constant:
        raise BadConfig("constant is 0; loss_aggregation 'constant' divides by it: give the fixed length, for example 512")
    if config.constant and config.loss_aggregation != "constant":
        raise BadConfig(
            f"constant is {config.constant} and has no effect with loss_aggregation {config.loss_aggregation!r}: "
            "leave it out"
        )
    if config.old_logprobs == "engine" and config.learner_kind.addressed:
        raise BadConfig(
            f"old_logprobs is 'engine', and learner {config.learner!r} compares with its server's scores: leave it at 'auto'"
        )
    if 0 < config.context_tokens <= config.turn_tokens:
        raise BadConfig(
            f"context_tokens is {config.context_tokens}; expected more than turn_tokens, {config.turn_tokens}, "
            "because it must also hold a prompt"
        )


def _check_attention(config: "TrainConfig") -> None:
    if config.attention == "small":
        for name in ("gradient_checkpointing", "compile"):
            if getattr(config, name):
                raise BadConfig(_not_small(f"{name} = True"))
    if config.gradient_reduction != "micro-batch" and config.processes == 1 and not launched():
        raise BadConfig(
            f"gradient_reduction is {config.gradient_reduction!r} and has no effect with one process: leave it out"
        )
    if config.share_prefixes and config.attention in ("flash", "rows"):
        raise BadConfig(
            f"share_prefixes with attention {config.attention!r}: rows share no prefix by it, but by 'small', 'split', "
            "'flex' or 'sdpa'; leave attention at 'auto'"
        )
    if config.attention == "split" and config.compile:
        raise BadConfig(
            "attention 'split' with compile: it makes one call per row, and would be compiled again for every number of "
            "rows; leave attention at 'auto'"
        )


def check_precision(config: "TrainConfig") -> None:
    """Check that the attention implementation supports the run's precision; called again once `auto` is resolved.

    Raises:
        BadConfig: the attention implementation does not support the precision.
    """
    if config.attention == "small" and config.precision == "bf16":
        raise BadConfig(_not_small("precision = 'bf16'"))
    if config.attention == "flash" and config.precision == "fp32":
        raise BadConfig("attention 'flash' with precision 'fp32': its kernels compute in bf16; take 'flex' or 'auto'")


def _not_small(setting: str) -> str:
    return f"attention 'small' with {setting}: its pass is for small models in fp32 on a CPU; leave attention at 'auto'"


def _check_sharding(config: "TrainConfig") -> None:
    """Check that no other setting rules out sharded weights.

    Raises:
        BadConfig: the run has one process, or a setting needs the whole weights in one process.
    """
    what = f"sharding {config.sharding!r}"
    if config.processes == 1 and not launched():
        raise BadConfig(f"{what} has no effect with one process: give --processes 2 or more, or leave it out")
    for name, value, why in (
        ("attention", "small", "that pass reads weights past the layers, which gather theirs when they are called"),
        ("compile", True, "layers that gather their weights were never compiled here"),
        ("gradient_reduction", "update", "gradients added up without the other processes are whole, not sharded"),
    ):
        if getattr(config, name) == value:
            raise BadConfig(f"{name} {value!r} with {what}: {why}; leave out one of the two")


def _check_engine(config: "TrainConfig") -> None:
    kind = config.engine_kind
    if kind.served and (config.steps or config.sft_episodes):
        raise BadConfig(
            f"engine {config.engine!r} with {config.steps} steps and {config.sft_episodes} sft_episodes: new weights "
            "cannot be sent to a server of that kind, so it would go on sampling from the old ones after the first update. "
            "Train with hf, vllm or vllm:URL; or set steps = 0 and sft_episodes = 0 to measure the model on that server"
        )
    if not kind.sent_weights and config.weight_transport != "auto":
        raise BadConfig(
            f"weight_transport is {config.weight_transport!r}, but only engine 'vllm' is sent any, not {config.engine!r}"
        )
    if kind.of_address and config.weight_transport not in ("auto", "shared_memory"):
        raise BadConfig(
            f"weight_transport is {config.weight_transport!r}, and servers read weights from files, which --engine.folder "
            "names a folder for: leave it at 'auto'"
        )
    for name in sorted({*RUN_SETS, *kind.idle} & set(config.engine_options)):
        raise BadConfig(
            f"engine.{name} is not an option of a run: see --context-tokens, --weight-transport, --lora-rank and --model"
        )
    if config.sleeps and config.async_level:
        raise BadConfig(
            f"engine.enable_sleep_mode with async_level = {config.async_level}: the engine samples during the update, and "
            "cannot release its memory meanwhile; remove one of the two"
        )
    if config.async_level:
        _check_overlap(config)


def _check_overlap(config: "TrainConfig") -> None:
    level = f"async_level is {config.async_level}"
    if not config.steps:
        raise BadConfig(f"{level} and has no effect with steps = 0: it plays later steps during an update; remove it")
    if config.agent not in AGENTS:
        raise BadConfig(
            f"{level} with agent {config.agent!r}: an external agent plays a whole attempt on its own, so the pool cannot "
            "put earlier steps first; leave it at 0"
        )


def _check_agent(config: "TrainConfig") -> None:
    default = type(config)
    if config.agent in AGENTS:
        if config.sft_episodes and not config.spec.kind.demonstrable:  # the spec checks its own values
            able = ", ".join(name for name, entry in AGENTS.items() if entry.load().demonstrable)
            raise BadConfig(f"sft_episodes goes with agent {able}: no expert writes what agent {config.agent!r} needs")
        _ = config.spec
        if config.attempt_seconds != default.attempt_seconds:
            raise BadConfig(f"attempt_seconds has no effect with agent {config.agent!r}: it is for external agents")
    if is_harness(config.agent):
        load_harness(config.agent)
    else:
        for name in ("attempt_turns", "attempt_tokens", "side_calls"):
            if getattr(config, name) != getattr(default, name):
                raise BadConfig(f"{name} has no effect with agent {config.agent!r}: it is for harnesses (harness:NAME)")
    if config.agent in AGENTS:
        return
    if ":" not in config.agent:
        raise UnknownName(no_such("agent", config.agent, (*AGENTS, "MODULE:NAME", "harness:NAME")))
    own = ("prompt", "tools", "history", "window_turns", "observation_tokens", "horizon", "workers", "step_seconds")
    for name in ("sft_episodes", *own):
        if getattr(config, name) not in (getattr(default, name), "bare"):  # `bare` is every small recipe's prompt
            has = f"its own {name.replace('_', ' ')}" if name in own else "no expert"
            raise BadConfig(f"{name} has no effect with agent {config.agent!r}, which has {has}: leave it out")
