"""Why a command was not possible, where the genuine engine only says that nothing happens."""

import difflib
import re

from agentgym.envs.household.play import Play

_PATTERNS = (
    ("go", re.compile(r"go to (?P<r>.+)")),
    ("open", re.compile(r"open (?P<r>.+)")),
    ("close", re.compile(r"close (?P<r>.+)")),
    ("take", re.compile(r"take (?P<o>.+) from (?P<r>.+)")),
    ("treat", re.compile(r"(?:clean|heat|cool) (?P<o>.+) with (?P<r>.+)")),
    ("slice", re.compile(r"slice (?P<o>.+) with (?P<k>.+)")),
    ("put", re.compile(r"(?:move|put) (?P<o>.+) (?:to|in/on) (?P<r>.+)")),
    ("use", re.compile(r"use (?P<o>.+)")),
    ("examine", re.compile(r"examine (?P<x>.+)")),
)


def explain(play: Play, command: str) -> str:
    """Return one sentence that says what is wrong with a command and how to do it right."""
    command = command.strip()
    if command.lower() in play.admissible():
        return f"Commands are in lower case: {command.lower()!r}."
    for kind, pattern in _PATTERNS:
        found = pattern.fullmatch(command)
        if found is not None:
            names = found.groupdict()
            unknown = [name for name in names.values() if not _known(play, name)]
            if unknown:
                return _unknown(play, unknown[0])
            return _explain_known(play, kind, command, names)
    before, between = play.game.dialect.put
    forms = f"go to R, open R, close R, take O from R, {before}O{between}R, examine X, use O, heat|clean|cool O with R"
    return f"{_short(command)} is not a command. Commands: {forms}, slice O with K, look, inventory."


def _known(play: Play, name: str) -> bool:
    return name in play.game.receptacle_index or name in play.game.object_index


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _unknown(play: Play, name: str) -> str:
    """Say that there is no such thing; suggests receptacles only, which every agent was shown."""
    close = difflib.get_close_matches(name[:60], play.game.receptacles, n=1, cutoff=0.7)
    hint = f" Did you mean {close[0]!r}?" if close else " Names are as shown, with their number, for example 'mug 1'."
    return f"there is no {_short(name)}.{hint}"


def _explain_known(play: Play, kind: str, command: str, names: dict[str, str]) -> str:
    game = play.game
    receptacle = names.get("r", names.get("x", ""))
    if "r" in names and receptacle not in game.receptacle_index:
        return f"{receptacle!r} is not a place or container."
    if receptacle in game.receptacle_index:
        r = game.receptacle_index[receptacle]
        here = play.location in game.places[r]
        if kind == "go":
            return f"you are at the {receptacle} already; examine or use it directly."
        if not here:
            return f"the {receptacle} is not here. Go there first: 'go to {receptacle}'."
        if kind in ("open", "close"):
            return _explain_swing(play, kind, receptacle)
        if kind in ("take", "put") and not play.shows(r):
            return f"the {receptacle} is closed. Open it first: 'open {receptacle}'."
    thing = names.get("o", names.get("x", ""))
    o = game.object_index.get(thing, -1)
    if kind == "take":
        if play.held >= 0:
            return f"your hands are full: you are holding the {game.objects[play.held]}. Put it down first."
        return f"you cannot take the {thing} from the {receptacle}: it is not there, or it is fixed."
    if kind in ("put", "treat", "examine") and o != play.held:
        return f"you are not holding the {thing}. Take it first."
    if kind == "put":
        return _explain_put(play, command, thing, receptacle)
    if kind == "treat":
        return f"the {thing} cannot be {command.partition(' ')[0]}ed with the {receptacle}."
    if kind == "use":
        return f"the {thing} cannot be used, or is not here."
    return f"{_short(command)} is not possible now: slicing takes a knife in hand, and food that lies here."


def _explain_swing(play: Play, kind: str, receptacle: str) -> str:
    game = play.game
    if not game.openable >> game.receptacle_index[receptacle] & 1:
        return f"the {receptacle} does not open or close."
    return f"the {receptacle} is {'open' if kind == 'open' else 'closed'} already."


def _explain_put(play: Play, command: str, thing: str, receptacle: str) -> str:
    before, between = play.game.dialect.put
    right = f"{before}{thing}{between}{receptacle}"
    if command != right and right in play.admissible():
        return f"say it as {right!r}."
    return f"the {receptacle} does not take a {thing.rsplit(' ', 1)[0]}."
