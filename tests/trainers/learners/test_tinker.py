"""Training on a server of the Tinker API: ours of tinker_fake.py, through the real client package."""

import asyncio
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from forked import Program
from small_runs import curve, episodes, small, trusted
from tinker_fake import Behaviour, Served

from agentgym.cli import main
from agentgym.engines import Sampling
from agentgym.engines.tinker import TinkerEngine
from agentgym.errors import BadConfig, BadData, EngineDead
from agentgym.trainers import resume, train
from agentgym.trainers.data.packing import pack, token_weights
from agentgym.trainers.data.segments import Segment
from agentgym.trainers.learners.tinker import gradient
from agentgym.trainers.learners.tinker.datums import placed, scored_datum
from agentgym.trainers.learners.tinker.qualify import Qualification, qualify, show
from agentgym.trainers.learners.tinker.service import Service
from agentgym.trainers.losses.interface import resolve_loss
from agentgym.trainers.losses.policy import policy_loss
from agentgym.trainers.model.logprobs import policy_logprobs
from agentgym.trainers.model.policy import PolicySize, init_policy, load_policy

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
    options = {"learner": f"tinker:{server.url}", "lora_rank": 4, "lr": 1e-2, "sft_muon": False}
    return small(out, policy, **{**options, **changes})


def found_of(server, policy, open_service):
    service = open_service(server)
    return qualify(service, service.base_model(""), policy, load_policy(policy)[1], rank=4)


@pytest.mark.long
@pytest.mark.parametrize("reduction", ["tokens", "rows"])
def test_a_right_server_qualifies(served, opened, policy, reduction):
    found = found_of(served(reduction=reduction), policy, opened)
    assert not found.refused(), show(found)
    assert ("its gradient and our torch's", "ok") in [(what, verdict) for what, _, verdict in found.findings], show(found)
    assert (found.reduction, found.clips_gradients) == (reduction, True), show(found)
    wanted = {"importance_sampling", "ppo", "cispo"} | ({"cross_entropy"} if reduction == "tokens" else set())
    assert set(found.losses) == wanted, show(found)
    assert found.mismatch < 1e-4


@pytest.mark.long
@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"shift": 1}, "off by one"),
        ({"scaled_gradient": 0.0}, "does not train"),
        ({"scaled_gradient": -1.0}, "does not train"),
        ({"scaled_gradient": 0.5}, "its gradient and our torch's"),
        ({"scales_advantages": True}, "tokens of both signs"),
        ({"drops": "q_proj.lora_B"}, "its gradient and our torch's"),
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
    found = found_of(served(no_clip_keys=True, clips_gradients=False, plain_logprobs=True), policy, opened)
    assert not found.refused(), show(found)
    assert set(found.losses) == {"importance_sampling", "cross_entropy"}, show(found)
    assert not found.clips_gradients


def test_a_server_that_dies_of_giving_its_adapter_is_reported_as_dead(policy, opened, tmp_path):
    server, url = a_process(policy, tmp_path / "server", archives="dies")
    try:
        with pytest.raises(EngineDead, match="was asked to give its adapter"):
            found_of(type("Server", (), {"url": url}), policy, opened)
    finally:
        server.kill()


def test_a_server_that_fails_to_give_its_adapter_and_lives_may_train(served, opened, policy, tmp_path):
    """But no other engine can sample."""
    server = served(archives="broken")
    found = found_of(server, policy, opened)
    assert not found.refused(), show(found)
    assert not found.refused(remote(tmp_path / "run", policy, server))
    (reason,) = found.refused(remote(tmp_path / "run", policy, server, engine="vllm:http://127.0.0.1:9"))
    assert "give its adapter" in reason and "500" in reason


