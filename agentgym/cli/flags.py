"""Flags of a command, read from its flat dataclass with tyro."""

import contextlib
import dataclasses
import io
import itertools
import json
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from types import NoneType
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin, get_type_hints

import tyro

from agentgym.cli.help_text import Folded, docs, folded_text
from agentgym.core.caller import Setting
from agentgym.errors import BadConfig, bad_option
from agentgym.options import Options as Options

_Config = TypeVar("_Config")


def read_flags(
    config: type[_Config],
    arguments: Sequence[str],
    *,
    command: str,
    description: str | None = None,
    default: _Config | None = None,
) -> _Config:
    """Return the dataclass filled from the arguments; `default` gives the values of flags that are absent.

    An unknown flag raises BadConfig with the closest one. `--help` prints and exits 0; a value of the wrong type is
    explained in one sentence, with exit code 2.
    """
    names = [field.name for field in dataclasses.fields(config)]  # type: ignore[arg-type]
    tables = {name.removesuffix("_options") for name in names if name.endswith("_options")}
    plain, by_table = _split_off(arguments, tables)
    known = [f"--{name.replace('_', '-')}" for name in names if not name.endswith("_options")]
    for word in plain:
        flag = word.split("=")[0].replace("_", "-")
        flag = flag.replace("--no-", "--", 1) if flag not in known else flag
        if flag.startswith("--") and flag not in (*known, "--help", "--"):
            raise bad_option("flag", word.split("=")[0], known, f"`agentgym {command} --help` shows all.")
    given: dict[str, Any] = {} if default is None else {"default": default}
    width = shutil.get_terminal_size().columns
    if description and ("-h" in plain or "--help" in plain):
        print(folded_text(description, width) + "\n")  # tyro would run examples together
    parse = cast("Callable[..., object]", tyro.cli)
    marks = (tyro.conf.PositionalMetavarFromFieldName,)
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(Folded(sys.stdout, width)), contextlib.redirect_stderr(said):  # type: ignore[type-var]
            result = parse(unchecked(config), args=plain, prog=f"agentgym {command}", description="", config=marks, **given)
    except SystemExit as error:
        if error.code:
            print(f"error: {_sentence(said.getvalue())}. `agentgym {command} --help` shows all", file=sys.stderr)
        elif tables:
            print("\n".join(_table_help(config, width)))
        raise
    values = {name: getattr(result, name) for name in names}
    for table, changes in by_table.items():
        values[f"{table}_options"] = {**values[f"{table}_options"], **changes}
    return config(**values)  # which checks what tyro would report in a box of its own


def _table_help(config: type[Any], width: int) -> list[str]:
    """Return what `--help` says of the flags `--TABLE.KEY VALUE`, which tyro does not know of."""
    lines: list[str] = []
    for name, text in docs(config).items():
        if name.endswith("_options"):
            lines.append(f"  --{name.removesuffix('_options')}.KEY VALUE")
            lines += textwrap.wrap(text, width, initial_indent=" " * 6, subsequent_indent=" " * 6, break_on_hyphens=False)
    return lines


_PLAIN_WORDS = {
    "Error parsing ": "",
    "invalid literal for int() with base 10: ": "expected a whole number, not ",
    "could not convert string to float: ": "expected a number, not ",
}


_UNION = re.compile(r"no type matching \{None\}\|(.+?) could be instantiated from \[(.*)\]")


def _expected(union: re.Match[str]) -> str:
    """Return what tyro says of a value that a flag which may be absent cannot take, in words."""
    number = "whole number" if "INT" in union[1] else "number" if "FLOAT" in union[1] else "value"
    return f"expected {f'{number}s' if '[' in union[1] else f'a {number}'}, not {union[2]}"


def _sentence(box: str) -> str:
    """Return what tyro's box says is wrong, without the frame and what follows the first rule."""
    frame = "─╰╯- "  # dashes where the output knows no other characters
    lines = itertools.dropwhile(lambda line: not line.strip(frame), (line.strip("│") for line in box.splitlines()[1:]))
    body = list(itertools.takewhile(lambda line: line.strip(frame), lines))
    if body and body[0].strip().startswith("Missing from"):
        return _missing(body[1:])
    said = " ".join(line.strip() for line in body)
    for python, plain in _PLAIN_WORDS.items():
        said = said.replace(python, plain)
    said = _UNION.sub(_expected, said)
    return said.rstrip(".") or box.strip()


def _missing(lines: Sequence[str]) -> str:
    """Return what is missing, from tyro's list: names, and further in what each is for."""
    edge = min(len(line) - len(line.lstrip()) for line in lines)
    said: list[str] = []
    for line in lines:
        name = len(line) - len(line.lstrip()) == edge
        said += [f"; {line.strip()} is missing:"] if name else [line.strip()]
    return " ".join(said).replace(" (required)", "").replace(". ;", ";").replace(" ;", ";").removeprefix("; ").rstrip(".:")


