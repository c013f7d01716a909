"""What a training run is put together from: the starting policy, the engine, the agent and the reference."""

# accelerate is typed in parts only
# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from accelerate import Accelerator

from agentgym.agents.spec import AGENTS
from agentgym.engines import Sampling, check_options
from agentgym.engines import engine as make_engine
from agentgym.engines.hf import HFEngine
from agentgym.episode import Episode
from agentgym.registry import load
from agentgym.rollout import acollect
from agentgym.trainers import sync
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.gateway_agent import GatewayAgent
from agentgym.trainers.policy import PolicySize, init_policy, load_policy, save_policy
from agentgym.trainers.precision import DTYPES, masters
from agentgym.trainers.record import Record
from agentgym.trainers.step import BaseScorer, Learner, Scorer


def policy_folder(accelerator: Accelerator, config: TrainConfig, run: Path) -> Path:
    """Return the folder of the model that a run starts from; `init` makes one in the run's own folder."""
    if config.model != "init":
        return Path(config.model)
    folder = run / "init"
    with accelerator.main_process_first():
        if accelerator.is_main_process:
            size = PolicySize(vocabulary=config.vocabulary, pieces=config.pieces)
            init_policy(config.env, folder, env_options=config.env_options, size=size, seed=config.seed)
    return folder


def engine(config: TrainConfig, folder: Path, model: Any, tokenizer: Any) -> Any:
    """Return what samples; a server has to prove that it serves the trainer's own weights."""
    context = config.context_tokens or None
    if config.engine == "hf":
        check_options("hf", HFEngine, config.engine_options)
        options: dict[str, Any] = {"slots": config.concurrency, **config.engine_options}
        return HFEngine(model, tokenizer, context=context, **options)
    if config.served:
        made = make_engine(config.engine, tokenizer=tokenizer, context=context, **config.engine_options)
        asyncio.run(sync.prove(made, model, tokenizer))
        return made
    on_cpu = model.device.type == "cpu"
    weights = ("shared_memory" if on_cpu else "ipc") if config.weights == "auto" else config.weights
    kind: dict[str, Any] = {"dtype": "float32"} if on_cpu else {}  # as the trainer computes; vLLM's own choice is half of it
    kind |= config.engine_options
    if config.lora_rank:
        weights, kind["lora_rank"] = "shared_memory", config.lora_rank
    return make_engine(f"{config.engine}:{folder}", tokenizer=tokenizer, context=context, weights=weights, **kind)


@contextmanager
def closing(engine: Any, weights: sync.WeightSync | None) -> Generator[None]:
    """Let go of the engine and of what connects it to the trainer at the end, whatever the end."""
    try:
        yield
    finally:
        if weights is not None:
            weights.close()
        engine.close()


def learner(accelerator: Accelerator, config: TrainConfig, model: Any) -> Learner:
    """Return the policy as what is trained, wherever accelerate puts it; its optimizers depend on the phase."""
    scorer = Scorer(model, config.temperature, config.attention, checkpointing=config.checkpointing, compiled=config.compile)
    made = Learner(accelerator, accelerator.prepare(scorer), [])
    made.masters = masters(model, config.precision, accelerator.num_processes)
    return made


def agent(config: TrainConfig, engine: Any, tokenizer: Any, temperature: float) -> Any:
    """Return the agent that plays, sampling at a temperature."""
    if config.agent not in AGENTS:  # MODULE:NAME of a function that plays with an agent of others
        play = load(config.agent, "agent", {})
        return GatewayAgent(play, engine, tokenizer, temperature, config.turn_tokens, config.attempt_seconds)
    return config.spec.make(engine, Sampling(temperature=temperature), tokenizer)


async def episodes(
    agent: Any, config: TrainConfig, timings: dict[str, float] | None = None, *, horizon: int | None = None, **options: Any
) -> list[Episode]:
    """Return the episodes that an agent plays on tasks of the run's world; see `acollect`."""
    options["concurrency"] = config.concurrency
    if isinstance(agent, GatewayAgent):  # its world is wherever it plays: no options, no horizon, no timings
        options.pop("progress", None)
        return await agent.collect(config.env, **options)
    options |= {"env_options": config.env_options, "workers": config.workers, "step_seconds": config.step_seconds}
    return await acollect(agent, config.env, horizon=horizon, timings=timings, **options)


def reference(accelerator: Accelerator, record: Record, model: Any, tokenizer: Any, method: str) -> Scorer | None:
    """Return the policy as it was when reinforcement learning began, which the KL penalty holds to; None without one.

    `method`: how the policy's own rows share a forward pass; a model that both share has one way to attend.
    """
    config, folder = record.config, record.folder / "reference"
    if not config.kl:
        return None
    if config.lora_rank:
        return BaseScorer(model, config.temperature, method)
    if record.writes and not folder.exists():
        save_policy(model, tokenizer, folder.with_name(".reference")).rename(folder)  # whole or not at all
    accelerator.wait_for_everyone()
    frozen = load_policy(folder, DTYPES[config.precision])[0].to(accelerator.device)
    return Scorer(frozen, config.temperature, config.attention).eval().requires_grad_(False)
