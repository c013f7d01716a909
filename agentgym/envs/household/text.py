"""The words of the engine: one dialect per generation of game files, and how lists are written."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from agentgym.errors import BadData

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
    """What differs between generations of game files."""

    put: tuple[str, str] = ("move ", " to ")
    """The words before the object and before the receptacle in the command that puts something down."""
    put_text: tuple[str, str] = ("You move the ", " to the ")
    """The same in the answer."""
    arrive_at_location: bool = False
    """Whether arriving names the location (`loc 15`) instead of the receptacle."""
    help: str | None = HELP
    """The answer to `help`; None where the command does not exist."""
    examine_visible: bool = False
    """Whether visible objects can be examined; a comma in the published domain prevents it."""


NEW = Dialect()
"""Games made by ALFWorld 0.4 and later."""
OLD = Dialect(("put ", " in/on "), ("You put the ", " in/on the "), arrive_at_location=True, help=None)
"""Games published with ALFWorld 0.2 and 0.3."""

_PUT_COMMAND = re.compile(r'action\s+PutObject\s*\{\s*template\s*::\s*"([^"{]*)\{o\}([^"{]*)\{r\}"', re.I)
_PUT_TEXT = re.compile(r'"PutObject\.feedback"\s*:\s*\[\s*\{\s*"rhs"\s*:\s*"([^"{]*)\{o\.name\}([^"{]*)\{r\.name\}\."', re.I)
_ARRIVE = re.compile(r'"GotoLocation\.feedback"\s*:\s*\[\s*\{\s*"rhs"\s*:\s*"You arrive at \{(lend|r)\.name\}\. ', re.I)
_HELP = re.compile(r'"help\.feedback"\s*:\s*\[\s*\{\s*"rhs"\s*:\s*("(?:[^"\\]|\\.)*")', re.I)
_TASK = re.compile(r'"task"\s*:\s*\[\s*\{\s*"rhs"\s*:\s*("(?:[^"\\]|\\.)*")')


@lru_cache(maxsize=16)
def _read_dialect(domain: str, rules: str) -> Dialect:
    command, text, arrive = _PUT_COMMAND.search(rules), _PUT_TEXT.search(rules), _ARRIVE.search(rules)
    for found, what in ((command, "action PutObject"), (text, "PutObject.feedback"), (arrive, "GotoLocation.feedback")):
        if found is None:
            raise BadData(f"the grammar has no known {what}; expected ALFWorld's alfred.twl2, 0.2 to 0.4")
    assert command and text and arrive
    domain = re.sub(r";[^\n]*", "", domain).lower()
    help_text = _HELP.search(rules)
    has_help = help_text is not None and re.search(r"\(:action\s+help\b", domain) is not None
    return Dialect(
        put=(command[1], command[2]),
        put_text=(text[1], text[2]),
        arrive_at_location=arrive[1].lower() == "lend",
        help=str(json.loads(help_text[1])).lstrip("\n") if has_help and help_text else None,
        examine_visible=re.search(r"\?l\s*-\s*location\s*,", domain) is None,
    )


def read_grammar(domain: str, grammar: str, where: str = "game") -> tuple[Dialect, str]:
    """Return the dialect of a game and its goal sentence, read from the embedded domain and grammar."""
    task = _TASK.search(grammar)
    if task is None:
        raise BadData(f"{where}: the grammar has no rule 'task'; expected the line `Your task is to: …`")
    rest = grammar[: task.start()] + grammar[task.end() :]  # the same in every game of a generation
    try:
        return _read_dialect(domain, rest), str(json.loads(task[1]))
    except BadData as error:
        raise BadData(f"{where}: {error}") from None


def write_list(names: Sequence[str]) -> str:
    """Write names the engine's way: `nothing`, `a x 1`, `a x 2, and a y 1`; the article is always `a`."""
    if not names:
        return "nothing"
    if len(names) == 1:
        return "a " + names[0]
    return "a " + ", a ".join(names[:-1]) + ", and a " + names[-1]


def write_facing(names: Sequence[str]) -> str:
    """Write names without article, as after `You are facing the`."""
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + ", and " + names[-1]
