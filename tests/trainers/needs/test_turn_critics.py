"""Critics of turns: targets and losses by hand, values that are known, what a policy learns by them, and runs."""

import asyncio
import math

import chain
import numpy as np
import pytest
import small_envs
import torch
from accelerate import Accelerator
from credit_envs import group
from onehot import TURNS, WIDTH, Forks, OneHot, crediting
from several import run_two
from small_runs import curve, episodes, goes_on_to_the_last_digit, policy, small, taught
from tiny_rows import tiny_model, token_episodes
from transformers import AutoTokenizer
from two_critics import judged, stored

import agentgym
from agentgym import TextEnv
from agentgym.episodes.episode import Episode, Group, Turn
from agentgym.errors import BadConfig
from agentgym.trainers import train
from agentgym.trainers.config.train_config import TrainConfig, newest_checkpoint
from agentgym.trainers.credit.interface import resolve
from agentgym.trainers.data.segments import build
from agentgym.trainers.learners.embedding import embedded, turn_states
from agentgym.trainers.learners.step import Scorer, TrainedModel
from agentgym.trainers.needs.plans import PLAN
from agentgym.trainers.needs.preference import preference
from agentgym.trainers.needs.turn_critics import preference as by_preference
from agentgym.trainers.needs.turn_critics.pairs import pairs
from agentgym.trainers.needs.turn_critics.preference import PreferenceCritic
from agentgym.trainers.needs.turn_critics.twin import Steps, TwinCritic, packed
from agentgym.trainers.needs.turn_q import turn_q


class NoOracle(small_envs.Small):
    """Knows no solution."""

    oracle = TextEnv.oracle


agentgym.register("small/NoOracle-v0", NoOracle, horizon=4)


def row(*numbers):
    return np.array(numbers, dtype=np.float32)


def both(state, action):
    return np.stack([row(*state), row(*action)])


def test_a_turn_comes_back_as_it_was_packed():
    made = Steps.of(
        [packed(np.stack([row(1, 2), row(3, 4)]), 0.5, np.stack([row(5, 6), row(7, 8)])), packed(np.ones((2, 2)), 1.0, None)]
    )
    assert made.states.tolist() == [[1, 2], [1, 1]] and made.actions.tolist() == [[3, 4], [1, 1]]
    assert made.later.tolist() == [[5, 6], [0, 0]] and made.rewards.tolist() == [0.5, 1.0] and made.last.tolist() == [0, 1]


def test_targets_losses_and_the_target_copy_by_hand():
    critic = TwinCritic(1, 0, lr=0.1, seed=0)  # linear: Q = w . (s, sa) + b, V = u s + c

    def set_to(values, q, v):
        for head, (weights, bias) in zip([*values.of_actions, *values.of_states], [*q, *v], strict=True):
            head.layers[0].weight.data = torch.tensor([weights])
            head.layers[0].bias.data = torch.tensor([bias])

    set_to(critic.values, [([1.0, 1.0], 0.0), ([0.0, 2.0], 1.0)], [([1.0], 0.0), ([2.0], 0.0)])
    set_to(critic.targets, [([1.0, 0.0], 0.0), ([0.0, 1.0], 0.0)], [([3.0], 0.0), ([1.0], 1.0)])
    steps = Steps.of(
        [packed(np.stack([row(1), row(2)]), 0.5, np.stack([row(3), row(9)])), packed(np.stack([row(2), row(1)]), 1.0, None)]
    )
    # V'(3) is 9 and 4: 0.5 + 0.9 * 9, 0.5 + 0.9 * 4; after the last turn the reward alone
    np.testing.assert_allclose(critic.q_targets(steps, 0.9), [[8.6, 1.0], [4.1, 1.0]], atol=1e-6)
    np.testing.assert_allclose(critic.v_targets(steps), [[1.0, 2.0], [2.0, 1.0]])  # s, and sa
    # Q is 3, 3 and 5, 3; V is 1, 2 and 2, 4
    expected = ((3 - 8.6) ** 2 + 2**2) / 2 + ((5 - 4.1) ** 2 + 2**2) / 2 + 0.0 + (0 + 3**2) / 2
    assert float(critic.loss(steps, steps, 0.9)) == pytest.approx(expected, rel=1e-6)
    # of the state values only V2 = 4 errs, 3 above its target: at expectile 0.7 it counts 2 * 0.3
    upper = expected - 3**2 / 2 + 2 * 0.3 * 3**2 / 2
    assert float(critic.loss(steps, steps, 0.9, 0.7)) == pytest.approx(upper, rel=1e-6)
    np.testing.assert_allclose(critic.judged(steps), [[3, 3], [1, 2]])  # the smaller of both
    critic.optimizer = torch.optim.SGD(critic.values.parameters(), lr=0.0)
    critic.update(steps, steps, gamma=0.9, tau=0.25)
    np.testing.assert_allclose(critic.targets.of_states[0].layers[0].weight.detach(), [[2.5]])  # 3 + (1 - 3) / 4
    np.testing.assert_allclose(critic.targets.of_actions[1].layers[0].bias.detach(), [0.25])


