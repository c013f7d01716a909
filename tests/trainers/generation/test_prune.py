"""Pruned rollouts: who goes on, what is counted, and that nobody behind the stage sees an episode that was ended."""

import asyncio
import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_runs import curve, episodes, goes_on_to_the_last_digit, small, taught

from agentgym.episodes.episode import Episode, Turn
from agentgym.errors import BadConfig, EngineDead
from agentgym.rollout.gate import PRUNED
from agentgym.rollout.play import Job
from agentgym.trainers import train
from agentgym.trainers.generation.prune import Prune
from agentgym.trainers.needs.turn_critics.quality import Quality, survivors


def test_who_goes_on_by_hand():
    chances = [0.9, 0.1, 0.8, 0.3, 0.2, 0.6]
    # of four half should succeed, 2; none high: 0.6 + 0.3 + 0.2 + 0.1 = 1.2; one: 0.9 + 0.6 = 1.5; two: 1.7 + 0.3 = 2.0
    assert survivors(chances, 4, [], 0.5) == [0, 1, 2, 4]  # 0.9, 0.8 and 0.1, 0.2
    # with one that has failed: of 5 half is 2.5; high 2 gives 2.0, high 3 gives 0.9 + 0.8 + 0.6 + 0.1 = 2.4
    assert survivors(chances, 4, [False], 0.5) == [0, 1, 2, 5]
    # with two that have succeeded: of 6 half is 3, one more is wanted; high 0 gives 1.2, high 1 gives 1.5
    assert survivors(chances, 4, [True, True], 0.5) == [1, 3, 4, 5]
    assert survivors(chances, 0, [True], 0.5) == [] and survivors(chances, 9, [], 0.5) == [0, 1, 2, 3, 4, 5]


def test_equal_states_survive_in_their_order_when_a_product_rounds_their_chances_differently():
    same = [0.6, 0.6, 0.6, 0.6]
    assert survivors([0.6, 0.6, 0.6, 0.6 + 1e-15], 2, [], 0.5) == survivors(same, 2, [], 0.5)
    assert survivors([0.6, 0.6, 0.6 - 1e-15, 0.6], 2, [], 0.5) == survivors(same, 2, [], 0.5)


@given(st.lists(st.floats(0, 1), max_size=9), st.integers(0, 9), st.lists(st.booleans(), max_size=3), st.floats(0, 1))
def test_as_many_go_on_as_are_asked_for_each_once(chances, number, ended, ratio):
    chosen = survivors(chances, number, ended, ratio)
    assert len(chosen) == len(set(chosen)) == min(number, len(chances))
    assert all(0 <= place < len(chances) for place in chosen)


@pytest.mark.parametrize("width", [3, 40])
def test_the_quality_head_is_the_penalised_maximum(width):
    rng = np.random.default_rng(0)
    states = rng.normal(size=(20, width)).astype(np.float32)
    labels = rng.random(20) < 1 / (1 + np.exp(-2 * states[:, 0]))
    head = Quality([(state.tobytes(), bool(label)) for state, label in zip(states, labels, strict=True)], ridge=0.5)
    scaled = (states - states.mean(0)) / states.std(0) / math.sqrt(width)
    left = labels - np.array(head.chances(list(states)))
    np.testing.assert_allclose(scaled.T @ left, 0.5 * head.weights, atol=1e-4)  # the gradient is 0
    assert left.sum() == pytest.approx(0, abs=1e-4)


def fake_run(**changes):
    """A run whose learner's states are the numbers of the prompts."""

    def embed(rows, *, alone):
        assert alone
        return [np.array([[row.ids[0] - 50, 1.0]], dtype=np.float32) for row in rows]

    config = SimpleNamespace(**{"seed": 0, "concurrency": 8, "group_size": 8, **changes})
    return SimpleNamespace(
        config=config, learner=SimpleNamespace(embed=embed, engine=None), gather=lambda items: items, rollouts=None
    )


def simulated(rng, level=0.2):
    """Return what plays jobs: two turns, after the first of which a number says how likely the success is."""

    async def played(job):
        episode = Episode("e", job.task.id, job.group_id, 0, job.attempt, horizon=2)
        success = bool(rng.random() < level)
        for turn in range(2):
            ids = [int(np.clip((70 if success else 30) + rng.normal() * 15, 0, 99))] if turn else [50]
            if job.gate is not None and not await job.gate.passes(job.attempt, episode, lambda ids=ids: ids):
                episode.reason = PRUNED
                break
            episode.turns.append(Turn("o", prompt_ids=ids, output_ids=[1, 2, 3]))
        else:
            episode.success, episode.reason = success, "success" if success else "failure"
        if job.gate is not None:
            job.gate.left(job.attempt)
        return episode

    async def play(agents, jobs):
        return list(await asyncio.gather(*map(played, jobs)))

    return play


