"""Distillation from a teacher on the student's own tokens: by hand, against exact gradients, and in whole runs."""

import asyncio
import itertools
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import small_runs
import torch
from several import run_two
from small_runs import curve, episodes, small, trusted
from tiny_rows import tiny_model, token_episodes

from agentgym.engines.hf.engine import HFEngine
from agentgym.episodes.episode import Episode, Group, Turn, groups
from agentgym.errors import BadConfig, EngineDead, Fault
from agentgym.trainers import TrainConfig, resume, train
from agentgym.trainers.config.recipe_files import to_toml
from agentgym.trainers.credit.interface import resolve
from agentgym.trainers.model.policy import PolicySize, init_policy
from agentgym.trainers.needs.interface import NEEDS
from agentgym.trainers.needs.teacher import different
from agentgym.trainers.run.preflight import check_run

STATES = 3


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    return small_runs.taught(tmp_path_factory.mktemp("taught"))


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    """A policy that imitation has moved a little: enough where nothing has to be learned from it."""
    return small_runs.taught(tmp_path_factory.mktemp("teacher"), episodes=8)


def distilled(logprobs, teacher, *, reward=0.0):
    """Return an episode of turns with these log-probabilities and the teacher's."""
    episode = Episode("e", "t", "t", 0, reward=reward)
    for own, theirs in zip(logprobs, teacher, strict=True):
        turn = Turn("o", prompt_ids=[0], output_ids=[1] * len(own), logprobs=own)
        turn.extra["teacher_logprobs"] = np.array(theirs, dtype=np.float32)
        episode.turns.append(turn)
    episode.turns[-1].reward = reward
    return episode


def credited(credit, *made):
    return [array.tolist() for array in credit([Group("t", "agent", list(made))])[0]]


def test_distill_by_hand():
    one = distilled([[-1.0, -2.0], [-3.0]], [[-0.5, -4.0], [-1.0]], reward=1.0)  # log T - log p: 0.5, -2, 2
    two = distilled([[-1.0]], [[-1.5]])
    assert credited(resolve("distill"), one, two) == [[0.5, -2.0, 2.0], [-0.5]]
    assert credited(resolve("distill", weight=0.5, gamma=0.5), one) == [[0.5 * (0.5 - 1 + 0.5), 0.5 * (-2 + 1), 1.0]]
    # dr_grpo: rewards 1 and 0 give +- 0.5, for every token
    assert credited(resolve("distill", base="dr_grpo"), one, two) == [[1.0, -1.5, 2.5], [-1.0]]
    gigpo = resolve("distill", base="grpo", base_options={"norm": "mean"}, weight=0.0)
    assert credited(gigpo, one, two) == [[0.5] * 3, [-0.5]]


def test_tokens_that_nobody_scored_count_for_nothing_and_tokens_that_nobody_sampled_are_refused():
    one = distilled([[-1.0], [-2.0]], [[-0.5], [-1.0]])
    del one.turns[0].extra["teacher_logprobs"]
    assert credited(resolve("distill"), one) == [[0.0, 1.0]]
    one.turns[1].logprobs = []
    with pytest.raises(BadConfig, match="1 tokens with 0 log-probabilities"):
        credited(resolve("distill"), one)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"base": "gripo"}, "grpo"),
        ({"base": "turn_gae"}, "needs values"),
        ({"gamma": 2}, "gamma"),
        ({"base_options": {"x": 1}}, ""),
    ],
)
def test_a_base_that_cannot_be_is_refused(options, message):
    if options.get("base_options"):
        options = {"base": "grpo", **options}
    with pytest.raises(BadConfig, match=message):
        resolve("distill", **options)