def a_process(policy, folder, port=0, **behaviour):
    """Start a server as a process of its own and return it and its address."""
    program = str(Path(__file__).parents[2] / "fakes" / "tinker_fake.py")
    command = [sys.executable, program, policy, str(folder), str(port), json.dumps(behaviour)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip()


@pytest.mark.long
def test_a_run_trains_and_a_killed_one_goes_on_as_if_it_had_not(served, policy, tmp_path):
    server = served(reduction="rows")
    whole = remote(tmp_path / "whole", policy, server, sft_episodes=64, sft_lr=2e-2, steps=4)
    summary = train(whole)
    rows = [row for row in curve(tmp_path / "whole") if "success_train" in row]
    assert len(rows) == 4 and all(row["mismatch_mean"] < 1e-4 for row in rows)
    assert summary["success_after"] is None or summary["tasks"] == 0
    assert json.loads((tmp_path / "whole/qualified.json").read_text())["reduction"] == "rows"
    train(dataclasses.replace(whole, out=str(tmp_path / "cut"), steps=2))
    resume(tmp_path / "cut", steps=4, settings=trusted(tmp_path / "cut"))  # by the state that the server has
    again = [row for row in curve(tmp_path / "cut") if "success_train" in row]
    for one, other in zip(rows, again, strict=True):
        assert other["success_train"] == one["success_train"] and other["loss"] == pytest.approx(one["loss"], abs=1e-5)
    assert [e["reward"] for e in episodes(tmp_path / "cut")] == [e["reward"] for e in episodes(tmp_path / "whole")]


@pytest.mark.parametrize(
    ("changes", "native"),
    [
        ({}, True),
        ({"loss": "cispo"}, True),
        ({"importance_sampling_level": "turn"}, False),
        ({"kl": 0.1}, False),
        ({"loss": "icepop"}, False),
    ],
)
@pytest.mark.parametrize("reduction", ["tokens", "rows"])
def test_the_gradient_is_that_of_our_own_loss(served, opened, policy, changes, native, reduction):
    """Of an adapter that has moved, for ratios within and beyond the bounds, against torch's derivative of our loss."""
    server = served(reduction=reduction)
    service = opened(server)
    config = small("none", policy, learner=f"tinker:{server.url}", lora_rank=4, tis_cap=1.2, sft_muon=False, **changes)
    trained = service.trainer(policy, 4, 3)
    rng = np.random.default_rng(0)
    rows = [_row(rng, length) for length in (9, 14, 6)]
    datums = [scored_datum(row.ids.tolist()) for row in rows]
    trained.backward(datums, "cross_entropy")
    trained.step(5e-2)
    new = [placed(row, one) for row, one in zip(rows, trained.forward(datums), strict=True)]
    before = [one + rng.normal(0, 0.3, len(one)).astype(np.float32) for one in new]
    for row, one in zip(rows, before, strict=True):
        row.logprobs = np.where(row.mask, one + rng.normal(0, 0.2, len(one)), np.nan).astype(np.float32)
    weights = token_weights(rows)
    reference = [one - np.float32(0.5) for one in new] if config.kl else None
    loss = resolve_loss(config)
    found = Qualification(reduction, ["importance_sampling", "ppo", "cispo"])
    assert (gradient.native(loss, config) is not None) == native
    gradient.policy(trained, gradient.Work(rows, weights, before, reference), loss, 0, config, found)
    adapter = server.fake.models[trained.client.model_id]
    count = 1 if reduction == "tokens" else len(rows)
    sent = torch.cat([p.grad.flatten() for p in adapter.weights.values()]) / count
    for parameter in adapter.weights.values():
        parameter.grad = None
    (batch,) = pack(rows, weights, 10_000)
    scores = policy_logprobs(adapter.model, batch, 1.0, "rows")
    flat = [
        torch.cat([torch.as_tensor(scores_of[i][rows[i].mask]) for i in batch.segments])
        for scores_of in (before, reference or before)
    ]
    total, _ = policy_loss(
        scores, batch, old=flat[0], reference=flat[1], function=loss, correction=config.tis_cap, kl_weight=config.kl
    )
    total.backward()
    ours = torch.cat([p.grad.flatten() for p in adapter.weights.values()])
    assert float((sent - ours).norm() / ours.norm()) < 1e-4


def _row(rng, length):
    ids = rng.integers(5, 200, length).astype(np.int32)
    mask = np.arange(length) >= 3
    advantages = np.where(mask, rng.choice([-1.0, 0.5, 2.0], length), 0).astype(np.float32)
    turns = np.where(mask, np.arange(length) // 3, -1).astype(np.int32)
    return Segment(0, ids, mask, advantages, np.full(length, np.nan, np.float32), turns)


def test_what_a_server_cannot_do_is_refused_before_anything_is_asked(policy, tmp_path):
    class Nowhere:
        url = "http://127.0.0.1:9"

    for change, reason in (
        ({"lora_rank": 0}, "lora_rank is 0"),
        ({"entropy_bonus": 0.01}, "servers report only log-probabilities"),
        ({"temperature": 0.7}, "at 1 only"),
        ({"muon": True}, "muon"),
        ({"lora_alpha": 8}, "the server decides"),
        ({"engine": "openai:http://127.0.0.1:9"}, "new weights cannot be sent to a server of that kind"),
        ({"engine": "openai:http://127.0.0.1:9", "steps": 0}, "only vLLM is brought"),
        ({"engine_options": {"slots": 4}}, "the server samples"),
        ({"processes": 3, "sft_batch": 9}, "one process plays"),
        ({"sft_episodes": 8, "sft_muon": True}, "sft_muon is on"),
    ):
        with pytest.raises(BadConfig, match=reason):
            remote(tmp_path / "run", policy, Nowhere, **change)
    with pytest.raises(BadConfig, match="Name a trained model"):
        remote(tmp_path / "run", "init", Nowhere)
    with pytest.raises(BadConfig, match="no server answers"):
        train(remote(tmp_path / "run", policy, Nowhere))
    assert not (tmp_path / "run").exists()


def test_a_server_that_does_not_qualify_is_refused(served, policy, tmp_path):
    with pytest.raises(BadConfig, match="it clips no gradients"):
        train(remote(tmp_path / "run", policy, served(clips_gradients=False)))
    with pytest.raises(BadConfig, match="a new sampler"):
        train(remote(tmp_path / "run", policy, served(stale=True)))


@pytest.mark.long
def test_a_request_that_hangs_meets_our_deadline(served, opened):
    server = served()
    service = opened(server, seconds=3)
    trained = service.trainer(server.fake.policy, 4, 0)
    server.fake.behaviour.hangs = "optim_step"
    with pytest.raises(EngineDead, match="take a step and did not within 3"):
        trained.step(1e-3)


def test_a_name_that_is_taken_is_not_asked_for_without_end(served, opened):
    server = served(conflict=True)
    service = opened(server, seconds=3)
    with pytest.raises(EngineDead, match="save its state"):
        service.trainer(server.fake.policy, 4, 0).save("x")


def test_names_are_unique(served, opened):
    server = served()
    trained = opened(server).trainer(server.fake.policy, 4, 0)
    assert trained.save("x") != trained.save("x")


def test_a_server_that_refuses_is_a_fault_and_one_that_is_gone_ends_the_run(served, opened):
    server = served()
    service = opened(server, patience=2)
    trained = service.trainer(server.fake.policy, 4, 0)
    engine = TinkerEngine(service, server.fake.tokenizer, 512)

    async def ask(after):
        await engine.serve(trained.sampler, 3)
        done = await engine.generate([5, 6, 7], Sampling(max_tokens=3), "one")
        assert len(done.ids) == len(done.logprobs) <= 3 and done.policy_version == 3
        assert server.fake.stops == [[engine.tokenizer.eos_token_id]], "no server stops at its own end token"
        assert (await engine.generate([5] * 512, Sampling(), "two")).finish == "length"
        await asyncio.to_thread(after)
        await engine.generate([5, 6, 7], Sampling(max_tokens=3), "three")

    with pytest.raises(EngineDead, match="answers no health check for 2 seconds"):
        asyncio.run(ask(server.close))


def test_a_server_is_dead_once_its_health_checks_had_no_answer_for_a_while(served, opened):
    """However long ago it was last asked anything: one check without an answer is none."""
    server = served()
    service = opened(server, patience=2)
    server.close()
    time.sleep(2.5)
    service.check_health("sample")
    time.sleep(2.5)
    with pytest.raises(EngineDead, match="answers no health check for 2 seconds"):
        service.check_health("sample")


def test_a_loss_that_chooses_tokens_goes_through_a_server(served, policy, tmp_path):
    train(remote(tmp_path / "run", policy, served(), steps=1, loss="clip_cov", select="keep"))
    (row,) = (json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines())
    assert row["phase"] == "rl" and row["groups_dropped"] == 0


def test_a_checkpoint_that_was_written_by_half_is_not_trained_on(served, policy, tmp_path):
    server = served()
    config = remote(tmp_path / "run", policy, server, steps=1, sft_episodes=16, sft_lr=2e-2)
    train(config)
    folder = sorted((tmp_path / "run/checkpoints").glob("step-*"))[-1]
    path = json.loads((folder / "tinker.json").read_text())["path"]
    file = server.fake.file_of(path)
    state = torch.load(file, weights_only=True)
    torch.save({**state, "weights": {name: value * 0 for name, value in state["weights"].items()}}, file)
    with pytest.raises(BadData, match="holds other weights than were saved"):
        resume(tmp_path / "run", steps=2, settings=trusted(tmp_path / "run"))
    file.unlink()
    with pytest.raises(BadData, match="could not be loaded"):
        resume(tmp_path / "run", steps=2, settings=trusted(tmp_path / "run"))


def test_a_server_that_lies_about_versions_is_found_out(served, policy, tmp_path):
    server = served()
    train(remote(tmp_path / "run", policy, server, steps=1, sft_episodes=24, sft_lr=2e-2))
    server.fake.behaviour.stale = True
    with pytest.raises(BadConfig, match=r"sampled from other weights than .* trains"):
        resume(tmp_path / "run", steps=8, settings=trusted(tmp_path / "run"))


@pytest.mark.long
def test_a_slow_server_loses_nothing(served, policy, tmp_path):
    server = served()
    train(remote(tmp_path / "quick", policy, server, steps=2))
    server.fake.behaviour.slow = 0.05
    train(remote(tmp_path / "slow", policy, server, steps=2))
    output_ids = [
        [[turn["output_ids"] for turn in e["turns"]] for e in episodes(tmp_path / name)] for name in ("slow", "quick")
    ]
    assert output_ids[0] == output_ids[1] and len(output_ids[0]) == 18


def test_the_command_prints_a_table(served, policy, capsys):
    assert main(["qualify", f"tinker:{served(reduction='rows').url}", "--rank", "4"]) == 0
    printed = capsys.readouterr().out
    assert "corrected" in printed and "fit to train on" in printed
    assert main(["qualify", "openai:http://127.0.0.1:1"]) == 2


@pytest.mark.long
@pytest.mark.parametrize("victim", [pytest.param("client", marks=pytest.mark.slow), "server"])
def test_a_run_goes_on_after_a_kill(policy, tmp_path, victim):
    """SIGKILL in the middle of a step; the counts at the end are those of a run that nobody killed."""
    server, url = a_process(policy, tmp_path / "server")
    config = remote(tmp_path / "run", policy, type("Server", (), {"url": url}), steps=6)
    config = dataclasses.replace(config, learner_options={"patience": 3.0, "seconds": 120.0})
    code = f"import small_envs\nfrom agentgym.trainers import TrainConfig, train\ntrain({config!r})"
    client = Program(code)
    try:
        while not list((tmp_path / "run").glob("checkpoints/step-*2")) and client.process.is_alive():
            time.sleep(0.05)
        os.kill({"client": client.process, "server": server}[victim].pid, signal.SIGKILL)
        assert client.wait(120) != 0
        if victim == "server":
            server.wait(10)
            server, _ = a_process(policy, tmp_path / "server", url.rpartition(":")[2])
        resume(tmp_path / "run", settings=trusted(tmp_path / "run"))
    finally:
        client.process.kill()
        server.kill()
    rows = [row for row in curve(tmp_path / "run") if "success_train" in row]
    assert [row["step"] for row in rows] == list(range(1, 7))
    assert len(episodes(tmp_path / "run")) == 6 * 9
