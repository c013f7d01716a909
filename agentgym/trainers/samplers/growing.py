"""Task samplers that get harder during training: a growing horizon, or a rising range of difficulties."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from agentgym.core.seeding import generator
from agentgym.errors import BadConfig
from agentgym.rollout.draw import Draw
from agentgym.trainers.samplers.interface import GroupOutcome, TaskSource, Uniform, progress, sampler
from agentgym.trainers.seam import Within


@sampler("growing_horizon")
class GrowingHorizon(Uniform):
    """Draws every task in turn, with a horizon that grows from `least` to `most` (TTI, arXiv 2506.07976).

    Stages have `every` steps and are counted from 1. In stage i the horizon is min(`least` * i, `most`), or with growth
    `add` min(`least` + i - 1, `most`). For stages of unequal lengths (ScalingInter), use `--horizon` instead.
    """

    def __init__(
        self,
        sources: Sequence[TaskSource],
        *,
        least: Annotated[int, Within(1)] = 10,
        most: Annotated[int, Within(1)] = 30,
        every: Annotated[int, Within(1)] = 20,
        growth: Literal["multiply", "add"] = "multiply",
    ) -> None:
        super().__init__(sources)
        if least >= most:
            raise BadConfig(f"sampler 'growing_horizon' has least {least} and most {most}; expected least below most")
        self.least, self.most, self.every, self.growth = least, most, every, growth

    def draw(self, step: int, number: int) -> list[Draw]:
        """Return the next tasks with the horizon of the step."""
        return [replace(draw, horizon=self.horizon(step)) for draw in super().draw(step, number)]

    def horizon(self, step: int) -> int:
        """Return the horizon (maximum turns per episode) at `step`; the first step is 0."""
        stage = step // self.every
        return min(self.least * (stage + 1) if self.growth == "multiply" else self.least + stage, self.most)

    def measures(self, step: int) -> dict[str, float]:
        """Return the horizon of the step."""
        return {"horizon": self.horizon(step)}


@sampler("difficulty_range")
class DifficultyRange(Uniform):
    """Draws difficulties uniformly from a range that rises once its top is mastered, per environment (RLVE).

    Source: arXiv 2511.07317. The range of an environment starts as 0 to 0. After every `groups` groups at the top
    difficulty, the top rises by one if their mean success rate is at least `high`. The bottom follows, so that there
    are at most `span` difficulties. The range never falls; its top is at most `most` and the environment's `hardest`.
    We have not checked the paper's constants.
    """

    def __init__(
        self,
        sources: Sequence[TaskSource],
        *,
        high: Annotated[float, Within(0, 1)] = 0.9,
        groups: Annotated[int, Within(1)] = 8,
        span: Annotated[int, Within(1)] = 4,
        most: Annotated[int, Within(0)] = 100,
    ) -> None:
        super().__init__(sources)
        if all(source.finite for source in sources):
            raise BadConfig(
                f"sampler 'difficulty_range' has no effect: it adapts the difficulty of generated tasks, and those of "
                f"{', '.join(self.sources)} come from a file. Use sampler 'prioritized'"
            )
        self.high, self.groups, self.span, self.most = high, groups, span, most
        self.top = dict.fromkeys(self.sources, 0)
        self.rates: dict[str, list[float]] = {name: [] for name in self.sources}

    def draw(self, step: int, number: int) -> list[Draw]:
        """Return the next tasks, each at a difficulty in its environment's range."""
        return [self._next(name, self._difficulty(name)) for name in self._turns(number)]

    def _difficulty(self, name: str) -> int:
        least = self._bottom(name)
        return int(generator("range", self.sources[name].seed, name, self.places[name]).integers(least, self.top[name] + 1))

    def _bottom(self, name: str) -> int:
        return max(self.top[name] - self.span + 1, 0)

    def measures(self, step: int) -> dict[str, Mapping[str, float]]:
        """Return `difficulty_low`, `difficulty_high`, and `success` and `groups` since the last decision, by environment."""
        top = self.generated(self.top)
        bottom = {name: self._bottom(name) for name in top}
        return {"difficulty_low": bottom, "difficulty_high": top, **progress(self.generated(self.rates))}

    def update(self, groups: Sequence[GroupOutcome]) -> None:
        """Count successes at the top difficulty, and move the range if enough groups have been counted."""
        for group in groups:
            if group.successes and group.difficulty == self.top[group.env]:
                self.rates[group.env].append(sum(group.successes) / len(group.successes))
        for name, rates in self.rates.items():
            if len(rates) >= self.groups:
                if sum(rates) / len(rates) >= self.high:
                    self.top[name] = self.sources[name].within(min(self.top[name] + 1, self.most))
                rates.clear()

    def state_dict(self) -> dict[str, Any]:
        """Return the positions, the top of each range and the counted success rates."""
        return {**super().state_dict(), "top": self.top, "rates": self.rates}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        super().load_state_dict(state)
        self.top = dict(state["top"])
        self.rates = {name: list(rates) for name, rates in state["rates"].items()}
