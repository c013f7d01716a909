"""Attempts of one step at several temperatures: the trainer divides by the one that was used."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from tiny_rows import tiny_model, token_episodes

import agentgym
from agentgym import ChatAgent, Sampling
from agentgym.agents.base import redrawn, sampled
from agentgym.engines.hf.engine import HFEngine
from agentgym.engines.scripted import ScriptedEngine
from agentgym.envs.guess_number import GuessNumber
from agentgym.errors import BadConfig
from agentgym.registry import make
from agentgym.rollout.draw import Draw
from agentgym.rollout.play import Job
from agentgym.rollout.pool import RolloutPool
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.data.packing import pack, token_weights
from agentgym.trainers.data.segments import build
from agentgym.trainers.learners.step import Scorer, TrainedModel, scored
from agentgym.trainers.model import logprobs
from agentgym.trainers.model.logprobs import policy_logprobs, project
from agentgym.trainers.model.policy import PolicySize, init_policy, load_policy
from agentgym.trainers.run.rollouts import Rollouts

TINY = PolicySize(width=32, layers=1, heads=2, vocabulary=400)


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    return load_policy(
        init_policy("rlvr/GuessNumber-v0", tmp_path_factory.mktemp("policy") / "model", size=TINY, episodes=5)
    )


def gaps(model, episodes, temperature):
    """Return by episode the largest difference of what trainer and engine say of a token."""
    rows = build(episodes)
    learner = TrainedModel(Accelerator(cpu=True), Scorer(model, temperature), [])
    ours = scored(learner, rows, TrainConfig(batch_tokens=10_000))["logprobs"]
    return {row.episode: np.abs(own - row.logprobs)[row.mask].max() for own, row in zip(ours, rows, strict=True)}


def test_the_engines_log_probabilities_are_the_trainers_at_two_temperatures_in_one_batch(policy):
    model, tokenizer = policy
    agent = ChatAgent(HFEngine(model, tokenizer), tokenizer, prompt="bare", sampling=Sampling(1.0, max_tokens=6))
    task = GuessNumber().numbered(0)
    ways = [{}, {"temperature": 0.4}, {}, {"temperature": 2.5}]
    jobs = [Job(task, n, 5, "g", "e", 3, None, way) for n, way in enumerate(ways)]
    episodes = asyncio.run(RolloutPool({"e": GuessNumber}).collect(agent, jobs))
    assert [{t.extra.get("temperature") for t in e.turns} for e in episodes] == [{None}, {0.4}, {None}, {2.5}]
    assert all(gap < 1e-5 for gap in gaps(model, episodes, 1.0).values())
    stored = [agentgym.Episode.from_json(episode.to_json()) for episode in episodes]
    assert all(gap < 1e-5 for gap in gaps(model, stored, 1.0).values())
    for episode in episodes:  # as if nothing had been recorded
        for turn in episode.turns:
            turn.extra.clear()
    assert [gap > 0.1 for _, gap in sorted(gaps(model, episodes, 1.0).items())] == [False, True, False, True]


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_a_temperature_per_token_that_is_the_runs_own_changes_no_digit(temperature):
    model, (episodes, advantages) = tiny_model(), token_episodes()
    plain = build(episodes, advantages)
    for turn in (turn for episode in episodes[:2] for turn in episode.turns):
        turn.extra["temperature"] = temperature
    marked = build(episodes, advantages)
    assert all(row.temperatures is None for row in plain) and not all(row.temperatures is None for row in marked)
    for one, other in zip(*(pack(rows, token_weights(rows), 40) for rows in (plain, marked)), strict=True):
        found = [policy_logprobs(model, batch, temperature, "rows").logprobs for batch in (one, other)]
        assert torch.equal(*found)


def test_temperatures_by_hand_also_in_chunks(monkeypatch):
    head = torch.nn.Linear(2, 2, bias=False)
    head.weight.data = torch.eye(2)
    hidden, ids = torch.tensor([[2.0, 0.0], [2.0, 0.0]]), torch.tensor([0, 0])
    heat = torch.tensor([1.0, 2.0])
    expected = [-np.log1p(np.exp(-2.0)), -np.log1p(np.exp(-1.0))]  # log softmax of (2, 0) and of (1, 0)
    gradients = []
    for chunk in (logprobs.CHUNK, 2):
        monkeypatch.setattr(logprobs, "CHUNK", chunk)
        states = hidden.clone().requires_grad_()
        found = project(head, states, ids, heat)
        assert found.logprobs.tolist() == pytest.approx(expected, rel=1e-6)
        found.logprobs.sum().backward()
        gradients.append(states.grad)
    p = [1 / (1 + np.exp(-2.0)), 1 / (1 + np.exp(-1.0))]
    by_hand = [[1 - p[0], p[0] - 1], [(1 - p[1]) / 2, (p[1] - 1) / 2]]  # (onehot - p) / temperature
    np.testing.assert_allclose(gradients[0], by_hand, rtol=1e-5)
    np.testing.assert_allclose(gradients[1], by_hand, rtol=1e-5)


def test_an_agent_at_another_temperature_keeps_it_where_tools_change_the_agent():
    agent = ChatAgent(ScriptedEngine(["x"]), sampling=Sampling(1.0))
    env = make("rlvr/Math-v0")
    assert agent.begin(env.task, env.tools).agent.sampling.temperature == 1.0  # fitted to the tools, and kept
    other = sampled(agent, {"temperature": 0.5})
    talk = other.begin(env.task, env.tools)
    assert (talk.agent.sampling.temperature, other.begin(env.task, {}).agent.sampling.temperature) == (0.5, 0.5)
    assert talk.agent.sampling.stop_ids == agent.sampling.stop_ids
    assert agent.begin(env.task, env.tools).agent.sampling.temperature == 1.0
    conversation = agent.begin(env.task, env.tools)  # a conversation that goes on from a branch point
    assert redrawn(conversation.fork(), {"temperature": 0.5}).agent.sampling.temperature == 0.5
    assert conversation.agent.sampling.temperature == 1.0


@pytest.mark.parametrize("sampling", [{"top_p": 0.9}, {"temperature": 0.0}, {"temperature": -1}])
def test_sampling_that_cannot_be_trained_on_is_refused(sampling):
    rollouts = Rollouts(TrainConfig(env="rlvr/GuessNumber-v0"), None, None)
    draw = Draw(GuessNumber().numbered(0), env="rlvr/GuessNumber-v0", sampling=sampling)
    with pytest.raises(BadConfig, match=f"{next(iter(sampling))} = "):
        rollouts.jobs(draw, 0, "", step=0)
    assert rollouts.jobs(replace(draw, sampling={"temperature": 0.5}), 0, "", step=0)[0].sampling == {"temperature": 0.5}
    assert rollouts.jobs(draw, 0, "", step=None)  # an evaluation may
