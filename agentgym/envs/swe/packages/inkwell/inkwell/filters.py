"""Filters: functions that change a value before it is written."""

import re
import textwrap


def truncate(text, length=20, ending="..."):
    """Cut a text to a length, the ending included; not within a word where that can be helped."""
    text = str(text)
    if len(text) <= length:
        return text
    kept = text[: max(length - len(ending), 0)]
    if text[len(kept)] != " " and " " in kept:
        kept = kept[: kept.rindex(" ")]
    return kept.rstrip() + ending


def slug(text):
    """Return a text as it may stand in an address: lower case words joined by dashes."""
    words = re.findall(r"[a-z0-9]+", str(text).lower())
    return "-".join(words)


def plural(count, one="", many="s"):
    """Return the ending that goes with a number."""
    return one if count == 1 else many


def join(items, separator=", ", last=None):
    """Join items; `last` stands between the last two."""
    words = [str(item) for item in items]
    if last is None or len(words) < 2:
        return separator.join(words)
    return separator.join(words[:-1]) + last + words[-1]


def indent(text, width=4, first=False):
    """Indent the lines of a text that are not empty; the first only on demand."""
    space = " " * width
    lines = str(text).split("\n")
    done = [space + line if line else line for line in lines]
    if not first:
        done[0] = lines[0]
    return "\n".join(done)


def number(value, digits=0, mark=","):
    """Write a number with marks between thousands."""
    text = f"{value:,.{digits}f}"
    return text.replace(",", mark)


def escape(text):
    """Return a text as it may stand in HTML."""
    replaced = str(text).replace("&", "&amp;")
    for letter, name in (("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;")):
        replaced = replaced.replace(letter, name)
    return replaced


def default(value, other="", falsy=False):
    """Return another value for None; with `falsy`, for all that is empty or zero."""
    if value is None or (falsy and not value):
        return other
    return value


def wrap(text, width=70):
    """Break a text into lines of at most a width."""
    return "\n".join(textwrap.wrap(str(text), width))


def pad(text, width, side="left"):
    """Fill a text up with spaces; `side` is where it stands."""
    text = str(text)
    if side == "right":
        return text.rjust(width)
    if side == "center":
        return text.center(width)
    return text.ljust(width)


FILTERS = {
    "capitalize": lambda text: str(text).capitalize(),
    "default": default,
    "escape": escape,
    "first": lambda items: next(iter(items), None),
    "indent": indent,
    "join": join,
    "last": lambda items: list(items)[-1] if items else None,
    "length": len,
    "lower": lambda text: str(text).lower(),
    "number": number,
    "pad": pad,
    "plural": plural,
    "reverse": lambda items: items[::-1],
    "slug": slug,
    "sort": lambda items, key=None: sorted(items, key=(lambda item: item[key]) if key else None),
    "title": lambda text: str(text).title(),
    "truncate": truncate,
    "upper": lambda text: str(text).upper(),
    "wrap": wrap,
}
