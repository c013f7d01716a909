"""The training run: a policy, an imitation warm start, then steps of rollouts, credit and updates."""

# torch, transformers and accelerate are typed in parts only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false

import itertools
import signal
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object

from agentgym import registry
from agentgym.episode import MOST_FAULTS, Episode, Group, fault_share, groups
from agentgym.errors import BadConfig, EngineDead
from agentgym.rollout import runner
from agentgym.seeding import derive
from agentgym.trainers import fitting, lora, parts, precision, preflight, sync, warm
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.credit import resolve
from agentgym.trainers.credit.gigpo import ANCHORS, anchor_statistics
from agentgym.trainers.draws import Draw, Draws, first_tasks
from agentgym.trainers.interrupt import uninterrupted
from agentgym.trainers.metrics import first_fault, mean, merged, played, shares, uniform
from agentgym.trainers.optimizers import optimizers
from agentgym.trainers.policy import load_policy, set_threads
from agentgym.trainers.preflight import config_of
from agentgym.trainers.record import Record
from agentgym.trainers.step import CannotGoOn, imitate, reinforce

WARM_TASKS = 1_000_000_000
"""Number of the first task shown by the expert: reinforcement learning counts from 0, so it meets other tasks."""
LOST_STEPS = 3
"""So many steps one after another in which every episode is a fault end the run."""

Show = Callable[[str, dict[str, Any]], None]
"""Called with `start`, `progress`, `warm`, `step`, `eval` or `end`, and the numbers to show."""


def train(config: TrainConfig, show: Show | None = None) -> dict[str, Any]:
    """Run a training run in a fresh folder and return its summary; Ctrl-C leaves a checkpoint to resume from."""
    accelerator = _accelerator(config)
    config = preflight.looked_at(config, fresh=accelerator.is_main_process)  # which may fill the folder before others look
    config = replace(config, precision=precision.resolve(config.precision, accelerator.device))
    if accelerator.is_main_process:
        for caution in preflight.cautions(config):
            warnings.warn(caution, stacklevel=2)
        fitting.check(config)
    record = Record.fresh(config, accelerator.is_main_process)
    try:
        run = _Run(accelerator, record, None, show or _silent)
    except BaseException:
        record.discard()
        raise
    return run.run()


def resume(folder: str | Path, show: Show | None = None, *, steps: int | None = None) -> dict[str, Any]:
    """Go on with an interrupted run from its newest checkpoint: on a CPU to the last digit as if it had not stopped.

    `steps` asks for more updates than the run was started with: it goes on as a run of so many, whose schedules are
    functions of the step and of their number. Where the learning rate is constant, it is the very run that would have been.
    """
    accelerator = _accelerator(config_of(folder))
    record, state = Record.resumed(folder, accelerator.is_main_process, steps=steps)
    return _Run(accelerator, record, state, show or _silent).run()


def _accelerator(config: TrainConfig) -> Accelerator:
    accelerator = Accelerator(cpu=not torch.cuda.is_available())  # or accelerate would not join processes on a CPU
    if accelerator.num_processes != config.processes:
        raise BadConfig(
            f"processes is {config.processes}, but {accelerator.num_processes} were started: run it with `agentgym train`, "
            f"which starts them, or with `accelerate launch --num_processes {config.processes} -m agentgym train …`"
        )
    return accelerator


