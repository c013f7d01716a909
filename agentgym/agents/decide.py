"""Choice of an agent's prompt and of its tool format for an environment."""

from collections.abc import Callable, Mapping

from agentgym.agents.prompt import Prompt, load_prompt
from agentgym.agents.tool_calls import FAMILIES
from agentgym.core.actions import Tool
from agentgym.errors import BadConfig, no_such

AUTO, NATIVE, TEXT = "auto", "native", "text"
WAYS = (AUTO, NATIVE, TEXT, *FAMILIES)
"""Values of the option `tools`. A family's name selects native calls in the form of that family."""
NATIVE_PROMPT = "tools"
"""Prompt for native tools. It does not list the tools, since the chat template or the server does."""


def check_way(way: str) -> None:
    """Check the value of the option `tools`.

    Raises:
        BadConfig: the value does not exist.
    """
    if way not in WAYS:
        raise BadConfig(no_such("way to call tools", way, WAYS))


def decide(
    who: str,
    default: str,
    named: Prompt | None,
    way: str,
    tools: Mapping[str, Tool],
    refusal: Callable[[], BadConfig | None],
) -> tuple[Prompt, str]:
    """Return an agent's prompt for these tools, and the tool format: `text`, `native` or a family.

    `who` is the agent's name for error messages. `default` is the agent's default prompt, with calls as text. `named`
    is the prompt that the user named, if any; it is trusted to describe the tools. `way` is the option `tools`.
    `refusal` returns the reason why tools cannot be native, or None. With `auto`, tools are native if possible, unless
    the named prompt lists the tools itself or does not expect calls.

    Raises:
        BadConfig: the model would not learn about the tools.
    """
    if way not in (AUTO, TEXT):
        return named or load_prompt(NATIVE_PROMPT), way
    if way == AUTO and tools and (named is None or (named.reply.kind == "call" and not named.shows(tools))):
        why = refusal()
        if why is None:
            return named or load_prompt(NATIVE_PROMPT), NATIVE
        if named is not None:
            raise BadConfig(f"prompt {named.name!r} leaves it to the model's template to show the tools. But {why}") from why
    if named is not None:
        return named, TEXT
    prompt = load_prompt(default)
    if not prompt.shows(tools):
        raise BadConfig(
            f"{who} has no prompt that shows the tools of this environment ({', '.join(tools)}), so the model would not "
            f"know that they exist: choose another agent, such as chat, or name a prompt (prompt={prompt.name!r} was "
            "refused)"
        )
    return prompt, TEXT
