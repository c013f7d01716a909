"""Settings of a training run, one dataclass per stage; `TrainConfig` combines them."""

from dataclasses import dataclass, field
from typing import Literal

from agentgym.agents.decide import AUTO
from agentgym.options import Hidden, Options
from agentgym.rollout import pool
from agentgym.trainers.model import lora


@dataclass(frozen=True)
class EnvSpec:
    """One of several environments of a run: an entry of `[[envs]]`."""

    id: str
    """The environment: an id, a short name, or MODULE:ID."""
    weight: float = 1.0
    """Share of the tasks, relative to the other environments."""
    options: dict[str, object] = field(default_factory=dict[str, object])
    """Options of the environment."""
    label: str = ""
    """Name of this environment in results; by default its id."""
    horizon: tuple[int, ...] = ()
    """Turns per episode, in stages; by default the run's `horizon`."""
    agent: dict[str, object] = field(default_factory=dict[str, object])
    """Settings of the agent that differ from the run's: prompt, tools, turn_tokens, …"""
    train_split: str = ""
    valid_split: str = ""
    test_split: str = ""

    @property
    def name(self) -> str:
        """Name of this environment in results: its label or, without a label, its id."""
        return self.label or self.id


Envs = Hidden[tuple[EnvSpec, ...]]


@dataclass(frozen=True)
class ModelConfig:
    """The environment, the model, and the run's folder."""

    env: str = "rlvr/Household-v0"
    """Environment to train on."""
    env_options: Options = field(default_factory=dict[str, object])
    """Options of the environment: --env.KEY VALUE."""
    envs: Envs = ()
    """Several environments instead of one: `[[envs]]` tables of a recipe, see docs/seams/README.md."""
    model: str = "init"
    """Folder or name of a causal language model; `init` makes a small one from the environment's own text."""
    vocabulary: int = 1000
    """Vocabulary size of the tokenizer of `model = "init"`, including 256 bytes; many names need more."""
    pre_tokenizer: Literal["phrases", "words", "names"] = "phrases"
    """Longest text of one token: `phrases`, `words`, or `names` (phrases, but a name is always the same token)."""
    out: str = "runs/train"
    """Folder of the run."""
    seed: int = 0
    """Root seed of the run."""
    processes: int = 1
    """Processes on this machine, each with its share of every step; for small models on a CPU use one per core."""
    task_queue: bool = False
    """Let processes take groups from one queue as soon as they have room, instead of an even share of each step; which
    process plays which group then depends on timing."""
    threads: int = 0
    """CPU threads of torch in each process; 0 means one for models below 50 M parameters, else torch's default."""


@dataclass(frozen=True)
class PolicyConfig:
    """The policy that `model = "init"` makes; other models have their own size."""

    policy_width: int = 128
    """Hidden size, a multiple of 64; heads have 32 dimensions, and the feed-forward layer is twice as wide."""
    policy_layers: int = 3
    """Number of layers."""
    policy_context: int = 2048
    """Longest sequence in tokens."""
    policy_induction_heads: bool = False
    """Start with weights that copy from the context: needs fewer demonstrations; at first the policy repeats its input."""
    policy_episodes: int = 1500
    """Episodes played to collect the tokenizer's text; fewer are enough if episodes are slow and similar."""


@dataclass(frozen=True)
class EngineConfig:
    """The sampling engine and how it receives new weights."""

    engine: str = "hf"
    """Sampling engine: `hf` (in this process, the trainer's own weights), `vllm` (on the same machine), `vllm:URL,URL,…`
    (running servers, which receive the weights), or `openai:URL` (evaluation only: docs/guides/engines.md)."""
    engine_options: Options = field(default_factory=dict[str, object])
    """Options of the engine: --engine.KEY VALUE (for vllm its engine arguments, such as max_num_seqs;
    for vllm:URL timeout, patience, update_timeout, wait, folder, key_env, seeded)."""
    weight_transport: Literal["auto", "shared_memory", "ipc", "nccl"] = "auto"
    """Transport of new weights to a vllm engine: `shared_memory`, `ipc` (same GPU), `nccl` (separate GPUs), or
    `auto`: ipc if the trainer is on a GPU, else shared_memory."""
    async_level: int = 0
    """Number of steps that rollouts may run ahead of the update: no trained token is older than this many policy
    versions. 0 alternates between playing and updating."""


