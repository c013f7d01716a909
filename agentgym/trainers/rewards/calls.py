"""Tool calls among an episode's actions: valid actions that begin with the tool's name."""

import re

from agentgym.episodes.episode import Episode, Turn


def calling(tool: str) -> re.Pattern[str]:
    """Return a pattern of the start of an action that calls a tool: `tool[...]`, `<tool>...`, or JSON with this name."""
    return re.compile(rf"\W*(?:name\W+)?{re.escape(tool)}\b")


def words(action: str) -> str:
    """Return the normalized words of an action, for comparison."""
    return " ".join(re.findall(r"\w+", action.casefold()))


def answered(episode: Episode) -> bool:
    """Return True if the episode ended by its own action: not cut by horizon or context, and without an error."""
    return episode.reason in ("success", "failure") and not episode.error


def valid_calls(episode: Episode, tool: str) -> list[Turn]:
    """Return the turns whose action the environment accepted and which call `tool`, if one is named."""
    form = calling(tool) if tool else None
    return [turn for turn in episode.turns if turn.valid and turn.parsed and (form is None or form.match(turn.action))]
