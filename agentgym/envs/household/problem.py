"""Parser of the PDDL problem in a game file: objects, initial facts, goal; formatting, order and case do not matter."""

import re
from dataclasses import dataclass
from typing import TypeAlias

from agentgym.errors import BadData

Tree: TypeAlias = "list[str | Tree]"
"""An S-expression: a list of strings and lists."""

_TOKEN = re.compile(r"[()]|[^\s()]+")
_COMMENT = re.compile(r";[^\n]*")
_ATOM = re.compile(r"\(\s*([^\s()=]+)([^()]*)\)")
_EQUALITY = re.compile(r"\(\s*=\s*\([^()]*\)[^()]*\)")


@dataclass(frozen=True, slots=True)
class Problem:
    """A PDDL planning problem; names may be in upper or lower case."""

    types: dict[str, str]
    """Object name -> type."""
    facts: dict[str, list[tuple[str, ...]]]
    """Predicate -> argument lists of the facts that are initially true."""
    goal: "str | Tree"

    def lower(self) -> "Problem":
        """Return the problem in lower case, as the genuine engine's PDDL reader does."""
        facts = {name.lower(): [tuple(map(str.lower, fact)) for fact in facts] for name, facts in self.facts.items()}
        return Problem({name.lower(): kind for name, kind in self.types.items()}, facts, self.goal)


def read_problem(text: str, where: str = "problem") -> Problem:
    """Parse the text of a PDDL problem; all names become lower case.

    Raises:
        BadData: the text is not a problem; the message begins with `where`, and gives what was expected.
    """
    text = _COMMENT.sub("", text).lower() if ";" in text else text.lower()
    objects, init, last = (_section(text, name, where) for name in ("objects", "init", "goal"))
    goal = parse_tree(text, last[0], where)
    if len(goal) != 2 or last[0] < init[0]:
        raise BadData(f"{where}, {_line(text, last[0])}: expected (:goal CONDITION) as the last section")
    return Problem(_read_objects(text, objects, where), _read_facts(text, init[1], last[0], where), goal[1])


def _section(text: str, name: str, where: str) -> tuple[int, int]:
    """Return the positions where `(:name …)` and its content start.

    Raises:
        BadData: the section is missing; the message begins with `where`.
    """
    start = re.search(rf"\(\s*:{name}(?![^\s()])", text)
    if start is None:
        raise BadData(f"{where}: no (:{name} …) section; expected a PDDL problem with objects, init and goal")
    return start.start(), start.end()


def _read_objects(text: str, section: tuple[int, int], where: str) -> dict[str, str]:
    end = text.find(")", section[1])
    if end < 0 or "(" in text[section[1] : end]:
        raise BadData(f"{where}, {_line(text, section[1])}: (:objects …) is not closed; expected lines `NAME - TYPE`")
    types: dict[str, str] = {}
    waiting: list[str] = []
    words = iter(text[section[1] : end].split())
    for word in words:
        if word != "-":
            waiting.append(word)
            continue
        kind = next(words, None)
        if kind is None or not waiting:
            raise BadData(f"{where}, {_line(text, section[1])}: a dash without NAME or TYPE in (:objects …)")
        types.update(dict.fromkeys(waiting, kind))
        waiting = []
    return {**types, **dict.fromkeys(waiting, "object")}


def _read_facts(text: str, start: int, end: int, where: str) -> dict[str, list[tuple[str, ...]]]:
    """Parse the atoms of a section; `(= …)`, which only defines costs, is skipped.

    Raises:
        BadData: something other than a fact was found; the message begins with `where` and the line.
    """
    facts: dict[str, list[tuple[str, ...]]] = {}
    section = text[start:end]
    if "=" in section:
        section = _EQUALITY.sub(_blank, section)
    parts = _ATOM.split(section)  # text before an atom, its name, its arguments, and so on, in one pass
    for name, arguments in zip(parts[1::3], parts[2::3], strict=True):
        if name in facts:
            facts[name].append(tuple(arguments.split()))
        else:
            facts[name] = [tuple(arguments.split())]
    if not "".join(parts[0::3]).lstrip().startswith(")"):
        rest = _ATOM.sub(_blank, section)
        position = len(rest) - len(rest.lstrip())
        excerpt = section[position : position + 30].split("\n")[0]
        raise BadData(f"{where}, {_line(text, start + position)}: expected a fact `(NAME ARGUMENT …)`, found {excerpt!r}")
    return facts


def _blank(match: re.Match[str]) -> str:
    """Return spaces, as many as the match has characters, so that positions in the text stay valid."""
    return " " * len(match[0])


def parse_tree(text: str, position: int, where: str) -> Tree:
    """Parse the S-expression whose opening parenthesis is at `position`.

    Raises:
        BadData: the parenthesis is never closed; the message begins with `where` and the line.
    """
    stack: list[Tree] = [[]]
    for token in _TOKEN.finditer(text, position):
        if token[0] == "(":
            stack.append([])
        elif token[0] == ")":
            done = stack.pop()
            if len(stack) == 1:
                return done
            stack[-1].append(done)
        else:
            stack[-1].append(token[0])
    raise BadData(f"{where}, {_line(text, position)}: the parenthesis is never closed; is the file cut off?")


def _line(text: str, position: int) -> str:
    return f"line {text.count(chr(10), 0, position) + 1} of the problem"
