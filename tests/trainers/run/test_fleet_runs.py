"""Training over servers that speak vLLM's protocol: weights arrive, versions are true, a loss costs no episode."""

import asyncio
import contextlib
import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from several import run_several, run_two
from small_runs import curve, policy, small, trusted

pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
from fake_vllm import FakeVLLM

import agentgym
from agentgym.cli import main
from agentgym.engines import Sampling
from agentgym.engines.fleet import members
from agentgym.engines.hf.engine import HFEngine
from agentgym.errors import BadConfig, EngineDead
from agentgym.trainers import resume, train

MOVING = {"credit": f"{__name__}:by_turns", "credit_options": {}}


@agentgym.credit("by_turns_of_a_fleet")
def by_turns(group):
    """Credit that moves the weights at every step, whatever is won: good and bad turns alternate."""
    return [np.array([1.0 if turn % 2 else -0.5 for turn, _ in enumerate(episode.turns)]) for episode in group]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return policy(tmp_path_factory.mktemp("policy") / "model")


@contextlib.contextmanager
def running(model, number=2, **options):
    servers = [FakeVLLM(Path(model), **options).start() for _ in range(number)]
    try:
        yield servers
    finally:
        for server in servers:
            server.kill()


def over(servers, **options):
    urls = ",".join(server.url for server in servers)
    return {"engine": f"vllm:{urls}", "engine_options": {"wait": 20.0, **options}, "lr": 1e-3, **MOVING}


def ran(out):
    return [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]


def versions(out):
    """Return the versions that sampled each step's turns, and of each step's episodes how often each was played."""
    sampled, played = {}, Counter()
    for episode in ran(out):
        step = episode["group_id"].split("/")[0]
        assert not episode["error"]
        sampled.setdefault(step, set()).update(turn["policy_version"] for turn in episode["turns"])
        played[episode["group_id"], episode["attempt"]] += 1
    return sampled, played


def test_a_run_with_a_server_killed_and_one_back_in_mid_step(model, tmp_path, monkeypatch):
    """By hand: 5 steps of 3 tasks of 3 attempts are 45 episodes, each once, all of the version of its step."""
    monkeypatch.setattr(members, "_LONGEST", 0.05)
    with running(model) as (first, second):

        def show(kind, numbers):
            if kind == "progress" and numbers["what"] == "step 2, episode" and numbers["done"] == 2:
                first.kill()
            if kind == "progress" and numbers["what"] == "step 4, episode" and numbers["done"] == 2:
                second.slow = 0.2
                first.start()

        summary = train(small(tmp_path / "run", model, steps=5, **over([first, second])), show)
        newest = max((tmp_path / "run" / "checkpoints").glob("step-*"))
        assert second.label.endswith("/5") and second.label == first.label
        last = list(HFEngine(newest).model.state_dict().values())
        assert all((a == b).all() for a, b in zip(last, second.engine.model.state_dict().values(), strict=True))
    sampled, played = versions(tmp_path / "run")
    assert summary["episodes"] == len(played) == 45 and set(played.values()) == {1}
    assert sampled == {str(step): {step - 1} for step in range(1, 6)}
    rows = curve(tmp_path / "run")
    assert all(row["faults"] == 0 and math.isfinite(row["loss"]) for row in rows)
    assert all(row["mismatch_mean"] < 1e-4 for row in rows), "the servers compute as the trainer does"
    assert all(row["grad_norm"] > 0.1 for row in rows), "or no new weights would have to arrive"
    assert [row["servers"] for row in rows[:3]] == [2, 1, 1]
    assert sum(row["servers_lost"] for row in rows) == sum(row["servers_back"] for row in rows) == 1
    assert all(0 < row["prefix_hits"] < 1 for row in rows)


def test_a_run_goes_on_over_servers_that_hold_anything(model, tmp_path):
    """Stopped in step 3 and resumed: the servers hold weights of the run's first sitting, under its name."""
    with running(model) as servers:

        def stop(kind, numbers):
            if kind == "step" and numbers["step"] == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(small(tmp_path / "run", model, **over(servers)), stop)
        before = servers[0].label
        servers[1].part = []  # and one of them half of an update
        resume(tmp_path / "run", settings=trusted(tmp_path / "run"))
        assert servers[0].label == servers[1].label != before
    sampled, played = versions(tmp_path / "run")
    assert sampled == {"1": {0}, "2": {1}, "3": {2}} and len(played) == 27 and set(played.values()) == {1}


