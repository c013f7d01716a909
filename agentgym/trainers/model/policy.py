"""Policies made from scratch: a small Qwen3-shaped model and a tokenizer trained on an environment's own text."""

# transformers is typed in parts only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import re
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

from agentgym import registry
from agentgym.agents.phrases import ACT, WHOLE, pattern
from agentgym.core.outcome import Info
from agentgym.core.play import episode_text
from agentgym.core.seeding import generator
from agentgym.engines import adapters
from agentgym.engines.model_files import check_files
from agentgym.errors import BadData, MissingExtra, UnknownName, how_to_install, no_such
from agentgym.trainers.model.induction import write_induction_heads

if TYPE_CHECKING:
    from agentgym.trainers.config.train_config import TrainConfig

END, PAD = "<|end|>", "<|pad|>"
CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
"""ChatML's control tokens: padding, start of a message, end of a message, in this order."""
ACTIVE = 2
"""Active experts per token."""
HEAD = 32
"""Dimensions per attention head of a policy made for a run."""
SMALL = 50_000_000
"""Number of parameters below which several threads lose more to synchronization than they gain."""

# Two control tokens per turn: text that is not the assistant's has no markers, and <|act|> opens the reply.
TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message['role'] == 'assistant' -%}{{ '<|act|>' + message['content'] + '<|end|>' }}"
    "{%- else -%}{{ message['content'] }}{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|act|>' }}{%- endif -%}"
)

_WORD = re.compile(r"[^\W\d_]+")
_NUMBERED = re.compile(r"([^\W\d_]+) \d")


@dataclass(frozen=True)
class PolicySize:
    """Size of a policy made from scratch, and of its tokenizer."""

    width: int = 128
    """Hidden size."""
    layers: int = 3
    """Number of layers."""
    heads: int = 4
    """Number of query heads; there are half as many key-value heads, but at least one."""
    feed_forward: int = 256
    """Width of the feed-forward layer."""
    vocabulary: int = 1000
    """Size of the vocabulary, including 256 bytes."""
    context: int = 2048
    """Longest sequence in tokens."""
    experts: int = 0
    """Number of experts per feed-forward layer, each half as wide, two active per token; 0 makes a dense model."""
    pre_tokenizer: str = "phrases"
    """Longest text of one token: `phrases`, `words`, or `names` (phrases, but a name is always the same token)."""
    induction_heads: bool = False
    """Initialize the weights so that the policy can copy from its context: see `model.induction`."""


def size_of(config: "TrainConfig") -> PolicySize:
    """Return the size of the policy that a run with `model = "init"` makes."""
    width = config.policy_width
    return PolicySize(
        width,
        config.policy_layers,
        width // HEAD,
        2 * width,
        config.vocabulary,
        config.policy_context,
        pre_tokenizer=config.pre_tokenizer,
        induction_heads=config.policy_induction_heads,
    )