def sequences(logits, teacher):
    """Return every sequence of three tokens with its log-probabilities under a policy that sees the token before."""
    for tokens in itertools.product(range(STATES), repeat=3):
        before = (STATES, *tokens[:-1])
        yield tokens, before, logits.log_softmax(-1)[before, tokens], teacher.log_softmax(-1)[before, tokens]


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_the_expected_update_is_the_exact_gradient_of_the_reverse_kl(gamma):
    torch.manual_seed(0)
    logits = torch.randn(STATES + 1, STATES, dtype=torch.float64, requires_grad=True)
    teacher = torch.randn(STATES + 1, STATES, dtype=torch.float64)
    every = list(sequences(logits, teacher))
    if gamma:  # of whole sequences
        exact = sum(own.sum().exp() * (own - theirs).sum() for _, _, own, theirs in every)
    else:  # of each token, at the states as they are visited now
        gap = (logits.softmax(-1) * (logits.log_softmax(-1) - teacher.log_softmax(-1))).sum(-1)
        exact = sum(own.sum().exp().detach() * gap[list(before)].sum() for _, before, own, _ in every)
    (expected,) = torch.autograd.grad(exact, logits, retain_graph=True)
    credit = resolve("distill", gamma=gamma)
    policy_gradient = torch.zeros(())
    for tokens, _, own, theirs in every:
        array = credit([Group("t", "agent", [distilled([own.tolist()], [theirs.tolist()])])])[0][0]
        assert len(array) == len(tokens)
        policy_gradient = policy_gradient - own.sum().exp().detach() * (torch.tensor(array) * own).sum()
    (found,) = torch.autograd.grad(policy_gradient, logits)
    assert float(expected.abs().max()) > 0.05
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)  # `turn.extra` holds float32


def fake_run(tokenizer=None, temperature=1.0):
    captured = {}
    return SimpleNamespace(
        config=SimpleNamespace(temperature=temperature),
        rollouts=SimpleNamespace(tokenizer=tokenizer),
        accelerator=SimpleNamespace(device="cpu"),
        gather=lambda items: items,
        resource=lambda name, make: captured[name] if name in captured else captured.setdefault(name, make()),
    )


def needed(found, run, **options):
    return asyncio.run(NEEDS.resolve("teacher_logprobs", options)(found, run=run))


def made():
    """Return an engine over a tiny model; named as a teacher of one's own."""
    return HFEngine(tiny_model(seed=1), None, slots=1)


class Failing:
    """A teacher whose server has gone."""

    tokenizer = None

    async def score(self, ids, temperature=1.0):
        raise Fault("no server", reason="engine")


def test_the_teacher_scores_the_very_tokens_of_each_turn():
    played, _ = token_episodes(n=3)
    played[0].turns[0].extra["temperature"] = 0.5
    found = groups(played)
    took = needed(found, fake_run(temperature=0.7), teacher=f"{__name__}:made")
    model, gaps = tiny_model(seed=1), []
    for number, episode in enumerate(played):
        for place, turn in enumerate(episode.turns):
            ids = torch.tensor([*turn.prompt_ids, *turn.output_ids])
            temperature = 0.5 if (number, place) == (0, 0) else 0.7
            every = (model(input_ids=ids[None]).logits[0, :-1].float() / temperature).log_softmax(-1)
            expected = every.gather(-1, ids[1:, None]).squeeze(-1)[-len(turn.output_ids) :].tolist()
            assert turn.extra["teacher_logprobs"].tolist() == pytest.approx(expected, abs=1e-4)
            gaps += [own - theirs for own, theirs in zip(turn.logprobs, expected, strict=True)]
    assert took["teacher_kl"] == pytest.approx(float(np.mean(gaps)), abs=1e-4)
    assert took["teacher_tokens"] == sum(len(e.turns[-1].prompt_ids) + len(e.turns[-1].output_ids) for e in played)


def test_a_teacher_that_fails_ends_the_run_and_a_process_without_groups_takes_part():
    with pytest.raises(EngineDead, match="scores nothing: no server"):
        needed(groups(token_episodes(n=1)[0]), fake_run(), teacher=f"{__name__}:Failing")
    assert needed([], fake_run(), teacher=f"{__name__}:Failing") == {"teacher_tokens": 0.0, "teacher_kl": 0.0}


def test_vocabularies_are_compared_token_by_token():
    ours = {"a": 0, "b": 1, "c": 2}
    assert different(ours, {**ours, "d": 3}) == ""  # a teacher may know more
    assert different(ours, {"a": 0, "b": 2, "c": 1}) == "2 of 3 tokens differ; 'b' is 1 here and is 2 there"
    assert different(ours, {"a": 0, "b": 1}) == "1 of 3 tokens differ; 'c' is 2 here and is unknown there"


def student(out, taught, **changes):
    """Return a run of the untaught policy of `taught`, whose teacher is the taught one."""
    model = str(Path(taught).parent / "policy")
    options = {"credit": "distill", "credit_options": {}, "needs_options": {"teacher": f"hf:{taught}"}, "minibatches": 1}
    return small(out, model, **{**options, **changes})


