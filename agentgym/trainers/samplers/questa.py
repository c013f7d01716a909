"""A task sampler that adds a part of the solution to the prompt, less in every stage."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from agentgym.core.hints import Hint
from agentgym.errors import BadConfig
from agentgym.rollout.draw import Draw
from agentgym.trainers.samplers.interface import TaskSource, Uniform, sampler
from agentgym.trainers.seam import Within

Share = Annotated[float, Within(0, 1)]


@sampler("questa", requires=("hint",))
class QuestA(Uniform):
    """Draws tasks with a hint whose level shrinks from stage to stage; training keeps the hint in the prompt.

    In stage i, of `every` steps each and counted from 0, the level is `level` * `shrink`^i; after `stages` of them there are
    no hints. The level is a function of the step. A `share` of the tasks, evenly spread, gets hints. Source: QuestA
    (arXiv 2507.13266): the first 50 % of a solution after the question, then 25 %, as two stages of GRPO on problems that
    the base model rarely solves; choose such tasks by the environment's difficulty. The length of the stages, and
    everything after the last one, is ours.
    """

    def __init__(
        self,
        sources: Sequence[TaskSource],
        *,
        level: Share = 0.5,
        shrink: Share = 0.5,
        every: Annotated[int, Within(1)] = 100,
        stages: Annotated[int, Within(1, 1000)] = 2,
        share: Share = 1.0,
    ) -> None:
        super().__init__(sources)
        if not level or not share:
            raise BadConfig(f"sampler 'questa' has level {level:g} and share {share:g}: no task has a hint; use 'uniform'")
        if not shrink and stages > 1:
            raise BadConfig(f"sampler 'questa' has shrink 0 and stages {stages}: only the first has a hint; use stages 1")
        self.level, self.shrink, self.every, self.stages, self.share = level, shrink, every, stages, share
        self.due = dict.fromkeys(self.sources, 0.0)
        """Credit of hinted tasks per environment."""

    def draw(self, step: int, number: int) -> list[Draw]:
        """Return the next tasks, with the hint of the step."""
        level = self.level_at(step)
        return [self._hinted(draw, level) for draw in super().draw(step, number)]

    def level_at(self, step: int) -> float:
        """Return the hint level of a step, counted from 0."""
        stage = step // self.every
        return self.level * self.shrink**stage if stage < self.stages else 0.0

    def measures(self, step: int) -> dict[str, float]:
        """Return the level of the step's hints; 0 without any."""
        return {"hint_level": self.level_at(step)}

    def _hinted(self, draw: Draw, level: float) -> Draw:
        self.due[draw.env] += self.share
        if self.due[draw.env] < 1 - 1e-9:
            return draw
        self.due[draw.env] -= 1
        return replace(draw, hint=Hint(level, in_training=True)) if level else draw

    def state_dict(self) -> dict[str, object]:
        """Return the state of each environment."""
        return {**super().state_dict(), "due": self.due}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore that state."""
        super().load_state_dict(state)
        self.due = dict(state["due"])