@dataclass(frozen=True)
class AgentConfig:
    """The agent: it turns observations into prompts and replies into actions."""

    agent: str = "chat"
    """Agent: `chat` (full history), `completion` (full history as one continuing reply), `window` (the last turns, with
    a fresh prompt for each turn), `summary` (the model summarizes turns that no longer fit; no SFT warm start),
    MODULE:NAME (a function that runs an external agent against a base URL), or `harness:NAME` or `harness:FILE.toml` (a
    program that works in the task's container: docs/guides/harnesses.md)."""
    attempt_seconds: float = 3600.0
    """Maximum seconds per attempt of an external agent; a longer attempt counts as a failure or an infrastructure error, and
    the run continues. A harness is then stopped and its work is graded."""
    attempt_turns: int = 0
    """Maximum replies per attempt of a harness; 0 means no limit."""
    attempt_tokens: int = 0
    """Maximum sampled tokens per attempt of a harness; 0 means no limit."""
    side_calls: bool = True
    """Train also on a harness's sub-agents, titles and summaries, not only on its main conversation."""
    prompt: str = ""
    """Prompt of the agent: a name from agents/prompts or a file; by default a prompt that lists the environment's
    tools, or `bare` for a policy made from scratch."""
    tools: str = AUTO
    """Form of tool calls: `native` (chat template), `text` (prompt), or `auto`: native if the template supports it."""
    history: str = "keep"
    """Form of past turns for the agent `chat`: `keep` (the sampled tokens) or `template` (as the chat template renders
    them)."""
    window_turns: int = 2
    """Past turns that the agent `window` shows."""
    observation_tokens: int = 2048
    """Maximum number of tokens shown of an observation; longer ones are cut in the middle."""
    temperature: float = 1.0
    """Sampling temperature, in rollouts and in the loss."""
    turn_tokens: int = 256
    """Maximum number of tokens in a reply."""
    context_tokens: int = 0
    """Maximum number of tokens in a prompt plus its reply; 0 means the model's limit."""


@dataclass(frozen=True)
class LoraConfig:
    """Low-rank adapters (LoRA)."""

    lora_rank: int = 0
    """Rank of LoRA adapters; only these are then trained. 0 trains all weights."""
    lora_alpha: int = lora.ALPHA
    """LoRA alpha: the adapters' output is scaled by `lora_alpha / lora_rank`."""
    lora_targets: tuple[str, ...] = lora.TARGETS
    """Linear layers that get an adapter; by default all layers of attention and feed-forward."""


@dataclass(frozen=True)
class SFTConfig:
    """The SFT warm start: imitation of the environment's expert."""

    sft_episodes: int = 0
    """Expert episodes to imitate before reinforcement learning; 0 skips the SFT warm start."""
    sft_batch: int = 8
    """Episodes per update of the SFT warm start."""
    sft_lr: float = 4e-3
    """Peak learning rate of the SFT warm start (AdamW; with `sft_muon`, matrices use Muon at five times this)."""
    sft_muon: bool = True
    """Use Muon for the matrices in the SFT warm start."""
    sft_noise: float = 0.15
    """Share of the expert's turns replaced by a random valid command (or, if commands are not a finite list, by the
    environment's own kind of mistake)."""
    sft_invalid: float = 0.08
    """Share of the expert's turns replaced by an invalid command."""
    sft_forget: float = 0.03
    """Share of the expert's turns that skip a step, at most one per episode."""
    sft_masked: tuple[str, ...] = ("invalid",)
    """Mistakes that stay in the context but are not imitated: any of `random`, `invalid`, `forget`."""
    sft_eval_every: int = 0
    """Updates of the SFT warm start between evaluations on the validation split; 0 means never."""


@dataclass(frozen=True)
class SamplerConfig:
    """The choice and number of tasks per step."""

    sampler: str = "uniform"
    """Task sampler, which chooses the tasks of each step: a name or MODULE:NAME."""
    sampler_options: Options = field(default_factory=dict[str, object])
    """Options of the sampler: --sampler.KEY VALUE."""
    train_split: str = ""
    """Split of the tasks for demonstrations and training; by default `train`, or the environment's first split."""
    steps: int = 100
    """Steps of reinforcement learning; 0 stops after the SFT warm start."""
    tasks_per_step: int = 16
    """Groups per step."""
    group_size: int = 8
    """Episodes per group."""
    horizon: tuple[int, ...] = ()
    """Maximum turns per episode, one number per stage (ScalingInter); by default the environment's own horizon."""
    horizon_steps: int = 100
    """Steps per stage of the horizon."""


@dataclass(frozen=True)
class BranchingConfig:
    """Episodes of a group that branch off from one another."""

    branching: str = ""
    """Branching method, which chooses where episodes of a group branch off: a name or MODULE:NAME; none by default."""
    branching_options: Options = field(default_factory=dict[str, object])
    """Options of the branching method: --branching.KEY VALUE."""
    shared_turns: Literal["once", "each"] = "once"
    """Training of a turn that several episodes share: in one of them (`once`), or in `each` with a share of the weight."""


