"""Environments that stored files name: a file may be a stranger's, so its names import nothing and it sets only tasks."""

from collections.abc import Collection, Mapping
from typing import cast

from agentgym.core.caller import Setting
from agentgym.errors import BadConfig, UnknownName, no_such
from agentgym.registry import DESCRIPTIONS, class_of, full_id, is_registered


def stored_id(name: str) -> str:
    """Return the full id of a name from a stored file; the file may be a stranger's, so nothing is imported.

    Raises:
        UnknownName: no registered environment has the name.
    """
    if is_registered(name):
        return full_id(name)
    raise UnknownName(
        no_such(
            "registered environment",
            name,
            DESCRIPTIONS,
            "The name stands in a stored file, which imports nothing: name its module on the command line (MODULE:ID).",
        )
    )


def stored_settings(
    name: str, options: Mapping[str, object], named: Collection[str] = (), flags: tuple[str, str] = ("env", "env")
) -> list[Setting]:
    """Return the settings of a stored environment that only the caller may set: its module, and options that shape no task.

    `named` lists the names that the caller gave, which may be imported. `flags` are the flag of the name and that of the
    options' table. An option equal to the environment's default is ignored.
    """
    flag, table = flags
    if not is_registered(name) and name not in named:
        return [Setting(flag, name), *(Setting(f"{table}.{key}", value) for key, value in options.items())]
    kind = class_of(full_id(name))  # imports the module that the caller named
    tasks = kind.stored_option_names() if kind else frozenset[str]()
    return [
        Setting(f"{table}.{key}", value)
        for key, value in options.items()
        if key not in tasks and value is not None and not _same(value, getattr(kind, key, None))
    ]


def of_dataset(row: Mapping[str, object], caller: Mapping[str, object]) -> tuple[str, dict[str, object]]:
    """Return the name and the options of the environment that a row of a dataset names (`env`, `options`).

    `caller` is the caller's own configuration: `env` is the one name that may be imported, and `env_options` override the
    row's.

    Raises:
        BadConfig: the row sets an option that only the caller may set.
    """
    name, options = str(row["env"]), dict(cast("Mapping[str, object]", row.get("options") or {}))
    own = dict(cast("Mapping[str, object]", caller.get("env_options") or {}))
    found = stored_settings(name, options, [str(caller.get("env"))])
    unsaid = [one for one in found if one.flag.removeprefix("env.") not in own]
    if unsaid:
        raise BadConfig(
            f"a row of the dataset sets {', '.join(repr(one.flag) for one in unsaid)}, which says where or how an "
            "environment runs: give it in the configuration of agentgym, as env = NAME and env_options = {KEY: VALUE}"
        )
    return name, {**options, **own}


def _same(value: object, default: object) -> bool:
    """Return whether a value read from a file equals a default; a file has lists for tuples, tables for any mapping."""
    if isinstance(default, Mapping):
        return isinstance(value, Mapping) and dict(cast("Mapping[str, object]", value)) == dict(default)  # type: ignore[arg-type]
    if isinstance(default, tuple | list):
        return isinstance(value, tuple | list) and list(cast("list[object]", value)) == list(cast("list[object]", default))
    return type(value) is type(default) and value == default
