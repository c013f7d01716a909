"""minigrid's bot as a policy: the expert sees only the observed squares, the oracle sees the whole map."""

import importlib
from collections.abc import Callable
from functools import lru_cache
from typing import cast

import numpy as np

from agentgym.core.seeding import generator
from agentgym.envs.babyai.levels import copied
from agentgym.envs.babyai.parts import Bot, Cell, Level
from agentgym.envs.babyai.rules import COMMANDS, DONE, DROP, FORWARD, LEFT, RIGHT, TOGGLE, hindrance
from agentgym.errors import Fault

SEARCHES = 300
"""Maximum number of path searches per turn; a bot that makes more is in a loop."""
TRIES = 60
"""Number of attempts at a solution before the oracle gives up."""


class BotStuck(Exception):
    """The bot does not know how to continue."""


@lru_cache(maxsize=1)
def _kind() -> Callable[[Level], Bot]:
    module = importlib.import_module("minigrid.utils.baby_ai_bot")

    class PatientBot(module.BabyAIBot):
        """minigrid's bot with two changes: it ignores hidden squares, and it limits its path searches per turn."""

        def _closest_wall_or_door_given_dir(self, position: np.ndarray, direction: np.ndarray) -> int:
            distance = 1
            while True:
                place = position + distance * direction
                if not self.mission.in_view(*place) or not self.vis_mask[tuple(place)]:
                    return distance - 1
                cell = self.mission.grid.get(*place)
                if cell and cell.type in ("door", "wall"):
                    return distance
                distance += 1

        def _breadth_first_search(self, *arguments: object, **options: object) -> object:
            if self.bfs_counter > self.allowed:
                raise BotStuck("it goes round in circles")
            return module.BabyAIBot._breadth_first_search(self, *arguments, **options)

        def look(self) -> None:
            """Update the map from the current view."""
            self._process_obs()

        def says(self, previous: int | None) -> int:
            """Return the next action, given the previous one (None before the first).

            Raises:
                BotStuck: the bot fails, or believes that the mission is accomplished.
            """
            self.allowed = self.bfs_counter + SEARCHES
            try:
                action = int(self.replan(previous))
            except (AssertionError, AttributeError, IndexError, TypeError, module.DisappearedBoxError) as error:
                raise BotStuck(str(error)) from error  # its assumptions may fail after a deviation
            if action == DONE:
                raise BotStuck("it takes the mission for accomplished")
            return action

    return cast("Callable[[Level], Bot]", PatientBot)


def new_bot(level: Level, *, all_seen: bool) -> Bot:
    """Return a new bot for a level in its current state.

    With `all_seen`, the bot knows every square that is not behind a closed door. It must not know more: it assumes that
    every square it has seen is reachable.
    """
    bot = _kind()(level)
    queue = [(int(level.agent_pos[0]), int(level.agent_pos[1]))] if all_seen else []
    for i, j in queue:
        for place in ((i, j), (i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)):
            cell = level.grid.get(*place)
            shut = cell is not None and (cell.type == "wall" or (cell.type == "door" and not cell.is_open))
            if not shut and not bot.vis_mask[place]:
                queue.append(place)
            bot.vis_mask[place] = True
    return bot


def solution(level: Level) -> list[int]:
    """Return actions that solve a level from its current state, found by trial on a copy.

    The bot assumes that the agent carries nothing and that boxes are empty. If the bot fails, the next attempts first drop
    the carried object. Every second attempt also opens boxes that hide something; later attempts begin with random moves.

    Raises:
        Fault: no attempt succeeds.
    """
    for attempt in range(TRIES):
        trial = Trial(copied(level))
        try:
            if attempt:
                trial.prepare(attempt)
            if trial.follow(new_bot(trial.level, all_seen=True)):
                return trial.moves
        except BotStuck:
            continue
        if trial.won:
            return trial.moves
    raise Fault(f"no solution of {level.mission!r} was found in {TRIES} attempts")


