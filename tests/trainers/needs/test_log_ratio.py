"""SWEET-RL's critic: its numbers by hand, what it says of turns it never saw, and runs with it."""

import asyncio
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from credit_envs import group
from small_runs import curve, goes_on_to_the_last_digit, small, taught
from tiny_rows import tiny_model

from agentgym import make
from agentgym.episodes.episode import Episode, Group, Turn
from agentgym.errors import BadConfig
from agentgym.trainers import train
from agentgym.trainers.credit.interface import resolve
from agentgym.trainers.needs.interface import NEEDS
from agentgym.trainers.needs.log_ratio import log_ratio
from agentgym.trainers.needs.turn_critics.log_ratio import LogRatioCritic, packed
from agentgym.trainers.needs.turn_critics.pairs import pairs

TURNS = 3


class Alone:
    """A run of one process whose oracle's plan is one token that the answer decides."""

    def __init__(self, answers):
        self.answers, self.resources = answers, {}
        self.learner = SimpleNamespace(model=tiny_model(), engine=None)
        self.config = SimpleNamespace(seed=0, temperature=1.0, batch_tokens=2000)
        encoder = SimpleNamespace(plain=lambda text: [40 + int(text.split()[-1])])
        agents = {"e": SimpleNamespace(template=SimpleNamespace(encoder=encoder))}
        self.rollouts = SimpleNamespace(pool=self, agents=lambda temperature: agents)

    def gather(self, items):
        return items

    def resource(self, name, build):
        if name not in self.resources:
            self.resources[name] = build()
        return self.resources[name]

    def env_name(self, episode):
        return "e"

    def task(self, episode):
        return SimpleNamespace(id=episode.task_id)

    async def collect(self, agent, jobs):
        turns = [[Turn("", action=str(self.answers[job.task.id]))] for job in jobs]
        return [Episode("e", "t", "t", 0, turns=made, success=True) for made in turns]


def logprobs(model, prompt, output):
    ids = torch.tensor([[*prompt, *output]])
    with torch.no_grad():
        every = torch.log_softmax(model(input_ids=ids).logits[0, :-1], -1)
    return every[torch.arange(ids.shape[1] - 1), ids[0, 1:]][-len(output) :]


def ratio(model, plan, turn):
    prompt = plan + turn.prompt_ids
    return float((logprobs(model, prompt, turn.output_ids) - logprobs(tiny_model(), prompt, turn.output_ids)).mean())


def played(reward, *outputs):
    turns, context = [], []
    for number, output in enumerate(outputs):
        prompt = [*context, 5, number]
        turns.append(Turn("o", prompt_ids=prompt, output_ids=list(output)))
        context = [*prompt, *output]
    return Episode("e", "t", "t", 0, turns=turns, reward=reward)


def test_the_advantage_is_the_mean_log_ratio_after_the_plan():
    critic, plan = LogRatioCritic(tiny_model(), lr=0.1, beta=0.5, tokens=30), [7, 8]
    better, worse = played(1.0, (3, 4), (9,)), played(0.0, (6, 6, 6))
    silent = Turn("o", prompt_ids=[1])  # cut by the context: no tokens
    worse.turns.append(silent)
    first, second = critic.referred([packed(better, plan), packed(worse, plan)])
    assert [values.tolist() for values in critic.judged([first, second])] == [
        pytest.approx([0.0, 0.0], abs=1e-6),
        pytest.approx([0.0], abs=1e-6),
    ]
    assert first.turns == 2 and second.turns == 1 and pairs([[second, first], [first]]) == [(first, second)]
    assert float(critic.loss([(first, second)])) == pytest.approx(math.log(2))
    other = tiny_model(1)
    critic.scorer.model.load_state_dict(other.state_dict())
    expected = [[ratio(other, plan, turn) for turn in episode.turns if turn.output_ids] for episode in (better, worse)]
    assert [values.tolist() for values in critic.judged([first, second])] == [
        pytest.approx(row, abs=1e-4) for row in expected
    ]
    gap = sum(expected[0]) - sum(expected[1])
    assert float(critic.loss([(first, second)])) == pytest.approx(math.log(1 + math.exp(-0.5 * gap)), abs=1e-4)


