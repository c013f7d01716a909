"""The engine's wording: one dialect per generation of game files, and lists of names."""

from collections.abc import Sequence
from dataclasses import dataclass

NOTHING_HAPPENS = "Nothing happens."
WELCOME = "-= Welcome to TextWorld, ALFRED! =-"
ROOM = "You are in the middle of a room. Looking quickly around you, you see "

HELP = """Available commands:
  look:                             look around your current location
  inventory:                        check your current inventory
  go to (receptacle):               move to a receptacle
  open (receptacle):                open a receptacle
  close (receptacle):               close a receptacle
  take (object) from (receptacle):  take an object from a receptacle
  move (object) to (receptacle):  place an object in or on a receptacle
  examine (something):              examine a receptacle or an object
  use (object):                     use an object
  heat (object) with (receptacle):  heat an object using a receptacle
  clean (object) with (receptacle): clean an object using a receptacle
  cool (object) with (receptacle):  cool an object using a receptacle
  slice (object) with (object):     slice an object using a sharp object
"""


@dataclass(frozen=True, slots=True)
class Dialect:
    """Differences in wording between generations of game files."""

    put: tuple[str, str] = ("move ", " to ")
    """Text before the object and before the receptacle in the command that puts an object down."""
    put_text: tuple[str, str] = ("You move the ", " to the ")
    """Text before the object and before the receptacle in the answer to the command that puts an object down."""
    arrive_at_location: bool = False
    """True if arriving names the location (`loc 15`) instead of the receptacle."""
    help: str | None = HELP
    """Answer to the command `help`; None if the command does not exist."""
    examine_visible: bool = False
    """True if visible objects can be examined; in the published domain, a stray comma prevents this."""
    phrases: tuple[tuple[str, str], ...] = ()
    """Pairs of engine text and its replacement in answers; empty for all game files."""

    def reword(self, text: str) -> str:
        """Return an answer with the dialect's replacements."""
        for genuine, paraphrase in self.phrases:
            text = text.replace(genuine, paraphrase)
        return text


NEW = Dialect()
"""Dialect of games made by ALFWorld 0.4 and later."""
OLD = Dialect(("put ", " in/on "), ("You put the ", " in/on the "), arrive_at_location=True, help=None)
"""Dialect of games published with ALFWorld 0.2 and 0.3."""


def write_list(names: Sequence[str]) -> str:
    """Join names as the engine does: `nothing`, `a x 1`, `a x 1, and a y 1`; the article is always `a`."""
    if not names:
        return "nothing"
    if len(names) == 1:
        return "a " + names[0]
    return "a " + ", a ".join(names[:-1]) + ", and a " + names[-1]


def write_facing(names: Sequence[str]) -> str:
    """Join names without articles, as after `You are facing the`."""
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + ", and " + names[-1]