class _Run:
    """One run: what it is made of, and the loop."""

    def __init__(self, accelerator: Accelerator, record: Record, state: dict[str, Any] | None, show: Show) -> None:
        self.accelerator, self.record, self.config = accelerator, record, record.config
        self.show = show if accelerator.is_main_process else _silent
        config = self.config
        torch.manual_seed(config.seed)
        self.interrupted: list[bool] = []
        self.position = 0 if state is None else int(state["position"])  # updates so far, warm start included
        self.end: tuple[int, int] | None = (
            None if state is None else state.get("end")
        )  # of the files before the last measure
        self.results: dict[str, Any] = {} if state is None else state["results"]
        self.seconds: float = 0.0 if state is None else state["seconds"]
        self.played: int = 0 if state is None else state["episodes"]
        self.lost: int = 0 if state is None else state.get("demonstrations_lost", 0)
        self.lost_steps, self.fault = 0, ""  # one after another in this sitting, in which every episode was a fault
        fresh = [0] * config.processes
        self.drawn: list[int] = fresh if state is None else state.get("drawn", fresh)
        """By process: the place in a file's split where its next step goes on."""
        self.rollouts: int = 0 if state is None else state.get("rollouts", 0)
        self.faults: int = 0 if state is None else state.get("faults", 0)
        self.draws = Draws(
            registry.make(config.env, **config.env_options), config.seed, config.train_split or "train"
        )  # checks the options
        self.credit = resolve(config.credit, **config.credit_options)
        folder = (
            parts.policy_folder(self.accelerator, config, self.record.folder) if state is None else Path(state["folder"])
        )
        self.model, self.tokenizer = load_policy(folder, precision.DTYPES[config.precision])
        set_threads(self.model, config.threads)
        if config.lora_rank and state is None:  # a checkpoint has its adapters
            lora.add_adapters(self.model, config)
        self.model.to(accelerator.device)
        self.engine = parts.engine(config, folder, self.model, self.tokenizer)
        try:
            self._put_together(state)
        except BaseException:
            self.engine.close()
            raise

    def _put_together(self, state: dict[str, Any] | None) -> None:
        """Make what goes with model and engine."""
        config = self.config
        self.weights = None if config.served else sync.weight_sync(self.model, self.engine)
        self.agent = parts.agent(config, self.engine, self.tokenizer, config.temperature)
        self.learner = parts.learner(self.accelerator, config, self.model)
        if self.learner.masters is not None and state is not None:
            self.learner.masters.load_state_dict(state["masters"])
        self.warm_steps = config.warm_steps
        self._optimizers(None if state is None else state["optimizers"])

    # The loop

    def run(self) -> dict[str, Any]:
        """Run to the end and return the summary."""
        config = self.config
        start: dict[str, Any] = {"position": self.position, "warm_steps": self.warm_steps, "steps": config.steps}
        start["parameters"] = sum(p.numel() for p in self.model.parameters())
        start["trained"] = sum(p.numel() for p in self.model.parameters() if p.requires_grad)
        start["correction"] = config.mismatch_cap if config.differs and config.steps else None
        method = self.accelerator.unwrap_model(self.learner.scorer).method
        start |= {"attention": method, "precision": config.precision}
        self.show("start", start)
        if self.accelerator.num_processes > 1:  # processes stop together, at the end of a step
            signal.signal(signal.SIGINT, self._interrupt)
        with runner() as self.loop, parts.closing(self.engine, self.weights):
            try:
                self._sync()
                self._measure("success_before")
                while self.position < self.warm_steps:
                    self._timed(self._warm_step, every=20 * config.checkpoint_every)
                self._measure("success_warm")
                self.learner.reference = parts.reference(self.accelerator, self.record, self.model, self.tokenizer, method)
                while self.position < self.warm_steps + config.steps:
                    self._timed(self._step, every=config.checkpoint_every)
                self.end = self.end if "success_after" in self.results else self.record.offsets()
                self._measure("success_after")
            except KeyboardInterrupt:
                self._checkpoint()
                raise
            except (CannotGoOn, EngineDead) as error:
                raise (BadConfig if isinstance(error, CannotGoOn) else EngineDead)(
                    f"training stopped at update {self.position + 1}: {error}. The last good checkpoint is "
                    f"{self.record.newest() or 'none'}; go on with: agentgym train --resume {self.record.folder}"
                ) from error
        self._checkpoint()
        summary = self._summary()
        if self.accelerator.num_processes > 1:  # who leaves while another still listens takes it down
            self.accelerator.wait_for_everyone()
            self.accelerator.end_training()
        return summary

    def _interrupt(self, *_: Any) -> None:
        self.interrupted.append(True)

    def _timed(self, step: Callable[[], None], every: int) -> None:
        """Take a step, count its time, and write a checkpoint when one is due."""
        started = time.perf_counter()
        step()
        self.seconds += time.perf_counter() - started
        if any(self._gathered([bool(self.interrupted)])):
            raise KeyboardInterrupt
        done = self.position - (self.warm_steps if self.position > self.warm_steps else 0)
        if done % every == 0 or self.position == self.warm_steps:
            self._checkpoint()

    def _warm_step(self) -> None:
        """Imitate one batch of fresh demonstrations."""
        config, started = self.config, time.perf_counter()
        self.show("progress", {"what": "SFT warm start, update", "done": self.position + 1, "total": self.warm_steps})
        first = self.position * config.warm_batch
        draws = self._draws(first if self.draws.finite else WARM_TASKS + first, config.warm_batch, "demonstrations")
        episodes = self.loop.run(warm.demonstrate(self.agent, config, draws, self.position))
        with uninterrupted():
            episodes = self._demonstrations(episodes)
            self.learner.set_lr(config.warm_lr * warm.schedule(self.position, self.warm_steps))
            metrics = imitate(self.learner, episodes, config)
            self.position += 1
            self.played += sum(self._gathered([len(episodes)]))
            if self.position % 20 == 0 or self.position == self.warm_steps:
                row: dict[str, Any] = {"step": self.position, "phase": "warm", **metrics}
                row["demonstrations_lost"] = self.lost
                row["seconds"] = time.perf_counter() - started
                row["eta_seconds"] = self.seconds / self.position * (self.warm_steps - self.position)
                self.record.log(row)
                self.show("warm", row)
            if self.position == self.warm_steps:
                self._optimizers(None)
                self._sync()

    def _demonstrations(self, episodes: list[Episode]) -> list[Episode]:
        """Return the faultless ones; count the others over all processes. Raises CannotGoOn where they are too many."""
        found = self._gathered([(len(episodes), sum(e.fault for e in episodes), first_fault(episodes))])
        self.lost += sum(lost for _, lost, _ in found)
        shown = self.played + self.lost + sum(count - lost for count, lost, _ in found)
        if warm.too_many_lost(self.lost, shown, self.config):
            raise CannotGoOn(
                f"{self.lost} of {shown} demonstrations were lost to faults, more than {warm.MOST_LOST:.0%}; the last one: "
                f"{[reason for _, _, reason in found if reason][-1]}"
            )
        return [episode for episode in episodes if not episode.fault]

    def _step(self) -> None:
        """Play groups of episodes, credit their turns, update the policy."""
        config, step, started = self.config, self.position - self.warm_steps, time.perf_counter()
        timings: dict[str, float] = {}
        found, episodes, dropped, reached = self._groups(step, timings)
        rolled = time.perf_counter()
        self.show("progress", {"what": f"step {step + 1}, updating on", "done": len(found), "total": config.tasks_per_step})
        with uninterrupted():
            self.learner.set_lr(config.lr_at(step))
            together = any(self._gathered([bool(found)]))  # who has no group still takes part
            metrics = reinforce(self.learner, found, self.credit, config, step) if together else {}
            self.position += 1
            self.drawn = self._gathered([reached])
            self._note_faults(episodes)
            self._sync()
            row: dict[str, Any] = {**played(episodes), "groups_dropped": dropped, "episodes": len(episodes)}
            row |= shares(episodes, timings.get("world", 0.0), rolled - started, time.perf_counter() - rolled)
            anchor = str(config.credit_options.get("anchor"))  # a credit of a user's may mean something else by it
            row |= anchor_statistics(found, anchor if anchor in ANCHORS else "observation") | metrics
            row = {"step": step + 1, "phase": "rl", **merged(self._gathered([row]))}
            number = row.pop("episodes")
            self.played, self.rollouts = self.played + number, self.rollouts + number
            self.faults += row["faults"]
            row["fault_share"] = row["faults"] / max(number, 1)
            self.record.keep(episodes[: config.keep_episodes])
            if config.eval_every and (step + 1) % config.eval_every == 0:
                found_valid = self._evaluate(config.valid_split, config.eval_tasks, f"eval/{step + 1}/")
                row["success_valid"] = self._kept(found_valid)
            row["seconds"] = time.perf_counter() - started
            row["eta_seconds"] = row["seconds"] * (config.steps - step - 1)
            self.record.log(row)
            self.show("step", row)
        if self.lost_steps >= LOST_STEPS:
            self._checkpoint()  # with the position behind the steps that were lost: --resume goes on with other tasks
            raise CannotGoOn(f"every episode of the last {LOST_STEPS} steps ended in a fault, the last with: {self.fault}")

    def _note_faults(self, episodes: list[Episode]) -> None:
        """Count the steps, one after another, in which the episodes of all processes are faults."""
        found = self._gathered([(any(not e.fault for e in episodes), first_fault(episodes))])
        self.lost_steps = 0 if any(good for good, _ in found) else self.lost_steps + 1
        self.fault = next((reason for _, reason in found if reason), "")

    def _groups(self, step: int, timings: dict[str, float]) -> tuple[list[Group], list[Episode], int, int]:
        """Return the groups to train on, all episodes, how many groups were dropped, and the place of the next task."""
        config = self.config
        rounds = config.refill_rounds if config.dynamic_sampling == "refill" else 1
        # numbers of generated tasks are a function of the step; of a file none is left out, so the checkpoint holds them
        place = self.drawn[self.accelerator.process_index]
        first = place if self.draws.finite else step * config.tasks_per_step * rounds
        kept: list[Group] = []
        episodes: list[Episode] = []
        dropped = 0
        for _ in range(rounds):
            wanted = config.tasks_per_step - len({group[0].group_id for group in kept}) * self.accelerator.num_processes
            if wanted <= 0:
                break
            fresh = self.loop.run(self._play(self._draws(first, wanted, "train"), step, timings))
            first += wanted
            episodes += fresh
            for group in groups(fresh):
                if len(group) < 2 or (config.dynamic_sampling != "keep" and uniform(group)):
                    dropped += 1
                else:
                    kept.append(group)
        return kept, episodes, dropped, first

    async def _play(self, draws: list[Draw], step: int, timings: dict[str, float]) -> list[Episode]:
        config = self.config
        return await parts.episodes(
            self.agent,
            config,
            timings,
            tasks=[draw.task for draw in draws],
            repeats=[draw.epoch for draw in draws],
            attempts=config.group_size,
            seed=derive("train", config.seed, step),
            horizon=config.horizon_at(step),
            group_prefix=f"{step + 1}/",
            progress=self._counting(f"step {step + 1}, episode", len(draws) * config.group_size),
        )

    def _counting(self, what: str, total: int) -> Callable[[Episode], None]:
        """Return what shows how many episodes of this process's share have ended."""
        numbers = itertools.count(1)
        return lambda _: self.show("progress", {"what": what, "done": next(numbers), "total": total})

    # Measuring

    def _measure(self, name: str) -> None:
        """Measure success on the test split, once per run."""
        if name not in self.results:
            episodes = self._evaluate(self.config.test_split, self.config.test_tasks, f"{name}/")
            with uninterrupted():  # or a checkpoint would hold the episodes without the result, and they would come twice
                self.results |= {name: self._kept(episodes), f"{name}_faults": fault_share(episodes)}
            where = {"split": self.config.test_split, "tasks": self.config.test_tasks}
            self.show(
                "eval", {"name": name, "success": self.results[name], "faults": self.results[f"{name}_faults"], **where}
            )

    def _evaluate(self, split: str, tasks: int, prefix: str) -> list[Episode]:
        """Play the first tasks of a split and return the episodes of all processes."""
        config = self.config
        if not tasks:
            return []
        chosen = first_tasks(registry.make(config.env, **{**config.env_options, "split": split}), tasks)
        chosen = chosen[self.accelerator.process_index :: self.accelerator.num_processes]
        episodes = self.loop.run(
            parts.episodes(
                parts.agent(config, self.engine, self.tokenizer, config.test_temperature),
                config,
                tasks=chosen,
                seed=derive("evaluate", config.seed),
                group_prefix=prefix,
                progress=self._counting(f"evaluation on {split}, episode", len(chosen)),
            )
        )
        episodes = self._gathered(episodes)
        _check(episodes)
        return episodes

    def _kept(self, episodes: list[Episode]) -> float:
        """Keep the episodes of an evaluation and return their success."""
        self.record.keep(episodes)
        return mean([float(e.success is True) for e in episodes if not e.fault])

    def _gathered(self, items: list[Any]) -> list[Any]:
        """Return the items of all processes."""
        return items if self.accelerator.num_processes == 1 else gather_object(items)

    def _summary(self) -> dict[str, Any]:
        config = self.config
        fault_share = self.faults / max(self.rollouts, 1)
        summary = {
            "success_before": self.results["success_before"],
            "success_warm": self.results["success_warm"],
            "success_after": self.results["success_after"],
            "demonstrations_lost": self.lost,
            "episodes": self.played,
            "fault_share": fault_share,
            "comparable": max(fault_share, *self._fault_shares()) <= MOST_FAULTS,
            "train_seconds": round(self.seconds, 1),
            "credit": config.credit,
            "seed": config.seed,
            "steps": config.steps,
            "split": config.test_split,
            "tasks": config.test_tasks,
        }
        self.record.write("summary.json", summary)
        self.show("end", summary)
        self.record.close()
        return summary

    def _fault_shares(self) -> list[float]:
        """Return the shares of faults in the measurements so far."""
        return [0.0, *(value for name, value in self.results.items() if name.endswith("_faults"))]

    # Parts

    def _optimizers(self, saved: list[Any] | None) -> None:
        """Make the optimizers of the phase the run is in."""
        config, updated = self.config, self.learner.masters or self.model
        if self.position < self.warm_steps:
            made = optimizers(updated, config.warm_lr, muon=config.warm_muon, kind=config.optimizer)
        else:
            decay = config.weight_decay
            made = optimizers(updated, config.lr, muon=config.muon, weight_decay=decay, kind=config.optimizer)
        self.learner.optimizers = [self.accelerator.prepare(optimizer) for optimizer in made]
        for optimizer, state in zip(self.learner.optimizers, saved or [], strict=False):
            optimizer.load_state_dict(state)

    def _sync(self) -> None:
        if self.weights is not None:  # a server was proved to serve these very weights, and none may be updated
            self.loop.run(self.weights.push(self.position))

    def _draws(self, first: int, number: int, stream: str) -> list[Draw]:
        """Return training tasks by place: of several processes, this one's share."""
        return self.draws.at(
            range(first, first + number)[self.accelerator.process_index :: self.accelerator.num_processes], stream
        )

    def _checkpoint(self) -> None:
        state = {
            "position": self.position,
            "end": self.end,
            "results": self.results,
            "seconds": self.seconds,
            "episodes": self.played,
            "demonstrations_lost": self.lost,
            "drawn": self.drawn,
            "rollouts": self.rollouts,
            "faults": self.faults,
            "optimizers": [optimizer.state_dict() for optimizer in self.learner.optimizers],
            "masters": self.learner.masters.state_dict() if self.learner.masters else {},
        }
        self.record.checkpoint(self.model, self.tokenizer, state)


def _check(episodes: list[Episode]) -> None:
    """Raise CannotGoOn where there is nothing but faults."""
    if episodes and all(episode.fault for episode in episodes):
        raise CannotGoOn(f"every episode ended in a fault, the first with: {first_fault(episodes)}")


def _silent(kind: str, numbers: dict[str, Any]) -> None:
    del kind, numbers
