"""Recipes: runs written as TOML with one table per stage; an unknown key is reported with the closest known one."""

import dataclasses
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

from agentgym.errors import BadConfig, BadData, UnknownName, no_such
from agentgym.trainers.config.caller_settings import with_caller
from agentgym.trainers.config.checks import check_env
from agentgym.trainers.config.settings import TABLES, EnvSpec
from agentgym.trainers.config.train_config import TrainConfig, defaults
from agentgym.trainers.losses.interface import unread

FOLDER = Path(str(files("agentgym.trainers.config") / "recipes"))


def recipes() -> dict[str, Path]:
    """Return the files of the package's recipes, by recipe name."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.toml"))}


def read_recipe(name: str) -> TrainConfig:
    """Read a recipe by its name or from a TOML file; an empty name gives the defaults."""
    return TrainConfig(**recipe_values(name))


def recipe_values(name: str) -> dict[str, Any]:
    """Return all fields of a recipe (a name or a file) without checking them; for an empty name, the defaults.

    Raises:
        UnknownName: the package has no such recipe.
    """
    table = recipes()
    if name and not name.endswith(".toml") and name not in table:
        own = "an environment is --env NAME, one in a module of yours --env MODULE:NAMESPACE/NAME-v0."
        raise UnknownName(no_such("recipe", name, table, f"`agentgym train --list` shows all; {own}"))
    return {**defaults(), **(read_values(table.get(name, Path(name))) if name else {})}


def read_config(path: Path) -> TrainConfig:
    """Read a run from TOML.

    A key is either in the table of its stage (`[sft]`, `[rollout]`, `[loss]`, …), without the stage's prefix, or at the
    top of the file under its flag's name. In a table, `name` (or `names`) chooses the implementation, and keys that are
    not fields of the stage are options of that implementation.
    `base = "NAME"` (a base of the package) or `base = "FILE.toml"` (in the folder of this file) sets the fields that
    the file leaves out.
    """
    return TrainConfig(**read_values(path))


def read_run(
    folder: str | Path, caller: Mapping[str, object] | None = None, command: Sequence[str] | None = None
) -> TrainConfig:
    """Read the configuration of the run in a folder that a stranger may have written.

    `caller` has the settings that only the caller may make (see `with_caller`), by flag without dashes; `command` is
    the command line without these settings, which the error message completes (by default `agentgym train --resume`).

    Raises:
        BadConfig: the folder has no run, its `config.toml` is invalid, or the caller must give a setting.
    """
    path = Path(folder) / "config.toml"
    if not path.exists():
        raise BadConfig(f"{folder} holds no run: expected a config.toml in it")
    words = ["agentgym", "train", "--resume", str(folder)] if command is None else command
    return TrainConfig(**with_caller(path, read_values(path, stored=True), defaults(), caller or {}, words))


def read_values(path: Path, *, stored: bool = False) -> dict[str, Any]:
    """Read the fields that a file and its base set, converted to their types; only `[[envs]]` is checked further.

    `stored`: the file is a run's own configuration, which has no base.

    Raises:
        BadConfig: the file belongs to `agentgym sft`, a stored file names a base, a key is unknown, or a value has the
            wrong type.
    """
    raw = read_toml(path)
    if raw.get("command") == "sft":
        raise BadConfig(f"{path} is of a run of `agentgym sft`; continue it with: agentgym sft --resume {path.parent}")
    values = _flat(path, raw)
    if stored and "base" in raw:
        raise BadConfig(f"{path}: a run's configuration has no base: it is whole")
    if "base" in raw:
        below = _flat(*_base(path, raw["base"]))
        unused = for_others({**defaults(), **below}, values)
        below = {key: value for key, value in below.items() if key not in unused}
        tables = {key: {**below[key], **value} for key, value in values.items() if isinstance(below.get(key), dict)}
        values = {**below, **values, **tables}
    default = defaults()
    return {key: fitting(path, key, value, default[key]) for key, value in values.items()}


REPLACED = ("env", "engine", "sampler", "branching", "generation", "reward", "select", "credit", "loss", "learner")
"""Fields that choose an environment, an engine or a stage; each choice has its own options."""


def for_others(below: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return default options for each stage, engine or environment that `chosen` replaces.

    `below` has the fields of a recipe, and `chosen` those that override them: options of a replaced choice no longer
    apply. If the environment is replaced, the result also resets `envs` and the splits. If the loss is replaced, it
    also resets the fields that the new loss does not read.
    """
    unused: dict[str, Any] = {}
    for stage in REPLACED:
        if stage in chosen and listed(chosen[stage]) != listed(below[stage]):
            unused[f"{stage}_options"] = {}
            if stage == "env":
                unused |= {"envs": (), "train_split": "", "valid_split": "", "test_split": ""}
            elif stage == "loss":
                unused |= unread(str(chosen[stage]))
    return unused


def listed(value: object) -> list[object]:
    """Return the value of a field as a list of names; the field may contain one name or several."""
    return list(cast("Sequence[object]", value)) if isinstance(value, list | tuple) else [value]


def _flat(path: Path, raw: Mapping[str, object]) -> dict[str, Any]:
    """Return the fields that a file sets.

    Raises:
        BadConfig: a key is unknown.
    """
    tables = {table: kind for kind, table in TABLES.items() if table}
    top = {f.name for f in dataclasses.fields(TrainConfig)}
    values: dict[str, Any] = {}
    for key, value in raw.items():
        if key in tables and isinstance(value, dict):
            values |= dict(_stage(path, key, tables[key], cast("dict[str, object]", value)))
        elif key == "envs":
            values[key] = _envs(path, value)
        elif key in top:
            values[key] = value
        elif key != "base":
            raise BadConfig(no_such(f"key in {path.name}:", key, (*top, *tables)))
    return values


