"""Whether a run plainly fits into memory: a bound far too high that takes no time; only where it does not hold, the planner
is asked."""

# torch and transformers are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import warnings
from pathlib import Path
from typing import Any, cast

import torch

from agentgym.errors import BadConfig
from agentgym.registry import load
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.model.logprobs import CHUNK
from agentgym.trainers.model.memory import Memory, available
from agentgym.trainers.model.policy import policy_shape, size_of

GIB = 2**30
PLANNER = "agentgym.planner.forecast:forecast"
"""What is asked where the bound does not hold; the planner stands on this package, known here by name alone."""


def check(config: TrainConfig) -> TrainConfig:
    """Return the run with what follows from the memory there is: the share of a GPU that the trainer leaves its engine.

    Raises BadConfig, with the change to make, when the run needs clearly more memory than there is. Where that cannot be
    found out, a warning says so and the run goes on.
    """
    if not config.learner_kind.in_memory:
        return config
    try:
        shape, memory = read_shape(config), available()
        if shape is not None and plainly_fits(config, shape, memory):
            return config
        forecast: Any = load(PLANNER, "planner", {})
        plan = forecast(config, memory, lenient=True)
        refused = plan.refusal
    except Exception as error:  # of a model or an environment that cannot be planned, but perhaps be trained
        warnings.warn(f"whether this run fits into memory is not known: {error}", stacklevel=2)
        return config
    if refused:
        raise BadConfig(refused)
    return plan.config


def read_shape(config: TrainConfig) -> object:
    """Return the configuration of a model that is made here or lies in a folder or a cache; None of any other."""
    from transformers import AutoConfig

    if config.model == "init":
        return policy_shape(size_of(config))
    if not Path(config.model).is_dir():
        return None
    try:
        return AutoConfig.from_pretrained(config.model, local_files_only=True, trust_remote_code=False).get_text_config()
    except Exception:  # transformers raises many types for a damaged folder; the planner says what is wrong with it
        return None


def plainly_fits(config: TrainConfig, shape: Any, memory: Memory) -> bool:
    """Return whether a run fits even by a bound that is far too high and takes no time to find."""
    longest, layers = context(config, shape), int(shape.num_hidden_layers)
    tokens = max(config.batch_tokens, longest)
    feed = int(getattr(shape, "intermediate_size", None) or 4 * shape.hidden_size)  # GPT-2 and others name none
    feed *= int(getattr(shape, "num_experts_per_tok", None) or 1)
    weights = 24 * parameters(shape)  # masters, gradients, two averages, a reference and what a step takes
    slots = engine_slots(config)
    cache = 3 * slots * longest * cache_bytes(shape, 4)  # half of it twice while it grows, and prefill
    passes = 4 * tokens * layers * (24 * int(shape.hidden_size) + 8 * feed)
    logits = 32 * (min(tokens * int(shape.vocab_size), CHUNK) + slots * int(shape.vocab_size))
    return config.engine_kind.in_process and config.processes * (GIB + weights + cache + passes + logits) < memory.free / 2


def parameters(architecture: object) -> int:
    """Return how many numbers a model learns; tied ones count once."""
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        return sum(p.numel() for p in AutoModelForCausalLM.from_config(architecture).parameters())


def context(config: TrainConfig, architecture: object) -> int:
    """Return the most tokens of a row: what is asked for, or what the model takes."""
    own = int(getattr(architecture, "max_position_embeddings", None) or 4096)
    return min(config.context_tokens or own, own)


def engine_slots(config: TrainConfig) -> int:
    """Return how many episodes the hf engine has a place for."""
    return cast("int", config.engine_options.get("slots", config.concurrency))


def cache_bytes(architecture: Any, width: int = 2) -> int:
    """Return the bytes of keys and values of one token, `width` bytes a number."""
    heads = int(getattr(architecture, "num_key_value_heads", None) or architecture.num_attention_heads)
    size = int(getattr(architecture, "head_dim", None) or architecture.hidden_size // architecture.num_attention_heads)
    return 2 * width * int(architecture.num_hidden_layers) * heads * size
