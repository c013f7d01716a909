"""A shell whose state persists across commands, although each command runs in its own process tree."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from agentgym.sandbox.protocol import Result

LONGEST = 100_000
"""Maximum bytes of a command; the kernel limits an argument to 128 KiB."""
_MARK = b"\0shell state\0"
_ROOM = 64_000
"""Maximum bytes of the exported variables; if they are larger, the state stays as it was."""
_OURS = {"_", "SHLVL", "PWD", "OLDPWD", "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "POSIXLY_CORRECT"}
_NAME = re.compile(r"[A-Za-z_]\w*|BASH_FUNC_[^=]+%%")

# Standard error carries the state; all output of the command itself goes to standard output, in order. The state
# is written when the shell exits; a killed shell leaves none.
_SCRIPT = r"""
exec 57>&2 2>&1 </dev/null
__save() {
  { set +euxo pipefail; } 2>/dev/null
  { printf '\0shell state\0'; pwd; printf '\0%s\0' "$OLDPWD"; /usr/bin/env -0; } >&57 2>/dev/null
}
cd -- "$1" 2>/dev/null || { echo "[the folder $1 is gone: back in $HOME]"; cd; }
OLDPWD=$2
trap 'set -- $?; __save; exit $1' EXIT
set -- "$3"
eval "$1"
"""


@dataclass(frozen=True)
class ShellState:
    """The state of the shell between two commands."""

    folder: str
    before: str
    """Previous working directory, to which `cd -` returns."""
    variables: tuple[tuple[str, str], ...]
    """(name, value) of each exported variable, sorted."""

    def command(self, text: str, extra: Mapping[str, str]) -> list[str]:
        """Return the argument list that runs a command in this state; variables in `extra` apply unless already set."""
        variables = {**extra, **dict(self.variables)}
        assignments = [f"{name}={value}" for name, value in variables.items()]
        return ["/usr/bin/env", "-i", "--", *assignments, "/bin/bash", "-c", _SCRIPT, "bash", self.folder, self.before, text]

    def after(self, result: Result, extra: Mapping[str, str]) -> "ShellState":
        """Return the state after a command; the same state if the shell was killed or its variables are too large."""
        _, mark, dump = result.stderr.rpartition(_MARK)
        folder, _, rest = dump.partition(b"\0")
        before, _, entries = rest.partition(b"\0")
        if not mark or not folder.endswith(b"\n") or len(entries) > _ROOM:
            return self
        variables: dict[str, str] = {}
        for entry in entries.split(b"\0"):
            name, sign, value = entry.decode("utf-8", "replace").partition("=")
            if sign and name not in _OURS and _NAME.fullmatch(name) and extra.get(name) != value:
                variables[name] = value
        folder_text, before_text = (part.decode("utf-8", "replace") for part in (folder[:-1], before))
        return ShellState(folder_text, before_text, tuple(sorted(variables.items())))


def started(result: Result, folder: str) -> ShellState:
    """Return the state of a new shell in a folder, parsed from the output of `env -0` in a sandbox."""
    pairs = (entry.partition("=") for entry in result.stdout.decode().split("\0") if entry)
    variables = {name: value for name, _, value in pairs if name not in _OURS}
    return ShellState(folder, folder, tuple(sorted(variables.items())))


def unfit(command: str) -> str:
    """Return an error message if a command cannot be run, with advice; empty if it can be run."""
    size = len(command.encode("utf-8", "surrogatepass"))
    if not command.strip():
        return "the command is empty. Write one, for example bash[ls -la]."
    if "\0" in command or size != len(command.encode("utf-8", "replace")):
        return "the command holds a NUL or half a character, which no shell takes. Write it without."
    if size > LONGEST:
        return f"the command has {size} bytes; at most {LONGEST} are run. Do it in parts."
    return ""


def command_text(result: Result, limit: int, seconds: float) -> str:
    """Return the observation after a command: its output, with the middle cut if long, and how it ended if it failed."""
    text = _cut(result.stdout.decode("utf-8", "backslashreplace").rstrip("\n"), limit)
    notes = {
        "timeout": f"[ended after {seconds:g} seconds, with all that it had started]",
        "memory": "[ended: it took more memory than there is]",
        "output": "[ended: it printed too much; print less, or into a file]",
    }
    if result.reason in notes:
        note = notes[result.reason]
    elif result.exit_code:
        note = f"[exit code {result.exit_code if result.exit_code > 0 else 128 - result.exit_code}]"
    else:
        note = "" if text else "[no output]"
    return "\n".join(part for part in (text, note) if part)


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    left = text[half:-half]
    return f"{text[:half]}\n[… {len(left)} characters, {left.count(chr(10))} line ends left out …]\n{text[-half:]}"
