"""A rollout worker for TRL's AsyncGRPOTrainer: it plays episodes during training and queues one sample per turn, each
with the turn's advantage.

    from agentgym.integrations.trl_async import RolloutWorker
    worker = RolloutWorker("rlvr/Search-v0", lambda: agentgym.engine("openai:http://localhost:8000/v1"), credit="gigpo")
    AsyncGRPOTrainer(model, reward_funcs=[…], train_dataset=…, rollout_worker=worker)

The engine is the vLLM server whose weights TRL updates. Samples share their prefixes, which TRL's packing computes once.
"""

# trl is typed in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

import asyncio
import itertools
import queue
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from trl.experimental.async_grpo.async_rollout_worker import RolloutSample

from agentgym import registry
from agentgym.agents.spec import AgentSpec
from agentgym.core.seeding import derive
from agentgym.engines import Sampling
from agentgym.episodes.episode import Episode, groups
from agentgym.errors import BadConfig
from agentgym.rollout.collect import jobs_of
from agentgym.rollout.pool import RolloutConfig, RolloutPool
from agentgym.trainers.credit.interface import Credit, resolve
from agentgym.trainers.data.segments import build


class RolloutWorker:
    """Plays groups of episodes in a separate thread, until `ahead` samples wait in the queue.

    Each group is `group_size` attempts at one of the first `tasks` tasks of the split; `groups` of them run at a time. After
    the last task it starts over with other seeds. `engine` is called in that thread and returns the token engine. Further
    options: fields of `AgentSpec`, `horizon`, and options of the environment. Samples carry the policy version that was
    current when their group began.
    """

    def __init__(
        self,
        env: str,
        engine: Callable[[], Any],
        *,
        split: str = "train",
        tasks: int = 512,
        group_size: int = 8,
        groups: int = 8,
        ahead: int = 1024,
        credit: str = "grpo",
        credit_options: Mapping[str, object] | None = None,
        temperature: float = 1.0,
        seed: int = 0,
        agent: str = "chat",
        **options: Any,
    ) -> None:
        self.rollout_buffer: queue.Queue[RolloutSample] = queue.Queue(ahead)
        self.metrics_queue: queue.Queue[dict[str, Any]] = queue.Queue()
        fields = ("prompt", "tools", "history", "window_turns", "observation_tokens", "turn_tokens")
        self.spec = AgentSpec(agent, **{name: options.pop(name) for name in fields if name in options})
        self.horizon: int | None = options.pop("horizon", None)
        self.credit: Credit = resolve(credit, **(credit_options or {}))
        if self.credit.scope != "group" or self.credit.needs:
            raise BadConfig(f"credit {credit!r}: expected one that sees a group at a time and needs nothing else computed")
        self.name = registry.full_id(env)
        self._make, self._make_engine = registry.Maker(env, {**options, "split": split}), engine
        self._tasks, self._size, self._groups = tasks, group_size, groups
        self._temperature, self._seed = temperature, seed
        self._version = 0
        self._beat = time.time()
        self._failure = ""
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the rollout thread."""
        self._ending.clear()
        self._beat = time.time()
        self._thread = threading.Thread(target=self._work, name="agentgym rollouts", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the rollout thread and free all resources."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def update_model_version(self, model_version: int) -> None:
        """Set the policy version of groups that begin from now on."""
        self._version = model_version

    def check_health(self, stale_after_s: float) -> None:
        """Check that the rollout thread is alive, and that episodes still end unless the queue of samples is full.

        Raises:
            RuntimeError: the thread failed, or no episode has ended for `stale_after_s` seconds.
        """
        if self._failure:
            raise RuntimeError(f"the rollouts failed:\n{self._failure}")
        if (age := time.time() - self._beat) > stale_after_s and not self.rollout_buffer.full():
            raise RuntimeError(f"no episode has ended for {age:.0f} s")

    def _work(self) -> None:
        try:
            asyncio.run(self._played())
        except Exception:  # reported by the health check: the trainer has its own thread
            self._failure = traceback.format_exc()

    async def _played(self) -> None:
        engine = self._make_engine()
        sampling = Sampling(temperature=self._temperature, max_tokens=self.spec.reply_tokens)
        agent = self.spec.make(engine, sampling)
        pool = RolloutPool({self.name: self._make}, RolloutConfig(concurrency=self._size))
        try:
            listed = pool.probe(self.name).up_to(self._tasks)
            numbers = itertools.count()
            async with asyncio.TaskGroup() as running:
                workers = [running.create_task(self._serve(pool, agent, listed, numbers)) for _ in range(self._groups)]
                while not self._ending.is_set():
                    await asyncio.sleep(0.05)
                    if any(worker.done() for worker in workers):
                        break
                for worker in workers:
                    worker.cancel()
        except BaseExceptionGroup as failure:
            raise failure.exceptions[0] from failure
        finally:
            pool.close()
            engine.close()

    async def _serve(self, pool: RolloutPool, agent: Any, listed: list[Any], numbers: Iterator[int]) -> None:
        """Play one group after another and queue their samples; all workers share `numbers`, which yields group numbers."""
        while True:
            number, version = next(numbers), self._version
            task = listed[number % len(listed)]
            jobs = jobs_of(self.name, [task], self._size, derive("trl", self._seed, number), self.horizon, f"{number} ")
            episodes = await pool.collect(agent, jobs, progress=self._ended)
            for sample in self._samples(episodes, number, version):
                while True:
                    try:
                        self.rollout_buffer.put_nowait(sample)
                        break
                    except queue.Full:
                        await asyncio.sleep(0.02)

    def _ended(self, episode: Episode) -> None:
        self._beat = time.time()

    def _samples(self, episodes: list[Episode], number: int, version: int) -> list[RolloutSample]:
        """Queue a group's metrics and return a sample for each turn; empty if fewer than two episodes have no fault."""
        won = [episode for episode in episodes if not episode.fault]
        facts = {
            "episodes/success": float(np.mean([bool(e.success) for e in won])) if won else 0.0,
            "episodes/faults": 1.0 - len(won) / len(episodes),
        }
        self.metrics_queue.put(facts)
        if len(won) < 2:
            return []
        samples: list[RolloutSample] = []
        grouped = groups(won)
        for group, arrays in zip(grouped, self.credit(grouped), strict=True):
            for episode, array in zip(group, arrays, strict=True):
                samples += [_sample(episode, row, number, version) for row in build([episode], [array], merge=False)]
        return samples


def _sample(episode: Episode, row: Any, number: int, version: int) -> RolloutSample:
    return RolloutSample(
        prompt=[{"role": "user", "content": episode.instruction}],
        completion=[{"role": "assistant", "content": turn.text} for turn in episode.turns],
        input_ids=row.ids.astype(np.int64),
        completion_mask=row.mask.astype(np.int64),
        old_log_probs=np.nan_to_num(row.logprobs).astype(np.float32),
        advantage=float(row.advantages[row.mask].mean()),
        model_version=version,
        group_id=number,
        metrics={"reward": episode.reward, "turns": float(len(episode.turns))},
        enqueued_at=time.time(),
    )