@dataclass(frozen=True)
class RolloutSettings(pool.RolloutConfig):
    """Settings of rollouts: how episodes are played."""

    worker_options: Options = field(default_factory=dict[str, object])
    """Options of a Ray actor: --worker.KEY VALUE, such as num_cpus (1) or resources."""


@dataclass(frozen=True)
class GenerationConfig:
    """Generation of the episodes of a step."""

    generation: str = "plain"
    """Generation method of training episodes: `plain` (independently), `spec` (earlier replies as drafts), `prune`
    (some end early), `opponents` (against past checkpoints), `stored` (from a file: offline training), or MODULE:NAME."""
    generation_options: Options = field(default_factory=dict[str, object])
    """Options of the generation: --generation.KEY VALUE."""


@dataclass(frozen=True)
class RewardConfig:
    """Rewards in addition to the environment's own."""

    reward: tuple[str, ...] = ()
    """Reward stages, names or MODULE:NAME, each of which may add to the environment's reward."""
    reward_options: Options = field(default_factory=dict[str, object])
    """Options of the reward stages: --reward.KEY VALUE, or --reward.NAME.KEY VALUE if two stages share a key."""


@dataclass(frozen=True)
class SelectConfig:
    """The choice of groups to train on."""

    select: str = "drop"
    """Selection of groups to train on: `keep` (all), `drop` (without groups whose returns are all equal), `refill`
    (fresh tasks replace those groups), another name or MODULE:NAME."""
    select_options: Options = field(default_factory=dict[str, object])
    """Options of the selection: --select.KEY VALUE."""


@dataclass(frozen=True)
class NeedsConfig:
    """Values that the credit and the loss need for each turn."""

    needs_options: Options = field(default_factory=dict[str, object])
    """Options of the needs of credit and loss: --needs.KEY VALUE, or --needs.NAME.KEY VALUE if two needs share a key."""


@dataclass(frozen=True)
class CreditConfig:
    """Credit assignment, which turns rewards into an advantage for each turn."""

    credit: str = "gigpo"
    """Credit algorithm: a name or MODULE:NAME."""
    credit_options: Options = field(default_factory=dict[str, object])
    """Hyperparameters of the credit algorithm: --credit.KEY VALUE."""
    negative_advantage_weight: float = 1.0
    """Weight of negative advantages; less than 1 keeps a weak policy from unlearning more than it learns."""


@dataclass(frozen=True)
class LossConfig:
    """The loss and its terms."""

    loss: str = "clip"
    """Loss of the update: a name or MODULE:NAME. A loss may read the other fields of this table."""
    loss_options: Options = field(default_factory=dict[str, object])
    """Options of the loss: --loss.KEY VALUE."""
    clip_low: float = 0.2
    """The probability ratio is clipped to at least 1 - `clip_low`."""
    clip_high: float = 0.2
    """The probability ratio is clipped to at most 1 + `clip_high`."""
    importance_sampling_level: Literal["token", "turn", "sequence"] = "token"
    """Level of the importance ratio: `token`, `turn` or `sequence`."""
    loss_aggregation: Literal["token", "turn", "episode", "episode-sum", "constant"] = "token"
    """Unit of equal weight in an update: `token`, `turn` or `episode`; `episode-sum` divides token sums by the number
    of episodes, and `constant` also by a fixed length (Dr.GRPO)."""
    constant: float = 0.0
    """Fixed length in tokens that `loss_aggregation = "constant"` divides by."""
    kl: float = 0.0
    """Weight of the KL penalty towards the policy at the start of reinforcement learning (with adapters: the model with
    its adapters off); 0 needs no reference."""
    kl_kind: Literal["k1", "k2", "k3"] = "k3"
    """Estimator of the KL penalty from a sampled token: `k1`, `k2` or `k3` (J. Schulman, 2020)."""
    entropy_bonus: float = 0.0
    """Weight of the policy's entropy (nats per token), which is subtracted from the loss; 0 turns it off."""
    old_logprobs: Literal["auto", "trainer", "engine"] = "auto"
    """Log-probabilities that ratios divide by: `engine` (as sampled; PPO), `trainer` (from before the update, with each
    token weighted by trainer / engine; decoupled PPO), or `auto`: `engine` if `hf` samples in fp32, else `trainer`."""
    tis_cap: float = 2.0
    """Cap of the per-token weight trainer / engine (truncated importance sampling) if `old_logprobs` are the trainer's."""


