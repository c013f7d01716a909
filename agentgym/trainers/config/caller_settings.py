"""Split a run's settings into those that its stored configuration may set and those that the caller must give again.

A stranger may have written a run's folder. Numbers and choices that define the training are read back from it. Names
that could be a MODULE:NAME to import are read back only if they are registered. Everything else comes from the caller
alone: engines, workers, loggers, environment options that do not shape tasks, and every field that no table below
lists.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from agentgym.agents.prompt import is_file
from agentgym.agents.table import AGENTS
from agentgym.core.caller import Setting, refuse
from agentgym.episodes.stored_env import stored_settings
from agentgym.errors import BadConfig
from agentgym.trainers.branching.interface import BRANCHINGS
from agentgym.trainers.config.settings import EnvSpec
from agentgym.trainers.credit.interface import CREDITS
from agentgym.trainers.generation.interface import GENERATIONS
from agentgym.trainers.learners.interface import LEARNERS
from agentgym.trainers.losses.interface import LOSSES
from agentgym.trainers.needs.interface import NEEDS
from agentgym.trainers.rewards.interface import REWARDS, SCHEDULE
from agentgym.trainers.samplers.interface import SAMPLERS
from agentgym.trainers.seam import Seam, unfolded
from agentgym.trainers.selections.interface import SELECTIONS

STORED = frozenset(
    (
        *("vocabulary", "pre_tokenizer", "seed", "processes", "task_queue", "threads", "policy_width", "policy_layers"),
        *(
            "policy_context",
            "policy_induction_heads",
            "policy_episodes",
            "weight_transport",
            "async_level",
            "attempt_seconds",
            "tools",
        ),
        *("attempt_turns", "attempt_tokens", "side_calls", "try_stages"),
        *("history", "window_turns", "observation_tokens", "temperature", "turn_tokens", "context_tokens", "lora_rank"),
        *("lora_alpha", "lora_targets", "sft_episodes", "sft_batch", "sft_lr", "sft_muon", "sft_noise", "sft_invalid"),
        *("sft_forget", "sft_masked", "sft_eval_every", "train_split", "steps", "tasks_per_step", "group_size", "horizon"),
        *("horizon_steps", "shared_turns", "concurrency", "step_seconds", "negative_advantage_weight", "clip_low"),
        *("clip_high", "importance_sampling_level", "loss_aggregation", "constant", "kl", "kl_kind", "old_logprobs"),
        *("tis_cap", "lr", "muon", "optimizer", "lr_warmup", "min_lr_ratio", "weight_decay", "grad_clip", "minibatches"),
        *("epochs", "batch_tokens", "gradient_reduction", "sharding", "share_prefixes", "attention", "precision"),
        *("gradient_checkpointing", "compile", "eval_every", "eval_tasks", "valid_split", "test_split", "test_tasks"),
        *("test_temperature", "checkpoint_every", "keep_best", "keep_episodes", "entropy_bonus"),
        "out",  # a run goes on in the folder that was named, wherever it was started
        *("files", "weights", "success", "min_reward", "split", "batch", "lr_schedule"),  # of `sft`: data, read as episodes
    )
)
"""Fields that a stored configuration may contain with any value."""
CALLER = frozenset(
    (*("engine", "engine_options", "workers", "worker_backend", "worker_options", "loggers", "logger_options"),)
)
"""Fields that only the caller sets: a stored value other than the default must be given again on the command line."""
CHANGED = {"train": "--steps and --processes"}
"""Settings that may change when a run is resumed, per command; text for an error message."""
CALLER_FLAGS = sorted(f"{name.removesuffix('_options')}.KEY" if name.endswith("_options") else name for name in CALLER)
STAGES: Mapping[str, Seam] = {
    "sampler": SAMPLERS,
    "branching": BRANCHINGS,
    "generation": GENERATIONS,
    "reward": REWARDS,
    "select": SELECTIONS,
    "credit": CREDITS,
    "loss": LOSSES,
    "learner": LEARNERS,
}
"""Seam of each field that names a stage; a stored name must be registered. `needs` has options but no name."""
BY_VALUE = frozenset(("env", "env_options", "envs", "model", "agent", "prompt", "needs_options"))
"""Fields that a stored configuration may contain only if the value is built into the package (see `_unconfirmed`)."""
MODULES = ("env", "agent", *(stage for stage in STAGES if stage != "learner"))
"""Flags whose value may be MODULE:NAME; the caller must repeat the stored name."""


def with_caller(
    path: Path,
    values: Mapping[str, Any],
    default: Mapping[str, Any],
    caller: Mapping[str, object],
    command: Sequence[str],
    only: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Return the fields of a stored configuration, overridden by the caller's settings.

    `default` has the default of each field. `caller` maps flags without dashes (`engine`, `env.backend`) to values.
    `command` is the command line that the error message completes. `only` lists the flags and tables that the command
    uses: no other setting is checked, and `command` must then include the caller's flags already. Nothing is imported
    before the check.

    Raises:
        BadConfig: the file sets a field that the caller must give (the message has the full command), or the caller sets
            a field that cannot be changed.
    """
    found = [
        setting
        for setting in caller_settings_of(values, default, caller)
        if not only or setting.flag.partition(".")[0] in only
    ]
    by_flag = {setting.flag: setting for setting in found}
    for flag in caller:
        table = flag.partition(".")[0]
        if flag in values and _tuple(caller[flag]) == _tuple(values[flag]):
            continue  # the file says the same
        if flag not in by_flag and table not in CALLER and f"{table}_options" not in CALLER and not only:
            raise BadConfig(
                f"{path.parent} continues with its own configuration; only {CHANGED.get(command[1], 'these')} can be "
                f"changed, not {' '.join(Setting(flag, caller[flag]).words)}, and what says where or how it runs: "
                f"{', '.join(f'--{name}' for name in sorted({*by_flag, *CALLER_FLAGS}))}"
            )
    unsaid = [setting for setting in found if not _is_confirmed(setting, caller)]
    if unsaid:
        again = [] if only else [word for flag, value in caller.items() for word in Setting(flag, value).words]
        refuse(path, unsaid, [*command, *again])
    return _override(values, default, caller)


