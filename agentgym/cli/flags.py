"""Command-line flags of a command, derived from its flat dataclass with argparse."""

import argparse
import contextlib
import dataclasses
import json
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from agentgym.cli.help_text import docs, folded_text
from agentgym.core.caller import Setting
from agentgym.errors import BadConfig, no_such
from agentgym.options import Alias, Mark
from agentgym.options import Options as Options

_Config = TypeVar("_Config")
_NOUNS = {int: ("INT", "a whole number"), float: ("FLOAT", "a number"), str: ("STR", "text")}


@dataclasses.dataclass(frozen=True)
class Flag:
    """Flag of one field of a command's dataclass."""

    name: str
    owner: type[Any]
    """Dataclass that declares the field."""
    kind: Any
    """Type of the field without its `Annotated` marks and `None`; for a tuple, the type of one value."""
    many: bool
    """True if the flag takes any number of values."""
    nullable: bool
    """True if the word `None` on the command line means None."""
    marks: tuple[object, ...]
    default: Any
    """Value if the flag is absent; `dataclasses.MISSING` if it is required."""

    @property
    def text(self) -> str:
        """Doc line under the field; the source is only parsed when the help or an error message shows it."""
        return docs(self.owner)[self.name]

    @property
    def positional(self) -> bool:
        """True if the field is a positional argument."""
        return Mark.POSITIONAL in self.marks

    @property
    def word(self) -> str:
        """The flag, such as `--lr`, or for a positional argument its name in the usage, such as `ID`."""
        alias = next((mark.name for mark in self.marks if isinstance(mark, Alias)), self.name)
        return alias.upper() if self.positional else f"--{self.name.replace('_', '-')}"

    @property
    def spellings(self) -> list[str]:
        """All flags that set the field, including aliases; empty for a positional argument."""
        others = [f"--{mark.name}" for mark in self.marks if isinstance(mark, Alias)]
        return [] if self.positional else [*others, self.word]

    @property
    def metavar(self) -> str:
        """Placeholder for the value in the help."""
        if self.positional:
            return self.word
        return f"{{{','.join(get_args(self.kind))}}}" if get_origin(self.kind) is Literal else _NOUNS[self.kind][0]

    def value(self, word: str) -> object:
        """Return the value parsed from a command-line word.

        Raises:
            ArgumentTypeError: the word is not a valid value.
        """
        if self.nullable and word == "None":
            return None
        choices = get_args(self.kind) if get_origin(self.kind) is Literal else ()
        expected = f"one of {', '.join(choices)}" if choices else _NOUNS[self.kind][1]
        if word in choices:
            return word
        if not choices:
            with contextlib.suppress(ValueError):
                return self.kind(word)
        raise argparse.ArgumentTypeError(f"expected {expected}, not {word!r}")

    def tupled(self, value: Any) -> object:
        """Return a value parsed by argparse, converted from a list to a tuple if the field is a tuple."""
        return tuple(value) if self.many else value

    @property
    def help(self) -> str:
        """Help text: the doc line and the default. An empty default is omitted, since the doc line describes it."""
        if self.default is dataclasses.MISSING:
            return f"{self.text} (required)"
        text = " ".join(map(str, self.default)) if self.many and self.default is not None else str(self.default)
        return self.text if text in ("", "None", "-inf") else f"{self.text} (default: {text})"


def read_flags(
    config: type[_Config],
    arguments: Sequence[str],
    *,
    command: str,
    description: str | None = None,
    default: Mapping[str, Any] | None = None,
) -> _Config:
    """Return the dataclass filled from the arguments; `default` has the values of absent flags.

    Raises BadConfig for an unknown flag (with the closest known one), a value of the wrong type and a missing argument.
    `--help` prints the help and exits with 0.
    """
    return filled(config, given_flags(config, arguments, command=command, description=description, default=default), default)


@dataclasses.dataclass(frozen=True)
class ParsedFlags:
    """Values that a command line sets, without defaults: fields by name, and the keys of each options table."""

    fields: Mapping[str, object]
    tables: Mapping[str, Mapping[str, object]]


