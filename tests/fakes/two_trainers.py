"""A whole training run by as many processes as were started, whose second process comes late; run by test_several_processes.

`python two_trainers.py OUT`, with RANK and WORLD_SIZE set.
"""

import os
import sys
import time

from task_file import File

import agentgym
from agentgym.trainers import TrainConfig, train

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
        policy_width=64, policy_layers=1, policy_episodes=20, vocabulary=300,
    )  # fmt: skip


if __name__ == "__main__":
    time.sleep(1.0 if RANK != "0" else 0.0)  # the first process waits for the others before it writes
    train(small(sys.argv[1]))
