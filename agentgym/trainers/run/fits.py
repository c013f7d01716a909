"""Quick memory check of a run: a generous upper bound first, then the planner if the bound exceeds the memory."""

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
"""MODULE:NAME of the planner; the planner imports this package, so it is loaded only when the bound exceeds the memory."""


def check(config: TrainConfig) -> TrainConfig:
    """Check that a run fits into memory, and return it with the share of a GPU that the engine gets.

    If the memory need is unknown, a warning says so and the run continues. A run whose weights are on a server is
    returned unchecked.

    Raises:
        BadConfig: the run clearly needs more memory than there is; the message names the setting to change.
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
    except Exception as error:  # the run cannot be planned, but may work
        warnings.warn(f"whether this run fits into memory is not known: {error}", stacklevel=2)
        return config
    if refused:
        raise BadConfig(refused)
    return plan.config


def read_shape(config: TrainConfig) -> object:
    """Return the configuration of a model that is made here or is in a local folder; None for others or a damaged folder."""
    from transformers import AutoConfig

    if config.model == "init":
        return policy_shape(size_of(config))
    if not Path(config.model).is_dir():
        return None
    try:
        return AutoConfig.from_pretrained(config.model, local_files_only=True, trust_remote_code=False).get_text_config()
    except Exception:  # transformers raises many types for a damaged folder; the planner reports the problem
        return None


def plainly_fits(config: TrainConfig, shape: Any, memory: Memory) -> bool:
    """Return True if a quick, generous upper bound of the memory need is below half of the free memory.

    False if the engine is in another process, since the bound does not cover it.
    """
    longest, layers = context(config, shape), int(shape.num_hidden_layers)
    tokens = max(config.batch_tokens, longest)
    feed = int(getattr(shape, "intermediate_size", None) or 4 * shape.hidden_size)  # GPT-2 and others have none
    feed *= int(getattr(shape, "num_experts_per_tok", None) or 1)
    weights = 24 * parameters(shape)  # masters, gradients, two averages, a reference and temporaries
    slots = engine_slots(config)
    cache = 3 * slots * longest * cache_bytes(shape, 4)  # half of it twice while it grows, plus prefill
    passes = 4 * tokens * layers * (24 * int(shape.hidden_size) + 8 * feed)
    logits = 32 * (min(tokens * int(shape.vocab_size), CHUNK) + slots * int(shape.vocab_size))
    return config.engine_kind.in_process and config.processes * (GIB + weights + cache + passes + logits) < memory.free / 2


def parameters(architecture: object) -> int:
    """Return a model's number of parameters; tied parameters count once."""
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        return sum(p.numel() for p in AutoModelForCausalLM.from_config(architecture).parameters())


def context(config: TrainConfig, architecture: object) -> int:
    """Return the maximum number of tokens in a row: `context_tokens`, limited by the model."""
    own = int(getattr(architecture, "max_position_embeddings", None) or 4096)
    return min(config.context_tokens or own, own)


def engine_slots(config: TrainConfig) -> int:
    """Return the number of episodes that the hf engine can sample at the same time."""
    return cast("int", config.engine_options.get("slots", config.concurrency))


def cache_bytes(architecture: Any, width: int = 2) -> int:
    """Return the bytes of keys and values per token; `width` is the number of bytes per value."""
    heads = int(getattr(architecture, "num_key_value_heads", None) or architecture.num_attention_heads)
    size = int(getattr(architecture, "head_dim", None) or architecture.hidden_size // architecture.num_attention_heads)
    return 2 * width * int(architecture.num_hidden_layers) * heads * size
