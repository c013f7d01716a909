"""Notice to a model that its token limit cut its reply, for agents of tokens and of messages."""

from agentgym.agents.parse import PROJECTIONS
from agentgym.agents.prompt import Prompt

CUT = (
    "Your last reply was cut off at its limit of {} tokens, so its end is missing. Write shorter replies; thinking counts "
    "toward the limit."
)


def noticed(observation: str, limit: int) -> str:
    """Prepend the notice that the last reply was cut to an observation; unchanged if `limit` is 0 (not cut)."""
    return f"{CUT.format(limit)}\n\n{observation}" if limit else observation


def tells(prompt: Prompt) -> bool:
    """Return whether a prompt may have the notice: a published prompt with published parsing stays as it is."""
    return prompt.reply.kind not in PROJECTIONS