def jobs(step, groups=8, size=8):
    tasks = [SimpleNamespace(id=f"t{step}-{n}") for n in range(groups)]
    return [Job(task, attempt, 0, f"{step}/{task.id}", "e") for task in tasks for attempt in range(size)]


def test_survivors_of_hard_tasks_succeed_more_often_and_cost_less():
    stage, play = Prune(fake_run(), turns=1, keep=0.5, whole=0.0, least=64), simulated(np.random.default_rng(0))
    shares, tokens, verdicts = [], [], []
    for step in range(12):
        ended = asyncio.run(stage.play({}, jobs(step), play, step))
        verdicts.append(stage.update(ended, step))
        assert all(episode.reason != PRUNED and episode.success is not None for episode in ended)
        shares.append(sum(episode.success for episode in ended) / len(ended))
        tokens.append(sum(turn.sampled for episode in ended for turn in episode.turns) + verdicts[-1]["pruned_tokens"])
    assert verdicts[0]["pruned_episodes"] == 0 and tokens[0] == 64 * 6, "before there are outcomes to learn from all play on"
    assert all(row["pruned_episodes"] == 32 and row["pruned_tokens"] == 32 * 3 for row in verdicts[1:])
    assert all(number == 32 * 6 + 32 * 3 for number in tokens[1:]), "every token is counted, once"
    assert shares[0] < 0.3 < 0.35 < np.mean(shares[1:]) < 0.6, shares
    assert verdicts[-1]["quality_error"] < 0.15


def test_further_attempts_of_a_selection_teach_the_head_nothing():
    """They have the numbers of attempts that were pruned or faults, and went another way, maybe with a hint."""
    stage, play = Prune(fake_run(), turns=1, whole=0.0, least=64), simulated(np.random.default_rng(0))
    stage.update(asyncio.run(stage.play({}, jobs(0), play, 0)), 0)

    async def faulty(agents, jobs):
        episodes = await play(agents, jobs)
        last = next(episode for episode in episodes if episode.reason != PRUNED)
        gate = next(job.gate for job in jobs if job.group_id == last.group_id)
        gate._last[last.attempt].reason = last.reason = "crash"
        gate.left(last.attempt)
        return episodes

    ended = asyncio.run(stage.play({}, jobs(1), faulty, 1))
    fault = next(episode for episode in ended if episode.fault)
    gone = {(job.group_id, job.attempt) for job in jobs(1)} - {(e.group_id, e.attempt) for e in ended}
    assert len(gone) == 32
    again = [
        Episode("e", "t", group, 0, attempt, success=True) for group, attempt in [*gone, (fault.group_id, fault.attempt)]
    ]
    fault.success = None
    assert stage.update([*ended, *again], 1)["quality_outcomes"] == 31


def test_the_error_of_the_head_is_over_the_outcomes_of_all_processes():
    states = [np.array([x, 1.0], dtype=np.float32).tobytes() for x in (-20, -10, 10, 20)]

    def updated(own, others):
        run = fake_run()
        run.gather = lambda items: [0, 0] if items == [0] else [*items, *others]
        stage = Prune(run, turns=1, least=4)
        stage.outcomes = [(state, place > 1) for place, state in enumerate(states)]
        stage._groups = {
            "g": SimpleNamespace(states={n: np.frombuffer(state, np.float32) for n, (state, _) in enumerate(own)})
        }
        numbers = stage.update([Episode("e", "t", "g", 0, n, success=won) for n, (_, won) in enumerate(own)], 0)
        return numbers["quality_error"], stage.outcomes

    fresh = [(states[0], True), (states[3], True)]
    (one, after), (two, same) = updated(fresh, []), updated([], fresh)
    chances = Quality([(state, place > 1) for place, state in enumerate(states)], ridge=1.0).chances(
        [np.frombuffer(state, np.float32) for state, _ in fresh]
    )
    assert one + two == pytest.approx(np.mean([(1 - chance) ** 2 for chance in chances])) and after == same


def test_a_policy_that_tells_no_states_ends_the_run_and_is_no_fault_of_the_episodes():
    run = fake_run()
    run.learner.embed = lambda rows, *, alone: 1 // 0
    stage, play = Prune(run, turns=1), simulated(np.random.default_rng(0))
    with pytest.raises(EngineDead, match="cannot read the policy's states: ZeroDivisionError"):
        asyncio.run(stage.play({}, jobs(0), play, 0))


