"""Training on a server of the Tinker API: ours of tinker_fake.py, through the real client package."""

import asyncio
import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import small_envs
import torch
from small_runs import curve, episodes, small
from tinker_fake import Behaviour, Served

from agentgym.cli import main
from agentgym.engines import Sampling
from agentgym.engines.tinker import TinkerEngine
from agentgym.errors import BadConfig, BadData, EngineDead, Fault
from agentgym.trainers import resume, train
from agentgym.trainers.model.policy import PolicySize, init_policy, load_policy
from agentgym.trainers.remote.datums import scored_datum
from agentgym.trainers.remote.qualify import qualify, show
from agentgym.trainers.remote.service import Service

SMALL = PolicySize(width=32, layers=1, heads=2, vocabulary=300)


@pytest.fixture(scope="session")
def policy(tmp_path_factory):
    torch.set_num_threads(1)
    return str(init_policy("small/File-v0", tmp_path_factory.mktemp("tinker") / "policy", size=SMALL, episodes=20))


@pytest.fixture
def served(policy, tmp_path):
    made = []

    def start(**behaviour):
        made.append(Served(policy, tmp_path / "server", Behaviour(**behaviour)))
        return made[-1]

    yield start
    for one in made:
        one.close()


@pytest.fixture
def opened():
    made = []

    def open_service(server, **options):
        made.append(Service(server.url, **{"seconds": 60, "patience": 3, **options}))
        return made[-1]

    yield open_service
    for one in made:
        one.close()


def remote(out, policy, server, **changes):
    options = {"learner": f"tinker:{server.url}", "lora_rank": 4, "lr": 1e-2, "sft_muon": False, "threads": 0}
    return small(out, policy, **{**options, **changes})


def found_of(server, policy, open_service):
    service = open_service(server)
    return qualify(service, service.base_model(""), policy, load_policy(policy)[1], rank=4)


# -- what a server computes


@pytest.mark.parametrize("reduction", ["tokens", "rows"])
def test_a_right_server_qualifies(served, opened, policy, reduction):
    found = found_of(served(reduction=reduction), policy, opened)
    assert not found.refused(), show(found)
    assert (found.reduction, found.clips_gradients) == (reduction, True), show(found)
    wanted = {"importance_sampling", "ppo", "cispo"} | ({"cross_entropy"} if reduction == "tokens" else set())
    assert set(found.losses) == wanted, show(found)
    assert found.mismatch < 1e-4


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"shift": 1}, "off by one"),
        ({"scaled_gradient": 0.0}, "does not train"),
        ({"scaled_gradient": -1.0}, "does not train"),
        ({"keeps_gradient": True}, "a step without a gradient"),
        ({"stale": True}, "a new sampler"),
        ({"half_written": True}, "weights of a saved state"),
        ({"forgets_optimizer": True}, "optimizer of a saved state"),
    ],
)
def test_a_wrong_server_is_refused(served, opened, policy, wrong, what):
    found = found_of(served(**wrong), policy, opened)
    assert any(what in reason for reason in found.refused()), show(found)


def test_what_a_server_cannot_do_is_done_without_it(served, opened, policy):
    found = found_of(served(no_clip_keys=True, no_cispo=True, clips_gradients=False, plain_logprobs=True), policy, opened)
    assert not found.refused(), show(found)
    assert set(found.losses) == {"importance_sampling", "cross_entropy"}, show(found)
    assert not found.clips_gradients


# -- training


def test_a_run_trains_and_a_killed_one_goes_on_as_if_it_had_not(served, policy, tmp_path):
    server = served(reduction="rows")
    whole = remote(tmp_path / "whole", policy, server, sft_episodes=64, sft_lr=2e-2, steps=4)
    summary = train(whole)
    rows = [row for row in curve(tmp_path / "whole") if "success_train" in row]
    assert len(rows) == 4 and all(row["mismatch_mean"] < 1e-4 for row in rows)
    assert summary["success_after"] is None or summary["tasks"] == 0
    assert json.loads((tmp_path / "whole/qualified.json").read_text())["reduction"] == "rows"
    train(dataclasses.replace(whole, out=str(tmp_path / "cut"), steps=2))
    resume(tmp_path / "cut", steps=4)  # by the server's own state, in a session of its own
    again = [row for row in curve(tmp_path / "cut") if "success_train" in row]
    for one, other in zip(rows, again, strict=True):
        assert other["success_train"] == one["success_train"] and other["loss"] == pytest.approx(one["loss"], abs=1e-5)
    assert [e["reward"] for e in episodes(tmp_path / "cut")] == [e["reward"] for e in episodes(tmp_path / "whole")]
