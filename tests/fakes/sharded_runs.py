"""A run whose weights are held in parts; run by test_sharded.

`python sharded_runs.py OUT POLICY STEPS [CHANGES]` trains, or goes on with what is there, by as many processes as were
started. CHANGES: other settings, as JSON.
"""

import json
import os
import sys
from pathlib import Path

from small_runs import small

from agentgym.trainers import resume, train

if __name__ == "__main__":
    out, model, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
    number = int(os.environ["WORLD_SIZE"])
    if Path(out, "summary.json").exists():
        resume(out, steps=steps, processes=number)
    else:
        options = {"tasks_per_step": 4, "sft_batch": 4, "sft_episodes": 4, "steps": steps, "sharding": "fsdp2"}
        changes = json.loads(sys.argv[4]) if sys.argv[4:] else {}
        train(small(out, model, processes=number, **{**options, **changes}))
