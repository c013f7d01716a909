"""Measure an agent in one environment or many. An interrupted evaluation continues where it stopped.

agentgym eval household --model runs/demo                       the policy of a training run
agentgym eval core --model Qwen/Qwen3-1.7B --attempts 4         a suite of environments that generate their own tasks
agentgym eval my_suite.toml --model runs/demo                   your own suite; flags override it
agentgym eval search --model chat:https://api.example.com/v1#NAME   plain chat; the key is in AGENTGYM_API_KEY
agentgym eval rlvr/Search-v0 --policy expert --tasks 500        without a model: oracle, expert or random
agentgym eval household --model runs/demo --env.preset easy     options of the environment
"""

import re
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console
from rich.text import Text

from agentgym.agents.base import Agent
from agentgym.agents.message_agent import TURN_TOKENS
from agentgym.agents.spec import AgentSpec
from agentgym.agents.table import AGENTS, UNATTENDED
from agentgym.cli.eval_about import about_agent, player, replays
from agentgym.cli.eval_engine import check_threads, loaded, temperature_of, weights_of
from agentgym.cli.eval_result import show
from agentgym.cli.eval_screen import ProgressBar
from agentgym.cli.eval_spending import metered, planned
from agentgym.cli.flags import written
from agentgym.core.actions import Tool
from agentgym.core.folders import check_alone, check_folder
from agentgym.core.screen import announce
from agentgym.engines import Sampling
from agentgym.engines.kinds import kind_of
from agentgym.engines.model_names import as_chat, check_model
from agentgym.errors import BadConfig, UnknownName, no_such
from agentgym.evaluate.manifest import read_object
from agentgym.evaluate.protocol import too_many_faults
from agentgym.evaluate.run import EvaluationPlan, evaluate
from agentgym.evaluate.spending import OverBudget
from agentgym.evaluate.suite import Suite, resolve
from agentgym.harness.description import is_harness
from agentgym.options import Alias, Options, Positional
from agentgym.registry import make
from agentgym.rollout.pool import RolloutConfig, WorkerBackend

if TYPE_CHECKING:
    from agentgym.harness.agent import HarnessAgent
    from agentgym.trainers.config.train_config import TrainConfig

JsonObject = dict[str, Any]

OF_AGENTS = ("agent", "prompt", "tools", "turn_tokens", "observation_tokens")
OF_SUITES = (*OF_AGENTS, "temperature")
OF_MODELS = (*OF_SUITES, "threads")
OF_HARNESSES = ("attempt_seconds", "attempt_turns", "attempt_tokens")
OF_PLANS = ("split", "tasks", "attempts", "seed", "difficulties")
DATA = ("data", "corpus", "questions")
"""Environment options that locate data, the only options that a protocol does not fix."""


