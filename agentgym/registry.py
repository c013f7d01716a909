"""Registry of environments: ids and short names, one table row each. An environment is imported only when it is made."""

import hashlib
import importlib
import importlib.util
import pickle
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from agentgym.core.installed import installed
from agentgym.errors import BadConfig, BadData, Fault, MissingExtra, UnknownName, failure, how_to_install, no_such

if TYPE_CHECKING:
    from agentgym.core.env import TextEnv  # imports Gymnasium, which imports this module

OURS = (BadConfig, BadData, UnknownName, MissingExtra, Fault)

ENVS: dict[str, tuple[str, str, dict[str, object]]] = {
    # id: (entry point, what it is in one line, constructor keywords)
    "rlvr/Household-v0": ("agentgym.envs.household:Household", "find, heat, cool, clean and place things (ALFWorld)", {}),
    "rlvr/ALFWorld-v0": (
        "agentgym.envs.household.alfworld:ALFWorld",
        "Household's engine over genuine ALFWorld games (data=PATH)",
        {},
    ),
    "rlvr/Search-v0": ("agentgym.envs.search:Search", "answer multi-hop questions with a search engine", {}),
    "rlvr/Code-v0": ("agentgym.envs.code:Code", "write a program that passes hidden tests", {}),
    "rlvr/CodeDialogue-v0": (
        "agentgym.envs.code:CodeDialogue",
        "ask for missing requirements, then write a program",
        {},
    ),
    "rlvr/SQL-v0": ("agentgym.envs.sql:SQL", "answer questions about databases with SQL (Spider and BIRD: data=PATH)", {}),
    "rlvr/Math-v0": ("agentgym.envs.math:Math", "solve math problems with a Python tool (GSM8K, MATH)", {}),
    "rlvr/Terminal-v0": ("agentgym.envs.terminal:Terminal", "complete a task in a sandboxed shell", {}),
    "rlvr/Harbor-v0": ("agentgym.envs.terminal:Harbor", "task folders of Harbor in containers (path=FOLDER)", {}),
    "rlvr/SearchR1-v0": ("agentgym.envs.search:SearchR1", "Search in Search-R1's tags, as one continuing reply", {}),
    "rlvr/Shop-v0": ("agentgym.envs.shop:Shop", "search for a product, choose its options and buy it (WebShop)", {}),
    "rlvr/WebShop-v0": ("agentgym.envs.shop:WebShop", "Shop over WebShop's own products (data=PATH)", {}),
    "rlvr/Web-v0": ("agentgym.envs.web:Web", "use a real browser: shop, forum, wiki and others (WebArena)", {}),
    "rlvr/SWE-v0": ("agentgym.envs.swe:SWE", "repair a repository; hidden tests decide", {}),
    "rlvr/SWEBench-v0": ("agentgym.envs.swe.bench.env:SWEBench", "issues of SWE-bench in their containers (data=PATH)", {}),
    "rlvr/MiniWoB-v0": (
        "agentgym.envs.miniwob:MiniWoB",
        "complete a task on a small page in a real browser (MiniWoB++)",
        {},
    ),
    "rlvr/ReasoningGym-v0": ("agentgym.envs.reasoning_gym:ReasoningGym", "every task of the reasoning-gym package", {}),
    "rlvr/GuessNumber-v0": ("agentgym.envs.guess_number:GuessNumber", "find a hidden number by asking higher or lower", {}),
    "rlvr/FrozenLake-v0": ("agentgym.envs.frozen_lake:FrozenLake", "cross a slippery frozen lake without falling in", {}),
    "rlvr/TicTacToe-v0": ("agentgym.envs.duels:TicTacToe", "win tic-tac-toe from a won opening; self-play", {}),
    "rlvr/ConnectFour-v0": ("agentgym.envs.duels:ConnectFour", "win Connect Four from a won position; self-play", {}),
    "rlvr/KuhnPoker-v0": ("agentgym.envs.duels:KuhnPoker", "win chips in Kuhn poker, cards unseen; self-play", {}),
    "rlvr/Negotiation-v0": (
        "agentgym.envs.negotiation:Negotiation",
        "divide items by offers; the other side's values are hidden",
        {},
    ),
    "rlvr/Sokoban-v0": ("agentgym.envs.sokoban:Sokoban", "push boxes onto targets", {}),
    "rlvr/BabyAI-v0": ("agentgym.envs.babyai:BabyAI", "carry out an instruction in rooms (BabyAI's levels in text)", {}),
    "rlvr/TextWorld-v0": ("agentgym.envs.textworld:TextWorld", "win games of rooms, objects and doors (TextWorld)", {}),
    "rlvr/ScienceWorld-v0": (
        "agentgym.envs.scienceworld:ScienceWorld",
        "complete elementary science tasks (ScienceWorld)",
        {},
    ),
    "rlvr/TextCraft-v0": ("agentgym.envs.textcraft:TextCraft", "craft an item by following a tree of recipes", {}),
    "rlvr/TwentyQuestions-v0": (
        "agentgym.envs.twenty_questions:TwentyQuestions",
        "identify a hidden creature with yes-or-no questions",
        {},
    ),
    "rlvr/Desk-v0": ("agentgym.envs.desk:Desk", "serve a customer by a policy, with tools over a database", {}),
    "rlvr/Functions-v0": (
        "agentgym.envs.functions:Functions",
        "carry out requests with many functions that look alike (BFCL, ToolSandbox)",
        {},
    ),
    "rlvr/Instructions-v0": (
        "agentgym.envs.instructions:Instructions",
        "follow rules that change from message to message (IFEval, IHEval)",
        {},
    ),
    "rlvr/Memory-v0": (
        "agentgym.envs.memory:Memory",
        "remember what people said over a long stream, with few notes (LongMemEval)",
        {},
    ),
    "rlvr/Wordle-v0": ("agentgym.envs.wordle:Wordle", "guess hidden words from feedback on letters", {}),
}
DESCRIPTIONS: dict[str, str] = {}
PROBLEMS: list[str] = []
"""Sentences about entry points of installed packages that define no environment; `agentgym envs` and `doctor` print them."""


