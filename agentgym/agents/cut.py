"""What a model is told of a reply that its token limit cut, by agents of tokens and of messages alike."""

from agentgym.agents.parse import PROJECTIONS
from agentgym.agents.prompt import Prompt

CUT = (
    "Your last reply was cut off at its limit of {} tokens, so its end is missing. Write shorter replies; thinking counts "
    "toward the limit."
)


def noticed(observation: str, limit: int) -> str:
    """Return an observation after the notice that the last reply was cut; as it is where `limit` is 0: it was not."""
    return f"{CUT.format(limit)}\n\n{observation}" if limit else observation


def tells(prompt: Prompt) -> bool:
    """Whether a prompt may tell of a cut: a published one whose replies are read as published stays as it was published."""
    return prompt.reply.kind not in PROJECTIONS