class Trial:
    """A copy of a level to try actions on."""

    def __init__(self, level: Level) -> None:
        self.level = level
        self.moves: list[int] = []
        self.won = False

    def move(self, action: int) -> None:
        """Perform an action.

        Raises:
            BotStuck: the level is already won, the action would change nothing, or it fails the mission.
        """
        if self.won or hindrance(self.level, COMMANDS[action]):
            raise BotStuck("it is won already, or nothing can come of it")
        _, reward, over, _, _ = self.level.step(action)
        self.moves.append(action)
        self.won = over and reward > 0
        if over and not self.won:
            raise BotStuck("that was the wrong thing")

    def follow(self, bot: Bot, stop: int = 0) -> bool:
        """Follow a bot until it wins, its plan has fewer than `stop` parts, or time is up; return True if the level is won.

        With `stop=0` the length of the plan does not matter. Time is up after 4 moves per square of the map. BotStuck
        passes through.
        """
        previous: int | None = None
        while not self.won and len(self.moves) < 4 * self.level.width * self.level.height:
            if stop and len(bot.stack) < stop:
                return False
            previous = bot.says(previous)
            self.move(previous)
        return self.won

    def prepare(self, attempt: int) -> None:
        """Make random moves (from attempt 3 on), drop the carried object, and open filled boxes (on even attempts)."""
        rng = generator("prepare", attempt)
        for _ in range(0 if attempt < 3 else 2 * attempt):
            self._step((LEFT, RIGHT, FORWARD, FORWARD, FORWARD)[int(rng.integers(5))])
        self._empty_hands(rng)
        if attempt % 2 == 0:
            self._open_boxes()

    def _empty_hands(self, rng: np.random.Generator) -> None:
        for turn in range(40):
            if not self.level.carrying:
                return
            if self.level.grid.get(*self.level.front_pos) is None and not (turn < 20 and _by_a_door(self.level)):
                self.move(DROP)
            else:
                self._step((LEFT, FORWARD, FORWARD, RIGHT)[int(rng.integers(4))])

    def _step(self, action: int) -> None:
        if not hindrance(self.level, COMMANDS[action]):
            self.move(action)

    def _open_boxes(self) -> None:
        boxes = [cell for cell in self.level.grid.grid if cell is not None and cell.type == "box" and cell.contains]
        goal = importlib.import_module("minigrid.utils.baby_ai_bot").GoNextToSubgoal
        for box in boxes:
            bot = new_bot(self.level, all_seen=True)
            bot.stack = [goal(bot, box)]
            while not self.won and self.level.grid.get(*self.level.front_pos) is not box:
                self.follow_one(bot)
            self.move(TOGGLE)
            self.level.update_objs_poss()

    def follow_one(self, bot: Bot) -> None:
        """Perform one action chosen by the bot.

        Raises:
            BotStuck: the bot fails, its action changes nothing, or the solution becomes too long.
        """
        self.move(bot.says(self.moves[-1] if self.moves and bot.bfs_counter else None))
        if len(self.moves) > 4 * self.level.width * self.level.height:
            raise BotStuck("it takes too long")


def _by_a_door(level: Level) -> bool:
    i, j = (int(k) for k in level.front_pos)
    around = ((i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1))
    inside = (level.grid.get(*place) for place in around if 0 <= place[0] < level.width and 0 <= place[1] < level.height)
    return any(cell is not None and cell.type == "door" for cell in inside)


class ObservingBot:
    """A bot that has watched an episode from its beginning and knows only what was observed."""

    def __init__(self, level: Level) -> None:
        self.level = level
        self.done: list[int] = []
        self.bot = new_bot(level, all_seen=False)
        self.advice = self._ask(None)

    def watch(self, action: int) -> None:
        """Observe one more action of the episode."""
        self.level.step(action)
        if action == TOGGLE:
            self.level.update_objs_poss()
        self.done.append(action)
        self.advice = self._ask(action)

    def _ask(self, previous: int | None) -> int:
        try:
            return self.bot.says(previous)
        except BotStuck:
            seen = self.bot.vis_mask
        front = self.level.grid.get(*self.level.front_pos)
        if self.level.carrying and len(self.done) < 400:  # its plan assumes empty hands
            self.bot = new_bot(self.level, all_seen=False)
            self.bot.vis_mask |= seen
            self.bot.look()
            return DROP if front is None else (LEFT if len(self.done) % 3 else FORWARD if _free(front) else RIGHT)
        self.bot = new_bot(self.level, all_seen=False)
        self.bot.vis_mask |= seen
        try:
            return self.bot.says(None)
        except BotStuck:
            return FORWARD if _free(front) and len(self.done) % 2 else LEFT


def _free(cell: Cell | None) -> bool:
    return cell is None or cell.can_overlap()
