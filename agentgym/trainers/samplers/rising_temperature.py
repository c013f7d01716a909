"""A task sampler that raises the temperature for tasks that are always solved (ERPO)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from agentgym.errors import BadConfig
from agentgym.rollout.draw import Draw
from agentgym.trainers.samplers.history import SuccessHistory
from agentgym.trainers.samplers.interface import GroupOutcome, TaskSource, sampler
from agentgym.trainers.seam import Within


@sampler("rising_temperature")
class RisingTemperature(SuccessHistory):
    """Draws every task in turn; a task's temperature rises if all attempts succeed, and otherwise returns to the run's.

    Source: ERPO (exploration-encouraging sampling of residual prompts): prompts that are always solved give no training
    signal, and a higher temperature finds replies that fail. After n such results in a row, the temperature is the
    run's times 1 + n * `rise`, and at most `most` times the run's. We did not find the paper's schedule; this one is
    ours. Only tasks that repeat are affected. The loss scores every token at its sampling temperature.
    """

    def __init__(
        self,
        sources: Sequence[TaskSource],
        *,
        rise: Annotated[float, Within(0, 10)] = 0.1,
        most: Annotated[float, Within(1, 10)] = 1.5,
    ) -> None:
        super().__init__(sources, "rising_temperature", 1.0)
        if not rise or most == 1:
            raise BadConfig("sampler 'rising_temperature' never raises one with rise 0 or most 1: use sampler 'uniform'")
        self.rise, self.most = rise, most
        self.streaks: dict[str, dict[str, int]] = {name: {} for name in self.past}
        """Number of consecutive results in which all attempts succeeded, by environment and task id."""

    def draw(self, step: int, number: int, *, run: Any) -> list[Draw]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the next tasks, each with its temperature."""
        return [self._at(draw, run.config.temperature) for draw in super().draw(step, number)]

    def _at(self, draw: Draw, temperature: float) -> Draw:
        streak = self.streaks.get(draw.env, {}).get(draw.task.id, 0)
        if not streak:
            return draw
        return replace(draw, sampling={"temperature": temperature * min(1 + streak * self.rise, self.most)})

    def update(self, groups: Sequence[GroupOutcome]) -> None:
        """Update the history and the streaks with the outcomes of a step."""
        super().update(groups)
        for group in groups:
            if group.env in self.streaks and group.successes:
                before = self.streaks[group.env].get(group.task_id, 0)
                self.streaks[group.env][group.task_id] = before + 1 if all(group.successes) else 0

    def measures(self, step: int) -> dict[str, Mapping[str, float]]:
        """Return the measures of the history, and the number of tasks with a raised temperature."""
        return {
            **super().measures(step),
            "tasks_raised": {env: sum(n > 0 for n in streaks.values()) for env, streaks in self.streaks.items()},
        }

    def state_dict(self) -> dict[str, object]:
        """Return the positions, the history and the streaks."""
        return {**super().state_dict(), "streaks": self.streaks}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        super().load_state_dict(state)
        self.streaks = {env: dict(streaks) for env, streaks in state["streaks"].items()}
