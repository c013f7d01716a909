"""Evaluations of a training run: before, between and after its phases, and during training."""

import itertools
from collections.abc import Callable, Coroutine
from typing import Any

from agentgym.episodes.episode import MOST_FAULTS, Episode, fault_share
from agentgym.trainers.learners.step import CannotContinue
from agentgym.trainers.run.assemble import Run
from agentgym.trainers.run.interrupt import uninterrupted
from agentgym.trainers.run.metrics import first_fault, mean, success_by_part
from agentgym.trainers.run.record import Record
from agentgym.trainers.run.tally import Tally


class Measures:
    """Plays the evaluations of a run and stores the results of those that happen once."""

    wait: Callable[[Coroutine[object, object, Any]], Any]
    """Runs a coroutine in the run's event loop."""

    def __init__(
        self, run: Run, record: Record, show: Callable[[str, dict[str, Any]], None], results: dict[str, Any]
    ) -> None:
        self.run, self.record, self.show, self.results, self.config = run, record, show, results, run.config

    def once(self, name: str, number: int) -> None:
        """Evaluate on the first `number` tasks of the test split and store the result under `name`, unless it is there."""
        if name in self.results:
            return
        episodes = self._play("test_split", number, f"{name}/")
        with uninterrupted():  # else a checkpoint could hold the episodes without the result, and they would be repeated
            self.results |= self._store(name, episodes)
            self.results |= {f"{name}_faults": fault_share(episodes), f"{name}_tasks": len(episodes), "tasks": len(episodes)}
        where = {"split": self._split, "tasks": len(episodes)}
        self.show("eval", {"name": name, "success": self.results[name], "faults": self.results[f"{name}_faults"], **where})

    @property
    def _split(self) -> str:
        """The test split; with several environments, their test splits."""
        return " and ".join(dict.fromkeys(env.test_split for env in self.config.mix))

    def valid(self, step: int) -> dict[str, float]:
        """Evaluate on the validation split if due after a step (from 0); return `success_valid` (see `_store`), else {}."""
        if not _due(step + 1, self.config.eval_every):
            return {}
        return self._valid(f"eval/{step + 1}/")

    def valid_sft(self, updates: int) -> dict[str, float]:
        """Publish the weights and evaluate on the validation split if due after `updates`; return as `valid` does."""
        if not _due(updates, self.config.sft_eval_every):
            return {}
        self.wait(self.run.learner.publish(updates))
        return self._valid(f"eval/sft/{updates}/")

    def _valid(self, prefix: str) -> dict[str, float]:
        return self._store("success_valid", self._play("valid_split", self.config.eval_tasks, prefix))

    def _play(self, split: str, number: int, prefix: str) -> list[Episode]:
        """Play the first `number` tasks (0: none) of each environment's split and return the episodes of all processes.

        Raises:
            CannotContinue: all episodes are faults.
        """
        run = self.run
        if not number:
            return []
        draws = [
            draw for name, env in run.rollouts.envs.items() for draw in run.rollouts.tasks(name, getattr(env, split), number)
        ]
        mine = run.share(draws)
        numbers, what = itertools.count(1), f"evaluation on {getattr(self.config, split)}, episode"

        def progress(_: Episode) -> None:
            self.show("progress", {"what": what, "done": next(numbers), "total": len(mine)})

        episodes = run.gather(self.wait(run.rollouts.evaluate(mine, prefix, progress)))
        if episodes and all(episode.fault for episode in episodes):
            raise CannotContinue(f"every episode ended in an infrastructure error, the first with: {first_fault(episodes)}")
        return episodes

    def _store(self, name: str, episodes: list[Episode]) -> dict[str, float]:
        """Store an evaluation's episodes; return the success rate as `name`, and per environment and role as `NAME/PART`."""
        self.record.keep(episodes)
        whole = mean([float(e.success is True) for e in episodes if not e.fault])
        return {name: whole, **{key: share.total / share.number for key, share in success_by_part(name, episodes).items()}}

    def summary(self, tally: Tally) -> dict[str, Any]:
        """Return the run's summary: success of each evaluation, episodes, tokens, faults and settings."""
        config, results = self.config, self.results
        share = tally.faults / max(tally.rollouts, 1)
        shares = [share, *(value for name, value in results.items() if name.endswith("_faults"))]
        names = ("success_before", "success_sft", "success_after")
        return {
            **{name: results[name] for name in names if name in results},
            **{name: value for name, value in results.items() if "/" in name},
            "demonstrations_lost": tally.lost,
            "episodes": tally.played,
            "tokens": tally.tokens,
            "fault_share": share,
            "comparable": max(shares) <= MOST_FAULTS,
            "train_seconds": round(tally.seconds, 1),
            "credit": config.credit,
            "seed": config.seed,
            "steps": config.steps,
            "split": self._split,
            "tasks": (tasks := results.get("tasks", config.test_tasks * len(config.mix))),  # older checkpoints lack it
            "tasks_before": results.get("success_before_tasks", tasks),
        }


def _due(done: int, every: int) -> bool:
    """Return True if `done` is a multiple of `every`; 0 means never."""
    return every > 0 and done % every == 0
