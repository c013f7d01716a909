"""Cutting a template into text, values `{{ … }}`, tags `{% … %}` and comments `{# … #}`."""

from dataclasses import dataclass

from inkwell.errors import TemplateError

CLOSERS = {"{{": "}}", "{%": "%}", "{#": "#}"}
KINDS = {"{{": "value", "{%": "tag"}


@dataclass(frozen=True)
class Token:
    """A piece of a template."""

    kind: str
    """`text`, `value` or `tag`."""
    body: str
    line: int


def tokenize(source):
    """Return the tokens of a template. A dash inside a delimiter (`{{-`, `-%}`) strips the space beside it."""
    tokens = []
    at, line, strip_next = 0, 1, False
    while at < len(source):
        start, opener = _next_opener(source, at)
        text = source[at:start]
        line_of_tag = line + text.count("\n")
        shown = text.lstrip() if strip_next else text
        strip_next = False
        if opener is None:
            _add_text(tokens, shown, line)
            break
        end = source.find(CLOSERS[opener], start + 2)
        if end < 0:
            raise TemplateError(f"{opener} is never closed", line_of_tag)
        body = source[start + 2 : end]
        if body.startswith("-"):
            shown, body = shown.rstrip(), body[1:]
        if body.endswith("-"):
            strip_next, body = True, body[:-1]
        _add_text(tokens, shown, line)
        if opener in KINDS:
            tokens.append(Token(KINDS[opener], body.strip(), line_of_tag))
        line = line_of_tag + body.count("\n")
        at = end + 2
    return tokens


def _add_text(tokens, text, line):
    if text:
        tokens.append(Token("text", text, line))


def _next_opener(source, at):
    """Return where the next delimiter stands, and which it is; the end and None where there is none."""
    found = [(place, opener) for opener in CLOSERS if (place := source.find(opener, at)) >= 0]
    return min(found, default=(len(source), None))


def split_outside_quotes(text, separator):
    """Split a text at a separator that stands in no quotes."""
    pieces, current, quote = [], "", None
    for letter in text:
        if quote is None and letter == separator:
            pieces.append(current)
            current = ""
            continue
        if quote is None and letter in "'\"":
            quote = letter
        elif letter == quote:
            quote = None
        current += letter
    return [*pieces, current]
