"""Description of a harness in a TOML file: how to install it, start it, point it at a model, and stop it."""

import hashlib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agentgym.errors import BadConfig, BadData, UnknownName, no_such

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from agentgym.harness.agent import HarnessAgent

FOLDER = Path(__file__).parent / "harnesses"
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))
PREFIX = "harness:"
"""Prefix that marks an agent's name as the name or file of a harness."""
MEMORY = "/tmp/agentgym-harness"
"""Folder in the container for the harness's own files, which are not part of the task."""
GAPS = ("base_url", "origin", "api_key", "model", "instruction", "folder", "memory", "turn_tokens", "context")
_GAP = re.compile(rf"\{{({'|'.join(GAPS)})\}}")
SHELL = ("tool", "parameter", "arguments", "text", "end")
LONGEST = 100_000
"""Maximum bytes of one argument of a command line."""


@dataclass(frozen=True)
class Harness:
    """A program that works in the task's sandbox with its own tools and calls a model at a base URL.

    `start`, `environment`, `files` and `stdin` may contain placeholders, which are filled in per argument and never parsed
    by a shell: `{base_url}` (OpenAI's APIs, with /v1), `{origin}` (without /v1), `{api_key}`, `{model}`, `{instruction}`,
    `{folder}` (of the task), `{memory}` (a folder for the harness's own files), `{turn_tokens}` (maximum tokens of a reply)
    and `{context}` (maximum tokens of prompt and reply).
    """

    name: str
    start: tuple[str, ...]
    """Program and arguments."""
    install: str = ""
    """Script for /bin/sh that root runs once on top of the task's image; it should install programs below /opt/agentgym."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Environment variables in addition to the sandbox's."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Files to write before the start: contents by path below the harness's memory folder."""
    own_files: tuple[str, ...] = ()
    """Paths of the harness's own files below the user's home folder; they are not part of the task."""
    stdin: str = ""
    """Text for the program's standard input."""
    shell: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Format of a reply that runs a command, used to replay solutions: `tool` with its `parameter` and further
    `arguments`, or a `text` with {command}. `end` is the command that ends the work, if a reply without a tool call
    does not.
    """
    room: Mapping[str, int] = field(default_factory=dict[str, int])
    """Resources added to the task's limits: memory and disk (bytes), processes, open_files, files."""
    grace: float = 10.0
    """Seconds between the end of the harness's time or budget and the kill."""
    about: str = ""

    @property
    def fingerprint(self) -> str:
        """Hash of the whole description."""
        return hashlib.blake2b(repr(self).encode(), digest_size=8).hexdigest()

    def filled(self, text: str, gaps: Mapping[str, str]) -> str:
        """Return a text with its placeholders filled in; placeholders inside the filled-in values are not expanded.

        Raises:
            BadConfig: the result is too long.
        """
        filled = _GAP.sub(lambda gap: gaps[gap[1]], text)
        if len(filled.encode("utf-8", "surrogatepass")) > LONGEST:
            raise BadConfig(f"a word that starts harness {self.name!r} has more than {LONGEST} bytes: {filled[:80]!r}…")
        return filled


def is_harness(agent: str) -> bool:
    """Return True if an agent's name selects a harness."""
    return agent.startswith(PREFIX)


def plays_itself(agent: object) -> "TypeIs[HarnessAgent]":
    """Return True if an agent is a `HarnessAgent`; this check imports neither the gateway nor containers."""
    return hasattr(agent, "play_into")


def load(agent: str) -> Harness:
    """Return the harness of `harness:NAME` or `harness:FILE.toml`.

    Raises:
        UnknownName: no harness has the name.
        BadData: the file is malformed.
    """
    reference = agent.removeprefix(PREFIX)
    if reference in NAMES:
        return read(FOLDER / f"{reference}.toml")
    if not reference.endswith(".toml"):
        raise UnknownName(no_such("harness", reference, NAMES, "A file of your own is harness:FILE.toml."))
    return read(Path(reference).expanduser())


def read(path: Path) -> Harness:
    """Parse the description of a harness from a file.

    Raises:
        BadConfig: a key is unknown.
        BadData: the file cannot be read, or a value has the wrong type.
    """
    try:
        raw = cast("dict[str, object]", tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise BadData(f"harness {path} cannot be read: {error.strerror}; expected a TOML file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadData(f"{path}: {error}; expected TOML") from error
    known = [entry.name for entry in fields(Harness) if entry.name != "name"]
    if wrong := next((name for name in raw if name not in known), ""):
        raise BadConfig(no_such(f"key of {path}:", wrong, known))
    start = raw.get("start")
    if not isinstance(start, list) or not start or not all(isinstance(word, str) for word in cast("list[object]", start)):
        raise BadData(f"{path}: start is {start!r:.80}; expected the program and its arguments, a list of texts")
    for name in ("install", "stdin", "about"):
        if not isinstance(raw.get(name, ""), str):
            raise BadData(f"{path}: {name} is {raw[name]!r:.80}; expected text")
    for name, kind in (("environment", str), ("files", str), ("room", int)):
        table = raw.get(name, {})
        if not isinstance(table, dict) or not all(
            type(value) is kind for value in cast("dict[str, object]", table).values()
        ):
            raise BadData(f"{path}: [{name}] is {table!r:.80}; expected a table of {'numbers' if kind is int else 'texts'}")
    _check_shell(path, raw.get("shell", {}))
    grace = raw.get("grace", 10.0)
    if isinstance(grace, bool) or not isinstance(grace, int | float) or not 0 <= grace < 3600:
        raise BadData(f"{path}: grace is {grace!r:.80}; expected seconds from 0 to 3600")
    own = raw.get("own_files", [])
    if not isinstance(own, list) or not all(isinstance(name, str) for name in cast("list[object]", own)):
        raise BadData(f"{path}: own_files is {own!r:.80}; expected a list of paths below the home folder")
    names = tuple(cast("list[str]", own))
    _check_files(path, "own_files", "the home folder", names)
    _check_files(path, "[files]", "the harness's memory folder", cast("dict[str, str]", raw.get("files", {})))
    return Harness(**{**raw, "name": path.stem, "start": tuple(cast("list[str]", start)), "own_files": names})  # pyright: ignore[reportArgumentType]


def _check_files(path: Path, key: str, folder: str, files: Iterable[str]) -> None:
    for name in files:
        if name.startswith("/") or ".." in name.split("/") or not name.strip("/."):
            raise BadData(f"{path}: {key} has {name!r:.80}; expected a path below {folder}")


def _check_shell(path: Path, shell: object) -> None:
    table = cast("dict[str, object]", shell) if isinstance(shell, dict) else {"": shell}
    if wrong := next((name for name in table if name not in SHELL), ""):
        raise BadConfig(no_such(f"key of [shell] in {path}:", wrong, SHELL))
    texts = {name: value for name, value in table.items() if name != "arguments"}
    forms = [{"tool", "parameter"}, {"text"}]
    if table and (
        not all(isinstance(value, str) and value for value in texts.values())
        or not isinstance(table.get("arguments", {}), dict)
        or {*texts} - {"end"} not in forms
        or ("text" in table and ("arguments" in table or "{command}" not in str(table["text"])))
    ):
        raise BadData(
            f"{path}: [shell] is {shell!r:.200}; expected a tool and its parameter (and a table of further arguments), or a "
            "text with {command}"
        )
