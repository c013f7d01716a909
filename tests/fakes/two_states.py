"""A run whose reward, selection and credit keep a number of their own in each process; run by test_several_processes.

`python two_states.py OUT` trains, `python two_states.py OUT+` goes on with what is there, with RANK and WORLD_SIZE set.
"""

import sys

import numpy as np
from task_file import File

import agentgym
from agentgym.trainers import TrainConfig, resume, train

STEPS = 3


class Lucky(File):
    """Pays a random sum."""

    def act(self, action):
        return self.reward("Paid.", luck=float(self.np_random.random()))


agentgym.register("me/Lucky-v0", Lucky, horizon=1, shaping={"luck": 0.5})


@agentgym.credit("of_each_process")
def of_each_process(group, *, state, run):
    """Return by the groups that this process has seen, each process counting in steps of its own."""
    counted = state.get("counted", 0)
    if hasattr(run, "rank"):  # not the group that is made up to try it
        counted = state["counted"] = counted + 1 + 10 * run.rank
    return [np.full(len(episode.turns), counted * episode.reward) for episode in group]


def counted(state, run):
    """Count what this process has seen, in steps of its own."""
    state["counted"] = state.get("counted", 0) + 1 + 10 * run.rank
    return state["counted"]


@agentgym.reward("paid_by_process")
def paid_by_process(episodes, *, state, run):
    """Pay what this process has counted."""
    return [{"counted": float(counted(state, run))} for _ in episodes]


@agentgym.select("counted_by_process")
def counted_by_process(groups, *, state, run):
    """Every group; its episodes are told how often this process selected."""
    number = counted(state, run)
    for turn in (turn for group in groups for episode in group for turn in episode.turns):
        turn.extra["selected"] = float(number)
    return list(groups)


def small(out, steps=STEPS):
    """Return a run of two tasks a step, one a process."""
    return TrainConfig(
        env=f"{__name__}:me/Lucky-v0", out=out, processes=2, steps=steps, tasks_per_step=2, group_size=2, turn_tokens=4,
        eval_every=0, test_tasks=0, keep_episodes=1000, threads=1, checkpoint_every=1,
        reward=("paid_by_process",), select="counted_by_process", credit="of_each_process",
        policy_width=64, policy_layers=1, policy_episodes=20, vocabulary=300,
    )  # fmt: skip


if __name__ == "__main__":
    out = sys.argv[1]
    if out.endswith("+"):
        resume(out[:-1], steps=STEPS)
    else:
        train(small(out, STEPS if out.endswith("whole") else 1))
