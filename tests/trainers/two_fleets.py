"""A run over the servers of AGENTGYM_TEST_SERVERS by as many processes as were started; run by test_fleet_runs.

`python two_fleets.py OUT`, with RANK and WORLD_SIZE set, AGENTGYM_TEST_MODEL too.
"""

import os
import sys
from dataclasses import replace

import two_trainers  # which lets the first process begin

from agentgym.trainers import train

if __name__ == "__main__":
    from small_runs import small

    config = small(
        sys.argv[1], os.environ["AGENTGYM_TEST_MODEL"], engine=f"vllm:{os.environ['AGENTGYM_TEST_SERVERS']}", steps=2,
        tasks_per_step=4, lr=1e-2, credit="turn_mc", credit_options={},
    )  # fmt: skip
    assert two_trainers.RANK in "01"
    train(replace(config, processes=2))