def test_a_run_of_adapters_with_a_server_killed_and_one_back(model, tmp_path, monkeypatch):
    """By hand: 4 steps of 3 tasks of 3 attempts are 36 episodes; the servers' own weights are never sent."""
    monkeypatch.setattr(members, "_LONGEST", 0.05)
    lora = {"lora_rank": 4, "sft_muon": False, "lr": 1e-2}
    with running(model, lora=4) as (first, second):
        before = [value.clone() for value in second.engine.model.state_dict().values()]

        def show(kind, numbers):
            if kind == "progress" and numbers["what"] == "step 2, episode" and numbers["done"] == 2:
                first.kill()
            if kind == "progress" and numbers["what"] == "step 3, episode" and numbers["done"] == 2:
                second.slow = 0.2
                first.start()

        summary = train(small(tmp_path / "run", model, **{**over([first, second]), **lora, "steps": 4}), show)
        assert second.label.endswith("/4") and second.label == first.label
        assert list(first.adapters) == list(second.adapters) and len(first.adapters) == 1
        assert second.requests["/update_weights"] == 0 and second.requests["/v1/load_lora_adapter"] == 5
        assert all((a == b).all() for a, b in zip(before, second.engine.model.state_dict().values(), strict=True))
        newest = max((tmp_path / "run" / "checkpoints").glob("step-*"))
        prompt, engines = list(range(20, 60)), (HFEngine(newest), second.adapters[next(iter(second.adapters))][1])
        mine, theirs = (asyncio.run(one.score(prompt)) for one in engines)
        assert mine == pytest.approx(theirs, abs=1e-5)
        assert mine != pytest.approx(asyncio.run(second.engine.score(prompt)), abs=1e-3), "or nothing was trained"
    sampled, played = versions(tmp_path / "run")
    assert summary["episodes"] == len(played) == 36 and set(played.values()) == {1}
    assert sampled == {str(step): {step - 1} for step in range(1, 5)}
    rows = curve(tmp_path / "run")
    assert all(row["faults"] == 0 and row["mismatch_mean"] < 1e-4 for row in rows)
    assert sum(row["servers_lost"] for row in rows) == sum(row["servers_back"] for row in rows) == 1