@dataclass(frozen=True)
class Config:
    """Options of `agentgym eval`."""

    envs: Annotated[Positional[str], Alias("environments")]
    """Environment, or several separated by commas; or a suite: `smoke`, `core`, `alfworld@agentgym`, or a TOML file."""
    model: str | None = None
    """Folder or hub name of a model, folder of a training run (its prompt file, and options that say where or how its
    environment runs, are not used unless flags repeat them), or an engine such as vllm:PATH, vllm:URL,URL or
    chat:URL#MODEL."""
    policy: str | None = None
    """`oracle`, `expert` or `random` instead of a model. In a harness, `oracle` uses the tokenizer of --model."""
    split: str | None = None
    """Split of the tasks; by default the suite's, else the environment's last split, which is its test split."""
    tasks: int | None = None
    """Number of tasks of each environment, from the start of the split's fixed list; by default the suite's, else all
    tasks of a file, or 100 generated ones."""
    attempts: int | None = None
    """Attempts at each task; by default the suite's, else 1."""
    horizon: int | None = None
    """Turns after which an episode is truncated; by default the suite's, else the environment's own."""
    difficulties: tuple[int, ...] | None = None
    """Difficulties to play, each with --tasks tasks (--difficulties 0 1 2); by default the suite's, else the environment's
    own."""
    seed: int | None = None
    """Seed of the environments' randomness and of sampling; by default the suite's, else 0."""
    temperature: float | None = None
    """Sampling temperature (0 is greedy); by default the suite's, else 1."""
    agent: str | None = None
    """`chat` (full history), `window` (the last turns), `summary` (the model writes its memory) or `completion` (one
    continuing reply); by default the training run's, else chat. Or `harness:NAME`, `harness:FILE.toml`: a program that
    works in the task's container (docs/guides/harnesses.md)."""
    attempt_seconds: float | None = None
    """Maximum seconds per attempt of a harness, after which its work is graded; by default 3600."""
    attempt_turns: int | None = None
    """Maximum replies per attempt of a harness; by default no limit."""
    attempt_tokens: int | None = None
    """Maximum sampled tokens per attempt of a harness; by default no limit."""
    prompt: str | None = None
    """Prompt of the agent: a name or a file; by default the training run's, else one chosen for the environment that
    lists all its tools."""
    tools: str | None = None
    """How the model calls an environment's tools: `native` (the chat template, or the server, shows them), `text` (the
    prompt lists them), or `auto`: native if the template supports it, and over plain chat; by default the training
    run's, else auto."""
    turn_tokens: int | None = None
    """Maximum number of tokens in a reply, thoughts included; by default the training run's, else the suite's, else 4096
    over plain chat and 256 for other models."""
    observation_tokens: int | None = None
    """Maximum number of tokens shown of an observation (four times as many characters over plain chat); by default the
    suite's, else 2048."""
    threads: int | None = None
    """CPU threads of torch; by default 1 for models below 50 M parameters, else torch's default."""
    concurrency: int = 64
    """Number of concurrent episodes; it does not affect the results."""
    workers: int = 0
    """Workers for environments whose steps may wait, such as for a browser; 0 is one per core, from 2 to 16."""
    worker_backend: WorkerBackend = "process"
    """Where environments run: in this process and worker processes, or all of them on the Ray cluster that RAY_ADDRESS
    names (or one that is started here)."""
    out: str | None = None
    """Folder of the evaluation; by default one under runs/ named after environments and model."""
    json: bool = False
    """Print only the summary, as JSON, on standard output."""
    quiet: bool = False
    """Print only the table of results, without progress."""
    retry_faults: bool = False
    """When an evaluation continues, replay its episodes that ended in an infrastructure error."""
    prices: str | None = None
    """TOML file with US dollars per million tokens by model, for servers that do not say what a request costs; by default
    the file that AGENTGYM_PRICES names."""
    plan: bool = False
    """Print the number of episodes, the maximum number of tokens and the disk space of images, and stop."""
    max_cost: float | None = None
    """Cost in US dollars after which no episode starts; running episodes finish and are stored, and a larger value
    continues the evaluation. For plain chat, and for harnesses with --prices.
    """
    regret: bool = False
    """Replay every episode next to the oracle: report the distance to the goal before and after each turn, the turn at
    which the episode was lost, and wasted turns.
    """
    env_options: Options = field(default_factory=dict[str, object])
    """Options of the environments: --env.KEY VALUE. They override the options that a training run used for the
    same environment."""
    worker_options: Options = field(default_factory=dict[str, object])
    """Options of a Ray actor: --worker.KEY VALUE, such as num_cpus (default 1) or resources."""
    engine_options: Options = field(default_factory=dict[str, object])
    """Options of the engine: --engine.KEY VALUE, for example --engine.device cuda."""


def run(config: Config) -> int:
    """Play the missing episodes and print the table; with --plan, only print the plan.

    Return 1 if more than 1 % of an environment's episodes ended in infrastructure errors, an environment was skipped, or
    --max-cost was reached; 130 after an interruption.

    Raises:
        BadConfig: an option is invalid.
    """
    if config.horizon is not None and config.horizon < 1:
        raise BadConfig(f"--horizon is {config.horizon}; expected at least 1")
    suite = resolve(config.envs)
    _check_protocol(config, suite)
    _check_who(config)
    rollout = _rollout(config)
    plan = _plan(config, suite)  # raises errors before a model is loaded
    if config.plan:
        print(planned(config, plan, _named(suite), _reply_tokens(config, suite)))
        return 0
    folder = Path(config.out or default_folder(config))
    check_folder(folder)
    check_alone(folder, "evaluation")
    if not config.quiet:  # loading a model takes its time
        announce(f"{', '.join(suite.envs)} with {player(config)}: into {folder}")
    agent, options = _agent(config, suite)
    agent, price, meter, estimate = metered(config, agent, plan, folder)
    console, progress = Console(), ProgressBar(quiet=config.quiet, meter=meter, estimate=estimate)
    try:
        with progress.progress_bar:
            episodes = evaluate(
                agent,
                plan,
                folder,
                options=options | _named(suite),
                rollout=rollout,
                retry_faults=config.retry_faults,
                regret=config.regret,
                price=price,
                say=announce,
                started=progress.start,
                progress=progress.add,
            )
    except KeyboardInterrupt:
        console.print(Text(f"interrupted: {progress.stored}; the same command continues"))
        return 130
    except OverBudget as error:
        rate = f", {progress.rate} so far" if progress.counted else ""
        console.print(Text(f"stopped: {error}. {progress.stored}{rate}; a larger --max-cost continues"))
        return 1
    finally:
        if agent.engine is not None:
            agent.engine.close()
    summary = read_object(folder / "summary.json")
    show(config, console, folder, summary, episodes)
    return int(bool(too_many_faults(episodes)) or bool(summary["skipped"]))


