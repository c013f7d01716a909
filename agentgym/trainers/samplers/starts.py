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
    """Begins episodes `back` turns before the end of the expert's demonstration; `back` grows as the policy learns.

    Except for a share `whole` of the tasks, the expert first plays the task, with prompts and tokens as the agent would
    have them. The policy continues from `back` turns before the end; the expert's turns before that point are not
    trained on. If the demonstration is too short or fails, the episode begins at the start of the task; its group
    counts only if the demonstration was too short. After every `groups` groups drawn at an environment's current
    `back`, this `back` grows by `stride`, up to `most`, if their success rate is at least `high`. Source: R3 (arXiv
    2402.05808); here success decides when a stage ends.
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
        """Accumulated `whole` per environment; at 1, a task is played from its beginning and 1 is subtracted."""

    async def draw(self, step: int, number: int, *, run: Any) -> list[Draw]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the next tasks; those that this process plays include their starts inside a demonstration."""
        draws = [self._labelled(draw) for draw in super().draw(step, number)]
        places: list[int] = run.share(range(number))
        mine = [place for place in places if draws[place].label]
        starts = await run.demonstrations.judged_starts(
            [draws[place] for place in mine], [self.back[draws[p].env] for p in mine], step
        )
        failed: list[int] = run.gather([place for place, (_, success) in zip(mine, starts, strict=True) if not success])
        for place, (start, _) in zip(mine, starts, strict=True):
            draws[place] = replace(draws[place], start=start)
        for place in failed:
            draws[place] = replace(draws[place], label="")  # in every process, because labels are part of group ids
        return draws

    def _labelled(self, draw: Draw) -> Draw:
        self.due[draw.env] += self.whole
        if self.due[draw.env] >= 1:
            self.due[draw.env] -= 1
            return draw
        return replace(draw, label=f"@{self.back[draw.env]}")

    def update(self, groups: Sequence[GroupOutcome]) -> None:
        """Count successes; after `groups` groups, move the starts further back if the success rate is high enough."""
        for group in groups:
            if group.successes and group.label == f"@{self.back[group.env]}":
                self.rates[group.env].append(sum(group.successes) / len(group.successes))
        for name, rates in self.rates.items():
            if len(rates) >= self.groups:
                further = self.stride if sum(rates) / len(rates) >= self.high else 0
                self.back[name] = min(self.back[name] + further, self.most)
                rates.clear()

    def measures(self, step: int) -> dict[str, Mapping[str, float]]:
        """Return `back`, and `success` and `groups` since the last decision, each by environment."""
        return {"back": self.back, **progress(self.rates)}

    def state_dict(self) -> dict[str, object]:
        """Return the positions in the task streams, `back`, the counted success rates and the accumulated `whole`."""
        return {**super().state_dict(), "back": self.back, "rates": self.rates, "due": self.due}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        super().load_state_dict(state)
        self.back, self.due = dict(state["back"]), dict(state["due"])
        self.rates = {name: list(rates) for name, rates in state["rates"].items()}
