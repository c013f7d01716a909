"""Expressions of templates: dotted names, literals, filters and conditions."""

import operator
import re

from inkwell.errors import TemplateError
from inkwell.filters import FILTERS
from inkwell.lexer import split_outside_quotes

COMPARISONS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "in": lambda item, items: item in items,
}
CONSTANTS = {"true": True, "false": False, "none": None}
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*$")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?$")
_WORDS = re.compile(r"\"[^\"]*\"|'[^']*'|==|!=|<=|>=|<|>|[^\s<>=!]+")


class Expression:
    """A value with its filters: `name.part | filter: argument, argument`."""

    def __init__(self, text, line):
        self.line = line
        atom, *filters = split_outside_quotes(text, "|")
        self.atom = atom.strip()
        if not self.atom:
            raise TemplateError("an expression is empty", line)
        self.filters = [self._filter(one) for one in filters]

    def _filter(self, text):
        name, *rest = split_outside_quotes(text, ":")
        name = name.strip()
        if name not in FILTERS:
            raise TemplateError(f"no filter {name!r}", self.line)
        given = ":".join(rest)
        arguments = [one.strip() for one in split_outside_quotes(given, ",")] if given.strip() else []
        return FILTERS[name], arguments

    def value(self, context):
        """Return what it stands for where names mean what the context says."""
        result = look_up(self.atom, context, self.line)
        for function, arguments in self.filters:
            result = function(result, *(look_up(one, context, self.line) for one in arguments))
        return result


def look_up(atom, context, line):
    """Return the value of a literal, or of a dotted name; a name that is not there is None."""
    if len(atom) >= 2 and atom[0] in "'\"" and atom[-1] == atom[0]:
        return atom[1:-1]
    if _NUMBER.match(atom):
        return float(atom) if "." in atom else int(atom)
    if atom in CONSTANTS:
        return CONSTANTS[atom]
    if not _NAME.match(atom):
        raise TemplateError(f"cannot read {atom!r}", line)
    first, *parts = atom.split(".")
    value = context.get(first)
    for part in parts:
        value = step_into(value, part)
    return value


def step_into(value, part):
    """Return a key, an item or an attribute of a value; None where it has none. Names with _ in front are private."""
    if isinstance(value, dict):
        return value.get(part)
    if part.isdigit():
        index = int(part)
        return value[index] if isinstance(value, (list, tuple, str)) and index < len(value) else None
    if part.startswith("_"):
        return None
    return getattr(value, part, None)


class Condition:
    """`a`, `not a`, `a == b`, joined by `and` and `or`; `and` binds more closely."""

    def __init__(self, text, line):
        self.line = line
        words = _WORDS.findall(text)
        self.choices = [[self._test(part) for part in _split(choice, "and")] for choice in _split(words, "or")]

    def _test(self, words):
        negated = words[:1] == ["not"]
        words = words[1:] if negated else words
        if len(words) == 1:
            return negated, words[0], None, None
        if len(words) == 3 and words[1] in COMPARISONS:
            return negated, words[0], COMPARISONS[words[1]], words[2]
        raise TemplateError(f"cannot read the condition {' '.join(words)!r}", self.line)

    def holds(self, context):
        """Whether it is true where names mean what the context says."""
        return any(all(self._holds(test, context) for test in tests) for tests in self.choices)

    def _holds(self, test, context):
        negated, left, compare, right = test
        value = look_up(left, context, self.line)
        if compare is not None:
            value = compare(value, look_up(right, context, self.line))
        return bool(value) != negated


def _split(words, separator):
    parts = [[]]
    for word in words:
        if word == separator:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts
