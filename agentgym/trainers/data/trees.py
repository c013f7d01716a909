"""A group as a tree: a turn that several episodes share is trained once in total."""

from collections.abc import Mapping, Sequence
from typing import Literal

from agentgym.episodes.episode import Episode, Group

Key = tuple[int, int]
"""Key of a turn: (index in the group of the episode that played it, negative if it left the group; number of the turn)."""


def holders(episodes: Sequence[Episode]) -> dict[Key, list[int]]:
    """Return, per turn, the indices of the episodes that share it: several if they branched off later."""
    places = {episode.attempt: place for place, episode in enumerate(episodes)}
    places_by_turn: dict[Key, list[int]] = {}
    for place, episode in enumerate(episodes):
        for number in range(len(episode.turns)):
            places_by_turn.setdefault(_key(places, place, episode, number), []).append(place)
    return places_by_turn


def keys(episodes: Sequence[Episode]) -> list[list[Key]]:
    """Return the key of each turn, per episode, as in `holders`."""
    places = {episode.attempt: place for place, episode in enumerate(episodes)}
    return [[_key(places, p, e, number) for number in range(len(e.turns))] for p, e in enumerate(episodes)]


def _key(places: Mapping[int, int], place: int, episode: Episode, number: int) -> Key:
    if number >= episode.shared:
        return place, number
    attempt = episode.origin_of(number)
    return places.get(attempt, -1 - attempt), number


def forks(episodes: Sequence[Episode]) -> list[list[Key]]:
    """Return the groups of sibling turns: two or more turns with the same predecessors."""
    children: dict[Key | None, dict[Key, None]] = {}
    for row in keys(episodes):
        for before, key in zip([None, *row], row, strict=False):
            children.setdefault(before, {})[key] = None
    return [list(siblings) for siblings in children.values() if len(siblings) > 1]


def weigh_shared_turns(groups: Sequence[Group], shared_turns: Literal["once", "each"]) -> list[Group]:
    """Weight turns that several episodes of a group share, so that each is trained once in total, and return the groups.

    `once`: train it in the first of them; it is context in the others. `each`: train it in all of them, each with its
    share of the weight.
    """
    for group in groups:
        for key, places in holders(group.episodes).items() if any(episode.forks for episode in group) else ():
            for rank, place in enumerate(places if len(places) > 1 else ()):
                for call in group[place].turns[key[1]].calls:
                    if shared_turns == "each":
                        call.extra["weight"] = 1 / len(places)
                    elif rank:
                        call.extra["train"] = False
    return list(groups)


def copy_extra(groups: Sequence[Group], names: Sequence[str]) -> None:
    """Copy the values `names` of `turn.extra` from the trained turn to its copies in other episodes."""
    for group in groups:
        for key, places in holders(group.episodes).items() if any(episode.forks for episode in group) else ():
            first, *copies = (group[place].turns[key[1]].calls for place in places)
            for copy in copies:
                for call, known in zip(copy, first, strict=True):
                    call.extra |= {name: known.extra[name] for name in names if name in known.extra}