def test_a_share_of_the_groups_is_spared():
    stage, play = Prune(fake_run(), turns=1, whole=0.5, least=32), simulated(np.random.default_rng(0), 0.5)
    numbers = []
    for step in range(6):
        ended = asyncio.run(stage.play({}, jobs(step), play, step))
        numbers.append(stage.update(ended, step)["pruned_episodes"])
    assert 0 < sum(numbers) / (4 * 8 * 6) < 0.8 and stage.state_dict()["outcomes"][0][1] in (True, False)


def test_episodes_that_ended_before_the_gate_are_waited_for_no_longer_and_counted_in():
    stage = Prune(fake_run(), turns=1, keep=0.5, whole=0.0, least=2)
    near = [(np.array([x, 1.0], dtype=np.float32).tobytes(), x > 0) for x in (-20, -10, 10, 20)]
    stage.outcomes = near * 5
    prompts = {0: [90], 1: [80], 2: [20], 3: [10]}  # likely, likely, unlikely, unlikely

    async def play(agents, jobs):
        gate = jobs[0].gate

        async def one(attempt):
            episode = Episode("e", "t", "g", 0, attempt, turns=[Turn("o", output_ids=[1])])
            return await gate.passes(attempt, episode, lambda: prompts[attempt])

        waiting = [asyncio.create_task(one(attempt)) for attempt in prompts]
        await asyncio.sleep(0)
        assert not any(task.done() for task in waiting), "three are still to come"
        early = Episode("e", "t", "g", 0, 4)
        assert await gate.passes(4, early, list), "it is not at the gate yet"
        early.success = True
        gate.left(4)
        fault = Episode("e", "t", "g", 0, 5, reason="crash")
        await gate.passes(5, fault, list)
        gate.left(5)
        gate.left(6)  # which never began
        goes_on.update(zip(prompts, await asyncio.gather(*waiting), strict=True))
        again = Episode("e", "t", "g", 0, 5, turns=[Turn("o", output_ids=[1])])
        assert await gate.passes(5, again, list), "what is played again after a fault goes on"
        return []

    goes_on = {}
    task = SimpleNamespace(id="t")
    asyncio.run(stage.play({}, [Job(task, n, 0, "g", "e") for n in range(7)], play, 0))
    # four of seven, three of which have ended: one more, and one has succeeded already: an unlikely one
    assert [attempt for attempt, passes in goes_on.items() if passes] == [3]


def test_a_group_that_is_not_under_way_as_a_whole_has_no_gate():
    stage, play = Prune(fake_run(concurrency=7), turns=1, least=2), simulated(np.random.default_rng(0))
    ended = asyncio.run(asyncio.wait_for(stage.play({}, jobs(0), play, 0), 10))
    assert len(ended) == 64


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return taught(tmp_path_factory.mktemp("model"))


def pruning(folder, model, **changes):
    options = {"turns": 1, "least": 8, "whole": 0.0}
    return small(
        folder, model, **{"generation": "prune", "generation_options": options, "group_size": 6, "steps": 4, **changes}
    )


def test_nobody_sees_what_was_pruned_and_every_token_is_counted(tmp_path, model, monkeypatch):
    from agentgym.engines.hf.engine import HFEngine

    sampled = []
    complete = HFEngine.complete

    async def completing(self, request):
        completion = await complete(self, request)
        sampled.append(len(completion.ids))
        return completion

    monkeypatch.setattr(HFEngine, "complete", completing)
    train(pruning(tmp_path / "run", model))
    rows = [row for row in curve(tmp_path / "run") if row["phase"] == "rl"]
    played = episodes(tmp_path / "run")
    assert sum(row["pruned_episodes"] for row in rows) > 5
    assert len(played) + sum(row["pruned_episodes"] for row in rows) == 4 * 3 * 6 and all(row["faults"] == 0 for row in rows)
    assert PRUNED not in {episode["reason"] for episode in played} and None not in {e["success"] for e in played}
    token_count = sum(len(turn["output_ids"]) for episode in played for turn in episode["turns"])
    assert sum(sampled) == token_count + sum(row["pruned_tokens"] for row in rows)
    for row in rows:
        mine = [e["success"] for e in played if e["group_id"].startswith(f"{row['step']}/")]
        assert row["success_train"] == pytest.approx(sum(mine) / len(mine)) and len(mine) + row["pruned_episodes"] == 18


def test_a_resumed_run_goes_on_to_the_last_digit(tmp_path, model):
    goes_on_to_the_last_digit(tmp_path, lambda folder: pruning(folder, model))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"async_level": 1}, "async_level is 1"),
        ({"concurrency": 5}, "concurrency is 5 and group_size 6"),
        ({"generation_options": {"keep": 2.0}}, "keep of generation 'prune' is 2.0"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_loaded(tmp_path, model, changes, message):
    with pytest.raises(BadConfig, match=message):
        train(pruning(tmp_path / "run", model, **changes))
