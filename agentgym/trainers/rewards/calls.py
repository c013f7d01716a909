"""Which of an episode's actions call a tool: what the environment took for valid, by the name at its beginning."""

import re

from agentgym.episodes.episode import Episode, Turn


def calling(tool: str) -> re.Pattern[str]:
    """Return what an action that calls a tool begins with: `tool[...]`, `<tool>...`, or JSON with this name."""
    return re.compile(rf"\W*(?:name\W+)?{re.escape(tool)}\b")


def words(action: str) -> str:
    """Return the words of an action, by which two are told apart."""
    return " ".join(re.findall(r"\w+", action.casefold()))


def answered(episode: Episode) -> bool:
    """Whether the episode ended by an action of its own: no horizon and no context cut it off, and no error."""
    return episode.reason in ("success", "failure") and not episode.error


def valid_calls(episode: Episode, tool: str) -> list[Turn]:
    """Return the turns whose action the environment accepted and, where a tool is named, calls it."""
    form = calling(tool) if tool else None
    return [turn for turn in episode.turns if turn.valid and turn.parsed and (form is None or form.match(turn.action))]
