"""Find tool calls in an episode: valid actions that begin with the tool's name."""

import re

from agentgym.episodes.episode import Episode, Turn


def calling(tool: str) -> re.Pattern[str]:
    """Return a pattern that matches the start of a call of `tool`: `tool[...]`, `<tool>...`, or JSON with this name."""
    return re.compile(rf"\W*(?:name\W+)?{re.escape(tool)}\b")


def words(action: str) -> str:
    """Return the words of an action in lower case, without punctuation, to compare actions."""
    return " ".join(re.findall(r"\w+", action.casefold()))


def answered(episode: Episode) -> bool:
    """Return True if the agent's own action ended the episode, without a cut by horizon or context and without an error."""
    return episode.reason in ("success", "failure") and not episode.error


def valid_calls(episode: Episode, tool: str) -> list[Turn]:
    """Return the turns whose valid action calls `tool`; with an empty `tool`, all turns with a valid action."""
    form = calling(tool) if tool else None
    return [turn for turn in episode.turns if turn.valid and turn.parsed and (form is None or form.match(turn.action))]
