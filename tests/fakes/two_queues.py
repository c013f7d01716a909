"""A training run of two processes that take their groups from one queue, the first of them slowly; run by
test_several_processes.

`python two_queues.py OUT MODEL`: each process writes the tasks that it played to OUT.RANK.
"""

import sys
import time
from pathlib import Path

from two_trainers import RANK

import agentgym
from agentgym.envs.guess_number import GuessNumber
from agentgym.trainers import TrainConfig, train


class Slow(GuessNumber):
    """Takes its time in the first process."""

    def act(self, action):
        time.sleep(0.2 if RANK == "0" else 0)
        with Path(f"{sys.argv[1]}.{RANK}").open("a") as file:
            file.write(f"{self.task.id}\n")
        return self.reward("Paid.", luck=float(self.np_random.random()))


agentgym.register("me/Slow-v0", Slow, horizon=1, shaping={"luck": 0.5})


def small(out, model):
    """Return a run of two steps, of eight tasks each, of which a process plays one at a time."""
    return TrainConfig(
        env=f"{__name__}:me/Slow-v0", model=model, out=out, processes=2, steps=2, tasks_per_step=8, group_size=2,
        turn_tokens=4, eval_every=0, test_tasks=0, select="keep", keep_episodes=1000, threads=1,
        concurrency=2, task_queue=True,
    )  # fmt: skip


if __name__ == "__main__":
    train(small(*sys.argv[1:]))
