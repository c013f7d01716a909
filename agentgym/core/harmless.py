"""Harmless arguments for a JSON Schema, to find out if a service fails by itself or because of the agent's arguments."""

from collections.abc import Iterator, Mapping
from typing import cast

DEEPEST = 8
MOST = 12
"""Maximum number of harmless arguments to try after an error."""
TEXTS = ("", "0", "ok")
"""Harmless texts to try in place of an agent's message."""


def controls(schema: Mapping[str, object]) -> list[dict[str, object]]:
    """Return simple objects that fit a schema: the simplest, the one with all fields, and both with each field's choices.

    A service may reject the simplest object by a rule that is not in the schema. Several objects are tried, so that
    such an error counts as the agent's; at most `MOST` are returned.
    """
    definitions = _table(schema.get("$defs"))
    plain = cast("dict[str, object]", _table(harmless(schema)))
    fields = {name: _table(field) for name, field in _table(schema.get("properties")).items()}
    full = plain | {name: harmless(field, definitions) for name, field in fields.items() if name not in plain}
    found = [plain, full]
    for name, field in fields.items():
        for choice in _choices(field, definitions):
            found += [start | {name: choice} for start in (plain, full)]
    return [value for place, value in enumerate(found) if value not in found[:place]][:MOST]


def _choices(schema: Mapping[str, object], definitions: Mapping[str, object]) -> Iterator[object]:
    """Yield the values of a field that has few: those of an enumeration, a boolean's two, and one for each alternative."""
    if isinstance(reference := schema.get("$ref"), str):
        schema = _table(definitions.get(reference.rpartition("/")[2]))
    yield from _list(schema.get("enum"))
    for key in ("anyOf", "oneOf"):
        for option in _list(schema.get(key)):
            yield harmless(_table(option), definitions)
    if schema.get("type") == "boolean":
        yield from (False, True)


def harmless(schema: Mapping[str, object], definitions: Mapping[str, object] | None = None, depth: int = 0) -> object:
    """Return the simplest value that fits a schema: required fields only, empty texts, zeros, the first choice.

    A constant or default value is used as it is. `minimum`, `minLength` (up to 1000) and `minItems` (up to 16) are
    respected; other limits are not. `definitions` are the targets of `$ref`, by default the schema's `$defs`. `depth`
    is the current level; below level `DEEPEST` the value is None, so an untrusted schema cannot make it endless.
    """
    if definitions is None:
        definitions = _table(schema.get("$defs"))
    if depth > DEEPEST:
        return None
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if choices := _list(schema.get("enum")):
        return choices[0]
    if isinstance(reference := schema.get("$ref"), str):
        return harmless(_table(definitions.get(reference.rpartition("/")[2])), definitions, depth + 1)
    for key in ("anyOf", "oneOf", "allOf"):
        if options := _list(schema.get(key)):
            return harmless(_table(options[0]), definitions, depth + 1)
    kinds = schema.get("type", "object" if "properties" in schema else "string")
    kind = str(_list(kinds)[0]) if _list(kinds) else str(kinds)
    if kind == "object":
        fields = _table(schema.get("properties"))
        required = [name for name in _list(schema.get("required")) if isinstance(name, str)]
        return {name: harmless(_table(fields.get(name)), definitions, depth + 1) for name in required}
    if kind == "string":
        return " " * min(_number(schema.get("minLength")), 1000)
    if kind in ("integer", "number"):
        return max(0, _number(schema.get("minimum")))
    if kind == "array":
        item = harmless(_table(schema.get("items")), definitions, depth + 1)
        return [item] * min(_number(schema.get("minItems")), 16)
    return {"boolean": False, "null": None}.get(kind, "")


def _table(value: object) -> Mapping[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _number(value: object) -> int:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15 else 0
