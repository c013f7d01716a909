"""Which prompt an agent uses for an environment, and how the environment's tools reach the model: decided here only."""

from collections.abc import Callable, Mapping

from agentgym.agents.prompt import Prompt, load_prompt
from agentgym.agents.tool_calls import FAMILIES
from agentgym.core.actions import Tool
from agentgym.errors import BadConfig, no_such

AUTO, NATIVE, TEXT = "auto", "native", "text"
WAYS = (AUTO, NATIVE, TEXT, *FAMILIES)
"""Values of the option `tools`; the name of a family is native calls in that family's form."""
NATIVE_PROMPT = "tools"
"""The prompt for native tools: the chat template, or the server, shows them."""


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
    """Return the prompt of an agent for these tools (None without tools), and the way: `text`, `native` or a family.

    `default` is the agent's own prompt for such an environment, in which tools are called as text. `named` is the prompt
    that the user named; `way` is the option `tools`. `refusal` returns why the model cannot get these tools natively, or
    None. With `auto`, tools are native if possible, unless the named prompt shows them itself or reads no calls. A prompt
    that the user named is trusted.

    Raises:
        BadConfig: the model would not be told of the tools.
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
