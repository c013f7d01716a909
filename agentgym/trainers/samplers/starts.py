"""A task sampler whose episodes begin inside a demonstration: a reverse curriculum."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from agentgym.errors import BadConfig
from agentgym.rollout.draw import Draw
from agentgym.trainers.samplers.interface import GroupOutcome, TaskSource, Uniform, progress, sampler
from agentgym.trainers.seam import Within


@sampler("starts", requires=("expert",))
class Starts(Uniform):
    """Begins episodes at the expert's state `back` turns before its end, and earlier as the policy learns.

    The expert plays each task first, in the agent's tokens; its turns are the policy's past, which is not trained. After
    every `groups` such groups of an environment with success of at least `high`, `back` grows by `stride`, up to `most`.
    If a demonstration is too short or fails, the episode begins at the start of the task. A share `whole` of the tasks is
    always played from the beginning. R3 (arXiv 2402.05808), with stages that follow success.
    """

    def __init__(
        self,
        sources: Sequence[TaskSource],
        *,
        back: Annotated[int, Within(1)] = 1,
        stride: Annotated[int, Within(1)] = 1,
        most: Annotated[int, Within(1)] = 1000,
        high: Annotated[float, Within(0, 1)] = 0.6,
        groups: Annotated[int, Within(1)] = 32,
        whole: Annotated[float, Within(0, 1)] = 0.25,
    ) -> None:
        super().__init__(sources)
        if back > most:
            raise BadConfig(f"sampler 'starts' has back {back} and most {most}; expected back at most as high")
        if whole == 1:
            raise BadConfig("sampler 'starts' has whole 1: every task is played from its beginning; use sampler 'uniform'")
        self.stride, self.most, self.high, self.groups, self.whole = stride, most, high, groups, whole
        self.back = dict.fromkeys(self.sources, back)
        self.rates: dict[str, list[float]] = {name: [] for name in self.sources}
        self.due = dict.fromkeys(self.sources, 0.0)
        """Credit of whole tasks per environment."""

    async def draw(self, step: int, number: int, *, run: Any) -> list[Draw]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the next tasks, this process's with their starts."""
        draws = [self._labelled(draw) for draw in super().draw(step, number)]
        places: list[int] = run.share(range(number))
        mine = [place for place in places if draws[place].label]
        starts = await run.demonstrations.starts(
            [draws[place] for place in mine], [self.back[draws[p].env] for p in mine], step
        )
        for place, start in zip(mine, starts, strict=True):
            draws[place] = replace(draws[place], start=start)
        return draws

    def _labelled(self, draw: Draw) -> Draw:
        self.due[draw.env] += self.whole
        if self.due[draw.env] >= 1:
            self.due[draw.env] -= 1
            return draw
        return replace(draw, label=f"@{self.back[draw.env]}")

    def update(self, groups: Sequence[GroupOutcome]) -> None:
        """Count successes, and move the starts back."""
        for group in groups:
            if group.successes and group.label == f"@{self.back[group.env]}":
                self.rates[group.env].append(sum(group.successes) / len(group.successes))
        for name, rates in self.rates.items():
            if len(rates) >= self.groups:
                further = self.stride if sum(rates) / len(rates) >= self.high else 0
                self.back[name] = min(self.back[name] + further, self.most)
                rates.clear()

    def measures(self, step: int) -> dict[str, Mapping[str, float]]:
        """Return the number of turns before the end at which episodes begin, and the groups that decide the next move."""
        return {"back": self.back, **progress(self.rates)}

    def state_dict(self) -> dict[str, object]:
        """Return the state of each environment."""
        return {**super().state_dict(), "back": self.back, "rates": self.rates, "due": self.due}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore that state."""
        super().load_state_dict(state)
        self.back, self.due = dict(state["back"]), dict(state["due"])
        self.rates = {name: list(rates) for name, rates in state["rates"].items()}
