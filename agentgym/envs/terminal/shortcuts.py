"""Shortcut policies that do nothing requested; each must fail."""

import re
import shlex
from collections.abc import Callable, Mapping

from agentgym.core.actions import spell


def _named(observation: str) -> list[str]:
    """Return the texts in backticks in an observation that may be paths."""
    return list(dict.fromkeys(name for name in re.findall(r"`([\w./-]+)`", observation) if not name.startswith(("-", "."))))


def _once(make: Callable[[list[str], str], str]) -> Callable[[list[str]], str]:
    """Return a shortcut policy that runs one command and submits; `make` gets the instruction's names and text."""

    def shortcut(observations: list[str]) -> str:
        if len(observations) > 1:
            return spell("submit")
        return spell("bash", make([shlex.quote(name) for name in _named(observations[0])], observations[0]))

    return shortcut


def _each(names: list[str], command: str) -> str:
    return f"for f in {' '.join(names)} answer.txt; do {command}; done"


SHORTCUTS: Mapping[str, Callable[[list[str]], str]] = {
    "submit at once": lambda _: spell("submit"),
    "touch": _once(lambda names, _: _each(names, '[ -e "$f" ] || { mkdir -p "$(dirname "$f")"; touch "$f"; }')),
    "echo the task": _once(lambda names, text: f"t={shlex.quote(text)}; " + _each(names, '[ -d "$f" ] || echo "$t" > "$f"')),
    "zero": _once(lambda names, _: _each(names, '[ -d "$f" ] || echo 0 > "$f"')),
    "copy": _once(lambda names, _: _each(names[1:], f'[ -e "$f" ] || cp -r {names[0]} "$f"')),
    "everything": _once(lambda names, _: _each(names, '[ -e "$f" ] || cat $(find . -type f | sort) > "$f"')),
    "delete": _once(lambda _, __: "rm -rf -- *"),
    "empty commits": _once(
        lambda names, _: _each(names, '[ -d "$f/.git" ] && git -C "$f" commit -q --allow-empty -m "$(git log -1)"')
    ),
}
