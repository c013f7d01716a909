"""Make a small policy and tokenizer from an environment's own text, so that training can start from scratch.

agentgym init-policy rlvr/Household-v0 --out runs/policy                      0.6 million parameters
agentgym init-policy rlvr/Search-v0 --out runs/policy --width 256 --layers 4   about 3 million
agentgym init-policy rlvr/Household-v0 --template chatml --out runs/chatml     with the chat template of Qwen2.5
agentgym init-policy rlvr/Household-v0 --moe --out runs/moe                    a mixture of four experts
agentgym init-policy rlvr/TextCraft-v0 --pre-tokenizer words --induction-heads  copies from the first update on
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from agentgym.cli.train import need_training, quiet
from agentgym.core.folders import check_folder
from agentgym.core.screen import announce
from agentgym.errors import BadConfig
from agentgym.options import Options, Positional
from agentgym.registry import make
from agentgym.trainers.run.requirements import check_expert

EXPERTS = 4


@dataclass(frozen=True)
class Config:
    """Options of `agentgym init-policy`."""

    env: Positional[str]
    """Environment whose text the tokenizer is trained on."""
    out: str = "runs/policy"
    """Folder to write the policy and the tokenizer to."""
    width: int = 128
    """Hidden size; heads have 32 dimensions, keys and values have half as many heads, and the feed-forward layer is
    twice as wide."""
    layers: int = 3
    """Number of layers."""
    moe: bool = False
    """Make a mixture of experts: four in each layer, two active for a token, each half as wide."""
    vocabulary: int = 1000
    """Tokens in the vocabulary, including 256 bytes."""
    pre_tokenizer: str = "phrases"
    """Largest span of a token: `phrases` of the environment, `words`, or `names` (phrases, but each word to copy is
    separate).
    """
    template: Literal["own", "chatml"] = "own"
    """Chat template: `own` has two control tokens per turn; `chatml` is Qwen2.5's template, which TRL, verl and vLLM
    know.
    """
    induction_heads: bool = False
    """Write heads into the initial weights that copy from the context. The SFT warm start then takes fewer
    demonstrations; before it, such a policy repeats what it reads."""
    context: int = 2048
    """Longest sequence in tokens."""
    episodes: int = 1500
    """Episodes of the expert whose text trains the tokenizer."""
    seed: int = 0
    """Seed of the weights and of the episodes."""
    env_options: Options = field(default_factory=dict[str, object])
    """Options of the environment: --env.KEY VALUE."""


def run(config: Config) -> int:
    """Write the policy and print its properties.

    Raises:
        BadConfig: an option is invalid, or the folder already contains a model.
    """
    need_training()
    if (Path(config.out) / "config.json").exists():
        raise BadConfig(f"{config.out} already holds a model: choose another --out, or delete it")
    check_folder(Path(config.out))
    if config.width % 64 or config.width < 64:
        raise BadConfig(f"width is {config.width}; expected a multiple of 64 (heads are 32 wide and come in pairs)")
    for name, least in (("layers", 1), ("vocabulary", 260), ("context", 16), ("episodes", 1), ("seed", 0)):
        if getattr(config, name) < least:
            raise BadConfig(f"{name} is {getattr(config, name)}; expected at least {least}")
    env = make(config.env, **config.env_options)
    check_expert(env, "init-policy", "Its policies are small; take a pretrained model for such an environment")
    announce(f"{config.out}: a policy from the text of {config.episodes} episodes of {config.env}; loading torch")
    quiet()
    from agentgym.trainers.model.policy import PolicySize, init_policy, load_policy

    shape = (config.width, config.layers, config.width // 32, 2 * config.width, config.vocabulary, config.context)
    size = PolicySize(
        *shape,
        experts=EXPERTS if config.moe else 0,
        pre_tokenizer=config.pre_tokenizer,
        induction_heads=config.induction_heads,
    )
    how: dict[str, Any] = {"episodes": config.episodes, "seed": config.seed, "template": config.template}
    folder = init_policy(config.env, config.out, env_options=config.env_options, size=size, **how)
    model, tokenizer = load_policy(folder)
    parameters = sum(p.numel() for p in model.parameters())
    Console().print(f"{folder}: {parameters / 1e6:.2f} M parameters, {len(tokenizer)} tokens", highlight=False, markup=False)
    return 0
