"""Training over two real vLLM servers, of which one is killed in the middle of a step and comes back."""

import asyncio
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("vllm", reason="vLLM is not in this environment: ./dev test-vllm")

from served import WEIGHTS, Server, two_servers
from test_train_with_vllm import ENV, SIZE, WARM, config, rows

from agentgym.cli import main
from agentgym.engines import Sampling
from agentgym.engines.hf.engine import HFEngine
from agentgym.engines.vllm_servers.fleet import VLLMFleet
from agentgym.trainers import init_policy, train
from agentgym.trainers.model.policy import PolicySize


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Any:
    model = init_policy(ENV, tmp_path_factory.mktemp("policy"), size=PolicySize(**SIZE), episodes=100)
    with two_servers(model, WEIGHTS) as started:
        yield started


def test_five_steps_with_a_server_killed_in_mid_step(servers: list[Server], tmp_path: Path) -> None:
    first, second = servers
    out, urls = tmp_path / "run", f"{first.url},{second.url}"
    killed = [0]

    def show(kind: str, numbers: dict[str, Any]) -> None:
        if kind == "progress" and numbers["what"] == "step 3, episode" and numbers["done"] == 2 and not killed[0]:
            killed[0] = 1
            first.kill()

    summary = train(config(servers[0].model, out, engine=f"vllm:{urls}", engine_options={}, steps=5, turn_tokens=24), show)
    table = rows(out)
    for row in table:
        columns = ("servers", "servers_lost", "requests_moved", "prefix_hits", "mismatch_mean", "loss")
        print(f"step {row['step']}: " + ", ".join(f"{name} {row[name]:.3g}" for name in columns))
    assert killed[0] and summary["episodes"] == 8 * WARM + 40
    assert [row["step"] for row in table] == [1, 2, 3, 4, 5]
    assert all(row["faults"] == 0 and math.isfinite(row["loss"]) and row["grad_norm"] > 0.1 for row in table)
    assert all(row["mismatch_mean"] < 1e-3 and 0 < row["prefix_hits"] < 1 for row in table)
    assert [row["servers"] for row in table] == [2, 2, 1, 1, 1]
    # on a busy machine the other one may be silent for longer than a beat: it is lost too, and back
    assert sum(row["servers_lost"] - row["servers_back"] for row in table) == 1
    played: Counter[tuple[str, int]] = Counter()
    versions: dict[str, set[int]] = {}
    for line in (out / "episodes.jsonl").read_text().splitlines():
        episode = json.loads(line)
        step = episode["group_id"].split("/")[0]
        played[episode["group_id"], episode["attempt"]] += 1
        versions.setdefault(step, set()).update(turn["policy_version"] for turn in episode["turns"])
        assert not episode["error"]
    assert set(played.values()) == {1} and sum(key[0].split("/")[0].isdigit() for key in played) == 40
    assert [versions[str(step)] for step in range(1, 6)] == [{WARM + step - 1} for step in range(1, 6)]
    assert f'/{WARM + 5}"' in (second.get("/weight_info") or b"").decode()


def test_an_evaluation_over_what_is_left_and_refused_over_two_kinds_of_weights(
    servers: list[Server], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The server that the run left is at its last version; the one that was killed begins at the first."""
    first, second = servers
    first.start()
    first.ready()
    flags = ["--tasks", "4", "--attempts", "2", "--prompt", "bare"]
    evaluation = ["eval", "guessnumber", *flags, "--out"]
    assert main([*evaluation, str(tmp_path / "both"), "--model", f"vllm:{first.url},{second.url}"]) not in (0, None)
    assert "serve different weights: labels 'default' and" in "".join(capsys.readouterr())
    assert main([*evaluation, str(tmp_path / "one"), "--model", f"vllm:{second.url}"]) in (0, None)
    ended = [json.loads(line) for line in (tmp_path / "one" / "episodes.jsonl").read_text().splitlines()]
    assert len(ended) == 8 and not any(episode["error"] for episode in ended)


def test_a_killed_server_comes_back_with_the_present_weights(servers: list[Server], tmp_path: Path) -> None:
    """Greedy tokens of the one that came back are those of the new weights, which it never saw before."""
    first, second = servers
    other = init_policy(ENV, tmp_path / "other", size=PolicySize(**SIZE), episodes=100, seed=5)
    sampling, prompt = Sampling(temperature=0, max_tokens=24), list(range(20, 60))

    async def play() -> None:
        made = VLLMFleet(f"{first.url},{second.url}", wait=400.0)
        await made.load_weights(other, 9)
        first.kill()
        want = await HFEngine(other).generate(prompt, sampling, "a")
        for session in ("a", "b"):
            got = await made.generate(prompt, sampling, session)
            assert (got.ids, got.policy_version) == (want.ids, 9)
        assert len(made.members.serving) == 1
        first.start()
        async with asyncio.timeout(400):
            while len(made.members.serving) < 2:
                await asyncio.sleep(0.5)
        made.members.leave_out(made.members.all[1], 0, "so that the other has to answer")
        got = await made.generate(prompt, sampling, "c")
        assert (got.ids, got.policy_version) == (want.ids, 9) and made.met["servers back"] >= 1
        made.close()

    asyncio.run(play())
