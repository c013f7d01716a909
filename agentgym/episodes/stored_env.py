"""Environments named in stored files, which may come from strangers: such a name is never imported and sets only tasks."""

from collections.abc import Collection, Mapping
from typing import cast

from agentgym.core.caller import Setting
from agentgym.errors import BadConfig, UnknownName, no_such
from agentgym.registry import DESCRIPTIONS, class_of, full_id, is_registered


def stored_id(name: str) -> str:
    """Return the full id of a name from a stored file. Nothing is imported, because the file may come from a stranger.

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

    Names in `named` were given by the caller and may be imported. `flags` are the command-line flags for the name and for
    the options. Options that are None or equal to the environment's default are ignored.
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
    """Return name and options of the environment in a row of a dataset (fields `env` and `options`).

    `caller` is the caller's own configuration: only its `env` may be imported, and its `env_options` override the row's.

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
    """Return True if a value from a file equals a default; files have lists for tuples, and tables for any mapping."""
    if isinstance(default, Mapping):
        return isinstance(value, Mapping) and dict(cast("Mapping[str, object]", value)) == dict(default)  # type: ignore[arg-type]
    if isinstance(default, tuple | list):
        return isinstance(value, tuple | list) and list(cast("list[object]", value)) == list(cast("list[object]", default))
    return type(value) is type(default) and value == default