def _rollout(config: Config) -> RolloutConfig:
    if config.concurrency < 1:
        raise BadConfig(f"--concurrency is {config.concurrency}; expected at least 1")
    if config.workers < 0:
        raise BadConfig(f"--workers is {config.workers}; expected 0 or more")
    workers = config.worker_options
    rollout = RolloutConfig(config.concurrency, config.workers, worker_backend=config.worker_backend, worker_options=workers)
    rollout.check_workers()
    return rollout


def _named(suite: Suite) -> dict[str, object]:
    """Return the manifest's entries about a suite."""
    if suite.protocol is None:
        return {} if suite.name is None else {"suite": suite.name}
    tasks = sum(suite.own.get(environment, {}).get("tasks", suite.tasks) for environment in suite.envs)
    return {"suite": suite.name, "protocol": {"name": suite.name, "tasks": tasks, **asdict(suite.protocol)}}


def _check_protocol(config: Config, suite: Suite) -> None:
    """Check that no flag changes an option that a protocol fixes; `--env.data` and the like only locate its data.

    Raises:
        BadConfig: a flag changes such an option.
    """
    if suite.protocol is None:
        return
    names = (*OF_PLANS, "horizon", *OF_SUITES)
    flags = [f"--{name.replace('_', '-')}" for name in names if getattr(config, name) is not None]
    flags += [f"--env.{name}" for name in config.env_options if name not in DATA]
    if flags:
        raise BadConfig(
            f"{suite.name} is a protocol and fixes what {', '.join(flags)} would change: leave it out, or copy the suite "
            "into a file of your own, without its [protocol]"
        )


def default_folder(config: Config) -> str:
    """Return the default of --out; a repeated command gets the same folder and so continues the evaluation."""
    return "runs/" + re.sub(r"[^\w.=-]+", "-", f"eval-{config.envs}-{player(config)}").strip("-.")[:100]


def _plan(config: Config, suite: Suite) -> EvaluationPlan:
    """Return the plan: flags take precedence over the suite, and the suite over the defaults."""
    explicit = {name: value for name in OF_PLANS if (value := getattr(config, name)) is not None}
    fixed = {name: value for name in OF_PLANS if (value := getattr(suite, name)) is not None}
    own = {
        environment: {name: value for name, value in table.items() if name in OF_PLANS and name not in explicit}
        for environment, table in suite.own.items()
    }
    return EvaluationPlan(suite.envs, **{**fixed, **explicit}, env_options=_env_options(config, suite), own=own)


def _agent(config: Config, suite: Suite) -> "tuple[Agent | HarnessAgent, dict[str, object]]":
    """Return the agent, and the manifest's entries about it."""
    if config.policy is not None and not replays(config):
        return UNATTENDED[config.policy].load()(), {"policy": config.policy}
    if is_harness((merged := _with_suite(config, suite)).agent or ""):
        from agentgym.cli.eval_harness import harness_agent  # late: it loads the gateway and containers

        return harness_agent(merged, _resolve(merged, suite)[0])
    return _model(merged, suite)


def _with_suite(config: Config, suite: Suite) -> Config:
    """Return the flags, with a suite's agent options as defaults."""
    fixed = {name: value for name in OF_SUITES if (value := getattr(suite, name)) is not None}
    return replace(config, **{name: value for name, value in fixed.items() if getattr(config, name) is None})


def _reply_tokens(config: Config, suite: Suite) -> int:
    """Return the maximum tokens of a reply; 0 without a model."""
    if config.policy is not None:
        return 0
    config = _with_suite(config, suite)
    if is_harness(config.agent or ""):
        return config.turn_tokens or TURN_TOKENS
    name, trained = _resolve(config, suite)
    return _spec(config, trained, messages=not kind_of(name)[0].tokens).reply_tokens


