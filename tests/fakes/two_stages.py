"""Runs of stages that keep something of every process, by as many processes as were started; run by test_stages_of_two.

`python two_stages.py OUT MODEL CASE`, with RANK and WORLD_SIZE set.
"""

import sys

from small_runs import small

from agentgym.trainers import train

CASES = {
    "guide": {"select": "guide", "select_options": {"level": 0.5}, "credit": "rloo", "credit_options": {}, "horizon": (1,)},
    "questa": {"sampler": "questa", "sampler_options": {"every": 2}, "credit": "rloo", "credit_options": {}},
    "spec": {"generation": "spec", "credit": "rloo", "credit_options": {}},
    "prune": {
        "generation": "prune", "generation_options": {"turns": 1, "whole": 0.0, "least": 6}, "credit": "rloo",
        "credit_options": {}, "group_size": 6,
    },
    "self_imitation": {
        "select": "self_imitation", "select_options": {"number": 2}, "credit": "off_policy", "credit_options": {},
    },
}  # fmt: skip


def staged(out, model, case, **changes):
    """Return a run of five steps of four groups, which two processes share."""
    return small(
        out,
        model,
        **{"steps": 5, "lr": 1e-3, "minibatches": 1, "group_size": 4, "tasks_per_step": 4, **CASES[case], **changes},
    )


if __name__ == "__main__":
    out, model, case = sys.argv[1:]
    train(staged(out, model, case, processes=2))
