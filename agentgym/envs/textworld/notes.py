"""The knowledge in an episode's texts: rooms and exits, objects and where they were seen, inventory."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from agentgym.envs.textworld.objective import steps_of

REFUSED = "is not possible here. Possible commands: "
"""Text between the quoted command and the list of possible commands, in the answer to an impossible command."""
BACK = {"north": "south", "south": "north", "east": "west", "west": "east"}
_DONE = {"chop": "chopped", "slice": "sliced", "dice": "diced"}
COOKED = ("fried", "roasted", "grilled")
CUT = tuple(_DONE.values())

_HEADER = re.compile(r"^-= (.+?) =-$", re.MULTILINE)
_DIRECTION = "(north|south|east|west)"
_DOOR = re.compile(rf"\b(open|closed|locked) ([^.]+?) leading {_DIRECTION}\b")
_WAY = re.compile(rf"(?:exit to the|try going) {_DIRECTION}\b")
_RECIPE = re.compile(r"Ingredients:\n(.*?)\n\s*Directions:\n(.*)", re.DOTALL)
_KEY = re.compile(r"\ban? ((?:(?!an? |and )[\w-]+ )*key)\b")
_LIST = re.compile(r",| and |\.|:|;")

Told = Sequence[tuple[str, str]]
"""Commands and answers of an episode so far; the first command is empty, and its answer has the objective and first room."""


@dataclass
class Room:
    """A visited room."""

    text: str = ""
    ways: dict[str, str | None] = field(default_factory=dict[str, str | None])
    """Exits by direction: the door's name, or None for an open passage."""
    to: dict[str, str] = field(default_factory=dict[str, str])
    """Names of adjacent rooms that were reached, by direction."""