def test_another_vocabulary_is_refused_before_anything_is_loaded(teacher, tmp_path):
    other = init_policy("rlvr/FrozenLake-v0", tmp_path / "other", size=PolicySize(width=32, layers=1, heads=2), episodes=5)
    config = student(tmp_path / "run", teacher, needs_options={"teacher": f"hf:{other}"})
    with pytest.raises(BadConfig, match=r"another vocabulary than the policy \(\d+ of \d+ tokens differ"):
        train(config)
    assert not (tmp_path / "run").exists()


def test_another_vocabulary_is_refused_also_where_it_is_seen_only_when_loaded():
    class Known:
        def get_vocab(self):
            return {"a": 0}

    with pytest.raises(BadConfig, match=r"the policy .*'a' is 0 here and is unknown there"):
        needed(groups(token_episodes(n=1)[0]), fake_run(Known()), teacher=f"{__name__}:strange")


def strange():
    return SimpleNamespace(tokenizer=SimpleNamespace(get_vocab=dict), close=lambda: None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"needs_options": {}}, "needs teacher; give --needs.teacher VALUE"),
        ({"needs_options": {"teacher": "chat:http://x/v1#m"}}, "expected an engine that scores tokens"),
        ({"needs_options": {"teacher": "hf:"}}, "expected an engine that scores tokens"),
        ({"needs_options": {"teacher": "hf:./nowhere"}}, "is not there"),
        ({"needs_options": {"teacher": "json:__doc__"}}, "expected a class that makes a token engine"),
        ({"needs_options": {"teacher": "vllm:http://localhost:1"}, "temperature": 0.7}, "scores at temperature 1 only"),
        ({"needs_options": {"teacher": "hf:x", "teacher_options": 3}}, "expected a table"),
        ({"needs_options": {"teacher": "hf:x", "concurrency": 0}}, "concurrency"),
    ],
)
def test_teachers_that_cannot_be_are_refused_before_anything_is_loaded(tmp_path, changes, message):
    config = TrainConfig(env="rlvr/GuessNumber-v0", out=str(tmp_path / "run"), credit="distill", **changes)
    with pytest.raises(BadConfig, match=message):
        check_run(config)


@pytest.mark.long
def test_distillation_brings_the_student_to_the_teacher(taught, tmp_path):
    steps = {"steps": 24, "tasks_per_step": 6, "group_size": 6, "lr": 3e-3, "muon": True, "minibatches": 2}
    train(student(tmp_path / "run", taught, **steps))
    rows = curve(tmp_path / "run")
    assert rows[0]["teacher_kl"] > 0.8 and np.mean([row["teacher_kl"] for row in rows[-3:]]) < 0.35
    assert rows[0]["success_train"] == 0 and np.mean([row["success_train"] for row in rows[-3:]]) > 0.3


def test_a_distilled_run_goes_on_to_the_last_digit(teacher, tmp_path):
    options = {"credit_options": {"base": "role_baseline", "gamma": 0.5}}  # a base with a state of its own
    train(student(tmp_path / "whole", teacher, steps=3, **options))
    train(student(tmp_path / "cut", teacher, steps=2, **options))
    newest = max((tmp_path / "cut" / "checkpoints").glob("step-*"))
    (stages,) = torch.load(newest / "trainer.pt", weights_only=True)["stages"]
    assert stages["credit"]["base"]
    resume(tmp_path / "cut", steps=3, settings=trusted(tmp_path / "cut"))
    assert curve(tmp_path / "cut") == curve(tmp_path / "whole")
    assert episodes(tmp_path / "cut") == episodes(tmp_path / "whole")


@pytest.mark.long
def test_two_processes_share_the_teachers_work(taught, tmp_path):
    train(student(tmp_path / "run1", taught, steps=1, tasks_per_step=4))
    (tmp_path / "run.toml").write_text(to_toml(student(tmp_path / "run2", taught, steps=1, tasks_per_step=4, processes=2)))
    run_two("from_recipe.py", tmp_path / "run.toml")
    one, two = (curve(tmp_path / f"run{number}")[0] for number in (1, 2))
    for name in ("teacher_kl", "teacher_tokens", "loss", "grad_norm"):
        assert two[name] == pytest.approx(one[name], rel=1e-4), name


def test_a_checkpoint_is_a_teacher_too(teacher, tmp_path):
    shutil.copytree(teacher, tmp_path / "teacher")
    row = json.loads((Path(teacher) / "summary.json").read_text())
    assert row["steps"] == 0
    train(student(tmp_path / "run", teacher, steps=1, needs_options={"teacher": f"hf:{tmp_path / 'teacher'}"}))
    assert curve(tmp_path / "run")[0]["teacher_tokens"] > 0
