"""LoRA over two real vLLM servers: adapters arrive under a name of their version, also at one that was killed."""

import asyncio
import json
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("vllm", reason="vLLM is not in this environment: ./dev test-vllm")
pytest.importorskip("peft", reason="peft is not in this environment: ./dev test-vllm")

from served import ADAPTERS, Server, two_servers
from test_lora_served import write_adapter
from test_train_with_vllm import ENV, SIZE, WARM, config, rows

from agentgym.engines import Sampling
from agentgym.engines.hf.engine import HFEngine
from agentgym.engines.vllm_servers.fleet import VLLMFleet
from agentgym.errors import BadConfig
from agentgym.trainers import init_policy, train
from agentgym.trainers.model.policy import PolicySize

pytestmark = pytest.mark.slow  # two servers of their own: minutes, beside the two of test_fleet_served.py
RANK = 5


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    model = init_policy(ENV, tmp_path_factory.mktemp("policy"), size=PolicySize(**SIZE), episodes=100)
    with two_servers(model, ADAPTERS) as started:
        yield started


def adapters(server: Server) -> list[str]:
    listed = json.loads(server.get("/v1/models") or b"{}")["data"]
    return [model["id"] for model in listed if model["parent"]]


def test_three_steps_with_a_server_killed_in_mid_step_and_back(servers: list[Server], tmp_path: Path) -> None:
    first, second = servers
    out, killed = tmp_path / "run", [0]

    def show(kind: str, numbers: dict[str, Any]) -> None:
        if kind == "progress" and numbers["what"] == "step 2, episode" and numbers["done"] == 2 and not killed[0]:
            killed[0] = 1
            first.kill()
            first.start()

    options: dict[str, Any] = {"lora_rank": RANK, "sft_muon": False, "sft_lr": 2e-2, "lr": 1e-2}
    summary = train(
        config(
            first.model, out, engine=f"vllm:{first.url},{second.url}", engine_options={}, steps=3, turn_tokens=24, **options
        ),
        show,
    )
    table = rows(out)
    for row in table:
        columns = ("servers", "servers_lost", "servers_back", "requests_moved", "prefix_hits", "mismatch_mean", "loss")
        print(f"step {row['step']}: " + ", ".join(f"{name} {row[name]:.3g}" for name in columns))
    assert killed[0] and summary["episodes"] == 8 * WARM + 24 and [row["step"] for row in table] == [1, 2, 3]
    assert all(row["faults"] == 0 and math.isfinite(row["loss"]) and row["mismatch_mean"] < 1e-3 for row in table)
    assert sum(row["servers_lost"] for row in table) >= 1, "one more where the machine is busy and the other is silent"
    played: Counter[tuple[str, int]] = Counter()
    versions: dict[str, set[int]] = {}
    for line in (out / "episodes.jsonl").read_text().splitlines():
        episode = json.loads(line)
        step = episode["group_id"].split("/")[0]
        played[episode["group_id"], episode["attempt"]] += 1
        versions.setdefault(step, set()).update(turn["policy_version"] for turn in episode["turns"])
        assert not episode["error"]
    assert set(played.values()) == {1} and sum(key[0].split("/")[0].isdigit() for key in played) == 24
    assert [versions[str(step)] for step in range(1, 4)] == [{WARM + step - 1} for step in range(1, 4)]
    assert f'/{WARM + 3}"' in (second.get("/weight_info") or b"").decode() and len(adapters(second)) == 1
    prompt = list(range(20, 60))
    newest = max((out / "checkpoints").glob("step-*"))

    async def scores() -> tuple[list[float], list[float]]:
        return await HFEngine(str(newest)).score(prompt), await HFEngine(str(first.model)).score(prompt)

    moved, base = asyncio.run(scores())
    assert sum(abs(a - b) for a, b in zip(moved, base, strict=True)) / len(base) > 0.1, "an adapter that moved nothing"


def test_one_that_comes_back_has_the_present_adapter_before_it_serves(servers: list[Server], tmp_path: Path) -> None:
    """Greedy tokens of both are those of hf with the adapter, version by version, and no cached prefix outlives one."""
    first, second = servers
    first.ready()
    folders = [write_adapter(first.model, tmp_path / f"{seed}", seed, rank=RANK) for seed in (1, 2)]
    sampling, prompt = Sampling(temperature=0, max_tokens=24), [*range(20, 200)] * 2

    async def play() -> None:
        made = VLLMFleet(f"{first.url},{second.url}", wait=400.0)
        for version, folder in enumerate([*folders, folders[0]], start=1):
            await made.load_weights(folder, version)
            want = await HFEngine(str(folder)).generate(prompt, sampling, "a")
            for session in (f"a{version}", f"b{version}", f"c{version}", f"d{version}"):
                got = await made.generate(prompt, sampling, session)
                assert (got.ids, got.policy_version) == (want.ids, version)
            assert adapters(first) == adapters(second) and len(adapters(first)) == 1
        first.kill()
        await made.load_weights(folders[1], 4)
        want = await HFEngine(str(folders[1])).generate(prompt, sampling, "a")
        first.start()
        async with asyncio.timeout(400):
            while len(made.members.serving) < 2:
                await asyncio.sleep(0.5)
        assert adapters(first) == adapters(second)
        made.members.leave_out(made.members.all[1], 0, "so that the other has to answer")
        got = await made.generate(prompt, sampling, "e")
        assert (got.ids, got.policy_version) == (want.ids, 4) and made.met["servers back"] >= 1
        made.close()

    asyncio.run(play())


def test_a_rank_that_the_servers_have_no_room_for_is_refused(servers: list[Server], tmp_path: Path) -> None:
    async def play() -> None:
        made = VLLMFleet(f"{servers[0].url},{servers[1].url}")
        try:
            await made.load_weights(write_adapter(servers[0].model, tmp_path / "wide", 3, rank=9), 1)
        finally:
            made.close()

    with pytest.raises(BadConfig, match=r"weights cannot be sent to .*rank 9"):
        asyncio.run(play())
