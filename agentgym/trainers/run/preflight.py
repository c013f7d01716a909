"""What a run leans on, looked at before torch is imported: model, environment, splits, expert, credit, prompt, engine."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentgym import registry
from agentgym.agents.table import AGENTS
from agentgym.core.env import TextEnv
from agentgym.core.folders import check_folder
from agentgym.engines.adapters import is_adapter
from agentgym.engines.model_names import check_model, is_path
from agentgym.errors import BadConfig, unknown
from agentgym.rollout.collect import finished
from agentgym.trainers.branching.interface import check_beside, check_branching, resolve_branching
from agentgym.trainers.config.recipe_files import read_run
from agentgym.trainers.config.settings import EnvSpec
from agentgym.trainers.config.train_config import TrainConfig, homemade, newest_checkpoint, settings_in
from agentgym.trainers.credit.interface import resolve
from agentgym.trainers.generation.interface import GENERATIONS
from agentgym.trainers.learners.interface import check_embeds, check_learner
from agentgym.trainers.learners.kinds import LOCAL
from agentgym.trainers.loggers.interface import resolve_loggers
from agentgym.trainers.losses.interface import LOSSES, resolve_loss
from agentgym.trainers.needs.interface import check_needs, resolve_needs
from agentgym.trainers.rewards.interface import check_fits, reach, resolve_rewards
from agentgym.trainers.run import hints
from agentgym.trainers.run.launch import launched
from agentgym.trainers.samplers.interface import SAMPLERS, Sampler, TaskSource
from agentgym.trainers.seam import Stage, unwritten
from agentgym.trainers.selections.interface import SELECTIONS

USUAL_LR = 1e-6
HIGH_LR = 1e-4
"""A learning rate above this soon ruins a pretrained model of which every weight is trained."""


def looked_at(config: TrainConfig, *, fresh: bool = True) -> TrainConfig:
    """Return the run with its splits and its model's folder filled in; BadConfig for what would fail later.

    `fresh`: the run is about to be started, so its folder must be free.
    """
    if fresh:
        check_free(Path(config.out))
    if config.lora_rank and not config.steps and not config.sft_episodes:  # `sft` trains them, and does not come here
        raise BadConfig(f"lora_rank is {config.lora_rank} with 0 steps and 0 sft_episodes: nothing trains the adapters")
    config = replace(config, model=model_folder(config.model))
    rewards = _check_stages(config)
    _check_agent(config)
    config.engine_kind.check_run(config.engine.partition(":")[2], config.engine_options)
    pairs = [_look_at_env(config, spec) for spec in config.mix]
    _check_draws(config, pairs)
    envs = [spec for spec, _ in pairs]
    if fresh:
        finished(reach(rewards))
    splits = {name: getattr(envs[0], name) for name in ("train_split", "valid_split", "test_split")}
    return replace(config, envs=tuple(envs) if config.envs else (), **splits)


def _check_stages(config: TrainConfig) -> list[Stage]:
    """Return the rewards; BadConfig or UnknownName for a stage that is not known, or an option of one that cannot be."""
    needed = chosen_needs(config)
    check_learner(config, [stage.name for stage in needed])
    rewards = resolve_rewards(config.reward, config.reward_options)
    if rewards and not config.steps:
        raise BadConfig(
            f"reward {rewards[0].name!r} has no effect with steps = 0: rewards are paid in steps of reinforcement learning, "
            "not in an SFT warm start or an evaluation"
        )
    resolve_branching(config)
    resolve_loggers(config.loggers, config.logger_options)
    generation = GENERATIONS.resolve(config.generation, config.generation_options)
    if config.branching and config.generation != type(config).generation:
        raise BadConfig(
            f"branching {config.branching!r} with generation {config.generation!r}: a group that branches is played round "
            "by round, in the plain way; leave out one of the two"
        )
    for stage in (*needed, generation):
        if stage.attributes["embeds"]:
            check_embeds(config, f"{stage.kind} {stage.name!r}")
    if generation.attributes["check"] and config.steps:
        generation.attributes["check"](config)
    if config.loss != "clip" or config.loss_options:  # the package's own import torch, and that one needs no check
        _check_present(config, resolve_loss(config))
    if config.task_queue and config.processes == 1 and not launched():
        raise BadConfig("task_queue has no effect with one process: give --processes 2 or more, or leave it out")
    _check_bound(config)
    return rewards


def _check_present(config: TrainConfig, loss: Stage) -> None:
    """Raise BadConfig where a loss that compares turns of the whole step with one another would not see them together."""
    if loss.attributes["present"] and config.steps and config.minibatches > 1:
        raise BadConfig(
            f"loss {loss.name!r} with minibatches = {config.minibatches}: it compares turns with one another, and an update "
            "would hold some of them only; give --minibatches 1 (and --epochs for more updates)"
        )
    if loss.attributes["present"] and config.steps and config.negative_advantage_weight != 1:
        raise BadConfig(
            f"loss {loss.name!r} with negative_advantage_weight = {config.negative_advantage_weight:g}: it is a regression "
            "on differences of advantages, which a weight on the negative ones alone would change; set "
            "negative_advantage_weight 1"
        )
    if loss.attributes["present"] and config.learner_kind is not LOCAL:
        raise BadConfig(
            f"loss {loss.name!r} with learner {config.learner!r}: it scores all tokens once more before each update, which "
            "learner 'local' alone does; take that one, or another loss"
        )


_BOUND = {
    "expert": ("its episodes begin inside a demonstration", "hold such a point", "no other process has that point"),
    "proposals": (
        "its tasks are made in the step that plays them",
        "hold them",
        "its proposals belong to one process",
    ),
}
"""By what a sampler requires: why its draws stay in one step of one process, what no checkpoint can do, and why no queue."""


def _check_bound(config: TrainConfig) -> None:
    """Raise BadConfig where draws that stay in one step of one process would be needed elsewhere."""
    sampler = SAMPLERS.resolve(config.sampler, config.sampler_options)
    for requirement in sampler.attributes["requires"]:
        if requirement not in _BOUND:
            continue
        why, kept, queued = _BOUND[requirement]
        why = f"with sampler {sampler.name!r}: {why}, and"
        if config.async_level:
            raise BadConfig(
                f"async_level is {config.async_level} {why} a checkpoint cannot {kept} for episodes in flight; use "
                "another sampler, or leave async_level at 0"
            )
        if config.task_queue:
            raise BadConfig(f"task_queue {why} {queued}; use another sampler, or leave it off")


def chosen_needs(config: TrainConfig) -> list[Stage]:
    """Return what computes the needs of credit and loss."""
    credit = resolve(config.credit, **config.credit_options)
    loss = () if config.loss == "clip" else LOSSES.looked_up(config.loss).attributes["needs"]  # that one needs none
    return resolve_needs((*credit.needs, *loss), config.needs_options)


def _check_draws(config: TrainConfig, envs: Sequence[tuple[EnvSpec, TextEnv]]) -> None:
    """Raise BadConfig where the task sampler or the selection cannot do in these environments what it is for."""
    stages = (
        SAMPLERS.resolve(config.sampler, config.sampler_options),
        SELECTIONS.resolve(config.select, config.select_options),
    )
    sampler, selection = stages
    if lacks := unwritten(sampler.target, Sampler):
        raise BadConfig(f"sampler {config.sampler!r} lacks {lacks}; let its class inherit from agentgym.trainers.Sampler")
    if not config.steps:
        return
    _check_worth(config, selection)
    sources = [TaskSource(env, config.seed, spec.train_split or "train", spec.name, spec.weight) for spec, env in envs]
    sampler(sources)
    for stage in stages:
        if "expert" in stage.attributes["requires"]:
            _check_demonstrable(config, f"{stage.kind} {stage.name!r}", [env for _, env in envs])
        if "replays" in stage.attributes["requires"]:
            _check_repeatable(f"{stage.kind} {stage.name!r}", envs)
        if "hint" in stage.attributes["requires"]:
            hints.check(config, f"{stage.kind} {stage.name!r}", stage.option("level", 1.0), envs)
    if all("hint" in stage.attributes["requires"] for stage in stages):
        raise BadConfig(
            f"sampler {sampler.name!r} with select {selection.name!r}: both play with hints, and what fails with one hint "
            "would be played with another; use sampler 'uniform' or select 'drop'"
        )
    check_beside(config, stages)
    if "expert" in sampler.attributes["requires"] and selection.attributes["requires"]:
        raise BadConfig(
            f"sampler {sampler.name!r} with select {selection.name!r}: its episodes begin inside a demonstration, and those "
            "that the selection adds begin elsewhere, so they cannot be compared; use select 'drop' or 'refill'"
        )
    played = {"expert", "hint"} & set(selection.attributes["requires"])
    if "proposals" in sampler.attributes["requires"] and played:
        raise BadConfig(
            f"sampler {sampler.name!r} with select {selection.name!r}: what the selection plays at a task of proposing has "
            "no solvers, so nobody knows what it is worth; use select 'keep', 'drop' or another that plays nothing itself"
        )
    fresh = config.sampler in SAMPLERS.table and not any(source.finite for source in sources)
    generation = GENERATIONS.resolve(config.generation, config.generation_options)
    for stage in (selection, generation) if fresh else ():
        if "repeats" not in stage.attributes["requires"]:
            continue
        raise BadConfig(
            f"{stage.kind} {stage.name!r} has no effect: it needs tasks that repeat, and the generated tasks of "
            f"{', '.join(source.name for source in sources)} never do. Use an environment with tasks from a file"
        )


def _check_worth(config: TrainConfig, selection: Stage) -> None:
    """Raise BadConfig where turns say what they are worth and the credit does not read it, or none do and it would."""
    reads = resolve(config.credit, **config.credit_options).stage.attributes["worth"]
    if selection.attributes["worth"] and not reads:
        raise BadConfig(
            f"select {config.select!r} adds turns with a worth, and credit {config.credit!r} does not "
            f"read it: use --credit off_policy --credit.base {config.credit}"
        )
    if reads and not selection.attributes["worth"]:
        raise BadConfig(
            f"credit {config.credit!r} is for turns with a worth, and select {config.select!r} adds "
            "none: use --select dagger or --select self_imitation, or another credit"
        )


def _check_repeatable(what: str, envs: Sequence[tuple[EnvSpec, TextEnv]]) -> None:
    """Raise BadConfig where a stage goes through episodes again and an environment does not allow it."""
    for spec, env in envs:
        plain: Any = env.unwrapped
        reason = ""
        if len(plain.roles) > 1:
            reason = f"has the roles {', '.join(plain.roles)}, and an episode is gone through again for one role only"
        elif plain.declared.nondeterministic:
            reason = f"cannot be repeated ({plain.declared.nondeterministic})"
        if reason:
            raise BadConfig(f"{what} goes through episodes again, and {spec.name} {reason}. Use select 'drop' or 'keep'")


def _check_demonstrable(config: TrainConfig, what: str, envs: Sequence[TextEnv]) -> None:
    """Raise BadConfig where a stage plays demonstrations and nobody can in the run's agent."""
    for agent in dict.fromkeys((config.agent, *(str(env.agent.get("agent", config.agent)) for env in config.envs))):
        if agent not in AGENTS or not AGENTS[agent].load().demonstrable:
            raise BadConfig(f"{what} plays demonstrations, and no expert can play for agent {agent!r}: use agent 'chat'")
    for env in envs:
        check_expert(env, f"{what}, which plays demonstrations,", "Use another, such as sampler 'uniform' and select 'drop'")


