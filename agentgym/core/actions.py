"""Tools that an environment offers, and the three spellings of a tool call: JSON, tag and bracket."""

import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar, cast, get_type_hints

_JSON_TYPES: dict[type, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
_SAMPLES: dict[str, object] = {
    "string": "…",
    "integer": 1,
    "number": 1.0,
    "boolean": True,
    "array": ["…"],
    "object": {"…": "…"},
    "any": "…",
}
_NOTHING: Mapping[str, object] = {}
_SEVERAL = {"anyOf", "oneOf", "allOf", "$ref"}


@dataclass(frozen=True)
class Tool:
    """Callable offered to the agent: a name, a description and its parameters as a JSON Schema object."""

    name: str
    description: str
    parameters: Mapping[str, object] = field(default_factory=lambda: {"type": "object", "properties": {}, "required": []})

    @property
    def properties(self) -> Mapping[str, Mapping[str, object]]:
        """JSON Schema of each parameter, by name."""
        return cast("Mapping[str, Mapping[str, object]]", self.parameters.get("properties", {}))

    @property
    def required(self) -> list[str]:
        """Names of the required parameters."""
        return list(cast("list[str]", self.parameters.get("required", [])))

    def kind(self, parameter: str) -> str:
        """Return the JSON type of a parameter: `any` if its schema allows several types, `string` if it declares none."""
        schema = self.properties.get(parameter, _NOTHING)
        stated = schema["type"] if "type" in schema else "string" if _SEVERAL.isdisjoint(schema) else "any"
        return stated if isinstance(stated, str) and stated in _PYTHON_TYPES else "any"

    def schema(self) -> dict[str, object]:
        """Return the tool as the dict that chat templates and chat APIs accept (type `function`)."""
        function = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": function}


def key(tools: Mapping[str, Tool]) -> str:
    """Return the schemas of a set of tools as JSON text; equal sets in the same order have equal keys."""
    return json.dumps([tool.schema() for tool in tools.values()])


@dataclass(frozen=True)
class Call:
    """One tool call: the tool's name and its arguments by parameter name."""

    name: str
    arguments: dict[str, object]


_Method = TypeVar("_Method", bound=Callable[..., object])


def tool(method: _Method) -> _Method:
    """Mark a method of an environment as a tool; its name, docstring and annotations become the tool's schema.

    The first paragraph of the docstring describes the tool. An entry `name: text` under `Args:` describes a parameter.

    Raises:
        TypeError: a parameter's annotation is missing, undefined or not str, int, float or bool, or `Args:` names an
            unknown parameter.
    """
    where = f"tool {method.__qualname__} ({method.__code__.co_filename}:{method.__code__.co_firstlineno})"
    try:
        hints = {k: v for k, v in get_type_hints(method).items() if k != "return"}
    except NameError as error:
        raise TypeError(f"{where}: an annotation uses a name that is not defined: {error}") from None
    description, described_args = described(inspect.getdoc(method) or "")
    properties: dict[str, object] = {}
    required: list[str] = []
    for name, parameter in list(inspect.signature(method).parameters.items())[1:]:
        if hints.get(name) not in _JSON_TYPES:
            annotation = f"is annotated {parameter.annotation!r:.40}" if name in hints else "has no annotation"
            raise TypeError(f"{where}: parameter {name!r} {annotation}; expected str, int, float or bool. Write {name}: str")
        about = {"description": described_args.pop(name)} if name in described_args else {}
        properties[name] = {"type": _JSON_TYPES[hints[name]], **about}
        if parameter.default is parameter.empty:
            required.append(name)
    if described_args:
        raise TypeError(
            f"{where}: Args of its docstring names {next(iter(described_args))!r}; parameters: {', '.join(properties)}"
        )
    parameters = {"type": "object", "properties": properties, "required": required}
    method.__tool__ = Tool(method.__name__, description, parameters)  # type: ignore[attr-defined]
    return method


_ARGS = re.compile(r"^Args:[ \t]*\n((?:[ \t]+\S.*(?:\n|$)|[ \t]*\n)+)", re.MULTILINE)
_ENTRY = re.compile(r"(\w+)(?: \([^)]*\))?:\s*(.*)", re.DOTALL)


def described(docstring: str) -> tuple[str, dict[str, str]]:
    """Return a docstring's first paragraph, and the descriptions in its Google-style `Args:` section by parameter name."""
    section = _ARGS.search(docstring)
    entries: list[str] = []
    for line in inspect.cleandoc(section[1]).splitlines() if section else ():
        if line[:1].strip():
            entries.append(line)
        elif entries:  # a longer text goes on, further to the right
            entries[-1] += "\n" + line
    args = {match[1]: " ".join(match[2].split()) for entry in entries if (match := _ENTRY.fullmatch(entry))}
    before = docstring[: section.start()] if section else docstring
    return " ".join(before.split("\n\n")[0].split()), args


def spell(name: str, *values: object) -> str:
    """Return a call in the bracket spelling, `name[body]`; the body is the first of `values`, or empty."""
    return f"{name}[{values[0] if values else ''}]"


def example(tool: Tool) -> str:
    """Return an example call of a tool: in brackets if possible, else as JSON."""
    if len(tool.required) <= 1 and all(tool.kind(name) in _JSON_TYPES.values() for name in tool.required):
        return spell(tool.name, *tool.required)
    return json.dumps({"name": tool.name, "arguments": samples(tool)}, ensure_ascii=False)


def samples(tool: Tool) -> dict[str, object]:
    """Return, for each required parameter of a tool, a sample value of the right type."""
    return {name: _SAMPLES[tool.kind(name)] for name in tool.required}


_BRACKET = re.compile(r"([A-Za-z_]\w*)\[(.*)\]", re.DOTALL)
_TAG = re.compile(r"<([A-Za-z_]\w*)>(.*)</([A-Za-z_]\w*)>", re.DOTALL)


def unreadable(action: object, longest: int) -> str:
    """Return why `action` is not a text of at most `longest` characters; empty if it is."""
    if not isinstance(action, str):
        return f"an action is a string, not {type(action).__name__}."
    if len(action) > longest:
        return f"the action has {len(action)} characters; at most {longest} are read."
    try:
        action.encode()
    except UnicodeEncodeError:
        return "the action holds half a character (a lone surrogate), which is not text."
    return ""


def parse_call(action: str, tools: Mapping[str, Tool], example: Callable[[Tool], str] = example) -> Call | str:
    """Parse an action that is exactly one tool call; return the call, or a sentence that describes the error.

    Spellings: JSON `{"name": …, "arguments": {…}}`; tag `<name>body</name>`; bracket `name[body]`. Tag and bracket work
    for tools with one required parameter, or with none and an empty body. The body is everything before the closing tag
    or bracket at the end of the action: verbatim for a string parameter, else JSON. `example` returns the example call
    that the error sentence shows.
    """
    text = action.strip()
    if text.startswith("{"):
        return _parse_json(text, tools, example)
    match = _TAG.fullmatch(text)
    if match and match[1] != match[3]:
        match = None
    match = match or _BRACKET.fullmatch(text)
    if match is None:
        excerpt = text if len(text) <= 60 else text[:57] + "..."
        return f"{excerpt!r} is not a tool call. Write one call, for example {example(next(iter(tools.values())))}."
    name, body = match[1], match[2]
    if name not in tools:
        return _no_tool(name, tools)
    required = tools[name].required
    if not required:
        return Call(name, {}) if not body.strip() else f"{name} takes no argument. Write {example(tools[name])}."
    if len(required) > 1:
        return f"{name} takes {len(required)} arguments. Write JSON: {example(tools[name])}."
    try:
        value: object = body if tools[name].kind(required[0]) == "string" else json.loads(body)
    except (ValueError, RecursionError):
        value = body
    return _checked(tools[name], {required[0]: value}, example)


def _parse_json(text: str, tools: Mapping[str, Tool], example: Callable[[Tool], str]) -> Call | str:
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        where = f"{error.msg} at character {error.pos}" if isinstance(error, json.JSONDecodeError) else "not JSON"
        return f"the call is not valid JSON ({where}). Write for example {example(next(iter(tools.values())))}."
    name, arguments = raw.get("name"), raw.get("arguments", {})
    if not isinstance(name, str) or name not in tools:
        return _no_tool(str(name), tools)
    if not isinstance(arguments, dict):
        return f"arguments of {name} must be an object. Write {example(tools[name])}."
    return _checked(tools[name], cast("dict[str, object]", arguments), example)


def _checked(tool: Tool, arguments: dict[str, object], example: Callable[[Tool], str]) -> Call | str:
    missing = [name for name in tool.required if name not in arguments]
    if missing:
        return f"{tool.name} needs the argument {missing[0]!r}. Write {example(tool)}."
    properties = tool.properties
    for name, value in arguments.items():
        if name not in properties:
            return f"{tool.name} has no argument {name!r}. Write {example(tool)}."
        if not _is_json(value):
            why = "half a character (a lone surrogate), a number that is not finite, or too many levels"
            return f"argument {name!r} of {tool.name} has {why}. Write {example(tool)}."
        kind = tool.kind(name)
        if kind == "any":  # its environment checks it
            continue
        fits = isinstance(value, _PYTHON_TYPES[kind])
        if not fits or (isinstance(value, bool) and kind != "boolean"):
            return f"argument {name!r} of {tool.name} must be of type {kind}. Write {example(tool)}."
    return Call(tool.name, arguments)


_encoded = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def _is_json(value: object) -> bool:
    """Return True if a value can be encoded as standard JSON; Python's parser also accepts NaN and lone surrogates."""
    if type(value) is int or (isinstance(value, str) and value.isascii()):  # most arguments, without the encoder's time
        return True
    try:
        (value if isinstance(value, str) else _encoded(value)).encode()
    except (ValueError, RecursionError):
        return False
    return True


def _no_tool(name: str, tools: Mapping[str, Tool]) -> str:
    excerpt = name if len(name) <= 40 else name[:37] + "..."
    return f"there is no tool {excerpt!r}. The tools are: {', '.join(tools)}."