def init_policy(
    env: str,
    out: str | Path,
    *,
    env_options: Mapping[str, object] | None = None,
    size: PolicySize | None = None,
    episodes: int = 1500,
    seed: int = 0,
    beside: Sequence[tuple[str, Mapping[str, object]]] = (),
    template: str = "own",
) -> Path:
    """Write a randomly initialized policy and its tokenizer for an environment to the folder `out`; return the folder.

    `size`: None means `PolicySize()`. `beside`: further environments, with their options, whose text the tokenizer also
    learns; all share the `episodes`. `template`: see `train_tokenizer`.
    """
    size = size or PolicySize()
    envs = [(env, dict(env_options or {})), *((name, dict(options)) for name, options in beside)]
    each = -(-episodes // len(envs))
    texts = chain.from_iterable(env_text(name, options, each, seed) for name, options in envs)
    tokenizer = train_tokenizer(texts, size.vocabulary, size.pre_tokenizer, template)
    torch.manual_seed(seed)
    return save_policy(_model(size, tokenizer), tokenizer, Path(out))


def _model(size: PolicySize, tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    """Return a model of this size, for the tokenizer's vocabulary, with random weights and any induction heads."""
    tokens: dict[str, Any] = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    kind: Any = Qwen3MoeForCausalLM if size.experts else Qwen3ForCausalLM
    model = kind(policy_shape(replace(size, vocabulary=len(tokenizer)), **tokens))
    if size.induction_heads:
        write_induction_heads(model)
    return model


def policy_shape(size: PolicySize, **tokens: int) -> object:
    """Return the configuration of a model shaped like Qwen3 or, with experts, like Qwen3-30B-A3B.

    `tokens`: ids of special tokens, such as `eos_token_id`.
    """
    shape: dict[str, Any] = {
        "vocab_size": size.vocabulary,
        "hidden_size": size.width,
        "intermediate_size": size.feed_forward,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
        "num_key_value_heads": max(1, size.heads // 2),
        "head_dim": size.width // size.heads,
        "max_position_embeddings": size.context,
        "tie_word_embeddings": True,
        "initializer_range": 1.0 / size.width**0.5,  # 0.04 learned much more slowly at width 128
        "bos_token_id": None,
        **tokens,
    }
    if not size.experts:
        return Qwen3Config(**shape)
    routing: dict[str, Any] = {"num_experts": size.experts, "num_experts_per_tok": ACTIVE, "norm_topk_prob": True}
    return Qwen3MoeConfig(**shape, **routing, moe_intermediate_size=size.feed_forward // ACTIVE)


def save_policy(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> Path:
    """Write a model and its tokenizer to a folder and return the folder.

    Raises:
        BadData: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    except Exception as error:  # a full disk is an error of safetensors' own type
        raise BadData(f"{folder}: the policy could not be written ({error})") from error
    return folder


def load_policy(path: str | Path, dtype: torch.dtype = torch.float32) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load the model and tokenizer in a folder, or with a hub name.

    For an adapter's folder, load the base model with the adapter; only the adapter is then trainable.

    Raises:
        BadData: the folder is damaged or contains no model.
    """
    check_files(path)
    try:
        tokenizer = cast("PreTrainedTokenizerBase", AutoTokenizer.from_pretrained(str(path), trust_remote_code=False))
        if adapters.is_adapter(path):
            return cast("PreTrainedModel", adapters.load_adapted(path, dtype, trainable=True)), tokenizer
        model = cast(
            "PreTrainedModel", AutoModelForCausalLM.from_pretrained(str(path), dtype=dtype, trust_remote_code=False)
        )
    except BadData:
        raise
    except Exception as error:  # transformers raises many types for a damaged folder
        raise BadData(
            f"{path}: no policy could be loaded ({type(error).__name__}: {error}); expected a model folder"
        ) from error
    return model, tokenizer


def set_threads(model: PreTrainedModel, threads: int = 0) -> None:
    """Set torch's number of CPU threads; 0 means one for a model on the CPU below `SMALL` parameters, else no change."""
    if not threads and model.device.type == "cpu" and sum(parameter.numel() for parameter in model.parameters()) < SMALL:
        threads = 1
    if threads:
        torch.set_num_threads(threads)


def env_text(env: str, options: dict[str, object], episodes: int, seed: int) -> Iterable[str]:
    """Yield an environment's output and its expert's actions, with some random and invalid actions mixed in."""
    environment = registry.make(env, **options)
    rng = generator("world text", env, seed)

    def choose(_: str, info: Info) -> str | None:
        commands = info["admissible"]
        action = next(iter(environment.expert()), None)
        if action is not None and rng.random() < 0.2:
            return commands[int(rng.integers(len(commands)))] if commands and rng.random() < 0.8 else "wrong"
        return action

    for number in range(episodes):
        yield from episode_text(environment, choose, environment.reset(seed=seed + number))


PRE_TOKENIZERS = ("phrases", "words", "names")


def words() -> str:
    """Return a pre-tokenizer pattern that splits text into words, for environments whose words are copied one by one."""
    return rf"{WHOLE}| ?\d+|,?[ \n]?\p{{L}}+| ?[^\s\p{{L}}\d]+|\s+"


def bare_names(texts: Iterable[str]) -> str:
    """Return a pre-tokenizer pattern that splits text into phrases and isolates the words that may have to be copied.

    These are the words that occur in `texts` after at least two of a space, a newline, and anything else. With the
    patterns of `words` and `phrases`, such a word has one token after a space and another after a bracket or at the
    start of a line, and an untrained policy cannot copy it from one place to the other. With this pattern, it is the
    same token everywhere, and the space before it belongs to the preceding token.
    """
    before: dict[str, set[str]] = {}
    for text in texts:
        for found in _WORD.finditer(text):
            character = text[found.start() - 1 : found.start()]
            before.setdefault(found[0], set()).add(character if character in " \n" else "")
    names = sorted(word for word, places in before.items() if len(places) > 1)
    name = rf"(?:{'|'.join(names) or '(?!)'})(?!\p{{L}})"
    phrase = rf"[,.]?[ \n]?(?!{name})\p{{L}}++(?: (?!{name})\p{{L}}++)*"
    return rf"{name}|(?: ?\d+|{phrase}| ?[^\s\p{{L}}\d]+)(?: (?={name}))?|\s+"


def phrases(texts: Iterable[str]) -> str:
    """Return a pre-tokenizer pattern that splits an environment's text into phrases, the longest texts of one token.

    A word that is followed by a number anywhere ("drawer 2") names an object and is separate, without its number: in
    the goal, in a list and in a command it is then the same token, and the policy only has to learn to copy it. Other
    words stay together as phrases, so that recurring text of the environment becomes one token.
    """
    return pattern(sorted({name for text in texts for name in _NUMBERED.findall(text)}))


def trained_bpe(texts: Iterable[str], pattern: str, vocabulary: int, special: list[str]) -> Tokenizer:
    """Train a byte-level BPE tokenizer on texts; `pattern` splits them into pieces, and no token spans two pieces."""
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )  # type: ignore[assignment]
    tokenizer.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(iter(texts), trainer)
    return tokenizer


def train_tokenizer(
    texts: Iterable[str], vocabulary: int, pre_tokenizer: str = "phrases", template: str = "own"
) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer on texts; `pre_tokenizer` sets the longest text of one token.

    `template`: `own` (two control tokens per turn) or `chatml` (Qwen2.5's template with tools, which other packages
    support).

    Raises:
        UnknownName: `pre_tokenizer` or `template` is unknown.
    """
    texts = list(texts)
    if pre_tokenizer not in PRE_TOKENIZERS:
        raise UnknownName(no_such("pre_tokenizer", pre_tokenizer, PRE_TOKENIZERS))
    if template not in ("own", "chatml"):
        raise UnknownName(no_such("template", template, ("own", "chatml")))
    source, pad, opener, end = (TEMPLATE, PAD, ACT, END) if template == "own" else (_chatml(), *CHATML)
    patterns = {"phrases": phrases, "names": bare_names}
    pattern = patterns[pre_tokenizer](texts) if pre_tokenizer in patterns else words()
    tokenizer = trained_bpe([*texts, string.printable], pattern, vocabulary, [pad, opener, end])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=end,
        pad_token=pad,
        chat_template=source,
        additional_special_tokens=[opener],
        clean_up_tokenization_spaces=False,
    )


def _chatml() -> str:
    """Return Qwen2.5's chat template exactly as in trl, which recognizes the format of tool calls by this text.

    Raises:
        MissingExtra: trl is not installed.
    """
    package = find_spec("trl")
    if package is None or not package.origin:
        raise MissingExtra(f"the template chatml comes from trl: {how_to_install('train')}")
    return (Path(package.origin).parent / "chat_templates" / "qwen2_5.jinja").read_text(encoding="utf-8")
