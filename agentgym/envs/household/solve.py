"""The oracle: a shortest or near-shortest plan from any state, with full knowledge of the house."""

from collections.abc import Iterable, Iterator
from itertools import permutations

from agentgym.envs.household.game import members
from agentgym.envs.household.play import TOGGLED, Play


class _Walk:
    """A plan under construction, with the agent's location and the open receptacles after the plan so far."""

    __slots__ = ("commands", "location", "opened", "play")

    def __init__(self, play: Play) -> None:
        self.play, self.location, self.opened = play, play.location, play.opened
        self.commands: list[str] = []

    def reach(self, r: int) -> None:
        game = self.play.game
        if self.location not in game.places[r]:
            self.commands.append(f"go to {game.receptacles[r]}")
            self.location = game.places[r][0]

    def access(self, r: int) -> None:
        self.reach(r)
        if (self.play.game.openable & ~self.opened) >> r & 1:
            self.commands.append(f"open {self.play.game.receptacles[r]}")
            self.opened |= 1 << r

    def take(self, o: int, r: int) -> None:
        self.access(r)
        self.commands.append(f"take {self.play.game.objects[o]} from {self.play.game.receptacles[r]}")

    def put(self, o: int, r: int) -> None:
        self.access(r)
        before, between = self.play.game.dialect.put
        self.commands.append(f"{before}{self.play.game.objects[o]}{between}{self.play.game.receptacles[r]}")

    def treat(self, o: int, target: int) -> None:
        """Clean, heat or cool an object at an appliance: here, else at the target's location, else anywhere."""
        game = self.play.game
        verb = game.goal.treatment
        nearest = min(
            members(game.appliances[verb]),
            key=lambda r: (self.location not in game.places[r], game.places[r] != game.places[target], r),
        )
        self.reach(nearest)
        self.commands.append(f"{verb} {game.objects[o]} with {game.receptacles[nearest]}")


def solve(play: Play) -> list[str]:
    """Return commands that reach the goal from the current state; empty if the goal cannot be reached."""
    plans = _light_plans(play) if play.game.goal.lamp else _place_plans(play)
    return _until_won(play, min(plans, key=len, default=list[str]()))


def _until_won(play: Play, commands: list[str]) -> list[str]:
    """Cut a plan after the command that wins: an object listed in two receptacles may count before it is put down."""
    copy = Play(play.game)
    copy.load(play.save())
    for number, command in enumerate(commands, 1):
        copy.act(command)
        if copy.won():
            return commands[:number]
    return commands


def _sources(play: Play) -> list[tuple[int, int]]:
    """Return the wanted objects that can be picked up, as (object, receptacle)."""
    able = play.game.goal_objects & play.game.pickupable
    if play.game.goal.treatment:
        able &= play.game.able[("clean", "heat", "cool").index(play.game.goal.treatment)]
    return [(o, r) for r, content in enumerate(play.contents) if play.game.places[r] for o in content if able >> o & 1]


def _starts(play: Play, near: Iterable[int]) -> Iterator[_Walk]:
    """Yield plans that leave the hands empty, one for each place to put a held object down.

    These are the places at the agent's location or at the receptacles `near`; if there are none, all possible places.
    """
    if play.carried < 0:
        yield _Walk(play)
        return
    spots = [r for r in members(play.game.accepts[play.carried]) if play.game.places[r]]
    close = {play.location, *(place for r in near for place in play.game.places[r])}
    on_the_way = [r for r in spots if close.intersection(play.game.places[r])]
    for r in on_the_way or spots:
        walk = _Walk(play)
        walk.put(play.carried, r)
        yield walk


def _light_plans(play: Play) -> Iterator[list[str]]:
    game = play.game
    lamps = [
        (o, r) for r, content in enumerate(play.contents) if game.places[r] for o in content if game.goal_lamps >> o & 1
    ]
    for lamp, stand in lamps:
        if play.carried >= 0 and game.goal_objects >> play.carried & 1:
            yield _shine(_Walk(play), lamp, stand)
            continue
        for o, r in _sources(play):
            for walk in _starts(play, (r, stand)):
                walk.take(o, r)
                yield _shine(walk, lamp, stand)


def _shine(walk: _Walk, lamp: int, stand: int) -> list[str]:
    walk.reach(stand)
    if not walk.play.done[TOGGLED] >> lamp & 1:
        walk.commands.append(f"use {walk.play.game.objects[lamp]}")
    return walk.commands


def _place_plans(play: Play) -> Iterator[list[str]]:
    game, carried, targets = play.game, play.carried, play.wanted()
    sources = _sources(play)
    treatable = not game.goal.treatment or game.appliances[game.goal.treatment]
    useful = carried >= 0 and bool(game.goal_objects >> carried & 1) and _can_count(play, carried)
    for target in members(game.goal_receptacles):
        if not game.places[target]:
            continue
        missing = game.goal.count - sum(targets >> o & 1 for o in play.contents[target]) - useful
        able = [(o, r) for o, r in sources if game.accepts[o] >> target & 1 and (r != target or not targets >> o & 1)]
        if useful and not game.accepts[carried] >> target & 1:
            continue
        for picks in permutations(able, max(missing, 0)):
            if not treatable and any(not targets >> o & 1 for o, _ in picks):
                continue
            walks = [_Walk(play)] if useful else _starts(play, [r for _, r in picks[:1]] + [target])
            for walk in walks:
                if useful:
                    _deliver(walk, carried, target, targets)
                for o, r in picks:
                    walk.take(o, r)
                    _deliver(walk, o, target, targets)
                yield walk.commands


def _can_count(play: Play, o: int) -> bool:
    """Return whether an object counts for the goal, possibly after its treatment."""
    verb = play.game.goal.treatment
    return not verb or bool(play.game.able[("clean", "heat", "cool").index(verb)] >> o & 1 and play.game.appliances[verb])


def _deliver(walk: _Walk, o: int, target: int, targets: int) -> None:
    if not targets >> o & 1:
        walk.treat(o, target)
    walk.put(o, target)