def _check_who(config: Config) -> None:
    """Check that the flags name one agent and go together.

    Raises:
        BadConfig: no agent or several agents are named, or a flag has no effect.
        UnknownName: the policy is unknown.
    """
    if (config.model is None) == (config.policy is None) and not replays(config):
        raise BadConfig(f"say who plays: either --model (a folder, a name, an engine) or --policy {', '.join(UNATTENDED)}")
    if not is_harness(config.agent or ""):
        for name in OF_HARNESSES:
            if getattr(config, name) is not None:
                raise BadConfig(f"--{name.replace('_', '-')} has no effect here: it is for harnesses (--agent harness:NAME)")
    if config.policy is None:
        return
    if config.policy not in UNATTENDED:
        raise UnknownName(no_such("policy", config.policy, UNATTENDED))
    names = {*OF_MODELS} - ({"agent", "turn_tokens"} if replays(config) else set[str]())
    flags = [f"--{name.replace('_', '-')}" for name in OF_MODELS if name in names and getattr(config, name) is not None]
    if flags or config.engine_options:
        raise BadConfig(f"{', '.join(flags) or '--engine'} has no effect with --policy {config.policy}: it is for models")


def _model(config: Config, suite: Suite) -> tuple[Agent, dict[str, object]]:
    name, trained = _resolve(config, suite)
    spec = _spec(config, trained, messages=not kind_of(name)[0].tokens)
    about: dict[str, object] = {}
    if Path(config.model or "").expanduser().exists():
        from agentgym.cli.eval_trained import about_training  # late: it loads the settings of training

        about = about_training(config.model or "", spec)
    check_threads(config, name)
    tools = _tools(config, suite, spec)
    agent = spec.make(loaded(config, name), Sampling(temperature=temperature_of(config)))
    return agent, {
        "model": name,
        "weights": weights_of(name),
        **about,
        **about_agent(config, spec, agent, tools, several=len(suite.envs) > 1),
    }


def _spec(config: Config, trained: "TrainConfig | None", *, messages: bool) -> AgentSpec:
    """Return the spec of the agent: the flags, with the training run's options as defaults."""
    explicit: JsonObject = {name: value for name in OF_AGENTS if (value := getattr(config, name)) is not None}
    if trained is None:
        return AgentSpec(**explicit, messages=messages)
    if trained.agent in AGENTS and explicit.get("agent", trained.agent) == trained.agent:
        return replace(trained.spec, **explicit)
    inherited: JsonObject = {
        "prompt": trained.prompt or None,
        "observation_tokens": trained.observation_tokens,
    }  # other agents choose their own memory
    inherited |= {"agent": trained.agent, "turn_tokens": trained.turn_tokens}
    return AgentSpec(**{**inherited, **explicit})


def _tools(config: Config, suite: Suite, spec: AgentSpec) -> dict[str, dict[str, Tool]]:
    """Return the tools of each environment that can be created; raise BadConfig if the model would not see them."""
    options, by_env = _env_options(config, suite), dict[str, dict[str, Tool]]()
    for environment in suite.envs:
        try:
            env = make(environment, **options[environment])
        except Exception:  # `evaluate` creates it again and reports the error
            continue
        by_env[environment] = dict(env.tools)
        env.close()
        spec.check_tools(by_env[environment])
    return by_env


def _trained(config: Config, suite: Suite) -> "TrainConfig | None":
    """Return the options of a training run's agent and environment; None if the model is not a training run."""
    if not config.model or not Path(config.model, "config.toml").exists():
        return None
    from agentgym.cli.eval_trained import trained_as  # late: it loads the settings of training

    caller: dict[str, object] = {f"env.{key}": value for key, value in config.env_options.items()}
    caller |= {"prompt": config.prompt} if config.prompt is not None else {}
    envs = suite.envs if suite.protocol is None else ()
    return trained_as(Path(config.model), envs, caller, written(config, "eval"))


def _env_options(config: Config, suite: Suite) -> dict[str, dict[str, object]]:
    trained = _trained(config, suite)
    own = {trained.env: trained.env_options} if trained and suite.protocol is None else {}
    horizon = {} if config.horizon is None else {"horizon": config.horizon}
    return {
        environment: {**own.get(environment, {}), **suite.env_options(environment), **horizon, **config.env_options}
        for environment in suite.envs
    }


def _resolve(config: Config, suite: Suite) -> "tuple[str, TrainConfig | None]":
    """Return the engine name of a model, and the configuration of a training run.

    Raises:
        BadConfig: the folder contains no model.
    """
    model = config.model or ""
    if ":" in model and not Path(model).exists():
        kind, target = kind_of(model)
        kind.check_target(target)
        return model, None
    from agentgym.trainers.run.preflight import model_folder  # late: it loads the stages of training

    folder = model_folder(model)
    try:
        check_model(folder)
    except BadConfig as error:
        raise BadConfig(f"{error}. {as_chat(model)}") from None
    return f"hf:{folder}", _trained(config, suite)