def test_action_values_are_of_the_present_policy_though_most_turns_are_of_another():
    """Four states in line; one action goes on, the other ends it all; 1 at the end. The buffer took either alike."""

    def turn(k, action):
        state, after = np.eye(WIDTH, dtype=np.float32)[k], np.eye(WIDTH, dtype=np.float32)[4 + 2 * k + action]
        follows = np.stack([np.eye(WIDTH, dtype=np.float32)[k + 1]] * 2) if action and k < 3 else None
        return packed(np.stack([state, after]), float(action == 1 and k == 3), follows)

    buffer = Steps.of([turn(k, action) for k in range(4) for action in (0, 1)])
    fresh = Steps.of([turn(k, 1) for k in range(4)])
    critic = TwinCritic(WIDTH, 0, lr=0.02, seed=0)
    for _ in range(1500):
        critic.update(buffer, fresh, gamma=0.9, tau=0.1)
    q, v = critic.judged(buffer)
    np.testing.assert_allclose(q[1::2], [0.9**3, 0.9**2, 0.9, 1.0], atol=0.03)
    np.testing.assert_allclose(v[1::2], [0.9**3, 0.9**2, 0.9, 1.0], atol=0.03)  # and not the half, quarter, … of that
    np.testing.assert_allclose(q[::2], 0.0, atol=0.03)


def valued(*turns):
    made = [Turn("o", output_ids=[1], prompt_ids=[1], extra=dict(extra)) for extra in turns]
    return Episode("e", "t", "t", 0, turns=made)


def test_archer_is_the_difference_of_the_smaller_values():
    made = valued({"turn_q": 0.7, "turn_v": 0.5}, {"turn_q": math.nan, "turn_v": math.nan}, {"turn_q": 0.1, "turn_v": 0.4})
    credit = resolve("archer", warmup=2)
    np.testing.assert_allclose(credit([group(made)], step=2)[0][0], [0.2, 0.0, -0.3], atol=1e-7)
    assert credit([group(made)], step=1)[0][0].tolist() == [0, 0, 0]
    whitened = resolve("archer", whiten=True)([group(made)])[0][0]
    assert whitened.mean() == pytest.approx(0, abs=1e-7) and whitened.std() == pytest.approx(1, abs=1e-6)


def test_sweet_is_less_the_mean_of_the_group():
    made = [valued({"preference": 1.0}, {"preference": 3.0}), valued({"preference": -1.0}, {"preference": math.nan})]
    credit = resolve("sweet_head", whiten=False)
    np.testing.assert_allclose(np.concatenate(credit([group(*made)])[0]), [0.0, 2.0, -2.0, 0.0], atol=1e-7)


def test_the_preference_loss_by_hand():
    critic = PreferenceCritic(1, 0, lr=0.1, beta=0.5, seed=0)
    critic.head.layers[0].weight.data = torch.tensor([[1.0, 2.0]])
    better = by_preference.packed(1.0, [np.stack([row(1), row(1)]), np.stack([row(0), row(0.5)])])  # A 3 and 1
    worse = by_preference.packed(0.0, [np.stack([row(2), row(0)])])  # A 2
    assert critic.judged(better) == pytest.approx([3, 1]) and critic.judged(worse) == pytest.approx([2])
    assert pairs([[worse, better, worse], [better]]) == [(better, worse)] * 2
    assert float(critic.loss([(better, worse)])) == pytest.approx(math.log(1 + math.exp(-0.5 * (4 - 2))))
    assert critic.update([(better, worse)] * 3) > float(critic.loss([(better, worse)]))


@pytest.mark.long
@pytest.mark.parametrize("name", ["archer", "sweet_head"])
def test_a_policy_learns_a_chain_of_choices_by_it(name):
    table, run, state = Forks(), OneHot(), {}
    if name == "archer":
        credit = crediting(resolve("archer"), turn_q, run, state, hidden=0, lr=0.05, updates=30, capacity=512, gamma=1.0)
    else:
        credit = crediting(resolve("sweet_head"), preference, run, state, hidden=0, lr=0.05, updates=20, plan_tokens=0)
    rate = 3.0 if name == "archer" else 0.7  # its advantages are not whitened
    assert table.learn(credit, steps=60, lr=rate) > 0.8, {key: value.tolist() for key, value in table.logits.items()}