def register(id: str, entry_point: "type[TextEnv] | str", *, description: str = "", **options: object) -> None:
    """Register an environment so that `gym.make(id)` returns it without any wrapper.

    `entry_point` is the class or `"module:Name"`; `options` are constructor keywords.
    """
    if isinstance(entry_point, type) and not description:
        description = (entry_point.__doc__ or "").strip().split("\n")[0]
    DESCRIPTIONS[id] = description
    gymnasium.register(id, entry_point, kwargs=options, disable_env_checker=True, order_enforce=False)  # type: ignore[arg-type]


def register_all() -> None:
    """Register the environments of this package and of installed packages with entry points; nothing is imported."""
    for id, (entry_point, description, options) in ENVS.items():
        if id not in gymnasium.registry:
            register(id, entry_point, description=description, **options)
    found, PROBLEMS[:] = installed()
    for env in found:
        if env.id not in gymnasium.registry:
            register(env.id, env.entry_point, description=f"from {env.distribution}")


def short_names() -> dict[str, str]:
    """Return full ids by short name, such as `rlvr/Household-v0` by `household`.

    agentgym's own environments always have their short name. If two other packages share one, neither has it.
    """
    names: dict[str, str] = {}
    shared: set[str] = set()
    for id in sorted(DESCRIPTIONS, key=lambda id: (id not in ENVS, id)):
        short = id.rpartition("/")[2].rpartition("-v")[0].lower()
        before = names.setdefault(short, id)
        if before != id and before not in ENVS:
            shared.add(short)
    return {short: id for short, id in names.items() if short not in shared}


FOREIGN: dict[str, tuple[str, str]] = {
    # prefix: (module that registers the environment, package it needs)
    "verifiers": ("agentgym.integrations.verifiers_env", "verifiers"),
    "openenv": ("agentgym.integrations.openenv", "openenv"),
    "nemo_gym": ("agentgym.integrations.nemo_gym", "nemo_gym"),
    "harbor": ("agentgym.envs.terminal.harbor", ""),
}
"""Prefixes of other frameworks' environments (PREFIX:NAME), with the module that registers them."""