def _is_confirmed(setting: Setting, caller: Mapping[str, object]) -> bool:
    if setting.flag not in caller:
        return False
    same = setting.flag in MODULES or (setting.flag.startswith("env.") and setting.flag.endswith(".id"))
    return not same or _tuple(caller[setting.flag]) == _tuple(setting.value)


def _tuple(value: object) -> tuple[object, ...]:
    return tuple(cast("Sequence[object]", value)) if isinstance(value, tuple | list) else (value,)


def caller_settings_of(
    values: Mapping[str, Any], default: Mapping[str, Any], caller: Mapping[str, object]
) -> Iterator[Setting]:
    """Yield the settings in a stored configuration that differ from the default and that only the caller may make."""
    for name, value in values.items():
        table = name.removesuffix("_options")
        if name in STORED or value == default[name]:
            continue
        if name in BY_VALUE:
            yield from _unconfirmed(name, values, str(values.get("env", default["env"])), caller)
        elif name in STAGES:
            if not all(STAGES[name].is_registered(str(reference)) for reference in _tuple(value)):
                yield Setting(name, value)
        elif table in STAGES and name != table:
            yield from _options(table, STAGES[table], _tuple(values.get(table, default[table])), value)
        elif name != table:
            yield from (Setting(f"{table}.{key}", option) for key, option in value.items())
        else:
            yield Setting(name, value)


def _options(table: str, seam: Seam, names: Sequence[object], options: Mapping[str, object]) -> Iterator[Setting]:
    """Yield the options of a stage that could choose where or how something runs."""
    references = [str(name) for name in names]
    for key, value in unfolded(options, references).items():
        plain = key.rpartition(".")[2]
        if plain != SCHEDULE and not seam.may_be_stored(references, plain, value):  # a schedule is read as numbers
            yield Setting(f"{table}.{key}", value)


def _unconfirmed(name: str, values: Mapping[str, Any], env: str, caller: Mapping[str, object]) -> Iterator[Setting]:
    """Yield the settings of a field in `BY_VALUE` whose values are not built into the package."""
    value = values[name]
    if name in ("env", "env_options"):
        options: dict[str, object] = value if name == "env_options" else {}
        settings = stored_settings(env, options, [str(caller.get("env"))])
        yield from (setting for setting in settings if (setting.flag == "env") == (name == "env"))
    elif name == "envs":
        for number, spec in enumerate(cast("Sequence[EnvSpec]", value), 1):
            place = f"env.{number}"
            yield from stored_settings(spec.id, spec.options, [str(caller.get(f"{place}.id"))], (f"{place}.id", place))
            yield from (
                Setting(f"{place}.agent.{key}", setting)
                for key, setting in spec.agent.items()
                if not _agent_may_be_stored(key, setting)
            )
    elif name == "needs_options":
        yield from _options("needs", NEEDS, NEEDS.names(), value)
    elif name == "model":
        if value != "init" and not Path(str(value)).is_dir():  # else a name on a hub would be fetched
            yield Setting(name, value)
    elif not _agent_may_be_stored(name, value):
        yield Setting(name, value)


def _agent_may_be_stored(key: str, value: object) -> bool:
    """Return True if a stored configuration may contain this agent setting."""
    if key == "agent":
        return str(value) in AGENTS
    return not is_file(str(value)) if key == "prompt" else key in STORED


def _override(values: Mapping[str, Any], default: Mapping[str, Any], caller: Mapping[str, object]) -> dict[str, Any]:
    """Return the values of a stored configuration, overridden by the caller's."""
    result = dict(values)
    for flag, value in caller.items():
        table, dot, key = flag.partition(".")
        number, _, rest = key.partition(".")
        if not dot:
            result[table] = _as(flag, value, default[table])
        elif table == "env" and number.isdecimal():
            result["envs"] = _in_env(result.get("envs", ()), int(number), rest, value)
        else:
            options = unfolded(result.get(f"{table}_options", {}), key.rpartition(".")[:1])
            result[f"{table}_options"] = {**options, key: value}
    return result


def _in_env(specs: Sequence[EnvSpec], number: int, key: str, value: object) -> tuple[EnvSpec, ...]:
    """Return a run's environments with one setting of environment `number` (from 1) replaced; an id is never replaced."""
    spec = specs[number - 1]
    if key.startswith("agent."):
        spec = replace(spec, agent={**spec.agent, key.removeprefix("agent."): value})
    elif key != "id":
        spec = replace(spec, options={**spec.options, key: value})
    return (*specs[: number - 1], spec, *specs[number:])


def _as(flag: str, value: object, default: object) -> object:
    """Convert a command-line value to a tuple or an integer if the field's `default` is one; else return it unchanged.

    Raises:
        BadConfig: the field is an integer and the value is not.
    """
    if isinstance(default, tuple):
        return _tuple(value)
    if isinstance(default, int) and isinstance(value, str):
        if not value.isdecimal():
            raise BadConfig(f"{flag} is {value!r}; expected a whole number")
        return int(value)
    return value
