"""Explanations of impossible commands; the genuine engine says "Nothing happens." to all of them."""

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
    """Return one sentence on why a command is impossible, without revealing anything unseen."""
    command = command.strip()
    if len(command) > 200:
        return f"a command is short; this one has {len(command)} characters."
    if command.lower() in play.admissible():
        return f"commands are in lower case: {command.lower()!r}."
    for kind, pattern in _PATTERNS:
        match = pattern.fullmatch(command)
        if match is not None:
            return _explain_form(play, kind, command, match.groupdict())
    before, between = play.game.dialect.put
    forms = f"go to R, open R, close R, take O from R, {before}O{between}R, examine X, use O, heat|clean|cool O with R"
    return f"{_short(command)} is not a command. Commands: {forms}, slice O with K, look, inventory."


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _explain_form(play: Play, kind: str, command: str, names: dict[str, str]) -> str:
    """Explain the error in a command of a known form: first in its receptacle, then in its object."""
    game = play.game
    receptacle, thing = names.get("r", ""), names.get("o", "")
    if kind == "examine" and names["x"] in game.receptacle_index:
        receptacle = names["x"]
    if receptacle:
        r = game.receptacle_index.get(receptacle, -1)
        if r < 0:
            close = difflib.get_close_matches(receptacle, game.receptacles, n=1, cutoff=0.7)
            return f"there is no place {_short(receptacle)}." + (f" Did you mean {close[0]!r}?" if close else "")
        if kind == "go":
            return f"you are at the {receptacle} already; examine or use it directly."
        if play.location not in game.places[r]:
            return f"the {receptacle} is not here. Go there first: 'go to {receptacle}'."
        if kind in ("open", "close"):
            return _explain_swing(play, kind, receptacle)
        if kind in ("take", "put") and not play.shows(r):
            return f"the {receptacle} is closed. Open it first: 'open {receptacle}'."
    return _explain_object(play, kind, command, thing or names.get("x", ""), receptacle)


def _explain_object(play: Play, kind: str, command: str, thing: str, receptacle: str) -> str:
    game = play.game
    holding = play.carried >= 0 and game.objects[play.carried] == thing
    if kind == "take":
        if play.carried >= 0:
            return f"your hands are full: you are holding the {game.objects[play.carried]}. Put it down first."
        return f"you cannot take {_short(thing)} from the {receptacle}: it is not there, or it is fixed."
    if kind in ("put", "treat", "examine") and not holding:
        return f"you are not holding {_short(thing)}. Take it first; names are as shown, with their number."
    if kind == "put":
        return _explain_put(play, command, thing, receptacle)
    if kind == "treat":
        return f"the {receptacle} is not where one can {command.partition(' ')[0]} the {thing}."
    if kind == "use":
        return f"{_short(thing)} cannot be used, or is not here."
    return "slicing takes a knife in hand, and food that lies here."


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
