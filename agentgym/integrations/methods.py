"""Tools as Python methods, for packages that derive a tool's schema from a method's signature and docstring."""

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, cast

from agentgym.core.actions import Tool
from agentgym.errors import BadConfig

_TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list[Any],
    "object": dict[str, Any],
    "any": str,
}


def methods(
    tools: Mapping[str, Tool], called: Callable[[Any, str, dict[str, object]], str], *, reserved: Collection[str] = ()
) -> dict[str, Callable[..., str]]:
    """Return a method for each tool: it has annotations and an `Args:` section, and calls `called(self, name, arguments)`.

    The methods accept any keyword, and the environment reports arguments that do not fit the schema. Raises BadConfig if
    a tool's name is not an identifier or is in `reserved`.
    """
    return {name: _method(tool, called, reserved) for name, tool in tools.items()}


def _method(
    tool: Tool, called: Callable[[Any, str, dict[str, object]], str], reserved: Collection[str]
) -> Callable[..., str]:
    if not tool.name.isidentifier() or tool.name.startswith("_") or tool.name in reserved:
        raise BadConfig(f"the tool {tool.name!r} cannot be a method here, where {', '.join(reserved)} mean something else")

    def method(self: object, **arguments: object) -> str:
        return called(self, tool.name, arguments)

    hints = {name: _hint(tool, name) for name in tool.properties}
    kind = inspect.Parameter
    required = set(tool.required)
    parameters = [kind("self", kind.POSITIONAL_OR_KEYWORD)]
    for name in sorted(hints, key=lambda name: name not in required):
        default = kind.empty if name in required else None
        annotation = hints[name] if name in required else hints[name] | None
        parameters.append(kind(name, kind.KEYWORD_ONLY, default=default, annotation=annotation))
    method.__name__ = method.__qualname__ = tool.name
    method.__doc__ = docstring(tool)
    method.__annotations__ = {p.name: p.annotation for p in parameters[1:]} | {"return": str}
    method.__signature__ = inspect.Signature(parameters, return_annotation=str)  # type: ignore[attr-defined]
    return method


def docstring(tool: Tool) -> str:
    """Return a Google-style docstring for a tool."""
    parameter_lines = [
        f"    {name}: {_one_line(about.get('description')) or name}" for name, about in tool.properties.items()
    ]
    args = ["", "Args:", *parameter_lines] if parameter_lines else []
    return "\n".join([_one_line(tool.description) or tool.name, *args, "", "Returns:", "    What is seen then."])


def _one_line(text: object) -> str:
    return " ".join(str(text or "").split())


def _hint(tool: Tool, name: str) -> Any:
    choices: object = tool.properties[name].get("enum")
    values = cast("list[object]", choices) if isinstance(choices, list) else []
    if values and all(isinstance(value, str) for value in values):
        return Literal[tuple(values)]  # type: ignore[valid-type]
    return _TYPES[tool.kind(name)]