def secret(number, answer, attempt, rng):
    """Of two actions a turn the one is right that the task's answer names, which no state shows."""
    turns = [Turn("o", prompt_ids=[number, k], output_ids=[int(rng.random() < 0.5)], action="") for k in range(TURNS)]
    right = sum(turn.output_ids[0] == answer for turn in turns)
    return Episode("e", f"t{number}", f"t{number}", 0, attempt, turns, reward=right / TURNS, success=right == TURNS)


@pytest.mark.parametrize("informed", [True, False])
def test_who_sees_the_answer_says_which_turn_was_right_at_a_task_it_never_met(informed):
    """Each task is met once. Its tokens say nothing of its answer, the plan in front of them says all."""
    answers = {f"t{number}": number % 2 for number in range(40)}
    run, state, rng = OneHot(answers), {}, np.random.default_rng(0)

    def of_plan_and_action(rows):
        states = []
        for row in rows:
            plan = row.ids[0] - 99 if row.ids[0] >= 100 else 0
            numbers = row.turns[row.mask] % 2  # 0: before the action; 1: behind it
            symbols = [
                row.ids[place - 1] + 1 if after else 0
                for place, after in zip(np.flatnonzero(row.mask), numbers, strict=True)
            ]
            states.append(np.stack([np.eye(9, dtype=np.float32)[3 * plan + action] for action in symbols]))
        return states

    run.learner.embed = of_plan_and_action
    hits = []
    for step in range(20):
        played = [
            Group(f"t{number}", "agent", [secret(number, number % 2, n, rng) for n in range(6)])
            for number in (2 * step, 2 * step + 1)
        ]
        asyncio.run(preference(played, run=run, step=step, state=state, hidden=0, lr=0.05, plan_tokens=8 if informed else 0))
        advantages = resolve("sweet_head")(played)
        if step >= 15:
            hits += [
                (advantage > 0) == (turn.output_ids[0] == answers[one.task_id])
                for made, rows in zip(played, advantages, strict=True)
                for one, row in zip(made, rows, strict=True)
                for turn, advantage in zip(one.turns, row, strict=True)
            ]
    share = sum(hits) / len(hits)
    assert share > 0.95 if informed else share < 0.7, share


def test_states_of_turns_are_those_of_the_model_whatever_follows_them():
    model = tiny_model()
    config = TrainConfig(batch_tokens=40)
    learner = TrainedModel(Accelerator(cpu=True), Scorer(model, 1.0, "rows"), [])
    prefix = [7, 8, 9]
    for window in (False, True):
        made, _ = token_episodes(window=window)
        made[0].turns[0].output_ids = []  # nothing was said
        rows = 0

        def embed(batch):
            nonlocal rows
            rows += len(batch)
            return embedded(learner, batch, config)

        for episode, states in zip(made, turn_states(made, embed, [prefix] * len(made)), strict=True):
            for turn, state in zip(episode.turns, states, strict=True):
                if not turn.output_ids:
                    assert state is None
                    continue
                ids = torch.tensor([[*prefix, *turn.prompt_ids, *turn.output_ids]])
                with torch.no_grad():
                    hidden = model.model(ids).last_hidden_state[0]
                before = len(prefix) + len(turn.prompt_ids) - 1
                np.testing.assert_allclose(state, hidden[[before, -1]], atol=1e-4)
        assert rows == (len([e for e in made if any(t.output_ids for t in e.turns)]) if not window else rows)
    assert not learner.scorer.states and build(made)


