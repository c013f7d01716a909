"""A task sampler that adds a part of the solution to the prompt, and a smaller part in every stage."""

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
    """Draws tasks with a hint that shrinks from stage to stage; training keeps the hint in the prompt.

    Stages have `every` steps and are counted from 0. In stage i the hint's level is `level` * `shrink`^i; after
    `stages` stages there are no hints. A `share` of the tasks, spread evenly, gets hints. Source: QuestA (arXiv
    2507.13266): the first 50 % of a solution after the question, then 25 %, as two stages of GRPO on problems that the
    base model rarely solves; choose such tasks by the environment's difficulty. The length of the stages, and training
    after the last stage, are ours.
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
        """Accumulated share of hinted tasks per environment; when it reaches 1, a task gets a hint and 1 is subtracted."""

    def draw(self, step: int, number: int) -> list[Draw]:
        """Return the next tasks, some of them with a hint at the step's level."""
        level = self.level_at(step)
        return [self._hinted(draw, level) for draw in super().draw(step, number)]

    def level_at(self, step: int) -> float:
        """Return the hint level at `step`; the first step is 0."""
        stage = step // self.every
        return self.level * self.shrink**stage if stage < self.stages else 0.0

    def measures(self, step: int) -> dict[str, float]:
        """Return the level of the step's hints; 0 if there are none."""
        return {"hint_level": self.level_at(step)}

    def _hinted(self, draw: Draw, level: float) -> Draw:
        self.due[draw.env] += self.share
        if self.due[draw.env] < 1 - 1e-9:
            return draw
        self.due[draw.env] -= 1
        return replace(draw, hint=Hint(level, in_training=True)) if level else draw

    def state_dict(self) -> dict[str, object]:
        """Return the positions and the accumulated shares of hinted tasks."""
        return {**super().state_dict(), "due": self.due}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        super().load_state_dict(state)
        self.due = dict(state["due"])
