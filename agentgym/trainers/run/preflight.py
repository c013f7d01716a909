"""Checks before torch is imported: model, environment, splits, expert, credit, prompt, engine."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from agentgym import registry
from agentgym.agents.table import AGENTS
from agentgym.core.env import TextEnv
from agentgym.core.folders import check_alone, check_folder
from agentgym.engines.adapters import is_adapter
from agentgym.engines.model_names import check_model, is_path
from agentgym.episodes.episode import Group
from agentgym.errors import BadConfig
from agentgym.harness.description import is_harness
from agentgym.rollout.collect import finished
from agentgym.trainers.branching import interface as branching
from agentgym.trainers.config.caller_settings import STAGES
from agentgym.trainers.config.recipe_files import read_run
from agentgym.trainers.config.settings import EnvSpec
from agentgym.trainers.config.train_config import TrainConfig, homemade, newest_checkpoint, settings_in
from agentgym.trainers.credit import interface as credit
from agentgym.trainers.generation import interface as generation
from agentgym.trainers.learners import interface as learners
from agentgym.trainers.loggers import interface as loggers
from agentgym.trainers.loggers.interface import LOGGERS
from agentgym.trainers.losses import interface as losses
from agentgym.trainers.needs import interface as needs
from agentgym.trainers.rewards import interface as rewards
from agentgym.trainers.run import requirements, trial
from agentgym.trainers.run.launch import launched
from agentgym.trainers.run.stages import FreshRun, Stages
from agentgym.trainers.samplers import interface as samplers
from agentgym.trainers.seam import Stage
from agentgym.trainers.selections import interface as selections

USUAL_LR = 1e-6
HIGH_LR = 1e-4
"""Learning rate above which training all weights of a pretrained model soon ruins it."""


RUN = "training run"
"""Name for a run in messages about its folder."""
SEAMS = (learners, rewards, branching, loggers, generation, losses, credit, needs, selections, samplers)
"""The seams, each with a `check(run)`, in the order of the checks."""


def check_run(config: TrainConfig, *, fresh: bool = True) -> FreshRun:
    """Check a run and return it with its splits and its model's folder filled in.

    `fresh`: this process is about to start the run, so the run's folder must be free, and the servers and models that
    rewards use must be available.

    Raises:
        BadConfig: the run would fail later.
    """
    if fresh:
        check_free(Path(config.out))
        check_alone(Path(config.out), RUN)
    if config.lora_rank and not config.steps and not config.sft_episodes:  # `sft` trains them and does not call this
        raise BadConfig(f"lora_rank is {config.lora_rank} with 0 steps and 0 sft_episodes: nothing trains the adapters")
    config = config.with_found(model=model_folder(config.model))
    run = FreshRun(config, Stages(config))
    if config.task_queue and config.processes == 1 and not launched():
        raise BadConfig("task_queue has no effect with one process: give --processes 2 or more, or leave it out")
    _check_agent(config)
    config.engine_kind.check_run(config.engine.partition(":")[2], config.engine_options)
    for seam in SEAMS:
        seam.check(run)
    if run.stages.named_loss and config.steps:
        trial.attempt(run, run.stages.named_loss, lambda stage, _, group: _try_loss(run, stage, group))
    for spec, env in run.envs:
        _check_env(config, spec, env)
    if fresh:
        finished(rewards.reach(run.stages.rewards))
    envs = tuple(spec for spec, _ in run.envs)
    splits = {name: getattr(envs[0], name) for name in ("train_split", "valid_split", "test_split")}
    return replace(run, config=config.with_found(envs=envs if config.envs else (), **splits))


def _try_loss(run: FreshRun, loss: Stage, group: Group) -> None:
    """Compute a user's loss on a made-up group."""
    from agentgym.trainers.run.loss_trial import try_loss  # imports torch, as the user's module has

    try_loss(loss, run.config, needs.tried(run, group))


