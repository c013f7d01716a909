"""A server of the Tinker API trains, and vLLM servers sample: the adapter travels through the server's own archive."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from small_runs import is_whole, small, trusted
from tinker_fake import Behaviour, Served

pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
from fake_vllm import FakeVLLM

import agentgym
from agentgym.errors import BadConfig, EngineDead
from agentgym.trainers import resume, train
from agentgym.trainers.learners.tinker import adapter
from agentgym.trainers.model.policy import PolicySize, init_policy

SIZE = PolicySize(width=32, layers=1, heads=2, vocabulary=300)


@agentgym.credit("by_turns_of_a_tinker_run")
def by_turns(group):
    """Credit that moves the weights at every step, whatever is won: good and bad turns alternate."""
    return [np.array([1.0 if turn % 2 else -0.5 for turn, _ in enumerate(episode.turns)]) for episode in group]


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    return str(init_policy("small/File-v0", tmp_path_factory.mktemp("tinker") / "policy", size=SIZE, episodes=20))


@pytest.fixture
def started(policy, tmp_path):
    """Start a server that trains and two that sample; all are ended."""
    ended = []

    def start(**behaviour):
        trains = Served(policy, tmp_path / "server", Behaviour(**behaviour))
        samples = [FakeVLLM(Path(policy), lora=4).start() for _ in range(2)]
        ended.extend([trains.close, *(server.kill for server in samples)])
        return trains, samples

    yield start
    for end in ended:
        end()


def over(out, policy, trains, samples, **changes):
    options = {
        "learner": f"tinker:{trains.url}", "engine": "vllm:" + ",".join(server.url for server in samples), "lora_rank": 4,
        "lr": 2e-2, "sft_muon": False, "credit": f"{__name__}:by_turns", "credit_options": {},
    }  # fmt: skip
    return small(out, policy, **{**options, **changes})


@pytest.mark.long
def test_a_run_over_vllm_servers_is_resumed(started, policy, tmp_path):
    """By hand: 4 steps of 9 episodes, each of the version of its step, and what samples is what was trained."""
    trains, samples = started(reduction="rows")
    train(over(tmp_path / "run", policy, trains, samples, steps=2))
    samples[0].kill()
    samples[0].start()
    resume(tmp_path / "run", steps=4, settings=trusted(tmp_path / "run"))
    is_whole(tmp_path / "run", steps=4, each=9, tolerance=1e-4)
    request_counts = Counter(trains.fake.paths)
    assert not trains.fake.archived, "every version would stay on the server"
    archives = sum(count for path, count in request_counts.items() if path.endswith("/archive"))
    assert archives == 1 + 3 + 3, "one when it was qualified, and each sitting begins with one"
    assert all(len(server.adapters) == 1 for server in samples)
    assert json.loads((tmp_path / "run/qualified.json").read_text())["reduction"] == "rows"


def test_weights_that_did_not_travel_are_found_before_anything_is_sampled(started, policy, tmp_path):
    trains, samples = started(archives="first")
    with pytest.raises(EngineDead, match=r"training stopped at update .*scores a known text with a difference of"):
        train(over(tmp_path / "run", policy, trains, samples, steps=8, lr=0.3, engine_options={"wait": 1.0}))


@pytest.mark.parametrize(
    ("archives", "reason"), [("none", "gives no archive of its adapter"), ("model", "exports a whole model")]
)
def test_a_server_without_adapters_to_give_is_refused(started, policy, tmp_path, archives, reason):
    trains, samples = started(archives=archives)
    with pytest.raises(BadConfig, match=reason):
        train(over(tmp_path / "run", policy, trains, samples))
    assert not (tmp_path / "run").exists()


def test_what_can_sample_for_it(policy, tmp_path):
    class Nowhere:
        url = "http://127.0.0.1:9"

    over(tmp_path / "run", policy, Nowhere, [Nowhere], engine="vllm", engine_options={"max_num_seqs": 8})
    over(tmp_path / "run", policy, Nowhere, [Nowhere], engine_options={"wait": 3.0})
    with pytest.raises(BadConfig, match="only vLLM is brought"):
        over(tmp_path / "run", policy, Nowhere, [Nowhere], engine="openai:http://127.0.0.1:9", steps=0)
    with pytest.raises(BadConfig, match="serves adapters up to rank 512"):
        over(tmp_path / "run", policy, Nowhere, [Nowhere], lora_rank=1024)


def test_where_an_archive_is():
    """SkyRL leaves the kind of weights out of a path, Tinker's own service names it."""
    assert adapter.archive_of("tinker://run-1/name") == "training_runs/run-1/checkpoints/name/archive"
    assert adapter.archive_of("tinker://run-1/sampler_weights/name").endswith("/sampler_weights/name/archive")
    for path in ("tinker://run-1/name", "tinker://run-1/sampler_weights/name"):
        assert adapter.saved_at(path) == "training_runs/run-1/checkpoints/sampler_weights/name"
