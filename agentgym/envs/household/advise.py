"""The expert: explores, remembers and acts, using only texts that it observed in this episode."""

from dataclasses import dataclass

from agentgym.envs.household.catalog import CAN_CONTAIN
from agentgym.envs.household.game import members
from agentgym.envs.household.play import Play
from agentgym.envs.household.rooms import LAMP_STANDS

_LIKELY = {name.lower(): frozenset(kind.lower() for kind in kinds) for name, kinds in CAN_CONTAIN.items()}
_STANDS = frozenset(name.lower() for name in LAMP_STANDS)


@dataclass(slots=True)
class Memory:
    """The agent's observations as bit masks of receptacles or objects; they stay valid, since only the agent acts."""

    located: int = 0
    """Receptacles whose location the agent knows, from going there, seeing them in view, or failing to go there."""
    probed: int = 0
    """Receptacles that the agent knows to be open or closed."""
    viewed: int = 0
    """Receptacles whose content the agent has seen."""
    handled: int = 0
    """Objects that the agent has held."""

    def notice(self, play: Play, command: str, valid: bool) -> None:
        """Update the observations after a command; `play` is the state after the command.

        `valid` is True if the command was possible.
        """
        game = play.game
        verb, _, rest = command.strip().partition(" ")
        if verb == "look" and valid:
            for r in game.here[play.location]:
                self.located |= 1 << r
        elif verb in ("go", "open", "close", "examine"):
            r = game.receptacle_index.get(rest[3:] if verb == "go" else rest, -1)
            if r >= 0 and play.location in game.places[r]:
                self._notice_receptacle(play, verb, r, valid)
        elif valid and verb == "take":
            self.handled |= 1 << play.carried

    def _notice_receptacle(self, play: Play, verb: str, r: int, valid: bool) -> None:
        if not valid and verb == "go":
            self.located |= 1 << r  # nothing happened, so it must be here
        elif valid or (verb == "open" and self.located >> r & 1):
            self.located |= 1 << r
            self.probed |= 1 << r
            if valid and verb != "close" and play.shows(r):
                self.viewed |= 1 << r


def advise(play: Play, memory: Memory, *, listed: bool = False) -> str:
    """Return the expert's next command.

    The expert searches the likeliest receptacles first or, if `listed`, in the order of the room's list.
    """
    return _Expert(play, memory, listed).next()


class _Expert:
    """Computes one command; `memory` decides which parts of the state it may read."""

    def __init__(self, play: Play, memory: Memory, listed: bool) -> None:
        self.play, self.game, self.memory, self.listed = play, play.game, memory, listed
        self.here = {r for r in play.game.here[play.location] if memory.located >> r & 1}

    def next(self) -> str:
        carried = self.play.carried
        if carried >= 0 and not self.useful(carried):
            return self.drop(carried)
        if self.game.goal.lamp:
            return self.light(carried)
        target = self.target()
        if carried >= 0:
            return self.deliver(carried, target)
        return self.fetch(exclude=target)

    def useful(self, o: int) -> bool:
        """Return whether an object is of the class that the goal names."""
        return bool(self.game.goal_objects >> o & 1)

    def known(self, mask: int) -> list[tuple[int, int]]:
        """Return the known places of the objects in a bit mask, as (object, receptacle)."""
        seen, handled = self.memory.viewed, self.memory.handled
        return [
            (o, r)
            for r, content in enumerate(self.play.contents)
            for o in content
            if mask >> o & 1 and (seen >> r & 1 or handled >> o & 1)
        ]

    def approach(self, r: int) -> str | None:
        return None if r in self.here else f"go to {self.game.receptacles[r]}"

    def access(self, r: int) -> str | None:
        """Return the next command needed to reach into a receptacle; None if the agent can reach into it now."""
        name, bit = self.game.receptacles[r], 1 << r
        closed = self.game.openable & bit and not (self.memory.probed & bit and self.play.opened & bit)
        return self.approach(r) or (f"open {name}" if closed else None)

    def light(self, carried: int) -> str:
        if carried < 0:
            return self.fetch(exclude=-1)
        lamps = self.known(self.game.goal_lamps)
        if not lamps:
            return self.explore()
        lamp, stand = min(lamps, key=lambda pair: (pair[1] not in self.here, pair))
        return self.approach(stand) or f"use {self.game.objects[lamp]}"

    def target(self) -> int:
        """Return the index of the goal receptacle to deliver to; -1 if there is no goal receptacle.

        This is the goal receptacle with the most objects known to be delivered; on a tie one at the agent's location,
        then the lowest index.
        """
        counts: dict[int, int] = {}
        for _, r in self.known(self.play.wanted()):
            counts[r] = counts.get(r, 0) + 1
        options = members(self.game.goal_receptacles)
        return min(options, key=lambda r: (-counts.get(r, 0), r not in self.here, r), default=-1)

    def deliver(self, carried: int, target: int) -> str:
        verb = self.game.goal.treatment
        if verb and not self.play.wanted() >> carried & 1:
            options = members(self.game.appliances[verb])
            if options:
                r = min(options, key=lambda r: (r not in self.here, r))
                return self.approach(r) or f"{verb} {self.game.objects[carried]} with {self.game.receptacles[r]}"
        return "look" if target < 0 else self.access(target) or self.put(carried, target)

    def put(self, o: int, r: int) -> str:
        before, between = self.game.dialect.put
        return f"{before}{self.game.objects[o]}{between}{self.game.receptacles[r]}"

    def drop(self, carried: int) -> str:
        """Return the next command for putting down an unneeded object, here if possible; `look` if it fits nowhere."""
        openable, viewed = self.game.openable, self.memory.viewed
        options = members(self.game.accepts[carried])
        r = min(options, key=lambda r: (r not in self.here, openable >> r & 1, viewed >> r & 1, r), default=-1)
        return "look" if r < 0 else self.access(r) or self.put(carried, r)

    def fetch(self, exclude: int) -> str:
        """Return the next command for taking a known object of the goal's class, or for finding one.

        Objects in the receptacle `exclude` that already count for the goal stay there.
        """
        counted = self.play.wanted()
        candidates = [
            (r not in self.here, not counted >> o & 1, o, r)
            for o, r in self.known(self.game.goal_objects & self.game.pickupable)
            if r != exclude or not counted >> o & 1
        ]
        if not candidates:
            return self.explore()
        _, _, o, r = min(candidates)
        return self.access(r) or f"take {self.game.objects[o]} from {self.game.receptacles[r]}"

    def explore(self) -> str:
        """Return the next command for looking into an unseen receptacle: the likeliest or, if `listed`, the first.

        The command is `look` if the agent has seen the content of every receptacle.
        """
        unseen = [r for r in range(len(self.game.receptacles)) if not self.memory.viewed >> r & 1]
        if not unseen:
            return "look"
        r = min(unseen, key=lambda r: (0 if self.listed else self.rank(r) - 2 * (r in self.here), r))
        return self.access(r) or f"examine {self.game.receptacles[r]}"

    def rank(self, r: int) -> int:
        """Return how unlikely a receptacle is to contain what is missing: 0 if likely, else 4; plus 1 if it opens."""
        game, kind = self.game, self.game.receptacle_class[r]
        goal = game.goal
        needs_object = self.play.carried < 0
        likely = needs_object and goal.object.lower() in _LIKELY.get(kind, ()) and kind != goal.receptacle.lower()
        likely = likely or bool(goal.lamp and kind in _STANDS and not self.known(game.goal_lamps))
        return 4 * (not likely) + (game.openable >> r & 1)