def _check_env(config: TrainConfig, spec: EnvSpec, env: TextEnv) -> None:
    """Check that the agent can play in an environment, and that it has an expert if the run needs one."""
    settings = settings_in(config, spec)
    if settings.agent not in AGENTS:
        return
    settings.spec.check_tools(env.tools)
    if config.sft_episodes or config.model == "init":
        reason = f"sft_episodes is {config.sft_episodes}" if config.sft_episodes else "model is 'init'"
        instead = "Train a model that can play already: --model FOLDER --sft-episodes 0"
        requirements.check_expert(env, f"{reason}, which", instead)


def cautions(config: TrainConfig, stages: Stages | None = None) -> list[str]:
    """Return warnings about settings that are allowed but rarely intended."""
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
    stages = stages or Stages(config)
    uniform = config.steps and stages.credit.stage.attributes["uniform"]
    if uniform and stages.selection.attributes["drops_equal"]:
        notes.append(
            f"credit {config.credit!r} learns from groups whose returns are all equal too, and select {config.select!r} "
            "leaves them out: give --select keep"
        )
    return notes


def check_names(config: TrainConfig) -> None:
    """Check the names of all stages without importing a stage.

    Raises:
        UnknownName: a stage does not exist; the message has the closest name.
    """
    for field, seam in {**STAGES, "loggers": LOGGERS}.items():
        named: str | tuple[str, ...] = getattr(config, field)
        for name in (named,) if isinstance(named, str) else named:
            if name:  # some stages are optional
                seam.check_name(name)


def check_free(folder: Path) -> None:
    """Check that a folder is free for a run.

    Raises:
        BadConfig: the folder already has a run, or is not a folder.
    """
    if (folder / "config.toml").exists():
        raise BadConfig(
            f"{folder} already holds a run. Continue it: `agentgym train --resume {folder}` (in a checkout "
            f"`./dev train --resume {folder}`); or keep it and start another: add `--out runs/NAME`; or delete {folder}"
        )
    check_folder(folder)


def extended(
    folder: str | Path, steps: int | None, processes: int | None = None, settings: Mapping[str, object] | None = None
) -> TrainConfig:
    """Return the configuration of the run in a folder, with a new number of steps or processes unless None.

    `settings`: the caller's settings that say where and how the run continues; see `read_run`.

    Raises:
        BadConfig: `steps` is not above the number of steps that the run has taken.
    """
    numbers = [f"--{name}={value}" for name, value in (("steps", steps), ("processes", processes)) if value is not None]
    config = read_run(folder, settings, ["agentgym", "train", "--resume", str(folder), *numbers])
    if steps is None:
        return config if processes is None else replace(config, processes=processes)
    newest = newest_checkpoint(folder)
    steps_done = 0 if newest is None else max(int(newest.name.removeprefix("step-")) - config.sft_steps, 0)
    if steps <= steps_done:
        raise BadConfig(
            f"steps is {steps}, and {folder} has taken {steps_done} already; expected more: --steps {steps_done + 10}"
        )
    return replace(config, steps=steps, processes=processes or config.processes)


def model_folder(name: str) -> str:
    """Return the folder of a model: for a run's folder the newest checkpoint, else the given folder or hub name.

    `init` is returned as it is. A path that does not exist is never looked up on a hub.

    Raises:
        BadConfig: the folder contains no model, or the path does not exist.
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
    if (
        config.agent not in AGENTS
        and not is_harness(config.agent)
        and not callable(registry.load(config.agent, "agent", {}))
    ):
        raise BadConfig(f"agent {config.agent} is not a function; expected one that plays an episode")


def check_reachable(config: TrainConfig) -> None:
    """Check that the run's engine, adapters and model are available.

    Raises:
        MissingExtra: the engine or peft is not installed.
        BadConfig: the hub has no such model.
    """
    config.engine_kind.check_installed()
    config.learner_kind.check_installed(config)
    if config.model != "init":
        check_model(config.model)