@dataclass(frozen=True)
class LearnerConfig:
    """The learner, which updates the weights."""

    learner: str = "local"
    """Learner, which stores and updates the weights: `local`, `tinker:URL` (a server of the Tinker API) or MODULE:NAME."""
    learner_options: Options = field(default_factory=dict[str, object])
    """Options of the learner: --learner.KEY VALUE."""
    lr: float = 3e-4
    """Learning rate (AdamW)."""
    muon: bool = False
    """Use Muon for the matrices (at five times the learning rate): much faster for small models trained from scratch."""
    optimizer: Literal["adamw", "adamw8bit"] = "adamw"
    """Optimizer: `adamw`, or `adamw8bit` (8-bit state; needs torchao). With Muon, it updates only what Muon does not."""
    lr_warmup: int = 3
    """Steps of linear warm-up of the learning rate: Adam's first updates are its largest."""
    min_lr_ratio: float = 1.0
    """Learning rate at the last step as a share of `lr`; the decay is linear."""
    weight_decay: float = 0.0
    """AdamW's weight decay."""
    grad_clip: float = 1.0
    """Maximum gradient norm; larger gradients are scaled down."""
    minibatches: int = 4
    """Mini-batches per pass over a step's episodes (`epochs`), with one optimizer update each."""
    epochs: int = 1
    """Passes over the episodes of a step."""
    batch_tokens: int = 4096
    """Maximum number of tokens per forward pass; a longer row gets its own pass."""
    gradient_reduction: Literal["micro-batch", "update"] = "micro-batch"
    """Time at which processes sum their gradients: after every `micro-batch`, or once per `update`."""
    sharding: Literal["none", "fsdp2"] = "none"
    """Storage of weights, gradients and optimizer state: a copy per process (`none`) or a shard per process (`fsdp2`)."""
    share_prefixes: bool = False
    """Compute a prefix only once if several rows of an update share it (prefix-tree packing) and that saves at least a
    tenth of the tokens; rows of a group then go into the same mini-batch if possible."""
    attention: Literal["auto", "flash", "flex", "sdpa", "split", "rows", "small"] = "auto"
    """Attention implementation: `auto` (the best one available), `flash`, `flex`, `sdpa` or `split` (unpadded), `rows`
    (padded) or `small` (our own forward pass for small models on a CPU)."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Number format: `fp32`, `bf16` (with fp32 masters), or `auto`: bf16 on a GPU that supports it."""
    gradient_checkpointing: bool = False
    """Keep only the inputs of each layer and recompute the rest in the backward pass: less memory, a third more compute."""
    compile: bool = False
    """Compile the model's layers with torch.compile."""

    @property
    def sharded(self) -> bool:
        """True if each process stores only a shard of the weights."""
        return self.sharding != "none"


@dataclass(frozen=True)
class EvalConfig:
    """Evaluations before, during and after the run."""

    eval_every: int = 10
    """Steps between evaluations on the validation split; 0 means never."""
    eval_tasks: int = 100
    """Number of tasks of each environment per evaluation during training."""
    valid_split: str = ""
    """Split of the evaluations during training; by default the environment's second split."""
    test_split: str = ""
    """Split of the evaluations before training, after the SFT warm start and at the end; by default the environment's
    last split."""
    test_tasks: int = 200
    """Number of tasks of each environment per evaluation on the test split; random weights play at most 20."""
    test_temperature: float = 1.0
    """Sampling temperature of all evaluations."""


@dataclass(frozen=True)
class TrackConfig:
    """Metrics, checkpoints and stored episodes of the run."""

    loggers: tuple[str, ...] = ()
    """Loggers in addition to metrics.jsonl: names or MODULE:NAME."""
    logger_options: Options = field(default_factory=dict[str, object])
    """Options of the loggers: --logger.KEY VALUE."""
    checkpoint_every: int = 10
    """Steps between checkpoints; in the SFT warm start, 20 times as many updates."""
    keep_best: bool = False
    """Keep the checkpoint with the highest success on the validation split, as checkpoints/best."""
    try_stages: bool = True
    """Call your own stages once on made-up episodes before anything is loaded."""
    keep_episodes: int = 16
    """Number of training episodes stored per step in episodes.jsonl; all evaluation episodes are stored."""


TABLES: dict[type, str] = {
    ModelConfig: "", PolicyConfig: "policy", EngineConfig: "engine", AgentConfig: "agent", LoraConfig: "lora",
    SFTConfig: "sft", SamplerConfig: "sampler", BranchingConfig: "branching", RolloutSettings: "rollout",
    GenerationConfig: "generation", RewardConfig: "reward", SelectConfig: "select", NeedsConfig: "needs",
    CreditConfig: "credit", LossConfig: "loss", LearnerConfig: "learner", EvalConfig: "eval", TrackConfig: "track",
}  # fmt: skip
"""Recipe table of each dataclass; fields of `ModelConfig` (no table) are at the top of the file."""