def test_the_reference_stays_and_both_return_from_a_checkpoint():
    policy = tiny_model()
    critic = LogRatioCritic(policy, lr=0.01, beta=1.0, tokens=100)
    scored = critic.referred([packed(played(1.0, (3, 4)), []), packed(played(0.0, (9, 8)), [])])
    losses = [critic.update([(scored[0], scored[1])]) for _ in range(5)]
    assert losses == sorted(losses, reverse=True) and losses[0] == pytest.approx(math.log(2))
    assert all(torch.equal(a, b) for a, b in zip(policy.parameters(), tiny_model().parameters(), strict=True))
    resumed = LogRatioCritic(tiny_model(3), lr=0.01, beta=1.0, tokens=100)
    resumed.load_reference(critic.saved_reference())
    resumed.load(critic.saved())
    assert resumed.referred(scored) == critic.referred(scored) == scored
    assert resumed.update([(scored[0], scored[1])]) == critic.update([(scored[0], scored[1])])


def test_the_credit_is_less_the_mean_of_the_group():
    def valued(*numbers):
        turns = [Turn("o", output_ids=[1], prompt_ids=[1], extra={"log_ratio": number}) for number in numbers]
        return Episode("e", "t", "t", 0, turns=turns)

    advantages = resolve("sweet", whiten=False)([group(valued(1.0, 3.0), valued(-1.0, math.nan))])[0]
    np.testing.assert_allclose(np.concatenate(advantages), [0.0, 2.0, -2.0, 0.0], atol=1e-7)


def secret(number, answer, attempt, rng):
    """Return an episode of two possible tokens a turn; the right one is named by the task's answer, and by no prompt."""
    tokens = [11 + int(rng.random() < 0.5) for _ in range(TURNS)]
    right = sum(token - 11 == answer for token in tokens)
    turns = [Turn("o", prompt_ids=[number % 7, 20 + k], output_ids=[token], action="") for k, token in enumerate(tokens)]
    return Episode("e", f"t{number}", f"t{number}", 0, attempt, turns, reward=right / TURNS, success=right == TURNS)


@pytest.mark.parametrize("plan_tokens", [8, 0])
def test_a_critic_that_sees_the_answer_ranks_turns_of_new_tasks(plan_tokens):
    """Each task is played once. Without the plan nothing says which token is right."""
    run, state, rng, hits = Alone({f"t{n}": n % 2 for n in range(24)}), {}, np.random.default_rng(0), []
    for step in range(12):
        groups = [
            Group(f"t{number}", "agent", [secret(number, number % 2, n, rng) for n in range(6)])
            for number in (2 * step, 2 * step + 1)
        ]
        options = {"lr": 1e-2, "updates": 5, "batch": 8, "plan_tokens": plan_tokens}
        logged = asyncio.run(log_ratio(groups, run=run, step=step, state=state, **options))
        assert 0 <= logged["log_ratio_right"] <= 1
        if step >= 8:
            hits += [
                (turn.extra["log_ratio"] > other.extra["log_ratio"])
                for episode in (episode for made in groups for episode in made)
                for turn in episode.turns
                for other in episode.turns
                if turn.output_ids[0] - 11 == run.answers[episode.task_id] != other.output_ids[0] - 11
            ]
    share = sum(hits) / len(hits)
    assert share > 0.9 if plan_tokens else share < 0.7, share


def test_each_process_loads_the_reference_once(monkeypatch):
    run, state, loads = Alone({}), {}, []
    monkeypatch.setattr(LogRatioCritic, "load_reference", lambda critic, content: loads.append(content))
    for step in range(2):
        asyncio.run(log_ratio([], run=run, step=step, state=state, updates=0))
        run = Alone({}) if step else run  # another process goes on with the state
    asyncio.run(log_ratio([], run=run, step=2, state=state, updates=0))
    assert loads == [state["reference"]] * 2


RUN = {"credit": "sweet", "needs_options": {"updates": 2, "batch": 4, "lr": 1e-3}, "credit_options": {}}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return taught(tmp_path_factory.mktemp("model"))


def test_a_resumed_run_goes_on_to_the_last_digit(tmp_path, model):
    goes_on_to_the_last_digit(tmp_path, lambda folder: small(folder, model, **RUN))
    rows = [line for line in curve(tmp_path / "whole") if line["phase"] == "rl"]
    assert all(line["log_ratio_loss"] > 0 and 0 <= line["log_ratio_right"] <= 1 for line in rows)


def test_a_learner_that_cannot_lend_its_weights_is_refused(tmp_path, model):
    remote = {"learner": "tinker:http://127.0.0.1:1", "lora_rank": 8, "sft_episodes": 0}
    with pytest.raises(BadConfig, match="the critic is a copy of them"):
        train(small(tmp_path / "run", model, **RUN, **remote))
    with pytest.raises(BadConfig, match="its critic is a copy of the policy in each process"):
        sharded = SimpleNamespace(agent="chat", sharded=True, sharding="fsdp2")
        NEEDS.looked_up("log_ratio").attributes["check"](sharded, make("rlvr/GuessNumber-v0"), "e")
