"""A run over the servers of AGENTGYM_TEST_SERVERS by as many processes as were started; run by test_fleet_runs.

`python two_fleets.py OUT`, with RANK and WORLD_SIZE set, AGENTGYM_TEST_MODEL and AGENTGYM_TEST_SHARDING too. With
AGENTGYM_TEST_LORA=R an adapter of that rank is trained. With AGENTGYM_TEST_FULL=N the disk is full from the Nth tensors on
that are written for the servers.
"""

import itertools
import os
import sys
from dataclasses import replace
from pathlib import Path

import two_trainers  # which lets the first process begin

from agentgym.engines import shards
from agentgym.trainers import train

LORA = int(os.environ.get("AGENTGYM_TEST_LORA", "0"))
FULL = int(os.environ.get("AGENTGYM_TEST_FULL", "0"))


def filling(path, metas, tensors, write=shards.write, files=itertools.count(1)):
    """Write the tensors, or take one of them and find the disk full."""
    if next(files) >= FULL:
        next(tensors)
        raise OSError(28, "No space left on device", str(path))
    write(path, metas, tensors)


if __name__ == "__main__":
    from small_runs import small

    config = small(
        sys.argv[1], os.environ["AGENTGYM_TEST_MODEL"], engine=f"vllm:{os.environ['AGENTGYM_TEST_SERVERS']}", steps=2,
        tasks_per_step=4, lr=1e-2, credit="turn_mc", credit_options={},
    )  # fmt: skip
    assert two_trainers.RANK in "01"
    if FULL and two_trainers.RANK == "0":
        shards.write = filling
    try:
        lora = {"lora_rank": LORA, "sft_muon": not LORA}
        train(replace(config, processes=2, sharding=os.environ["AGENTGYM_TEST_SHARDING"], **lora))
    except OSError as error:  # in both: whoever did not hear of it would wait for ever
        assert FULL, error
        Path(sys.argv[1], f"said-{two_trainers.RANK}").write_text(str(error))