def _look_at_env(config: TrainConfig, spec: EnvSpec) -> tuple[EnvSpec, TextEnv]:
    """Return an environment of the run with its splits filled in, and one of it to look at."""
    settings = settings_in(config, spec)
    env = registry.make(spec.id, **spec.options)
    check_needs(chosen_needs(config), config, env, spec.name)
    check_branching(config, env, spec.name)
    check_fits(resolve_rewards(config.reward, config.reward_options), env, spec.name)
    if settings.agent in AGENTS:
        settings.spec.check_tools(env.tools)
    if settings.agent in AGENTS and (config.sft_episodes or config.model == "init"):
        asked = f"sft_episodes is {config.sft_episodes}" if config.sft_episodes else "model is 'init'"
        check_expert(env, f"{asked}, which", "Train a model that can play already: --model FOLDER --sft-episodes 0")
    return _with_splits(spec, list(env.splits)), env


def cautions(config: TrainConfig) -> list[str]:
    """Return what is allowed but seldom meant."""
    notes: list[str] = []
    pretrained = config.model != "init" and not homemade(config.model)
    if pretrained and config.steps and not config.lora_rank and config.lr > HIGH_LR:
        notes.append(
            f"lr is {config.lr:g}, and every weight of the pretrained {config.model} is trained: {USUAL_LR:g} is usual "
            f"(with LoRA 1e-5 to 1e-4); above {HIGH_LR:g} such a model is soon ruined"
        )
    if config.model == "init" and config.policy_induction_heads and config.steps and not config.sft_episodes:
        notes.append(
            "a policy with policy_induction_heads repeats what it reads until demonstrations teach it more, and "
            "sft_episodes is 0: it will explore little"
        )
    uniform = config.steps and resolve(config.credit, **config.credit_options).stage.attributes["uniform"]
    if uniform and config.select in ("drop", "refill"):
        notes.append(
            f"credit {config.credit!r} learns from groups whose returns are all equal too, and select {config.select!r} "
            "leaves them out: give --select keep"
        )
    return notes