def unchecked(config: type[_Config]) -> type[_Config]:
    """Return a dataclass without its checks, which tyro would report in a box of its own.

    The text under each field comes without the source's line breaks, which tyro would keep.
    """
    plain = type(config.__name__, (config,), {"__post_init__": _nothing, "__doc__": config.__doc__})
    texts, kinds = docs(config), get_type_hints(config, include_extras=True)
    plain.__annotations__ = {
        name: Annotated[kinds[name], tyro.conf.arg(help=text, metavar=_metavar(kinds[name]), help_behavior_hint=_hint)]
        for name, text in texts.items()
    }
    return cast("type[_Config]", plain)


def _metavar(kind: Any) -> str | None:
    """Return what stands for the value of a flag that may be absent, which tyro would call `{None}|STR`; else None."""
    while get_origin(kind) is Annotated:
        if tyro.conf.Positional in kind.__metadata__:
            return None
        kind = get_args(kind)[0]
    present = [other for other in get_args(kind) if other is not NoneType] if NoneType in get_args(kind) else []
    if len(present) != 1:
        return None
    inner = get_args(present[0])[0] if get_origin(present[0]) is tuple else present[0]
    name = {str: "STR", int: "INT", float: "FLOAT"}.get(inner)
    return f"[{name} ...]" if name and inner is not present[0] else name


def _hint(default: str) -> str:
    """Return what is said of a default; nothing of an empty one, since the text says what happens then."""
    return "" if default in ("", "None", "''", "-inf") else f"(default: {default})"


def _nothing(self: object) -> None:
    """Check nothing."""


def value_of(text: str) -> object:
    """Return what a word on the command line stands for: JSON where it is JSON (3, 0.5, true, [1, 2]), else the word."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def written(config: Any, command: str) -> list[str]:
    """Return the words of a command line that `read_flags` reads as this dataclass."""
    words = ["agentgym", command]
    flags: list[str] = []
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        default = field.default_factory() if callable(field.default_factory) else field.default
        if value == default:
            continue
        if field.name.endswith("_options"):
            table = field.name.removesuffix("_options")
            flags += [word for key, one in value.items() for word in Setting(f"{table}.{key}", one).words]
        elif _is_positional(get_type_hints(type(config), include_extras=True)[field.name]):
            words += [str(one) for one in (value if isinstance(value, tuple) else (value,))]
        elif isinstance(value, bool):
            flags.append(f"--{'' if value else 'no-'}{field.name.replace('_', '-')}")
        else:
            flags += Setting(field.name, value).words
    return words + flags


def _is_positional(kind: Any) -> bool:
    return get_origin(kind) is Annotated and tyro.conf.Positional in kind.__metadata__


def read_settings(arguments: Sequence[str], expected: str) -> dict[str, object]:
    """Return settings by flag without dashes (`engine`, `env.backend`), from words of a command line without other flags.

    `--TABLE.KEY` takes the next word, as JSON where it is JSON; any other flag the words up to the next flag. BadConfig
    for a word that belongs to no flag: `expected` says which flags there may be.
    """
    settings: dict[str, object] = {}
    words = list(arguments)
    while words:
        flag, equals, text = words.pop(0).partition("=")
        if not flag.startswith("--"):
            raise BadConfig(f"{expected}, not {flag}")
        name = flag.removeprefix("--").replace("-", "_")
        values = [text] if equals else [words.pop(0)] if "." in name and words else []
        while not equals and "." not in name and words and not words[0].startswith("--"):
            values.append(words.pop(0))
        if not values:
            raise BadConfig(f"{flag} needs a value, for example {flag} 1")
        settings[name] = value_of(values[0]) if "." in name else values[0] if len(values) == 1 else tuple(values)
    return settings


def _split_off(arguments: Sequence[str], tables: set[str]) -> tuple[list[str], dict[str, dict[str, object]]]:
    """Take `--TABLE.KEY VALUE` and `--TABLE.KEY=VALUE` out of the arguments."""
    plain: list[str] = []
    by_table: dict[str, dict[str, Any]] = {}
    words = iter(arguments)
    for word in words:
        flag, equals, value = word.partition("=")
        table, dot, key = flag.removeprefix("--").partition(".")
        if not (word.startswith("--") and dot and table in tables):
            plain.append(word)
            continue
        if not equals:
            value = next(words, None)
            if value is None:
                raise BadConfig(f"{flag} needs a value, for example {flag} 1")
        by_table.setdefault(table, {})[key.replace("-", "_")] = value_of(value)
    return plain, by_table