@pytest.mark.long
@pytest.mark.parametrize("sharding", [pytest.param("none", marks=pytest.mark.slow), "fsdp2"])
def test_two_processes_share_the_servers_of_an_adapter(sharding, model, tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_TEST_SHARDING", sharding)
    monkeypatch.setenv("AGENTGYM_TEST_LORA", "4")
    with running(model, lora=4) as servers:
        monkeypatch.setenv("AGENTGYM_TEST_SERVERS", ",".join(server.url for server in servers))
        monkeypatch.setenv("AGENTGYM_TEST_MODEL", model)
        run_two("two_fleets.py", tmp_path / "run")
        assert [server.requests["/v1/load_lora_adapter"] for server in servers] == [3, 3]
        assert [len(server.adapters) for server in servers] == [1, 1] and servers[0].label == servers[1].label
        newest = max((tmp_path / "run" / "checkpoints").glob("step-*"))
        want = asyncio.run(HFEngine(newest).score(list(range(20, 60))))
        for server in servers:
            ((_, engine),) = server.adapters.values()
            assert asyncio.run(engine.score(list(range(20, 60)))) == pytest.approx(want, abs=1e-5)
    sampled, played = versions(tmp_path / "run")
    assert sampled == {"1": {0}, "2": {1}} and set(played.values()) == {1}
    assert all(row["faults"] == 0 and row["mismatch_mean"] < 1e-4 for row in curve(tmp_path / "run"))


@pytest.mark.long
@pytest.mark.parametrize("sharding", [pytest.param("none", marks=pytest.mark.slow), "fsdp2"])
def test_two_processes_share_the_servers(sharding, model, tmp_path, monkeypatch):
    """The first brings the weights; both sample from all servers, under the same versions."""
    monkeypatch.setenv("AGENTGYM_TEST_SHARDING", sharding)
    with running(model) as servers:
        monkeypatch.setenv("AGENTGYM_TEST_SERVERS", ",".join(server.url for server in servers))
        monkeypatch.setenv("AGENTGYM_TEST_MODEL", model)
        run_two("two_fleets.py", tmp_path / "run")
        assert [server.requests["/finish_weight_update"] for server in servers] == [3, 3], (
            "before, and after each of two steps"
        )
        assert servers[0].label == servers[1].label and servers[0].label.endswith("/2")
        last = HFEngine(max((tmp_path / "run" / "checkpoints").glob("step-*"))).model.state_dict()
        for server in servers:
            assert all((a == b).all() for a, b in zip(last.values(), server.engine.model.state_dict().values(), strict=True))
    sampled, played = versions(tmp_path / "run")
    assert sampled == {"1": {0}, "2": {1}} and set(played.values()) == {1}
    assert [row["faults"] for row in curve(tmp_path / "run")] == [0, 0]


@pytest.mark.parametrize("full", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_both_processes_hear_of_a_full_disk_in_the_middle_of_gathering(full, model, tmp_path, monkeypatch):
    """The first leaves after one tensor, before any update or after one; the second gathers with it, and is told."""
    monkeypatch.setenv("AGENTGYM_TEST_SHARDING", "fsdp2")
    monkeypatch.setenv("AGENTGYM_TEST_FULL", str(full))
    with running(model) as servers:
        monkeypatch.setenv("AGENTGYM_TEST_SERVERS", ",".join(server.url for server in servers))
        monkeypatch.setenv("AGENTGYM_TEST_MODEL", model)
        run_several("two_fleets.py", 2, tmp_path / "run", seconds=120)
    for rank in (0, 1):
        assert "No space left" in (tmp_path / "run" / f"said-{rank}").read_text()


def test_none_left_ends_a_run_with_one_error_and_a_checkpoint(model, tmp_path):
    with running(model) as servers:

        def show(kind, numbers):
            if kind == "progress" and numbers["what"] == "step 2, episode" and numbers["done"] == 2:
                for server in servers:
                    server.kill()

        with pytest.raises(EngineDead, match=r"none came back in 0\.5 seconds.*no connection.*resume"):
            train(small(tmp_path / "run", model, **over(servers, wait=0.5)), show)
        for server in servers:
            server.start()
        assert resume(tmp_path / "run", settings=trusted(tmp_path / "run"))["episodes"] == 27


def test_a_server_of_unscaled_numbers_or_other_settings_is_refused(model, tmp_path, monkeypatch):
    sharp = HFEngine(model)

    async def scores_of(engine):
        answer = await engine.generate([5, 6, 7], Sampling(temperature=0.5, max_tokens=16), "x")
        return answer.logprobs, (await engine.score([5, 6, 7, *answer.ids]))[-16:]

    scaled, plain = asyncio.run(scores_of(sharp))
    assert sum(abs(a - b) for a, b in zip(scaled, plain, strict=True)) / 16 > 0.05, "or nothing could be told apart"
    with (
        running(model, raw=True) as servers,
        pytest.raises(BadConfig, match=r"a request at 0\.5.*processed_logprobs"),
    ):
        train(small(tmp_path / "raw", model, **over(servers)))
    score = HFEngine.score

    def served(engine):
        return any(getattr(server, "engine", None) is engine for server in servers)

    async def otherwise(self, ids, temperature=1.0):
        return [value - 0.3 * (served(self)) for value in await score(self, ids, temperature)]

    with running(model) as servers:
        monkeypatch.setattr(HFEngine, "score", otherwise)
        with pytest.raises(BadConfig, match=r"scores a known text with a difference of 0\.30 per token"):
            train(small(tmp_path / "other", model, **over(servers)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lora_rank": 600, "sft_muon": False}, "serves adapters up to rank 512"),
        ({"weight_transport": "nccl"}, "servers read weights from files"),
        ({"engine": "vllm:http://127.0.0.1:1,127.0.0.1:2"}, "expected addresses"),
        ({"engine": "vllm:http://127.0.0.1:1,http://127.0.0.1:1/v1"}, "comes 2 times"),
        ({"engine_options": {"patience": 0}}, "expected seconds above 0"),
        ({"engine_options": {"folder": 3}}, "expected text"),
        ({"engine_options": {"seeded": "no"}}, "expected true or false"),
        ({"engine_options": {"context": 3}}, "not an option of a run"),
        ({"model": "init"}, "needs a model folder"),
    ],
)
def test_what_cannot_be_is_refused_before_a_server_is_asked(changes, message, model, tmp_path):
    options = {"engine": "vllm:http://127.0.0.1:1,http://127.0.0.1:2", "model": model, **changes}
    with pytest.raises(BadConfig, match=message):
        train(small(tmp_path / "run", **options))
    assert not (tmp_path / "run").exists()


@pytest.mark.long
def test_an_evaluation_over_a_fleet_loses_a_server_and_no_episode(model, tmp_path, capsys):
    flags = ["--tasks", "6", "--attempts", "4", "--prompt", "bare", "--concurrency", "4", "--out", str(tmp_path / "eval")]
    with running(model) as (first, second):
        first.dies_after = 9
        name = f"vllm:{first.url},{second.url}"
        assert main(["eval", "small_envs:small/File-v0", "--model", name, "--engine.wait", "20", *flags]) in (0, None)
        assert first.requests["/update_weights"] == second.requests["/update_weights"] == 0, (
            "an evaluation changes no weights"
        )
    played = Counter((episode["task_id"], episode["attempt"]) for episode in ran(tmp_path / "eval"))
    assert len(played) == 24 and set(played.values()) == {1} and not any(e["error"] for e in ran(tmp_path / "eval"))
    assert "1 x servers lost" in capsys.readouterr().out