def check_free(folder: Path) -> None:
    """Raise BadConfig where a folder holds a run already, or is no folder."""
    if (folder / "config.toml").exists():
        raise BadConfig(
            f"{folder} already holds a run. Continue it: `agentgym train --resume {folder}` (in a checkout "
            f"`./dev train --resume {folder}`); or keep it and start another: add `--out runs/NAME`; or delete {folder}"
        )
    check_folder(folder)


def extended(
    folder: str | Path, steps: int | None, processes: int | None = None, settings: Mapping[str, object] | None = None
) -> TrainConfig:
    """Return the configuration of the run in a folder with another number of steps or processes, where one is given.

    `settings`: what the caller says of where and how it runs, see `read_run`. BadConfig unless the steps are more than the
    run has taken by its newest checkpoint.
    """
    numbers = [f"--{name}={value}" for name, value in (("steps", steps), ("processes", processes)) if value is not None]
    config = read_run(folder, settings, ["agentgym", "train", "--resume", str(folder), *numbers])
    if processes is not None:
        config = replace(config, processes=processes)
    if steps is None:
        return config
    newest = newest_checkpoint(folder)
    taken = 0 if newest is None else max(int(newest.name.removeprefix("step-")) - config.sft_steps, 0)
    if steps <= taken:
        raise BadConfig(f"steps is {steps}, and {folder} has taken {taken} already; expected more: --steps {taken + 10}")
    return replace(config, steps=steps)


