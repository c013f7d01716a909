"""Finish reasons of a model's replies: whole, cut by length, withheld by a filter, or refused."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from agentgym.episodes.episode import Episode, Turn
from agentgym.episodes.usage import from_extra

UNFINISHED = {"length": "were cut by length", "filter": "were withheld by a filter", "refusal": "were declined by the model"}
"""Finish reasons other than a regular stop, with their wording in reports."""
COLUMN = {"length": "cut", "filter": "filtered", "refusal": "declined"}
"""Column header of each reason in `UNFINISHED`."""
ENDS = ("stop", *UNFINISHED)


def replies(episode: Episode) -> Iterator[Turn]:
    """Yield an episode's turns that began with a model request. If a reply has several calls, yield only the first turn.

    Episodes of a policy without a model have no such turns.
    """
    before = 0
    for turn in episode.turns:
        goes_on = bool(turn.extra.get("call")) or (before and len(turn.prompt_ids) == before)
        before = len(turn.prompt_ids) + len(turn.output_ids)
        if not goes_on and (turn.messages or turn.output_ids or from_extra(turn.extra)):
            yield turn


def finishes(episodes: Iterable[Episode]) -> dict[str, int]:
    """Return the number of replies by finish reason; the reasons in `ENDS` are always present."""
    return {**dict.fromkeys(ENDS, 0), **Counter(turn.finish for episode in episodes for turn in replies(episode))}


def cut_warning(row: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    """Return a warning about replies that did not finish regularly, with advice; empty if all did.

    `row` is a row of a summary; `options` are the options in the manifest.
    """
    total, shares = row.get("replies"), row.get("finish")
    if type(total) is not int or not isinstance(shares, dict):  # written by an older version, or damaged
        return ""
    ends = {name: cast("dict[str, object]", shares).get(name) for name in UNFINISHED}
    counts = {name: count for name, share in ends.items() if isinstance(share, float) and (count := round(total * share))}
    if not counts:
        return ""
    parts = {name: f"{count} of {total} replies ({count / total:.1%}) {UNFINISHED[name]}" for name, count in counts.items()}
    advice = f"protocol {options.get('suite')} fixes that limit" if "protocol" in options else "raise --turn-tokens"
    limit = f" (the limit is {options.get('turn_tokens')} tokens): {advice}"
    sentences = [f"{cut}{limit}"] if (cut := parts.pop("length", "")) else []
    sentences += [f"{'; '.join(parts.values())}: they count as what the model did"] if parts else []
    return ". ".join(sentences)