class Notes:
    """Notes of a player who reads only the texts; all words are in lower case."""

    def __init__(self, exchanges: Told) -> None:
        self.objective = exchanges[0][1].partition("\n\n-=")[0].lower()
        self.recipe: dict[str, list[str]] = {}
        """Required treatments of each ingredient: `fry`, `slice`, …"""
        self.rooms: dict[str, Room] = {}
        self.here = self.start = ""
        self.carried: set[str] = set()
        self.at: dict[str, tuple[str, str | None]] = {}
        """Room of each object and, if known, the container or surface it is in or on."""
        self.marks: dict[str, set[str]] = {}
        """Treatments that each object has received: `fried`, `sliced`, …"""
        self.shut: dict[tuple[str, str], bool] = {}
        """True if closed, False if open, by room and name of a door or container."""
        self.locked: set[tuple[str, str]] = set()
        self.unlocked: set[tuple[str, str]] = set()
        self.refused: set[tuple[str, str]] = set()
        """(Room, command) pairs refused since the last change of the game."""
        self.probed: set[str] = set()
        """Rooms where a command was refused; the answer listed all possible commands, so closed objects there are known."""
        self.inventory_known = False
        """True once the inventory was read."""
        self._reached: dict[str, tuple[int, str]] = {}
        self.names = self._names(exchanges)
        for command, text in exchanges:
            self._note(command.lower(), text.lower())

    def _names(self, exchanges: Told) -> set[str]:
        """Return the names of relevant objects (recipe, objective, keys, knife, cookbook, meal), and store the recipe."""
        goal_names = {name for verb, name, _ in steps_of(self.objective) if verb in ("take", "find")}
        names = {"knife", "cookbook", "meal", *goal_names}
        for text in [text for _, text in exchanges if REFUSED not in text]:  # refusals quote the player
            match = _RECIPE.search(text)
            if match:
                self.recipe = {name.strip().lower(): [] for name in match[1].splitlines() if name.strip()}
                for line in match[2].lower().splitlines():
                    verb, _, name = line.strip().partition(" the ")
                    self.recipe.get(name, []).append(verb)
            names |= set(_KEY.findall(text.lower()))
        return names | set(self.recipe)

    def _note(self, command: str, text: str) -> None:
        if REFUSED.lower() in text:
            self._note_refusal(command, text)
            return
        place = _HEADER.search(text)
        if place:
            self._enter(command, place[1], text[place.start() :])
            return
        verb, _, rest = command.partition(" ")
        name, _, other = re.sub(r" (?:from|on|into|with) ", "\t", rest).partition("\t")
        if verb == "inventory":
            self.inventory_known, self.carried = True, {name for name in self.names if self._mentioned(name, text)}
        elif verb not in ("look", "examine"):
            self.refused = set()
            self._note_change(verb, name, other, text)

    def _note_refusal(self, command: str, text: str) -> None:
        self.refused.add((self.here, command))
        self.probed.add(self.here)
        for possible in text.partition(REFUSED.lower())[2].rstrip(".").split(", "):
            if possible.startswith("open "):
                self.shut[self.here, possible[5:]] = True
        verb, _, name = command.partition(" ")
        if verb == "open" and name:
            known = self.shut.setdefault((self.here, name), False)  # a thing that cannot be opened counts as open
            if known:
                self.locked.add((self.here, name))
        if verb == "take" and self.at.get(name, ("", ""))[0] == self.here:
            del self.at[name]

    def _enter(self, command: str, name: str, text: str) -> None:
        if not self.start:
            self.start = name
        room, way = self.rooms.setdefault(name, Room()), command.removeprefix("go ")
        if way in BACK and self.here in self.rooms:
            self.rooms[self.here].to[way], room.to[BACK[way]] = name, self.here
        self.here, seen_before, room.text = name, room.text, text
        room.ways |= dict.fromkeys(_WAY.findall(text))
        for state, door, direction in _DOOR.findall(text):
            room.ways[direction], self.shut[name, door] = door, state != "open"
        for thing in self.names - self.carried:
            where, holder = self.at.get(thing, ("", None))
            if self._mentioned(thing, text):
                if (name, f"take {thing}") not in self.refused or text != seen_before:
                    self.at[thing] = (name, None)
            elif where == name and not self.shut.get((name, holder or "")):
                del self.at[thing]

    def _note_change(self, verb: str, name: str, other: str, text: str) -> None:
        if verb == "take":
            self.carried.add(name)
            self.at.pop(name, None)
        elif verb in ("drop", "put", "insert", "eat", "drink"):
            self.carried.discard(name)
            if verb not in ("eat", "drink"):
                self.at[name] = (self.here, other or None)
        elif verb in ("open", "close"):
            self.shut[self.here, name] = verb == "close"
            self.locked.discard((self.here, name))
            inside = text.partition("revealing")[2]
            self.at |= {thing: (self.here, name) for thing in self.names if self._mentioned(thing, inside)}
        elif verb in ("lock", "unlock"):
            (self.locked if verb == "lock" else self.unlocked).add((self.here, name))
            (self.unlocked if verb == "lock" else self.locked).discard((self.here, name))
        elif verb == "prepare":
            self.carried = self.carried - set(self.recipe) | {"meal"}
        elif verb in _DONE:
            self.marks.setdefault(name, set()).add(_DONE[verb])
        elif verb == "cook":
            self.marks.setdefault(name, set()).update(word for word in COOKED if word in text)

    def _mentioned(self, name: str, text: str) -> bool:
        """Return True if a text names an object, and record the object's treatment."""
        mention = re.compile(rf"(.*)(?<![\w-]){re.escape(name)}(?![\w-])", re.DOTALL)
        parts = [match[1] for part in _LIST.split(text) if (match := mention.match(part))]
        for before in parts:
            self.marks.setdefault(name, set()).update({*COOKED, *CUT} & set(before.split()))
        return bool(parts)

    def reached(self) -> dict[str, tuple[int, str]]:
        """Return the rooms reachable through known exits, each with its distance and the direction of the first step."""
        if not self._reached:
            self._reached[self.here] = (0, "")
            queue = [self.here]
            for name in queue:
                for way, other in self.rooms[name].to.items():
                    if other not in self._reached:
                        self._reached[other] = (self._reached[name][0] + 1, self._reached[name][1] or way)
                        queue.append(other)
        return self._reached

    def mentioning(self, word: str) -> list[str]:
        """Return the reachable rooms whose text mentions a word, nearest first."""
        return [room for room in self.reached() if f" {word}" in self.rooms[room].text]

    def known_keys(self) -> list[str]:
        """Return the names of the keys that were seen or are carried."""
        return sorted(name for name in {*self.at, *self.carried} if name.endswith("key"))
