"""What credit needs to know of each turn: continuations and probabilities of the answer, by hand and in whole runs."""

import asyncio
import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from guesses import Guesses, computed, made, played

import agentgym
from agentgym.episodes.episode import groups
from agentgym.errors import BadConfig
from agentgym.rollout.draw import Draw
from agentgym.trainers import TrainConfig, train
from agentgym.trainers.config.recipe_files import read_config, to_toml
from agentgym.trainers.config.train_config import defaults
from agentgym.trainers.credit.interface import resolve
from agentgym.trainers.learners.step import Scorer, TrainedModel, scored
from agentgym.trainers.losses.interface import resolve_loss
from agentgym.trainers.model.policy import PolicySize, init_policy, load_policy
from agentgym.trainers.needs import interface as needs
from agentgym.trainers.needs.interface import resolve_needs
from agentgym.trainers.run.preflight import check_run

sys.path.append(str(Path(__file__).parents[3] / "examples" / "stages"))

TINY = PolicySize(width=32, layers=1, heads=2, vocabulary=400)


NO_SAMPLER = SimpleNamespace(task=lambda id: None)


@pytest.mark.long
@pytest.mark.parametrize(
    "way", [{}, {"agent": "window"}, {"env": "me/InWorkers-v0", "workers": 1}], ids=["chat", "window", "worker"]
)
def test_branches_by_hand(way):
    run = made(**way)

    async def all_of_it():  # worker processes belong to one event loop
        name = next(iter(run.rollouts.envs))
        draws = [Draw(run.rollouts.env(name).numbered(n), env=name) for n in (0, 3)]
        found = groups(await run.rollouts.collect(draws, 0))
        return found, await needs.compute(found, resolve_needs(["branches"], {"k": 4}), run, 0)

    try:
        found, took = asyncio.run(all_of_it())
    finally:
        run.rollouts.close()
    for episode in (episode for group in found for episode in group):
        assert [turn.action for turn in episode.turns][:2] == ["1", "2"] and episode.success
        assert [turn.extra["branches"] for turn in episode.turns] == [1 / 4, 2 / 4, 3 / 4]
        for number, turn in enumerate(episode.turns):  # a continuation is asked exactly what the turn was asked
            session = f"{episode.group_id}/{episode.attempt}/{number}#0#agent"
            assert run.rollouts.engine.prompts[session, 0] == list(turn.prompt_ids)
    # a reply is its digits and a stop token: 3 tokens that win, or 2 in each turn that is left
    tokens = (3 + 3 * 3 * 2) + (2 * 3 + 2 * 2 * 2) + (3 * 3 + 2)
    assert took == {"branch_episodes": 4 * 12, "branch_tokens": 4 * tokens, "branch_faults": 0, "branch_turns_lost": 0}


def test_branches_of_every_second_turn_and_the_credit_that_takes_them():
    run = made()
    found = played(run)
    assert computed(run, found, "branches", k=2, every=2)["branch_episodes"] == 4 * 2 * 2
    values = [turn.extra["branches"] for turn in found[0][0].turns]
    assert values[0] == 0.5 and math.isnan(values[1]) and values[2] == 1.0
    # turns 0 and 1 share 0 + 1.0 - 0.5; turn 2 was paid 1 and was worth that
    np.testing.assert_allclose(resolve("vine:vine")(found)[0][0], [0.5, 0.5, 0.0])


def test_turns_that_cannot_be_reached_again_are_lost_and_counted():
    run = made("me/Forgetful-v0")
    found = played(run)
    took = computed(run, found, "branches", k=2)
    assert (took["branch_episodes"], took["branch_turns_lost"]) == (0, 12)
    assert all(math.isnan(turn.extra["branches"]) for group in found for episode in group for turn in episode.turns)


def test_probe_by_hand():
    def score(rows):
        return {"logprobs": [np.resize([-0.5, -1.0], len(row)) for row in rows]}

    run = made(learner=SimpleNamespace(score=score))
    found = played(run)
    computed(run, found, "probe", mean="none")  # the answer is two digits and a stop token
    whole = [turn.extra["probe"] for turn in found[0][0].turns]
    assert set(np.round(np.log(whole), 6)) <= {-2.0, -2.5}  # each of the two is the last token of some prompts
    computed(run, found, "probe")
    assert [turn.extra["probe"] for turn in found[0][0].turns] == pytest.approx([p ** (1 / 3) for p in whole])
    computed(run, found, "probe", mean="arithmetic")
    by_sum = {-2.0: (2 * math.exp(-0.5) + math.exp(-1)) / 3, -2.5: (math.exp(-0.5) + 2 * math.exp(-1)) / 3}
    expected = [by_sum[round(math.log(p), 6)] for p in whole]
    assert [turn.extra["probe"] for turn in found[0][0].turns] == pytest.approx(expected)


def test_probe_is_the_models_probability_of_the_answer_after_the_very_tokens_of_the_turn(tmp_path):
    model, tokenizer = load_policy(init_policy("rlvr/GuessNumber-v0", tmp_path / "model", size=TINY, episodes=5))
    engine = Guesses()
    engine.tokenizer = tokenizer
    config = TrainConfig(batch_tokens=100)
    trained = TrainedModel(Accelerator(cpu=True), Scorer(model, 1.0), [])
    run = made(engine=engine, learner=SimpleNamespace(score=lambda rows: scored(trained, rows, config)))
    found = played(run)
    took = computed(run, found, "probe", mean="none")
    lengths = 0
    for episode in (episode for group in found for episode in group):
        secret = 10 + int(episode.task_id.removeprefix("few-"))
        answer = [*tokenizer.encode(str(secret)), tokenizer.eos_token_id]
        for turn in episode.turns:
            ids = torch.tensor([*turn.prompt_ids, *answer])
            every = torch.log_softmax(model(input_ids=ids[None]).logits[0, :-1], -1)
            expected = every[torch.arange(len(ids) - 1), ids[1:]][-len(answer) :].sum().exp().item()
            assert turn.extra["probe"] == pytest.approx(expected, rel=1e-4)
            lengths += len(ids)
        assert episode.turns[-1].output_ids == answer  # spelled as the policy spells it
    assert took == {"probe_tokens": lengths}


