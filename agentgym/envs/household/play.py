"""The rules of the household: possible actions, their effects, and the engine's answers."""

from bisect import bisect_left

from agentgym.envs.household.game import Game, Lists
from agentgym.envs.household.text import NOTHING_HAPPENS, ROOM, write_facing, write_list

CLEAN, HOT, COOL, SLICED, TOGGLED = range(5)
Saved = tuple[int, int, int, tuple[int, ...], Lists, Lists, frozenset[tuple[int, int]], int]


class Play:
    """State of one game in progress, under the genuine rules; it has no horizon and continues after a win."""

    __slots__ = ("_commands", "at", "carried", "contents", "done", "game", "key", "location", "moved", "opened")

    def __init__(self, game: Game) -> None:
        self.game = game
        location, contents, opened, done, at = game.start
        self.load((location, -1, opened, done, contents, at, frozenset(), 0))

    def save(self) -> Saved:
        """Return the state as immutable values."""
        return (
            self.location,
            self.carried,
            self.opened,
            tuple(self.done),
            tuple(self.contents),
            tuple(self.at),
            frozenset(self.moved),
            self.key,
        )

    def load(self, state: Saved) -> None:
        """Restore a state saved from the same game."""
        self.location, self.carried, self.opened = state[:3]
        self.done, self.contents, self.at, self.moved, self.key = (
            list(state[3]),
            list(state[4]),
            list(state[5]),
            set(state[6]),
            state[7],
        )
        self._commands: list[str] | None = None

    def shows(self, r: int) -> bool:
        """Return whether a receptacle's content can be seen and reached from its location."""
        return not (self.game.openable & ~self.opened) >> r & 1

    def admissible(self) -> list[str]:
        """Return the commands that are possible now, in sorted order."""
        if self._commands is None:
            self._commands = self._list_commands()
        return self._commands

    def _list_commands(self) -> list[str]:
        game, carried = self.game, self.carried
        local = ["inventory", "look"] if game.dialect.help is None else ["help", "inventory", "look"]
        closed, usable = game.openable & ~self.opened, game.able[TOGGLED]
        takeable = game.pickupable if carried < 0 else 0
        for r in game.here[self.location]:
            name = game.receptacles[r]
            local.append("examine " + name)
            if game.openable >> r & 1:
                local.append(("open " if closed >> r & 1 else "close ") + name)
            is_open = not closed >> r & 1
            for o in self.contents[r]:
                if is_open and takeable >> o & 1:
                    local.append(f"take {game.objects[o]} from {name}")
                if usable >> o & 1:
                    local.append("use " + game.objects[o])
                if is_open and game.dialect.examine_visible:
                    local.append("examine " + game.objects[o])
        if carried >= 0:
            self._list_held(local)
        commands = sorted(set(local))
        split = bisect_left(commands, "go to ")
        commands[split:split] = game.go_commands[self.location]
        return commands

    def _list_held(self, local: list[str]) -> None:
        """Add the commands that use the held object."""
        game, carried = self.game, self.carried
        name, place = game.objects[carried], self.location
        local.append("examine " + name)
        before, between = game.dialect.put
        accepts = game.accepts[carried] & ~(game.openable & ~self.opened)
        for r in game.here[place]:
            if accepts >> r & 1:
                local.append(before + name + between + game.receptacles[r])
        for number, verb in enumerate(("clean", "heat", "cool")):
            if game.able[number] >> carried & 1:
                tools = (r for r in game.here[place] if game.appliances[verb] >> r & 1)
                local += [f"{verb} {name} with {game.receptacles[r]}" for r in tools]
        if game.knives >> carried & 1:
            local += [
                f"slice {food} with {name}"
                for o, food in enumerate(game.objects)
                if game.able[SLICED] >> o & 1 and place in self.at[o]
            ]

    def act(self, command: str) -> str | None:
        """Execute a command and return the answer; return None if the command is not admissible."""
        command = command.strip()
        commands = self.admissible()
        if command not in commands:
            return None
        verb, _, rest = command.partition(" ")
        match verb:
            case "go":
                return self._go(rest[3:])
            case "take":
                return self._take(rest)
            case "open" | "close":
                return self._swing(verb, rest)
            case "examine":
                return self._examine(rest)
            case "look":
                return self._look()
            case "inventory":
                return (
                    f"You are carrying: a {self.game.objects[self.carried]}."
                    if self.carried >= 0
                    else "You are not carrying anything."
                )
            case "help":
                return self.game.dialect.help or NOTHING_HAPPENS
            case "use":
                self._mark(TOGGLED, self.game.object_index[rest])
                return f"You turn on the {rest}."
            case "clean" | "heat" | "cool" | "slice":
                return self._treat(verb, rest)
            case _:
                return self._put(command)

    def answer(self, command: str) -> str:
        """Execute a command and return the genuine engine's exact output."""
        text = self.act(command)
        return NOTHING_HAPPENS if text is None else text

    def _go(self, name: str) -> str:
        game = self.game
        r = game.receptacle_index[name]
        target = next(place for place in game.places[r] if place != self.location)
        self.key ^= game.token(f"at {self.location}") ^ game.token(f"at {target}")
        self.location, self._commands = target, None
        arrived = game.locations[target] if game.dialect.arrive_at_location else name
        return f"You arrive at {arrived}. {self.describe(r)}"

    def describe(self, r: int) -> str:
        """Return the text for looking at a receptacle."""
        game = self.game
        if not game.openable >> r & 1:
            return f"On the {game.receptacles[r]}, you see {self._list(r)}."
        if self.opened >> r & 1:
            return f"The {game.receptacles[r]} is open. In it, you see {self._list(r)}."
        return f"The {game.receptacles[r]} is closed."

    def _list(self, r: int) -> str:
        names = self.game.objects
        return write_list([names[o] for o in self.contents[r]])

    def _swing(self, verb: str, name: str) -> str:
        r = self.game.receptacle_index[name]
        self.opened ^= 1 << r
        self.key ^= self.game.token(f"open {r}")
        self._commands = None
        return f"You open the {name}. {self.describe(r)}" if verb == "open" else f"You close the {name}."

    def _take(self, rest: str) -> str:
        game = self.game
        name, _, source = rest.rpartition(" from ")
        o, r = game.object_index[name], game.receptacle_index[source]
        self.contents[r] = tuple(x for x in self.contents[r] if x != o)
        self.at[o] = tuple(place for place in self.at[o] if place != self.location)
        self.carried, self._commands = o, None
        self.key ^= game.token(f"in {o} {r}") ^ game.token(f"hold {o}") ^ game.token(f"lie {o} {self.location}")
        if game.shared >> r & 1 and (o, r) not in self.moved:
            self.moved.add((o, r))
            self.key ^= game.token(f"taken {o} {r}")
        return f"You pick up the {name} from the {source}."

    def _put(self, command: str) -> str:
        game = self.game
        before, between = game.dialect.put
        name, _, target = command[len(before) :].rpartition(between)
        o, r = self.carried, game.receptacle_index[target]
        self.key ^= game.token(f"hold {o}")
        if o not in self.contents[r]:
            self.contents[r] = tuple(sorted((*self.contents[r], o)))
            self.key ^= game.token(f"in {o} {r}")
        if self.location not in self.at[o]:
            self.at[o] = (*self.at[o], self.location)
            self.key ^= game.token(f"lie {o} {self.location}")
        self.carried, self._commands = -1, None
        if (o, r) in self.moved:
            self.moved.remove((o, r))
            self.key ^= game.token(f"taken {o} {r}")
        return f"{game.dialect.put_text[0]}{name}{game.dialect.put_text[1]}{target}."

    def _treat(self, verb: str, rest: str) -> str:
        name, _, tool = rest.rpartition(" with ")
        o = self.game.object_index[name]
        if verb == "slice":
            self._mark(SLICED, o)
            return f"You sliced the {name} with the {tool}."
        if verb == "clean":
            self._mark(CLEAN, o)
        else:
            gained, lost = (HOT, COOL) if verb == "heat" else (COOL, HOT)
            self._mark(gained, o)
            if self.done[lost] >> o & 1:
                self.done[lost] ^= 1 << o
                self.key ^= self.game.token(f"done {lost} {o}")
        return f"You {verb} the {name} using the {tool}."

    def _mark(self, what: int, o: int) -> None:
        """Record the treatment of an object; `what` is the index in PROPERTIES. Repeating a treatment has no effect."""
        if not self.done[what] >> o & 1:
            self.done[what] |= 1 << o
            self.key ^= self.game.token(f"done {what} {o}")

    def _look(self) -> str:
        game = self.game
        here = game.here[self.location]
        if not here:
            return ROOM + "nothing."
        beside = sorted(o for o, r in self.moved if r in here and self.location in self.at[o])
        names = write_facing([game.receptacles[r] for r in here])
        return f"You are facing the {names}. Next to it, you see {write_list([game.objects[o] for o in beside])}."

    def _examine(self, name: str) -> str:
        game = self.game
        if name in game.receptacle_index:
            return self.describe(game.receptacle_index[name])
        o = game.object_index[name]
        clean, hot, cool, sliced, toggled = (mask >> o & 1 for mask in self.done)
        if o in game.inside:
            return f"This is a normal {name}. In it, you see {write_list([game.objects[i] for i in game.inside[o]])}."
        words = "hot" if hot else "cool" if cool else ""
        if clean and (words or sliced):
            words = f"{words} and clean" if words else "clean"
        elif clean:
            words = "clean"
        if words and sliced:
            return f"This is a {words} sliced {name}."
        if words:
            return f"This is a {'cold' if words == 'cool' else words} {name}."
        if toggled and game.able[TOGGLED] >> o & 1:
            return f"This {name} is on."
        if sliced and game.able[SLICED] >> o & 1:
            return f"This is a sliced {name}."
        return f"There's nothing special about {name}."

    def won(self) -> bool:
        """Return whether the goal is reached now."""
        game = self.game
        if game.goal.lamp:
            if self.carried < 0 or not game.goal_objects >> self.carried & 1:
                return False
            lamps = game.goal_lamps & self.done[TOGGLED]
            return bool(lamps) and any(lamps >> o & 1 for r in game.here[self.location] for o in self.contents[r])
        targets = self.wanted()
        return any(
            sum(targets >> o & 1 for o in self.contents[r]) >= game.goal.count
            for r in range(len(self.contents))
            if game.goal_receptacles >> r & 1
        )

    def wanted(self) -> int:
        """Return the bit mask of objects that would fulfill the goal if they were in the goal's receptacle."""
        game = self.game
        verb = game.goal.treatment
        if not verb:
            return game.goal_objects
        number = ("clean", "heat", "cool").index(verb)
        return game.goal_objects & game.able[number] & self.done[number]
