"""A run whose episodes branch off, by as many processes as were started; run by test_branching_runs.

`python two_trees.py OUT MODEL` trains, `python two_trees.py OUT+ MODEL` goes on with what is there.
"""

import sys

from small_runs import small

from agentgym.trainers import resume, train


def branching(out, model, **changes):
    """Return a run with ARPO's branches."""
    options = {
        "branching": "arpo", "branching_options": {"base": 0.9, "tokens": 2}, "credit": "arpo", "credit_options": {},
        "group_size": 4, "tasks_per_step": 2,
    }  # fmt: skip
    return small(out, model, **{**options, **changes})


if __name__ == "__main__":
    out, model = sys.argv[1:]
    if out.endswith("+"):
        resume(out[:-1])
    else:
        train(branching(out, model, processes=2))