def given_flags(
    config: type[_Config],
    arguments: Sequence[str],
    *,
    command: str,
    description: str | None = None,
    default: Mapping[str, Any] | None = None,
) -> ParsedFlags:
    """Return the dataclass values that the arguments set.

    Raises:
        BadConfig: a flag is unknown, has a wrong value, or is required and missing, also in `default`.
        SystemExit: `--help` was printed.
    """
    flags = _flags(config, default)
    fields = [field.name for field in dataclasses.fields(config)]  # type: ignore[arg-type]
    tables = [name.removesuffix("_options") for name in fields if name.endswith("_options")]
    words, by_table = _split_off(arguments, set(tables))
    hint = f"`agentgym {command} --help` shows all"
    if "-h" in words or "--help" in words:
        print(_help(flags, {table: docs(config)[f"{table}_options"] for table in tables}, command, description))
        raise SystemExit(0)
    flag_parser = parser(flags, described=False)
    words = _normal(words, flag_parser, flags, f"{hint}.")
    try:
        namespace, rest = flag_parser.parse_known_args(words)
        values: dict[str, Any] = {**vars(namespace), **_positionals(flags, rest)}
    except argparse.ArgumentError as error:
        name = f"{error.argument_name}: " if error.argument_name else ""
        raise BadConfig(f"{name}{error.message}. {hint}") from None
    missing = [flag for flag in flags if flag.name not in values and flag.default is dataclasses.MISSING]
    if missing:
        names = [f"{flag.word}{'' if flag.positional else f' {flag.metavar}'} is missing: {flag.text}" for flag in missing]
        raise BadConfig(f"{'; '.join(name.rstrip('.') for name in names)}. {hint}")
    absent: dict[str, object] = {flag.name: () for flag in flags if flag.positional and flag.default == ()}
    return ParsedFlags(
        absent | {flag.name: flag.tupled(values[flag.name]) for flag in flags if flag.name in values}, by_table
    )


def filled(config: type[_Config], parsed: ParsedFlags, default: Mapping[str, Any] | None = None) -> _Config:
    """Return the dataclass with the values of a command line, else those of `default`, else the dataclass's own defaults."""
    before = default or {}
    values: dict[str, Any] = {**before, **parsed.fields}
    for table, changes in parsed.tables.items():
        values[f"{table}_options"] = {**before.get(f"{table}_options", {}), **changes}
    return config(**values)


def parser(
    flags: Iterable[Flag], *, positionals: bool = False, prog: str = "", usage: str = "", described: bool = True
) -> argparse.ArgumentParser:
    """Return the argparse parser of flags; with `positionals` it also shows and completes positional arguments.

    With `described=False` it has no help texts, since reading them doubles the start-up time.
    """
    width = shutil.get_terminal_size().columns

    def formatter(prog: str) -> argparse.HelpFormatter:
        return _Formatter(prog, max_help_position=20, width=width)

    made = argparse.ArgumentParser(
        prog=prog, usage=usage or None, formatter_class=formatter, allow_abbrev=False, exit_on_error=False
    )
    for flag in flags:
        options: dict[str, Any] = {"default": argparse.SUPPRESS}
        if described:
            options["help"] = flag.help.replace("%", "%%")
        if flag.positional:
            if positionals:
                choices = get_args(flag.kind) if get_origin(flag.kind) is Literal else None
                made.add_argument(flag.name, nargs="*" if flag.many else None, metavar=flag.word, choices=choices, **options)
        elif flag.kind is bool:
            made.add_argument(*flag.spellings, dest=flag.name, action=argparse.BooleanOptionalAction, **options)
        else:
            options |= {"dest": flag.name, "type": flag.value, "metavar": flag.metavar}
            if Mark.REPEATED in flag.marks:
                options["action"] = "append"
            elif flag.many:
                options["nargs"] = "*"
            made.add_argument(*flag.spellings, **options)
    return made


def flags_of(config: type[Any]) -> list[Flag]:
    """Return the flags of a command's dataclass."""
    return _flags(config, None)


def value_of(text: str) -> object:
    """Return a command-line word parsed as JSON (3, 0.5, true, [1, 2]), or unchanged if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def written(config: Any, command: str) -> list[str]:
    """Return the words of a command line that gives this dataclass: `agentgym`, the command, and its arguments."""
    words = ["agentgym", command]
    flags: list[str] = []
    kinds = get_type_hints(cast("type[Any]", type(config)), include_extras=True)
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        default = field.default_factory() if callable(field.default_factory) else field.default
        if value == default:
            continue
        if field.name.endswith("_options"):
            table = field.name.removesuffix("_options")
            flags += [word for key, one in value.items() for word in Setting(f"{table}.{key}", one).words]
        elif _is_positional(kinds[field.name]):
            words += map(str, cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,))
        elif isinstance(value, bool):
            flags.append(f"--{'' if value else 'no-'}{field.name.replace('_', '-')}")
        else:
            flags += Setting(field.name, value).words
    return words + flags


def _is_positional(kind: Any) -> bool:
    return get_origin(kind) is Annotated and Mark.POSITIONAL in kind.__metadata__


def read_settings(arguments: Sequence[str], expected: str) -> dict[str, object]:
    """Return the settings in the words of a command line, by flag without dashes (`engine`, `env.backend`).

    `--TABLE.KEY` takes the next word, as JSON if possible; any other flag takes the words up to the next flag. `expected`
    describes the allowed flags in errors.

    Raises:
        BadConfig: a word belongs to no flag, or a flag lacks its value.
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


