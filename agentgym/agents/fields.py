"""Fields of a prompt: task, observation, tools, possible actions and past actions."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentgym.core.actions import Tool


def field_values(
    cut: Callable[[str], str],
    observation: str,
    info: Mapping[str, Any],
    *,
    task: Callable[[], str],
    tools: Mapping[str, Tool],
    turns: int,
) -> dict[str, Callable[[], str]]:
    """Return functions that make the fields of a prompt, to be called only for fields that the prompt contains.

    `cut` shortens the observation, `task` returns the instruction, and `turns` is the number of earlier turns.
    """
    commands: list[str] | None = info.get("admissible")
    return {
        "observation": lambda: cut(observation),
        "task": task,
        "tools": lambda: "\n".join(describe(tool) for tool in tools.values()),
        "admissible": lambda: "anything" if commands is None else ", ".join(f"'{c}'" for c in commands),
        "commands": lambda: "anything" if commands is None else "\n ".join(f"'{c}'" for c in commands if c != "help"),
        "actions": lambda: "anything" if commands is None else "\n".join(f"'{c}'," for c in commands),
        "history": lambda: "",
        "summary": lambda: "",
        "window": lambda: "0",
        "step": lambda: str(turns + 1),
        "taken": lambda: str(turns),
    }


def window_values(pairs: Sequence[tuple[str, str]], turns: int) -> dict[str, Callable[[], str]]:
    """Return functions that make the fields `history` and `window` from the last (observation, action) pairs.

    `pairs` are ordered from the oldest; `turns` is the number of earlier turns in the episode.
    """
    first = turns - len(pairs) + 1
    lines = [f"[Observation {first + i}: '{seen}', Action {first + i}: '{done}']" for i, (seen, done) in enumerate(pairs)]
    return {"history": lambda: "\n".join(lines), "window": lambda: str(len(pairs))}


def describe(tool: Tool) -> str:
    """Return one line that describes a tool: name, parameters, purpose, and a call if several parameters are required."""
    names = [f"{name}: {tool.kind(name)}" for name in tool.properties]
    line = f"- {tool.name}({', '.join(names)}): {tool.description}"
    if len(tool.required) <= 1:
        return line
    call = {"name": tool.name, "arguments": dict.fromkeys(tool.required, "…")}  # the other spellings take one argument
    return f"{line} Write {json.dumps(call, ensure_ascii=False)}"