def foreign(name: str) -> str:
    """Return the prefix of a name such as `verifiers:NAME`, which belongs to another framework; empty for other names."""
    prefix = name.partition(":")[0]
    return prefix if ":" in name and prefix in FOREIGN else ""


def register_foreign(prefix: str, name: str, entry_point: str, **options: object) -> str:
    """Register another framework's environment without importing it, and return its id.

    The id contains the last part of `name`. If another environment has the same id, a hash is appended.

    Raises:
        BadConfig: the name was registered before with other options.
    """
    short = re.sub(r"[^\w.]+", "-", name.rstrip("/").rpartition("/")[2]).strip("-.") or "env"
    for id in (f"{prefix}/{short}-v0", f"{prefix}/{short}-{hashlib.sha256(name.encode()).hexdigest()[:8]}-v0"):
        if id not in gymnasium.registry:
            register(id, entry_point, description=f"{name} of {prefix}", **options)
        if gymnasium.registry[id].kwargs == options:
            return id
    raise BadConfig(f"{prefix}:{name} was registered before with other options")


def full_id(name: str) -> str:
    """Return the full id for an id, a short name, or `module:ns/Name-v0`, which imports the module.

    `verifiers:NAME`, `openenv:URL`, `nemo_gym:FOLDER` and `harbor:FOLDER` register another framework's environment.

    Raises:
        UnknownName: no environment has the name; the message shows the closest ones.
        BadConfig: nothing follows the colon.
        MissingExtra: the framework's package is not installed.
    """
    prefix = foreign(name)
    _find(module_named(name))
    if prefix:
        module, package = FOREIGN[prefix]
        target = name.partition(":")[2].strip()
        if not target:
            raise BadConfig(f"{name!r} names no environment: put its name, folder or URL after the colon")
        if package and importlib.util.find_spec(package) is None:
            raise MissingExtra(f"{name} is an environment of the package {package}: {how_to_install(package)}")
        return _import(module, "environment").registered(target)
    module, _, name = name.rpartition(":")
    if module:
        _import(module, "environment")
    if name in gymnasium.registry:
        return name
    short = short_names()
    if name.lower() in short:
        return short[name.lower()]
    raise UnknownName(no_such("environment", name, DESCRIPTIONS if "/" in name else short, _ALL))


_ALL = "`agentgym envs` lists all; one in a module of yours is MODULE:NAMESPACE/NAME-v0."


def module_named(name: str) -> str:
    """Return the module in `module:ns/Name-v0`, or the package that `verifiers:NAME` names; empty for other names."""
    prefix, _, target = name.partition(":")
    if prefix == "verifiers":
        return target.strip().replace("-", "_")
    return "" if foreign(name) else name.rpartition(":")[0]


def is_registered(name: str) -> bool:
    """Return True if a name is that of a registered environment, so that resolving it imports no new module.

    `MODULE:ID` counts only if the caller has imported MODULE, because names in stored files never import anything.
    """
    module, _, id = name.rpartition(":")
    if foreign(name) or (module and module not in sys.modules):
        return False
    return id in DESCRIPTIONS or (not module and id.lower() in short_names())


def make(id: str, **options: object) -> "TextEnv":
    """Create an environment from an id, a short name, or `module:ns/Name-v0` (see `full_id`).

    Raises:
        BadConfig: it is not a text environment, or its module cannot be imported; the message has file and line.
    """
    from agentgym.core.env import TextEnv

    name = full_id(id)
    entry_point = gymnasium.registry[name].entry_point
    if isinstance(entry_point, str):
        _object(entry_point, "environment")
    maker: Callable[..., gymnasium.Env[str, str]] = gymnasium.make  # its own parameters are options too
    env = maker(name, **options)
    if not isinstance(env.unwrapped, TextEnv):
        raise BadConfig(f"{name} is not a text environment: agentgym works on subclasses of agentgym.TextEnv")
    return env  # type: ignore[return-value]