def _stage(path: Path, table: str, kind: type, raw: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield the fields that the table of a stage sets.

    Raises:
        BadConfig: a key is unknown.
    """
    fields = {f.name for f in dataclasses.fields(kind)}
    options = next((name for name in fields if name.endswith("_options")), "")
    extra: dict[str, Any] = {}
    for key, value in raw.items():
        name = table if key in ("name", "names") else key
        name = name if name in fields else f"{table}_{key}"
        if name in fields:
            yield name, value
        elif options in fields:
            extra[key] = value
        else:
            known = [option.removeprefix(f"{table}_") for option in fields]
            raise BadConfig(no_such(f"key of [{table}] in {path.name}:", key, known))
    if extra:
        yield options, extra


def _envs(path: Path, raw: object) -> tuple[EnvSpec, ...]:
    """Return the environments of `[[envs]]`.

    Raises:
        BadConfig: the value is not a list of tables, a key is unknown, or an entry has no id.
    """
    known = {f.name for f in dataclasses.fields(EnvSpec)}
    if not isinstance(raw, list) or not all(isinstance(row, dict) for row in cast("list[object]", raw)):
        raise BadConfig(f"{path.name}: envs is {raw!r:.60}; expected [[envs]] tables with an id each")
    specs: list[EnvSpec] = []
    for row in cast("list[dict[str, object]]", raw):
        for key in row:
            if key not in known:
                raise BadConfig(no_such(f"key of [[envs]] in {path.name}:", key, known))
        if "id" not in row:
            raise BadConfig(f'{path.name}: an entry of [[envs]] has no id, for example id = "rlvr/Search-v0"')
        turns = row.get("horizon", [])
        values: dict[str, Any] = {**row, "horizon": tuple(cast("list[Any]", turns)) if isinstance(turns, list) else (turns,)}
        specs.append(EnvSpec(**values))
        check_env(specs[-1])
    return tuple(specs)


def read_toml(path: Path) -> dict[str, object]:
    """Read a TOML file.

    Raises:
        BadConfig: the file cannot be read.
        BadData: the file is not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadConfig(f"{path}: cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadData(f"{path}: not TOML ({error})") from error


def _base(path: Path, name: object) -> tuple[Path, dict[str, Any]]:
    """Return the path and content of the base that a file names; a base must not name another base.

    Raises:
        BadConfig: the name is not a string, the base names another base, or its file cannot be read.
        UnknownName: the package has no such base.
    """
    bases = FOLDER / "bases"
    if not isinstance(name, str):
        raise BadConfig(f"{path.name}: base is {name!r}; expected a name or a .toml file")
    below_path = path.parent / name if name.endswith(".toml") else bases / f"{name}.toml"
    if below_path.parent == bases and not below_path.exists():
        raise UnknownName(no_such(f"base in {path.name}:", name, [base.stem for base in bases.glob("*.toml")]))
    below = read_toml(below_path)
    if "base" in below:
        raise BadConfig(f"{path.name}: its base {name!r} also names a base; only one level of bases is read")
    return below_path, below


def fitting(path: Path, key: str, value: Any, default: Any) -> Any:
    """Convert a value from a file to the type of its field's default.

    Raises:
        BadConfig: the value has the wrong type.
    """
    value_type, expected = cast("type[object]", type(value)), cast("type[object]", type(default))
    if expected is tuple and value_type in (list, str):  # one stage where several are possible
        return tuple(cast("list[object]", value)) if value_type is list else (value,)
    if expected is float and value_type is int:
        return float(value)
    if value_type is not expected:
        raise BadConfig(f"{path.name}: {key} is {value!r}; expected {expected.__name__}, for example {default!r}")
    return value


def to_toml(config: TrainConfig) -> str:
    """Return the text of a run's TOML file, which `read_config` reads back."""
    lines: list[str] = []
    for kind, table in TABLES.items():
        lines += ["", f"[{table}]"] if table else []
        nested: list[str] = []
        for f in dataclasses.fields(kind):
            value = getattr(config, f.name)
            if f.name == "envs":
                for spec in value:
                    nested += ["", "[[envs]]", *rows(dataclasses.asdict(spec))]
            elif not f.name.endswith("_options"):
                name = ("names" if isinstance(value, tuple) else "name") if f.name == table else f.name
                lines.append(f"{name} = {_toml(value)}")
            elif table:
                lines += rows(value)
            elif value:
                nested += ["", f"[{f.name}]", *rows(value)]
        lines += nested
    return "\n".join(lines) + "\n"


def rows(values: Mapping[str, object]) -> list[str]:
    """Return values as lines of TOML, `KEY = VALUE` each."""
    return [f"{_key(key)} = {_toml(value)}" for key, value in values.items()]


def _key(key: str) -> str:
    return key if key.isascii() and key.replace("_", "").replace("-", "").isalnum() else _toml(key)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # TOML alone escapes this
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(_toml, cast('list[object]', value)))}]"
    if isinstance(value, dict):
        return (
            "{" + ", ".join(f"{_key(key)} = {_toml(item)}" for key, item in cast("dict[str, object]", value).items()) + "}"
        )
    return repr(value)