RUNS = {
    "archer": {
        "credit": "archer",
        "needs_options": {"updates": 5, "batch": 16, "hidden": 8},
        "credit_options": {"whiten": True},
    },
    "sweet_head": {"credit": "sweet_head", "needs_options": {"updates": 5, "batch": 8, "hidden": 8}, "credit_options": {}},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return taught(tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize("name", RUNS)
def test_a_resumed_run_goes_on_to_the_last_digit(tmp_path, model, name):
    goes_on_to_the_last_digit(tmp_path, lambda folder: small(folder, model, **RUNS[name]))
    rows = [line for line in curve(tmp_path / "whole") if line["phase"] == "rl"]
    assert all(line["critic_loss" if name == "archer" else "preference_loss"] > 0 for line in rows)


def test_the_plan_is_in_no_prompt_that_is_sampled_from_or_trained(tmp_path, model, monkeypatch):
    from agentgym.engines.hf.engine import HFEngine
    from agentgym.trainers.learners import local, step

    read = {"sampled": [], "trained": [], "embedded": []}
    complete, pack, embed = HFEngine.complete, step.pack, local.embedded

    async def completing(self, request):
        read["sampled"].append(request.prompt_ids)
        return await complete(self, request)

    def packing(rows, *rest, **options):
        read["trained"] += [row.ids.tolist() for row in rows]
        return pack(rows, *rest, **options)

    def embedding(learner, rows, *rest, **options):
        read["embedded"] += [row.ids.tolist() for row in rows]
        return embed(learner, rows, *rest, **options)

    monkeypatch.setattr(HFEngine, "complete", completing)
    monkeypatch.setattr(step, "pack", packing)
    monkeypatch.setattr(local, "embedded", embedding)
    train(small(tmp_path / "run", model, **RUNS["sweet_head"]))
    start = AutoTokenizer.from_pretrained(newest_checkpoint(model)).encode(PLAN, add_special_tokens=False)[:3]

    def contains_plan(ids):
        return any(list(ids[place : place + len(start)]) == start for place in range(len(ids)))

    assert read["sampled"] and read["trained"] and read["embedded"]
    assert all(contains_plan(ids) for ids in read["embedded"])
    assert not any(contains_plan(ids) for ids in (*read["sampled"], *read["trained"]))
    written = (tmp_path / "run" / "episodes.jsonl").read_text()
    assert PLAN.strip() not in written


@pytest.mark.long
def test_values_on_a_chain_become_the_discounted_returns(tmp_path):
    model = policy(tmp_path / "model", "small/Chain-v0")
    config = small(
        tmp_path / "run", model, env=f"{chain.__name__}:small/Chain-v0", credit="archer", credit_options={}, lr=1e-6,
        tasks_per_step=2, group_size=2, horizon=(chain.LENGTH,), minibatches=1, agent="window", window_turns=0,
        turn_tokens=1, steps=8, checkpoint_every=100, needs_options={"gamma": 0.9, "lr": 1e-2, "updates": 120, "batch": 32},
    )  # fmt: skip
    train(config)
    values = {
        (made["task_id"], k): (turn["extra"]["turn_q"], turn["extra"]["turn_v"])
        for made in episodes(tmp_path / "run")[-4:]
        for k, turn in enumerate(made["turns"])
    }
    for k in range(chain.LENGTH):
        assert values["chain-0", k] == pytest.approx((0.9 ** (3 - k),) * 2, abs=0.1)
        assert values["chain-1", k] == pytest.approx((0.0, 0.0), abs=0.1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"credit": "archer", "credit_options": {}, "needs_options": {"gamma": 1.5}}, "gamma of needs 'turn_q' is 1.5"),
        ({"credit": "archer", "credit_options": {"warmup": -1}}, "warmup of credit 'archer' is -1"),
        (
            {
                "credit": "archer",
                "credit_options": {},
                "learner": "tinker:http://127.0.0.1:1",
                "lora_rank": 8,
                "sft_episodes": 0,
            },
            "needs 'turn_q' with learner 'tinker:http://127.0.0.1:1', which gives no hidden states",
        ),
        ({"credit": "sweet_head", "credit_options": {}, "env": f"{__name__}:small/NoOracle-v0"}, "has no oracle"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_loaded(tmp_path, model, changes, message):
    with pytest.raises(BadConfig, match=message):
        train(small(tmp_path / "run", model, **changes))


@pytest.mark.long
def test_two_processes_hold_the_critic_of_one(tmp_path):
    run_two("two_critics.py", tmp_path / "found")
    first, second = torch.load(tmp_path / "found", weights_only=True)
    made = stored()
    alone, critics = judged([made[0], made[2], made[1], made[3]], lambda items: items)  # in the order of the processes
    assert first[1] == second[1] and first[1] == critics
    half = len(alone) // 2
    of_first = len(first[0]) // 2
    assert alone[:of_first] == first[0][:of_first] and alone[of_first:half] == second[0][: half - of_first]
    np.testing.assert_array_equal(alone[half:], [*first[0][of_first:], *second[0][half - of_first :]])
    assert np.ptp([row[0] for row in alone]) > 0 and np.ptp([row[2] for row in alone]) > 0


def test_a_process_without_groups_takes_part():
    assert judged([], lambda items: items) == ([], [None, None])