def model_folder(name: str) -> str:
    """Return the model that a name stands for: of a run's folder its newest checkpoint, else the name itself.

    BadConfig for a folder without a model, and for a path that is not there, which never goes to a hub.
    """
    folder = Path(name).expanduser()
    if name == "init":
        return name
    if folder.is_dir():
        if (folder / "config.toml").exists() and not (folder / "config.json").exists():
            newest = newest_checkpoint(folder)
            if newest is None:
                raise BadConfig(f"model {name} is a training run without a checkpoint: expected checkpoints/step-… in it")
            return str(newest)
        if not (folder / "config.json").exists() and not is_adapter(folder):
            raise BadConfig(
                f"model {name} is neither a model (config.json), an adapter (adapter_config.json) nor a training run "
                "(config.toml, checkpoints/)"
            )
        return str(folder)
    if folder.exists() or is_path(name):
        what = "is a file" if folder.exists() else "is not there"
        raise BadConfig(f"model {name} {what}; expected the folder of a model or of a training run, or a name on the hub")
    return name


def _check_agent(config: TrainConfig) -> None:
    if config.agent not in AGENTS and not callable(registry.load(config.agent, "agent", {})):
        raise BadConfig(f"agent {config.agent} is not a function; expected one that plays an episode")


def check_reachable(config: TrainConfig) -> None:
    """Raise MissingExtra where the run's engine or adapters are not installed, BadConfig where no hub has its model."""
    config.engine_kind.check_installed()
    config.learner_kind.check_installed(config)
    if config.model != "init":
        check_model(config.model)


def _with_splits(config: EnvSpec, splits: list[str]) -> EnvSpec:
    first = "train" if "train" in splits else splits[0]
    named = {
        "train_split": config.train_split or first,
        "valid_split": config.valid_split or splits[:2][-1],
        "test_split": config.test_split or splits[-1],
    }
    for name, split in named.items():
        if split not in splits:
            raise unknown(f"split of {config.id} ({name}):", split, splits)
    return replace(config, **named)


def check_expert(env: TextEnv, asks: str, instead: str) -> None:
    """Raise BadConfig where an environment has no expert, saying what asks for one and what can be done instead."""
    plain: Any = env.unwrapped
    reason = f"{env.spec.id if env.spec else type(plain).__name__} has none"
    if plain.expert.__func__ is not TextEnv.expert:
        env.reset(seed=0)
        try:
            next(iter(env.expert()), None)
            return
        except NotImplementedError as error:
            reason += f" with these options ({error})"
    raise BadConfig(f"{asks} needs an environment with an expert, and {reason}. {instead}")
