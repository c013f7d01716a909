"""Notice to a model that the token limit cut off its last reply; for agents with tokens and with messages."""

from agentgym.agents.parse import PROJECTIONS
from agentgym.agents.prompt import Prompt

CUT = (
    "Your last reply was cut off at its limit of {} tokens, so its end is missing. Write shorter replies; thinking counts "
    "toward the limit."
)


def noticed(observation: str, limit: int) -> str:
    """Prepend the notice to an observation. `limit` is the token limit that cut the reply, or 0 if it was not cut."""
    return f"{CUT.format(limit)}\n\n{observation}" if limit else observation


def tells(prompt: Prompt) -> bool:
    """Return True if the notice may be used with a prompt; published prompts with published parsing stay unchanged."""
    return prompt.reply.kind not in PROJECTIONS
