"""A whole training run by as many processes as were started, of which the first is ahead; run by test_several_processes.

`python two_trainers.py OUT`, with RANK and WORLD_SIZE set.
"""

import os
import sys
import time
from pathlib import Path

from task_file import File

import agentgym
from agentgym.trainers import TrainConfig, train
from agentgym.trainers.run import preflight

RANK = os.environ.get("RANK", "0")


class FirstPays(File):
    """Pays a random sum in the first process and nothing in the others, whose groups are all uniform."""

    def act(self, action):
        return self.reward("Paid.", luck=float(self.np_random.random()) if RANK == "0" else 0.0)


agentgym.register("me/FirstPays-v0", FirstPays, horizon=1, shaping={"luck": 0.5})


def small(out):
    """Return a run of two steps, of two tasks a process."""
    return TrainConfig(
        env=f"{__name__}:me/FirstPays-v0", out=out, processes=2, steps=2, tasks_per_step=4, group_size=2, turn_tokens=4,
        eval_every=0, test_tasks=0, select="refill", select_options={"rounds": 3}, keep_episodes=1000, threads=1,
        async_level=int(os.environ.get("AGENTGYM_TEST_LEVEL", "0")),
    )  # fmt: skip


def after_the_first(config, **options):
    """Look at a run when the first process has begun to write to its folder."""
    while RANK != "0" and not (Path(config.out) / "config.toml").exists():
        time.sleep(0.01)
    return check_run(config, **options)


check_run, preflight.check_run = preflight.check_run, after_the_first

if __name__ == "__main__":
    train(small(sys.argv[1]))
