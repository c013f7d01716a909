"""What a training run starts from: the policy's folder, and the engine that samples from it."""

# accelerate is typed in parts only
# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false

import asyncio
from pathlib import Path
from typing import Any

from accelerate import Accelerator

from agentgym.engines import check_options
from agentgym.engines import engine as make_engine
from agentgym.engines.hf.engine import HFEngine
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.model.policy import PolicySize, init_policy
from agentgym.trainers.weights import sync


def policy_folder(accelerator: Accelerator, config: TrainConfig, run: Path) -> Path:
    """Return the folder of the model that a run starts from; `init` makes one in the run's own folder."""
    if config.model != "init":
        return Path(config.model)
    folder = run / "init"
    with accelerator.main_process_first():
        if accelerator.is_main_process:
            size = PolicySize(vocabulary=config.vocabulary, pre_tokenizer=config.pre_tokenizer)
            first, *others = config.mix
            beside = [(env.id, env.options) for env in others]
            init_policy(first.id, folder, env_options=first.options, size=size, seed=config.seed, beside=beside)
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
    weights = ("shared_memory" if on_cpu else "ipc") if config.weight_transport == "auto" else config.weight_transport
    kind: dict[str, Any] = {"dtype": "float32"} if on_cpu else {}  # as the trainer computes; vLLM's own choice is half of it
    kind |= config.engine_options
    if config.lora_rank:
        weights, kind["lora_rank"] = "shared_memory", config.lora_rank
    return make_engine(f"{config.engine}:{folder}", tokenizer=tokenizer, context=context, weights=weights, **kind)
