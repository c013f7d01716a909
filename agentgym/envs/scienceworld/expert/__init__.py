"""The expert: ways of doing the tasks that use the texts that were shown, and general knowledge, and nothing else."""

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
"""By the beginning of a task's name, how it is done; the other tasks have no expert."""


class Advisor:
    """Follows an episode and says what to do next; a function of the task's name and of what was shown.

    A way is begun anew, with what is known by then, after each action that it did not ask for.
    """

    def __init__(self, name: str) -> None:
        ways = [way for beginning, way in WAYS.items() if name.startswith(beginning)]
        self._way = ways[0] if ways else None
        self._shown: list[tuple[str, str]] = []

    def after(self, shown: Sequence[tuple[str, str]]) -> str | None:
        """Return the next action after actions and answers, the first observation first; None where none is known."""
        if self._way is None:
            return None
        known, self._shown = self._shown, []  # what escapes from a way leaves nothing behind that would be gone on from
        if not known or list(shown[: len(known)]) != known:
            known = [shown[0]]
            self._memory = Memory(shown[0][1])
            self._begin()
        for action, text in shown[len(known) :]:
            self._follow(action, text)
        self._shown = list(shown)
        return self._said

    def _follow(self, action: str, text: str) -> None:
        self._memory.notice(action, text)
        if action != self._said:
            self._begin()
            return
        self._ask(text)

    def _begin(self) -> None:
        assert self._way is not None
        self._play = self._taken_up(self._way)
        self._ask(None)

    def _ask(self, text: str | None) -> None:
        try:
            self._said: str | None = (next(self._play) if text is None else self._play.send(text)).lower()
        except StopIteration:
            self._said = None

    def _taken_up(self, way: Callable[[Memory], Play]) -> Play:
        if self._memory.last.startswith(QUESTION):  # no answer of ours: what it was about is not known
            yield "cancel"
        return (yield from way(self._memory))