class _Formatter(argparse.HelpFormatter):
    """Help formatter whose lines never break at the hyphen of a flag."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(text, width, break_on_hyphens=False)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """Return `--as, --form FORM`, with the placeholder only once, like argparse from Python 3.13 on."""
        text = super()._format_action_invocation(action)
        if len(action.option_strings) < 2 or action.nargs == 0:
            return text
        *_, last = action.option_strings
        return ", ".join([*action.option_strings[:-1], last + text.rpartition(last)[2]])


def _flags(config: type[Any], default: Mapping[str, Any] | None) -> list[Flag]:
    kinds = get_type_hints(config, include_extras=True)
    flags: list[Flag] = []
    for field in dataclasses.fields(config):
        kind, marks = kinds[field.name], ()
        while get_origin(kind) is Annotated:
            kind, marks = get_args(kind)[0], (*marks, *kind.__metadata__)
        if Mark.HIDDEN in marks:
            continue
        nullable = get_origin(kind) in (Union, UnionType) and NoneType in get_args(kind)
        if nullable:
            kind = next(other for other in get_args(kind) if other is not NoneType)
        many = get_origin(kind) is tuple
        value = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        value = value if default is None else default[field.name]
        if value is dataclasses.MISSING and many and Mark.POSITIONAL in marks:
            value = ()
        flags.append(Flag(field.name, config, get_args(kind)[0] if many else kind, many, nullable, marks, value))
    return flags


def _positionals(flags: Sequence[Flag], words: list[str]) -> dict[str, object]:
    """Return the values of positional arguments: one word each, or all remaining words for an argument that takes many.

    Raises:
        ArgumentError: a word is invalid or superfluous.
    """
    values: dict[str, object] = {}
    if "--" in words:
        words.remove("--")
    for flag in (flag for flag in flags if flag.positional):
        try:
            if words and flag.many:
                values[flag.name], words = tuple(map(flag.value, words)), []
            elif words:
                values[flag.name], words = flag.value(words[0]), words[1:]
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentError(None, f"{flag.word}: {error}") from None
    if words:
        raise argparse.ArgumentError(None, f"nothing takes the word {words[0]!r}")
    return values


def _normal(words: Sequence[str], flag_parser: argparse.ArgumentParser, flags: Sequence[Flag], hint: str) -> list[str]:
    """Return the words with `_` in flags replaced by `-`, and negative numbers joined to their flag.

    Raises:
        BadConfig: a flag is unknown or takes no value.
    """
    known = {word: flag for flag in flags for word in flag.spellings}
    switches = {f"--no-{word[2:]}" for word, flag in known.items() if flag.kind is bool}
    normal: list[str] = []
    for place, word in enumerate(words):
        if word == "--":
            return normal + list(words[place:])
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            if (flag := name.replace("_", "-")) not in (*known, *switches):
                raise BadConfig(no_such("flag", name, known, hint))
            if equals and (flag in switches or known[flag].kind is bool):
                raise BadConfig(f"{flag} takes no value, not {value!r}; it is {flag} or --no-{flag[2:]}. {hint}")
            word = f"{flag}{equals}{value}"
        elif word.startswith("-") and _is_number(word) and normal and (before := known.get(normal[-1])) and not before.many:
            word = f"{normal.pop()}={word}"
        elif word.startswith("-") and len(word) > 1 and not _is_number(word) and " " not in word:
            raise BadConfig(no_such("flag", word, known, hint))
        normal.append(word)
    return normal


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _help(flags: Sequence[Flag], tables: dict[str, str], command: str, description: str | None) -> str:
    """Return the help: description, usage, every flag and every table of options."""
    width = shutil.get_terminal_size().columns
    required_flags = [flag for flag in flags if flag.default is dataclasses.MISSING]
    words = {flag: f"{flag.word}{' ...' * flag.many}" for flag in flags if flag.positional}
    positionals = [word if flag in required_flags else f"[{word}]" for flag, word in words.items()]
    required = [f"{flag.word} {flag.metavar}" for flag in required_flags if not flag.positional]
    usage = " ".join([f"agentgym {command}", *positionals, *required, "[OPTIONS]"])
    whole = parser(flags, positionals=True, prog=f"agentgym {command}", usage=usage)
    for name, text in tables.items():
        whole.add_argument(f"--{name}.KEY", metavar="VALUE", help=text.replace("%", "%%"))
    above = f"{folded_text(description, width)}\n\n" if description else ""
    return above + whole.format_help().rstrip("\n")


def _split_off(arguments: Sequence[str], tables: set[str]) -> tuple[list[str], dict[str, dict[str, object]]]:
    """Return the other arguments, and the values of `--TABLE.KEY VALUE` and `--TABLE.KEY=VALUE` by table and key.

    Raises:
        BadConfig: a flag lacks its value.
    """
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
        first, dot, inner = key.partition(".")  # further dots belong to the name
        by_table.setdefault(table, {})[f"{first.replace('-', '_')}{dot}{inner}"] = value_of(value)
    return plain, by_table
