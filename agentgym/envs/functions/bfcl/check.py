"""BFCL's checker of Python function calls, applied to parsed calls.

An expected call has a list of allowed values for each parameter; `""` in the list makes the parameter optional.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias, cast

Value: TypeAlias = Any
"""A JSON value; the checker distinguishes types such as 1 and 1.0."""
Made = tuple[str, Mapping[str, Value]]
"""A call: function name and arguments."""
Row = Mapping[str, Value]
Allowed = Sequence[Value]
TYPES: dict[str, type] = {
    "string": str,
    "integer": int,
    "float": float,
    "boolean": bool,
    "array": list,
    "tuple": list,
    "dict": dict,
    "any": str,
}


def written(name: str) -> str:
    """Return the name under which a function is offered, with underscores for dots."""
    return name.replace(".", "_")


def right(
    kind: str, made: Sequence[Made], functions: Sequence[Mapping[str, Value]], answers: Sequence[Mapping[str, Value]]
) -> bool:
    """Return whether the calls match the expected ones, in any order if the category `kind` is a parallel one."""
    if len(made) != len(answers):
        return False
    by_name = {function["name"]: function for function in reversed(functions)}
    if "parallel" not in kind:
        name = next(iter(answers[0]))
        function = by_name.get(name) if "multiple" in kind else functions[0]
        return function is not None and matches(made[0], function, answers[0][name])
    left = list(made)
    for answer in answers:  # greedy as published: the first fitting call is used, even if a later answer needs it
        name = next(iter(answer))
        fits = [call for call in left if name in by_name and matches(call, by_name[name], answer[name])]
        if not fits:
            return False
        left.remove(fits[0])
    return True


def matches(call: Made, function: Mapping[str, Value], answer: Mapping[str, Allowed]) -> bool:
    """Return whether a call has the expected function, all required arguments, and only allowed values."""
    name, arguments = call
    parameters = function["parameters"]
    if name != written(function["name"]) or not set(parameters.get("required", ())) <= set(arguments):
        return False
    for key, value in arguments.items():
        if key not in parameters["properties"] or key not in answer:
            return False
        if not _allowed(value, parameters["properties"][key], answer[key]):
            return False
    return all(key in arguments or "" in allowed for key, allowed in answer.items())


def _first_type(allowed: Allowed) -> Value:
    """Return the type of the first allowed value that is not `""`; None if there is no such value."""
    kinds: list[Value] = [type(value) for value in allowed if not (isinstance(value, str) and not value)]
    return kinds[0] if kinds else None


def _allowed(value: Value, schema: Mapping[str, Value], allowed: Allowed) -> bool:
    expected = TYPES[schema["type"]]
    inner = TYPES[schema["items"]["type"]] if schema["type"] in ("array", "tuple") else None
    if schema["type"] == "float" and type(value) is int:
        value = float(value)
    first = _first_type(allowed)
    if type(value) is not expected:  # an answer whose type differs from the parameter's is a variable name
        return type(value) is first and value in allowed
    if inner is not None and not any(_items_fit(value, inner, option) for option in allowed):
        return False
    if first not in (None, expected):
        return value in allowed
    if expected is dict:
        return any(_object_fits(value, option) for option in allowed if option != "")
    if inner is dict:
        return any(_objects_fit(value, option) for option in allowed)
    if expected is str:
        return _plain(value) in [_plain(option) for option in allowed if isinstance(option, str)]
    if expected is list:
        return _all_plain(value) in [_all_plain(option) for option in allowed]
    return value in allowed


def _items_fit(values: Sequence[Value], inner: type, option: Value) -> bool:
    """Return whether each item has the schema's type `inner` or the type of the first item of `option`.

    True if `option` is not a list.
    """
    if not isinstance(option, list):
        return True
    first = _first_type(option)  # pyright: ignore[reportUnknownArgumentType]
    return all(type(value) is inner or (first is not None and type(value) is first) for value in values)


def _objects_fit(values: Sequence[Value], option: Value) -> bool:
    if len(values) != len(option):
        return False
    return all(one != "" and _object_fits(value, one) for value, one in zip(values, option, strict=True))


def _object_fits(value: Value, option: Mapping[str, Allowed]) -> bool:
    """Return whether an object has all required keys and only allowed values; values are compared without nesting."""
    if not isinstance(value, dict) or not all(key in option for key in value):  # pyright: ignore[reportUnknownVariableType]
        return False
    fits = all(_plain(item) in [_plain(one) for one in option[key]] for key, item in value.items())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return fits and all(key in value or "" in allowed for key, allowed in option.items())


def _plain(value: Value) -> Value:
    """Return text in lower case, without spaces and the characters `,./-_*^`, and with `"` for `'`.

    Other values are returned unchanged.
    """
    return re.sub(r"[ ,./\-_*^]", "", value).lower().replace("'", '"') if isinstance(value, str) else value


def _all_plain(values: Sequence[Value]) -> list[Value]:
    return [_plain(value) for value in values]


def expected_calls(functions: Sequence[Mapping[str, Value]], answers: Sequence[Mapping[str, Value]]) -> list[Made]:
    """Return correct calls, with the first allowed value of each parameter that is not optional."""
    required = {function["name"]: function["parameters"].get("required", ()) for function in functions}
    calls: list[Made] = []
    for answer in answers:
        ((name, allowed),) = answer.items()
        calls.append((written(name), _first(allowed, required.get(name, ()))))
    return calls


def _first(allowed: Mapping[str, Allowed], required: Collection[str] = ()) -> dict[str, Value]:
    needed = {key: options for key, options in allowed.items() if "" not in options or key in required}
    return {key: _opened(next((one for one in options if one != ""), "")) for key, options in needed.items()}


def _opened(value: Value) -> Value:
    """Return a value with the first allowed value in place of each list of allowed values inside objects."""
    if isinstance(value, dict):
        fields = cast("dict[str, Value]", value)
        return _first(fields) if all(isinstance(options, list) for options in fields.values()) else fields
    if not isinstance(value, list):
        return value
    items = cast("list[Value]", value)
    return [_opened(item) for item in items] if any(isinstance(item, dict) for item in items) else items