def missing(id: str) -> str:
    """Return a message about requirements of an environment that are missing on this machine; empty if there are none."""
    spec = gymnasium.registry[id]
    try:
        kind = class_of(id)
        if kind is None:
            return ""
        bare = object.__new__(kind)  # not constructed, because that may read data
        for name, value in spec.kwargs.items():
            setattr(bare, name, value)
        bare.requires()
    except MissingExtra as error:
        return str(error)
    except Exception as error:
        if id in ENVS:  # a bug of ours, which nobody should overlook
            raise
        return str(error) if isinstance(error, OURS) else failure(error)
    return ""


def class_of(id: str) -> "type[TextEnv] | None":
    """Return the class of a registered environment; None if it is not a text environment."""
    from agentgym.core.env import TextEnv

    entry = gymnasium.registry[id].entry_point
    kind = _object(entry, "environment") if isinstance(entry, str) else entry
    return kind if isinstance(kind, type) and issubclass(kind, TextEnv) else None


def load(reference: str, kind: str, table: dict[str, str]) -> object:
    """Return the object for a name in `table`, or for the caller's own `module:Name`.

    Raises:
        UnknownName: the table has no such name, and the name is not `module:Name`.
    """
    target = table.get(reference, reference)
    if ":" not in target:
        hint = f"Known: {', '.join(sorted(table))}; or give your own as MODULE:NAME." if table else "Expected MODULE:NAME."
        raise UnknownName(no_such(kind, reference, table, hint))
    if reference not in table:
        _find(target.partition(":")[0])
    return _object(target, kind)


def _object(target: str, kind: str) -> object:
    """Import the object at `module:Name`.

    Raises:
        UnknownName: the module has no such name.
    """
    module, _, name = target.partition(":")
    imported = _import(module, kind)
    if not hasattr(imported, name):
        names = (known for known in dir(imported) if not known.startswith("_"))
        raise UnknownName(no_such(f"{kind} in module {module}", name, names))
    return getattr(imported, name)


def _find(module: str) -> None:
    from agentgym.core.beside import find  # late: few imports of the package name a module

    find(module)


def _import(module: str, kind: str) -> ModuleType:
    """Import a module that the user named.

    Raises:
        BadConfig: the module raises during import; the message has file and line.
        UnknownName: there is no such module.
    """
    try:
        return importlib.import_module(module)
    except OURS:
        raise
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{module}.".startswith(f"{error.name}."):
            hint = "Is it installed, in this folder, or on PYTHONPATH?"
            raise UnknownName(f"no module {error.name!r} to take the {kind} from. {hint}") from None
        if module.startswith("agentgym."):  # the caller knows which extra it needs
            raise
        raise BadConfig(f"the module {module} of the {kind} cannot be imported: {failure(error)}") from error


@dataclass(frozen=True)
class Maker:
    """Picklable function that makes an environment from an id and options."""

    id: str
    options: dict[str, object]

    def __call__(self) -> "TextEnv":
        """Return a new environment."""
        return make(self.id, **self.options)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the maker with the registry entry, if no module registers that entry in another process."""
        spec = gymnasium.registry.get(self.id)
        own = spec if spec and not str(spec.entry_point).startswith("agentgym.") else None
        return _registered, (self.id, self.options, own and _sent(own))


def script() -> Path | None:
    """Return the file of the running script, which another process can import; None in a notebook, for stdin and for -c."""
    file = getattr(sys.modules["__main__"], "__file__", None)
    return Path(file) if file and Path(file).is_file() else None


def _sent(spec: EnvSpec) -> EnvSpec | str:
    """Return a registry entry; if it cannot be pickled, the name of the script, which must register it again."""
    if script() is None:  # then it is pickled by value
        return spec
    try:
        pickle.dumps(spec)
    except Exception:  # a local function or an open file, in its class or options
        return "__main__"
    return spec


def _registered(id: str, options: dict[str, object], spec: EnvSpec | str | None) -> Maker:
    """Register the entry that another process sent, if there is one, and return a maker for the id."""
    if isinstance(spec, EnvSpec) and spec.id not in gymnasium.registry:
        gymnasium.registry[spec.id] = spec
    return Maker(id, options)


register_all()
