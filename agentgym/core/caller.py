"""Settings that only the caller may set: their form as flags, and the error for a stored file that sets one.

Folders of runs, evaluations and models, episode files and datasets may come from a stranger. They may shape tasks.
Settings that say where and how something runs (sandboxes, paths, addresses, models, modules) are never read from them.
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
"""Maximum length, in characters, of a command that an error shows in full."""


@dataclass(frozen=True)
class Setting:
    """A setting that a stored file contains and only the caller may set."""

    flag: str
    """Flag without the leading dashes: `engine`, `env.backend`, `env.2.data`."""
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
    """Return the word from which a flag `--TABLE.KEY` reads the value: JSON, or the text itself if it is not valid JSON."""
    if isinstance(value, str) and value.isprintable():
        try:
            json.loads(value)
        except (ValueError, RecursionError):
            return value
    return json.dumps(value)


def quoted(words: Iterable[str]) -> str:
    """Return a command line that can be pasted into a shell: words are quoted; control and format characters are escaped."""
    return " ".join(map(_quoted, words))


def _in_one_line(text: str) -> str:
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def _quoted(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    escapes = {"\\": "\\\\", "'": "\\'"}
    return f"$'{''.join(escapes.get(c) or (c if c.isprintable() else _escape(c)) for c in word)}'"


def _escape(character: str) -> str:
    """Return the UTF-8 bytes of a character as escapes that bash and zsh understand inside $'…'."""
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))


def refuse(path: Path, settings: Sequence[Setting], command: Sequence[str]) -> NoReturn:
    """Raise the error for settings in a stored file that only the caller may set.

    Raises:
        BadConfig: always; the message shows the command that sets them all.
    """
    flags = _in_one_line(", ".join(dict.fromkeys(f"--{setting.flag}" for setting in settings)))
    paste = quoted([*command, *(word for setting in settings for word in setting.words)])
    if len(paste) > LONGEST:
        paste = f"{quoted(command)} with {'these flags' if len(flags) < LONGEST else 'your own flags'}"
    raise BadConfig(
        f"{_in_one_line(str(path))} sets {flags[:LONGEST]}, which says where or how something runs, and only the command "
        f"line may say that. If you trust these values: {paste}"
    )
