"""What a training run is made of: one flat dataclass, the same for flags, TOML recipes and Python."""

import dataclasses
import json
import tomllib
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, cast

from agentgym.agents.decide import AUTO
from agentgym.agents.spec import NAMED, AgentSpec
from agentgym.errors import BadConfig, BadData, bad_option, unknown
from agentgym.options import Options
from agentgym.trainers import checks, lora

STATE = "trainer.pt"
"""The file of a checkpoint folder that holds the trainer's state."""
MARK = "<|act|>"
"""A token that the tokenizers of `init-policy` have and no other."""
FOLDER = Path(str(files("agentgym.trainers") / "recipes"))


@dataclass(frozen=True)
class TrainConfig:
    """A training run."""

    env: str = "rlvr/Household-v0"
    """Environment to train on."""
    env_options: Options = field(default_factory=dict[str, Any])
    """Options of the environment: --env.KEY VALUE."""
    model: str = "init"
    """Folder or name of a causal language model; `init` makes a small one from the environment's own text."""
    vocabulary: int = 1000
    """Tokens of the tokenizer that `model = "init"` makes, 256 bytes included; more where there are many names."""
    pieces: Literal["phrases", "words"] = "phrases"
    """What its tokens may grow to: `phrases` of the environment, or `words`, where its phrases hardly repeat."""
    engine: str = "hf"
    """What samples: `hf` (in this process, the trainer's own weights), `vllm`, or `openai:URL` (no updates: see docs)."""
    engine_options: Options = field(default_factory=dict[str, Any])
    """Options of the engine: --engine.KEY VALUE (for vllm its engine arguments, such as max_num_seqs)."""
    weights: Literal["auto", "shared_memory", "ipc", "nccl"] = "auto"
    """How new weights reach a vllm engine: `shared_memory`, `ipc` (both on one GPU), `nccl` (each on its own), or `auto`:
    ipc where the trainer is on a GPU, else shared_memory."""
    agent: str = "chat"
    """How turns become tokens: `chat` (full history), `completion` (the same as one reply that goes on), `window` (the last
    turns, a fresh prompt each) or `summary` (the model sums up what no longer fits; without a warm start); or MODULE:NAME,
    a function that plays with an agent of others by its base URL."""
    attempt_seconds: float = 3600.0
    """Seconds that an attempt of an agent of others may take; then it is a failure or a fault, and the run goes on."""
    prompt: str = ""
    """Prompt of the agent: a name from agents/prompts or a file; without it, one that tells of the environment's tools, and
    `bare` for a policy made from nothing."""
    tools: str = AUTO
    """How the model calls the tools: `native` (the chat template shows them), `text` (the prompt lists them), or `auto`:
    native where the template can."""
    history: str = "keep"
    """What the agent chat holds of the past: `keep` (the sampled tokens) or `template` (what the chat template renders)."""
    window_turns: int = 2
    """Turns that the agent window shows again."""
    observation_tokens: int = 2048
    """Most tokens shown of an observation; a longer one loses its middle."""
    out: str = "runs/train"
    """Folder of the run."""
    seed: int = 0
    """Everything random follows from it."""
    processes: int = 1
    """Processes on this machine, each with its share of every step; small models on a CPU want one a core."""
    threads: int = 0
    """CPU threads of torch in each process; 0 takes one for a model below 50 M parameters, else torch's own choice."""

    lora_rank: int = 0
    """Rank of LoRA adapters, which are then all that is trained; 0 trains every weight."""
    lora_alpha: int = lora.ALPHA
    """What an adapter adds is scaled by this over the rank."""
    lora_targets: tuple[str, ...] = lora.TARGETS
    """Linear layers that get an adapter; by default all of attention and feed-forward."""

    warm_episodes: int = 0
    """Expert episodes to imitate before reinforcement learning; 0 skips the warm start."""
    warm_batch: int = 8
    """Episodes per update of the warm start."""
    warm_lr: float = 4e-3
    """Peak learning rate of the warm start (AdamW; matrices of a small policy use Muon at five times this)."""
    warm_muon: bool = True
    """Use Muon for the matrices in the warm start."""
    warm_noise: float = 0.15
    """Share of the expert's turns replaced by a random valid command (where these are not finite, a mistake of the
    environment's own), which is imitated too."""
    warm_invalid: float = 0.08
    """Share of the expert's turns replaced by an invalid command, which is not imitated."""
    warm_forget: float = 0.03
    """Share of the expert's turns where it leaves out a step, once an episode at most; it is imitated too."""

    train_split: str = ""
    """Split of the tasks to demonstrate and to train on; without it `train`, or the first of the environment's splits."""
    steps: int = 100
    """Updates of reinforcement learning; 0 stops after the warm start."""
    tasks_per_step: int = 16
    """Groups per step."""
    group_size: int = 8
    """Episodes per group."""
    concurrency: int = 128
    """Episodes in flight."""
    workers: int = 2
    """Worker processes (of each process) for an environment whose steps may wait for something outside, as a browser's."""
    step_seconds: float = 60.0
    """Seconds that one step or reset of the environment may take."""
    temperature: float = 1.0
    """Sampling temperature, in rollouts and in the loss."""
    turn_tokens: int = 24
    """Most tokens of one reply."""
    context_tokens: int = 0
    """Most tokens of one prompt and reply; 0 means as many as the model takes."""
    horizon: tuple[int, ...] = ()
    """Turns per episode, in stages (ScalingInter); empty means the environment's own."""
    horizon_steps: int = 100
    """Steps per stage of the horizon."""
    dynamic_sampling: Literal["keep", "drop", "refill"] = "drop"
    """Groups whose returns are all equal: `keep`, `drop`, or `refill` with fresh tasks."""
    refill_rounds: int = 4
    """Most rounds of refilling in one step; what is there then is trained."""

    credit: str = "gigpo"
    """Credit algorithm: a name or MODULE:NAME."""
    credit_options: Options = field(default_factory=dict[str, Any])
    """Its hyper-parameters: --credit.KEY VALUE."""
    negative: float = 1.0
    """Weight of negative advantages; less than 1 spares a weak policy from unlearning more than it learns."""
    lr: float = 1e-3
    """Learning rate (AdamW)."""
    muon: bool = False
    """Use Muon for the matrices (at five times the learning rate): far quicker for small models trained from nothing."""
    lr_warmup: int = 0
    """Steps of linear warm-up of the learning rate."""
    lr_decay: float = 1.0
    """Learning rate at the last step as a share of `lr` (linear)."""
    weight_decay: float = 0.0
    """AdamW's weight decay."""
    minibatches: int = 4
    """Optimizer updates per step."""
    epochs: int = 1
    """Passes over the episodes of a step."""
    clip_low: float = 0.2
    """The ratio is clipped below 1 minus this."""
    clip_high: float = 0.2
    """The ratio is clipped above 1 plus this."""
    ratio: Literal["token", "turn", "sequence"] = "token"
    """Level of the importance ratio: `token`, `turn` or `sequence`."""
    weighing: Literal["token", "turn", "episode", "episode-sum", "constant"] = "token"
    """What counts alike in an update: every `token`, `turn` or `episode`, `episode-sum`, or `constant` (Dr.GRPO)."""
    constant: float = 0.0
    """The fixed length that `constant` divides by."""
    kl: float = 0.0
    """Weight of the KL penalty towards the policy at the start of reinforcement learning (with adapters: the model with
    its adapters off); 0 needs no reference."""
    mismatch_cap: float = 2.0
    """Cap of the per-token weight trainer / engine, which corrects every engine but `hf` in fp32, its own model."""
    grad_clip: float = 1.0
    """Largest gradient norm."""
    batch_tokens: int = 4096
    """Tokens per forward pass."""
    attention: Literal["auto", "flash", "flex", "sdpa", "split", "rows", "small"] = "auto"
    """How rows share a forward pass: `auto` (the best that runs), `flash`, `flex`, `sdpa` or `split` (unpadded), `rows`
    (padded) or `small` (a pass of its own for small models on a CPU)."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """`fp32`, `bf16` (with fp32 masters), or `auto`: bf16 where a GPU has it."""
    checkpointing: bool = False
    """Keep only the inputs of each layer and compute the rest again in the backward pass: less memory, a third more work."""
    compile: bool = False
    """Compile the model's layers with torch.compile."""
    optimizer: Literal["adamw", "adamw8bit"] = "adamw"
    """`adamw`, or `adamw8bit` (state in 8 bits; needs torchao); with Muon, for what Muon leaves."""

    eval_every: int = 10
    """Steps between evaluations on the validation split; 0 means never."""
    eval_tasks: int = 100
    """Tasks of an evaluation in the loop."""
    valid_split: str = ""
    """Split of the evaluation in the loop; without it, the second of the environment's splits."""
    test_split: str = ""
    """Split of the evaluation before, between and after; without it, the last of the environment's splits."""
    test_tasks: int = 200
    """Tasks of that evaluation."""
    test_temperature: float = 1.0
    """Temperature of both evaluations."""
    checkpoint_every: int = 10
    """Steps between checkpoints."""
    keep_episodes: int = 16
    """Training episodes kept per step in episodes.jsonl (evaluation episodes are all kept)."""

    def __post_init__(self) -> None:
        checks.check(self)

    @property
    def spec(self) -> AgentSpec:
        """The agent of the package that plays, without its model."""
        values: dict[str, Any] = {name: getattr(self, name) for name in NAMED}
        return AgentSpec(prompt=self.prompt_asked, **values)

    @property
    def prompt_asked(self) -> str | None:
        """The prompt that is asked for by name; a policy made from nothing reads no instructions."""
        made = self.model == "init" or homemade(self.model)
        return self.prompt or ("bare" if made and self.agent != "completion" else None)

    @property
    def served(self) -> bool:
        """Whether a server samples, whose weights are changed where it runs."""
        return self.engine.startswith("openai:") and self.engine != "openai:"

    @property
    def differs(self) -> bool:
        """Whether the engine does not compute as the trainer does, so that each token's loss is weighted for the mismatch.

        In bf16 the trainer's own model as the engine rounds otherwise too.
        """
        return self.engine != "hf" or self.precision == "bf16"

    @property
    def updates(self) -> int:
        """Optimizer updates of one step."""
        return self.minibatches * self.epochs

    @property
    def warm_steps(self) -> int:
        """Updates of the warm start."""
        return -(-self.warm_episodes // self.warm_batch)

    def horizon_at(self, step: int) -> int | None:
        """Return the horizon of a step (counted from 0): a pure function of the step, so resuming skips no stage."""
        return self.horizon[min(step // self.horizon_steps, len(self.horizon) - 1)] if self.horizon else None

    def lr_at(self, step: int) -> float:
        """Return the learning rate of a step (counted from 0)."""
        warm = min(1.0, (step + 1) / self.lr_warmup) if self.lr_warmup else 1.0
        return self.lr * warm * (1.0 + (self.lr_decay - 1.0) * step / max(1, self.steps - 1))

    def to_toml(self) -> str:
        """Return the run as TOML, which `read_config` reads back."""
        lines: list[str] = []
        tables: list[str] = []
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            if f.name.endswith("_options"):
                rows = [f"{key} = {_toml(item)}" for key, item in value.items()]
                tables += ["", f"[{f.name.removesuffix('_options')}_options]", *rows] if rows else []
            else:
                lines.append(f"{f.name} = {_toml(value)}")
        return "\n".join([*lines, *tables]) + "\n"


def homemade(model: str) -> bool:
    """Whether a folder holds a policy made by `init-policy` or trained from one: its tokenizer has the mark."""
    try:
        return MARK in (Path(model) / "tokenizer_config.json").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False


def recipes() -> dict[str, Path]:
    """Return the recipes of the package by name."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.toml"))}


def read_recipe(name: str) -> TrainConfig:
    """Return the recipe of that name, or the one in a TOML file."""
    table = recipes()
    if name.endswith(".toml"):
        return read_config(Path(name))
    if name not in table:
        raise unknown("recipe", name, table, "`agentgym train --list` shows all.")
    return read_config(table[name])


def newest_checkpoint(folder: str | Path) -> Path | None:
    """Return the folder of a run's newest finished checkpoint, a model folder with the trainer's state; None without one."""
    found = sorted(path for path in Path(folder).glob("checkpoints/step-*") if (path / STATE).exists())
    return found[-1] if found else None


def read_config(path: Path) -> TrainConfig:
    """Read a run from TOML; BadConfig for an unknown key (with the closest), BadData when it is no TOML.

    `base = "NAME"` (a base of the package) or `base = "FILE.toml"` (beside this file) gives what the file does not say.
    """
    raw = _read_toml(path)
    if "base" in raw:
        raw = _on_base(path, raw)
    known = {f.name: f for f in dataclasses.fields(TrainConfig)}
    values: dict[str, Any] = {}
    for key, value in raw.items():
        if key not in known:
            raise bad_option(f"key in {path.name}:", key, known)
        values[key] = _fitting(path, key, value, getattr(TrainConfig(), key))
    return TrainConfig(**values)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadConfig(f"{path}: cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadData(f"{path}: not TOML ({error})") from error


def _on_base(path: Path, raw: dict[str, Any]) -> dict[str, Any]:
    """Return a file's keys laid over those of its base, tables key by key; a base has no base of its own."""
    name, bases = raw.pop("base"), FOLDER / "bases"
    if not isinstance(name, str):
        raise BadConfig(f"{path.name}: base is {name!r}; expected a name or a .toml file")
    found = path.parent / name if name.endswith(".toml") else bases / f"{name}.toml"
    if found.parent == bases and not found.exists():
        raise unknown(f"base in {path.name}:", name, [base.stem for base in bases.glob("*.toml")])
    below = _read_toml(found)
    if "base" in below:
        raise BadConfig(f"{path.name}: its base {name!r} names a base of its own; one level is read")
    tables = {key: {**below[key], **value} for key, value in raw.items() if isinstance(below.get(key), dict)}
    return {**below, **raw, **tables}


def _fitting(path: Path, key: str, value: Any, default: Any) -> Any:
    given, expected = cast("type[object]", type(value)), cast("type[object]", type(default))
    if expected is tuple and given is list:
        return tuple(cast("list[Any]", value))
    if expected is float and given is int:
        return float(value)
    if given is not expected:
        raise BadConfig(f"{path.name}: {key} is {value!r}; expected {expected.__name__}, for example {default!r}")
    return value


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)  # a JSON string is a TOML basic string
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(_toml, cast('list[Any]', value)))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(item)}" for key, item in cast("dict[str, Any]", value).items()) + "}"
    return repr(value)
