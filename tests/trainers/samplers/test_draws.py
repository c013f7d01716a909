"""Which tasks a step plays: those of a file in a new order every epoch, none twice in the same way."""

import asyncio
from collections import Counter

import pytest
from task_file import File

import agentgym
from agentgym import ChatAgent
from agentgym.engines.scripted import ScriptedEngine
from agentgym.envs.guess_number import GuessNumber
from agentgym.rollout.collect import jobs_of
from agentgym.rollout.pool import RolloutPool
from agentgym.trainers import TrainConfig, train
from agentgym.trainers.model.policy import PolicySize, init_policy
from agentgym.trainers.samplers.interface import TaskSource, first_tasks

TINY = PolicySize(width=32, layers=1, heads=2, vocabulary=400)


class Lottery(File):
    """Pays a random sum, so that no group is uniform."""

    def act(self, action):
        return self.reward("Paid.", luck=float(self.np_random.random()))


agentgym.register("me/File-v0", File, horizon=3)
agentgym.register("me/Lottery-v0", Lottery, horizon=1, shaping={"luck": 0.5})


def ids(draws):
    return [draw.task.id for draw in draws]


def test_every_epoch_is_a_permutation_of_the_file_that_seed_and_epoch_decide():
    found = TaskSource(File(), seed=4).at(range(500), "train")
    epochs = [ids(found[start : start + 5]) for start in range(0, 500, 5)]
    assert all(sorted(epoch) == [f"file-{n}" for n in range(5)] for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) > 40  # of 120 orders
    assert [draw.epoch for draw in found] == [place // 5 for place in range(500)]
    assert ids(TaskSource(File(), seed=4).at(range(7, 20), "train")) == ids(found[7:20])
    assert ids(TaskSource(File(), seed=5).at(range(20), "train")) != ids(found[:20])
    assert ids(TaskSource(File(), seed=4).at(range(20), "demonstrations")) != ids(found[:20])


def test_an_evaluation_plays_the_tasks_that_there_are_and_says_so():
    with pytest.warns(UserWarning, match="5 tasks of the split 'test' are evaluated, not 8: it has no more"):
        found = first_tasks(File(split="test"), 8)
    assert sorted(task.id for task in found) == [f"file-{n}" for n in range(5)]
    assert [task.id for task in first_tasks(File(split="test"), 2)] == [task.id for task in found[:2]]


def test_a_run_on_a_file_with_few_tasks_evaluates_those(tmp_path):
    config = TrainConfig(
        env="me/File-v0", out=str(tmp_path / "run"), steps=1, sft_episodes=0, tasks_per_step=2, group_size=2, test_tasks=8,
        eval_every=0, threads=1, model=str(init_policy("me/File-v0", tmp_path / "policy", size=TINY, episodes=5)),
    )  # fmt: skip
    with pytest.warns(UserWarning, match="5 tasks of the split 'test' are evaluated, not 8"):
        summary = train(config)
    assert 0 <= summary["success_after"] <= 1 and summary["tasks"] == 5


def test_generated_tasks_go_by_their_number():
    draws = TaskSource(GuessNumber(), seed=4)
    assert not draws.finite and ids(draws.at([3, 17], "train")) == ["train/0/3", "train/0/17"]


def test_a_task_that_comes_twice_has_its_own_seed_group_and_session():
    sessions = []

    class Engine(ScriptedEngine):
        async def generate(self, prompt_ids, sampling, session, **options):
            sessions.append((session, sampling.seed))
            return await super().generate(prompt_ids, sampling, session, **options)

    agent = ChatAgent(Engine(["7"] * 100))
    chosen = [File().numbered(n) for n in (0, 1, 0)]
    for repeats in ((), (0, 0, 1)):
        sessions.clear()
        jobs = jobs_of("File", chosen, 2, 0, 1, repeats=repeats)
        played = asyncio.run(RolloutPool({"File": File}).collect(agent, jobs))
        assert [episode.group_id for episode in played] == ["file-0"] * 2 + ["file-1"] * 2 + ["file-0~1"] * 2
        assert len({episode.seed for episode in played}) == len(set(sessions)) == 6
    alone = agentgym.collect(agent, File, tasks=chosen[:1], attempts=2, horizon=1)
    assert [episode.seed for episode in alone] == [episode.seed for episode in played[:2]]


def test_steps_that_ask_for_more_than_the_file_has_go_through_it_evenly_also_with_refill(tmp_path):
    config = TrainConfig(
        env=f"{__name__}:me/File-v0", out=str(tmp_path / "run"), steps=2, tasks_per_step=8, group_size=2, turn_tokens=4,
        eval_every=0, test_tasks=0, select="refill", select_options={"rounds": 2},
        keep_episodes=1000, threads=1, horizon=(1,),
    )  # fmt: skip
    train(config)
    played = agentgym.read_episodes(tmp_path / "run" / "episodes.jsonl")
    # a policy made from nothing never wins: both rounds of both steps play, 8 tasks each, where the last one stopped
    assert len(played) == 2 * 2 * 8 * 2
    tasks = Counter(episode.task_id for episode in played)
    assert max(tasks.values()) - min(tasks.values()) <= 2
    assert len({(episode.group_id, episode.attempt) for episode in played}) == len(played)
    assert len({episode.seed for episode in played}) == len(played)


def test_groups_of_a_task_that_comes_twice_count_for_what_a_step_asks_for(tmp_path):
    config = TrainConfig(
        env=f"{__name__}:me/Lottery-v0", out=str(tmp_path / "run"), steps=1, tasks_per_step=8, group_size=2, turn_tokens=4,
        eval_every=0, test_tasks=0, select="refill", select_options={"rounds": 3}, keep_episodes=1000, threads=1,
        credit_options={"anchor": "state"},
    )  # fmt: skip
    train(config)  # all 8 groups are good at once: nothing is to be refilled
    assert len(agentgym.read_episodes(tmp_path / "run" / "episodes.jsonl")) == 8 * 2
