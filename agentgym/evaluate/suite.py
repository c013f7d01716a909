"""Evaluation targets: environments by name, or a suite: a TOML file that may fix everything but the model."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

from agentgym.agents.token_agent import LEAST_OBSERVATION
from agentgym.errors import BadConfig, BadData, UnknownName, no_such
from agentgym.evaluate.protocol import Protocol, read_protocol
from agentgym.registry import DESCRIPTIONS, short_names

OF_ENVS: Mapping[str, type] = {"split": str, "tasks": int, "attempts": int, "horizon": int, "difficulties": tuple}
OF_SUITES: Mapping[str, type] = {
    "description": str,
    **OF_ENVS,
    "seed": int,
    "temperature": float,
    "turn_tokens": int,
    "observation_tokens": int,
    "agent": str,
    "prompt": str,
    "tools": str,
}
LEAST = {
    "tasks": 1,
    "attempts": 1,
    "horizon": 1,
    "turn_tokens": 1,
    "observation_tokens": LEAST_OBSERVATION,
    "temperature": 0,
}


@dataclass(frozen=True)
class Suite:
    """Environments, and the options that a suite fixes; an option that it leaves open is None."""

    envs: tuple[str, ...]
    """Environments: ids, or `module:id`."""
    name: str | None = None
    """Name of the suite; None for a plain list of environments."""
    description: str = ""
    split: str | None = None
    tasks: int | None = None
    attempts: int | None = None
    horizon: int | None = None
    """Turns after which an episode is truncated."""
    difficulties: tuple[int, ...] | None = None
    """Difficulties to play, with the same number of tasks each."""
    seed: int | None = None
    temperature: float | None = None
    turn_tokens: int | None = None
    observation_tokens: int | None = None
    agent: str | None = None
    prompt: str | None = None
    tools: str | None = None
    protocol: Protocol | None = None
    """Protocol fields; a suite with them is a protocol, and no flag may override it."""
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """Overrides for single environments, by id: `split`, `tasks`, `attempts`, `horizon`, `difficulties`, and constructor
    `options`."""

    def env_options(self, env: str) -> dict[str, object]:
        """Return an environment's constructor options, including the horizon if the suite sets it."""
        own = self.own.get(env, {})
        horizon = own.get("horizon", self.horizon)
        return {**({} if horizon is None else {"horizon": horizon}), **own.get("options", {})}


def suites() -> dict[str, Path]:
    """Return the TOML files of the package's suites, by name of the suite."""
    folder = Path(str(files("agentgym.evaluate") / "suites"))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def resolve(names: str) -> Suite:
    """Return the suite of that name or in that TOML file, else the environments of a comma-separated list.

    Raises:
        BadConfig: the list is empty or mixes suites with other names, or the suite file is invalid.
        UnknownName: an environment or suite is unknown.
        BadData: the suite file is not TOML.
    """
    parts = [part for part in (part.strip() for part in names.split(",")) if part]
    known = suites()
    named = [part for part in parts if part in known or part.endswith(".toml")]
    if not named:
        return Suite(envs(names))
    if len(parts) > 1:
        raise BadConfig(f"{named[0]} is a suite and is evaluated alone, not with {', '.join(parts)}: or write one of both")
    return read_suite(known.get(named[0], Path(named[0])))


def envs(names: str) -> tuple[str, ...]:
    """Return the ids of a comma-separated list of ids, `module:id` and short names (`household`).

    Raises:
        BadConfig: the list is empty.
        UnknownName: a name is unknown.
    """
    short = short_names()
    ids: dict[str, None] = {}
    for name in filter(None, (part.strip() for part in names.split(","))):
        if name in DESCRIPTIONS or ":" in name:
            ids[name] = None
        elif name.lower() in short:
            ids[short[name.lower()]] = None
        else:
            known = DESCRIPTIONS if "/" in name else [*short, *suites()]
            hint = "`agentgym envs` lists all; yours is MODULE:NAMESPACE/NAME-v0, and a suite of yours ends in .toml."
            raise UnknownName(no_such("environment or suite", name, known, hint))
    if not ids:
        raise BadConfig("no environment was named, for example: agentgym eval household")
    return tuple(ids)


def read_suite(path: Path) -> Suite:
    """Read a suite from TOML.

    Raises:
        BadConfig: the file cannot be read, or a key or value is invalid.
        BadData: the file is not TOML.
    """
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise BadConfig(
            f"{path}: cannot be read ({error.strerror}). Suites of the package: {', '.join(suites())}"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadData(f"{path}: not TOML ({error})") from error
    listed: object = raw.pop("envs", None)
    fixed: object = raw.pop("protocol", None)
    values = _values(path.name, raw, OF_SUITES, ("envs", "protocol"))
    if "prompt" in values and (path.parent / values["prompt"]).is_file():
        values["prompt"] = str(path.parent / values["prompt"])
    if fixed is not None:
        values["protocol"] = read_protocol(path.name, fixed, values)
    if isinstance(listed, list) and listed and all(isinstance(name, str) for name in cast("list[object]", listed)):
        return Suite(envs(",".join(cast("list[str]", listed))), path.stem, **values)
    if not isinstance(listed, dict) or not listed:
        raise BadConfig(f'{path.name}: envs is {listed!r}; expected a list such as ["household"], or a table for each')
    own: dict[str, dict[str, Any]] = {}
    for name, table in cast("dict[str, object]", listed).items():
        env, *more = envs(name)
        if more or env in own:
            raise BadConfig(f"{path.name}: {name!r} in envs; expected one environment, and each only once")
        own[env] = _own(f"{path.name}: {name}", table)
    if "protocol" in values and any("shaping" in table.get("options", {}) for table in own.values()):
        raise BadConfig(f"{path.name}: [protocol] reward is 'outcome', and shaping would pay for more: leave it out")
    return Suite(tuple(own), path.stem, **values, own=own)


def _own(where: str, table: object) -> dict[str, object]:
    if not isinstance(table, dict):
        raise BadConfig(f"{where} is {table!r}; expected a table, for example {{ tasks = 10 }}")
    raw = dict(cast("dict[str, object]", table))
    options: object = raw.pop("options", {})
    if not isinstance(options, dict):
        raise BadConfig(f"{where}: options is {options!r}; expected a table, for example {{ difficulty = 1 }}")
    return {**_values(where, raw, OF_ENVS, ("options",)), **({"options": options} if options else {})}


def _values(where: str, raw: Mapping[str, Any], known: Mapping[str, type], others: tuple[str, ...]) -> dict[str, Any]:
    """Return the values of a table, with types and lower bounds checked.

    Raises:
        BadConfig: a key or value is invalid.
    """
    checked: dict[str, Any] = {}
    for key, value in raw.items():
        if key not in known:
            raise BadConfig(no_such(f"key in {where}:", key, (*known, *others)))
        if known[key] is float and type(value) is int:
            value = float(value)
        if known[key] is tuple:
            checked[key] = _levels(where, key, value)
            continue
        if type(value) is not known[key] or (key in LEAST and value < LEAST[key]):
            least = f" of at least {LEAST[key]}" if key in LEAST else ""
            raise BadConfig(f"{where}: {key} is {value!r}; expected {known[key].__name__}{least}")
        checked[key] = value
    return checked


def _levels(where: str, key: str, value: object) -> tuple[int, ...]:
    levels = cast("list[object]", value) if isinstance(value, list) else []
    if not levels or any(type(level) is not int or level < 0 for level in levels):
        raise BadConfig(f"{where}: {key} is {value!r}; expected a list of integers from 0, for example [0, 1, 2]")
    return tuple(cast("list[int]", levels))
