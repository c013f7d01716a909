"""Settings that only the caller may give: how they are written as flags, and how a stored file that sets one is refused.

A run's folder, an evaluation, a model's folder, an episode file and a dataset may be a stranger's. They may shape tasks;
where and how something runs (sandboxes, paths, addresses, models, modules) is never read back from them.
"""

import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, cast

from agentgym.core.screen import printable
from agentgym.errors import BadConfig

LONGEST = 4000
"""Characters of a command that an error spells out."""


@dataclass(frozen=True)
class Setting:
    """A setting in a stored file that only the caller may give."""

    flag: str
    """Its flag without dashes: `engine`, `env.backend`, `env.2.data`."""
    value: object

    @property
    def words(self) -> list[str]:
        """The flag and its value as words of a command line."""
        if "." in self.flag:
            return [f"--{self.flag}", option_word(self.value)]
        several = isinstance(self.value, tuple | list)
        values = cast("Sequence[object]", self.value) if several else [self.value]  # type: ignore[reportUnknownMemberType]
        flag = f"--{self.flag.replace('_', '-')}"
        words = [str(value) for value in values]
        return [f"{flag}={words[0]}"] if len(words) == 1 and words[0].startswith("-") else [flag, *words]


def option_word(value: object) -> str:
    """Return the word that a flag `--TABLE.KEY` reads back as the value: JSON, or the text itself where it is not JSON."""
    if isinstance(value, str) and value.isprintable():
        try:
            json.loads(value)
        except (ValueError, RecursionError):
            return value
    return json.dumps(value)


def quoted(words: Iterable[str]) -> str:
    """Return a command to paste into a shell: each word is quoted, control and format characters are escaped."""
    return " ".join(map(_quoted, words))


def _in_one_line(text: str) -> str:
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def _quoted(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    escapes = {"\\": "\\\\", "'": "\\'"}
    return f"$'{''.join(escapes.get(c) or (c if c.isprintable() else _escape(c)) for c in word)}'"


def _escape(character: str) -> str:
    """Return a character as bash and zsh read it in $'…': the bytes of its UTF-8."""
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))


def refuse(path: Path, settings: Sequence[Setting], command: Sequence[str]) -> NoReturn:
    """Refuse a stored file's settings that only the caller may set.

    Raises:
        BadConfig: always, with the command that sets them all.
    """
    flags = _in_one_line(", ".join(dict.fromkeys(f"--{setting.flag}" for setting in settings)))
    paste = quoted([*command, *(word for setting in settings for word in setting.words)])
    if len(paste) > LONGEST:
        paste = f"{quoted(command)} with {'these flags' if len(flags) < LONGEST else 'your own flags'}"
    raise BadConfig(
        f"{_in_one_line(str(path))} sets {flags[:LONGEST]}, which says where or how something runs, and only the command "
        f"line may say that. If you trust these values: {paste}"
    )
