"""Templates: read once, rendered as often as one likes."""

import re

from inkwell.errors import TemplateError
from inkwell.expressions import Condition, Expression
from inkwell.filters import escape
from inkwell.lexer import tokenize

_FOR = re.compile(r"for\s+(\w+(?:\s*,\s*\w+)*)\s+in\s+(.+)$", re.DOTALL)
_SET = re.compile(r"set\s+(\w+)\s*=\s*(.+)$", re.DOTALL)


class Template:
    """A template; with `autoescape`, values are written as they may stand in HTML, unless they end with `| raw`."""

    def __init__(self, source, autoescape=False):
        self.autoescape = autoescape
        self._tokens = tokenize(source)
        self._at = 0
        self._nodes = self._block(())

    def render(self, **context):
        """Return the text for some values."""
        return self._write(self._nodes, dict(context))

    # Reading

    def _block(self, ends, opened=None):
        """Read nodes up to a tag that begins with one of `ends`, which stays the current one."""
        nodes = []
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            word = token.body.split(" ", 1)[0] if token.kind == "tag" else None
            if word in ends:
                return nodes
            self._at += 1
            if token.kind == "text":
                nodes.append(("text", token.body))
            elif token.kind == "value":
                nodes.append(self._value(token))
            else:
                nodes.append(self._tag(word, token))
        if opened is not None:
            raise TemplateError(f"{opened.body.split(' ')[0]} is never ended", opened.line)
        return nodes

    def _value(self, token):
        body, raw = re.subn(r"\|\s*raw\s*$", "", token.body)
        return "value", Expression(body, token.line), bool(raw)

    def _tag(self, word, token):
        if word == "if":
            return self._if(token)
        if word == "for":
            return self._for(token)
        if word == "set":
            found = _SET.match(token.body)
            if not found:
                raise TemplateError("expected: set NAME = VALUE", token.line)
            return "set", found[1], Expression(found[2], token.line)
        raise TemplateError(f"unknown tag {word!r}", token.line)

    def _if(self, token):
        branches = [(Condition(token.body[2:], token.line), self._block(("elif", "else", "endif"), token))]
        otherwise = []
        while True:
            ending = self._tokens[self._at]
            self._at += 1
            if ending.body.startswith("elif"):
                condition = Condition(ending.body[4:], ending.line)
                branches.append((condition, self._block(("elif", "else", "endif"), token)))
            elif ending.body == "else":
                otherwise = self._block(("endif",), token)
            else:
                return "if", branches, otherwise

    def _for(self, token):
        found = _FOR.match(token.body)
        if not found:
            raise TemplateError("expected: for NAME in VALUES", token.line)
        names = [name.strip() for name in found[1].split(",")]
        body = self._block(("else", "endfor"), token)
        otherwise = []
        if self._tokens[self._at].body == "else":
            self._at += 1
            otherwise = self._block(("endfor",), token)
        self._at += 1
        return "for", names, Expression(found[2], token.line), body, otherwise

    # Rendering

    def _write(self, nodes, context):
        written = []
        for kind, *parts in nodes:
            if kind == "text":
                written.append(parts[0])
            elif kind == "value":
                written.append(self._shown(parts[0].value(context), parts[1]))
            elif kind == "set":
                context[parts[0]] = parts[1].value(context)
            elif kind == "if":
                written.append(self._write(self._chosen(*parts, context), context))
            else:
                written.append(self._loop(*parts, context))
        return "".join(written)

    def _shown(self, value, raw):
        if value is None:
            return ""
        return escape(value) if self.autoescape and not raw else str(value)

    def _chosen(self, branches, otherwise, context):
        for condition, body in branches:
            if condition.holds(context):
                return body
        return otherwise

    def _loop(self, names, values, body, otherwise, context):
        items = list(values.value(context) or ())
        if not items:
            return self._write(otherwise, context)
        written = []
        inner = dict(context)
        for index, item in enumerate(items):
            inner["loop"] = {
                "index": index + 1,
                "first": index == 0,
                "last": index == len(items) - 1,
                "length": len(items),
            }
            inner.update(zip(names, item) if len(names) > 1 else [(names[0], item)])
            written.append(self._write(body, inner))
        return "".join(written)


def render(source, /, **context):
    """Return the text of a template for some values."""
    return Template(source).render(**context)