def test_the_gain_of_a_turn_by_hand():
    run = made(learner=SimpleNamespace(score=lambda rows: {"logprobs": [np.full(len(row), -0.5) for row in rows]}))
    found = played(run)
    for turn, value in zip(found[0][0].turns, (0.1, 0.4, 0.3), strict=True):
        turn.extra["probe"] = value
    computed(run, found[1:], "probe")
    found[0][1].turns, found[0][1].reward = found[0][0].turns[:1], 0.0
    # rewards 1 and 0: +- 0.5, and half the gain of the first two turns
    first, second = resolve("information_gain:information_gain", weight=0.5)(found[:1])[0]
    np.testing.assert_allclose(first, [0.5 + 0.15, 0.5 - 0.05, 0.5])
    np.testing.assert_allclose(second, [-0.5])


@pytest.mark.parametrize(
    ("credit", "changes", "message"),
    [
        ("information_gain:information_gain", {"env": "rlvr/Household-v0"}, "declares no hidden answers"),
        ("information_gain:information_gain", {"agent": "summary"}, "no demonstrator"),
        ("information_gain:information_gain", {"needs_options": {"k": 2}}, "option of needs probe.*'k'"),
        ("vine:vine", {"env": "rlvr/TicTacToe-v0"}, "roles X, O"),
        ("vine:vine", {"agent": "json:loads"}, "brings its own environment"),
        ("vine:vine", {"needs_options": {"k": 0}}, "k of needs 'branches' is 0; expected a number from 1"),
        ("vine:vine", {"needs_options": {"every": "two"}}, "every of needs 'branches' is 'two'"),
        ("grpo", {"needs_options": {"k": 2}}, "needs.k has no effect"),
        ("turn_gae", {"needs_options": {"policy_weight": -1}}, "policy_weight of needs 'values' is -1"),
    ],
)
def test_needs_that_cannot_be_computed_are_refused_before_anything_is_loaded(tmp_path, credit, changes, message):
    config = TrainConfig(**{"env": "rlvr/GuessNumber-v0", "out": str(tmp_path / "run"), "credit": credit, **changes})
    with pytest.raises(BadConfig, match=message):
        check_run(config)


def test_options_of_needs_are_flags_and_keys(tmp_path):
    config = TrainConfig(credit="vine:vine", needs_options={"k": 2, "branches.every": 3})
    path = tmp_path / "run.toml"
    path.write_text(to_toml(config))
    assert read_config(path) == config
    from agentgym.cli.flags import read_flags

    words = ["--credit", "vine:vine", "--needs.k", "2", "--needs.branches.every", "3"]
    options = read_flags(TrainConfig, words, command="train", default=defaults()).needs_options
    assert resolve_needs(["branches"], options)[0].options == {"k": 2, "every": 3}


@pytest.mark.parametrize(
    ("credit", "options", "counted"),
    [
        ("vine:vine", {"k": 2}, ["branch_episodes", "branch_tokens"]),
        ("information_gain:information_gain", {}, ["probe_tokens"]),
    ],
)
def test_a_run_with_a_credit_of_ones_own_that_needs_them(tmp_path, credit, options, counted):
    run = tmp_path / "run"
    config = TrainConfig(
        env="guesses:me/Few-v0", out=str(run), steps=1, sft_episodes=8, tasks_per_step=2, group_size=2, turn_tokens=6,
        eval_every=0, test_tasks=0, select="keep", threads=1, credit=credit, needs_options=options, horizon=(3,),
    )  # fmt: skip
    train(config)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    row = next(row for row in rows if row["phase"] == "rl")
    assert all(row[name] > 0 for name in counted)
    turns = [turn for episode in agentgym.read_episodes(run / "episodes.jsonl") for turn in episode.turns]
    assert turns and all(resolve(credit).needs[0] in turn.extra for turn in turns)


def example(name):
    """Run the example of docs/seams that declares a stage of this name."""
    pages = sorted((Path(__file__).parents[3] / "docs" / "seams").glob("*.md"))
    text = "".join(page.read_text() for page in pages)
    block = next(part for part in text.split("```python\n")[1:] if f'("{name}"' in part)
    exec(block.split("```")[0], {"__name__": "example"})


def test_the_examples_of_the_page_run():
    for name in ("seen_before", "best_so_far", "my_loss"):
        example(name)
    run = made()
    found = played(run)
    computed(run, found, "seen_before")
    found[0][1].reward = 0.0
    assert found[0][0].turns[1].state_key != found[0][0].turns[0].state_key
    seen = [turn.extra["seen_before"] for turn in found[0][0].turns]
    assert resolve("no_circles", cost=0.2)(found[:1])[0][0].tolist() == pytest.approx([0.5 - 0.2 * value for value in seen])
    credit = resolve("best_so_far")
    assert [arrays[0].tolist() for arrays in credit(found[:1])[0:1]] == [[0.5] * 3]
    assert credit.stage.state == {"best": 1.0}
    assert resolve_loss(TrainConfig(loss="my_loss", loss_options={"cap": 3})).options == {"cap": 3.0}
