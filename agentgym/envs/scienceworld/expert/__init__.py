"""The expert: strategies for the tasks, based only on the observed texts and general knowledge."""

from collections.abc import Callable, Sequence

from agentgym.envs.scienceworld.expert import circuits, growing, heat, living, mixing, planes
from agentgym.envs.scienceworld.expert.memory import Memory
from agentgym.envs.scienceworld.expert.moves import Play
from agentgym.envs.scienceworld.simulator import QUESTION

WAYS: dict[str, Callable[[Memory], Play]] = {
    "find": living.find,
    "lifespan": living.lifespan,
    "identify-life-stages": living.stages,
    "power-component": circuits.power,
    "test-conductivity": circuits.conduct,
    "chemistry-mix-paint": mixing.paint,
    "chemistry-mix": mixing.recipe,
    "use-thermometer": heat.thermometer,
    "measure-melting-point": heat.melting_point,
    "boil": heat.change,
    "melt": heat.change,
    "freeze": heat.change,
    "change-the-state-of-matter-of": heat.change,
    "grow-plant": growing.plant,
    "grow-fruit": growing.fruit,
    "mendelian-genetics-known-plant": growing.inherited,
    "inclined-plane": planes.slower,
}
"""Strategy by prefix of a task's name; other tasks have no expert."""


class Advisor:
    """Follows an episode and suggests the next action, which depends only on the task's name and the observations.

    A strategy restarts, with the knowledge so far, after each action that it did not suggest.
    """

    def __init__(self, name: str) -> None:
        ways = [way for beginning, way in WAYS.items() if name.startswith(beginning)]
        self._way = ways[0] if ways else None
        self._exchanges: list[tuple[str, str]] = []

    def after(self, exchanges: Sequence[tuple[str, str]]) -> str | None:
        """Return the next action, or None if the strategy has none; `exchanges` begins with ('', first observation)."""
        if self._way is None:
            return None
        known, self._exchanges = self._exchanges, []  # cleared first, so that an exception leaves no stale state
        if not known or list(exchanges[: len(known)]) != known:
            known = [exchanges[0]]
            self._memory = Memory(exchanges[0][1])
            self._begin()
        for action, text in exchanges[len(known) :]:
            self._follow(action, text)
        self._exchanges = list(exchanges)
        return self._suggested

    def _follow(self, action: str, text: str) -> None:
        self._memory.notice(action, text)
        if action != self._suggested:
            self._begin()
            return
        self._ask(text)

    def _begin(self) -> None:
        assert self._way is not None
        self._play = self._taken_up(self._way)
        self._ask(None)

    def _ask(self, text: str | None) -> None:
        try:
            self._suggested: str | None = (next(self._play) if text is None else self._play.send(text)).lower()
        except StopIteration:
            self._suggested = None

    def _taken_up(self, way: Callable[[Memory], Play]) -> Play:
        if self._memory.last.startswith(QUESTION):  # a question about an action that was not ours
            yield "cancel"
        return (yield from way(self._memory))
