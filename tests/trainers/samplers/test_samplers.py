"""Task samplers: by a history made up, and in runs; resumed runs equal those that never stopped."""

import asyncio
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import small_runs
import torch
from small_envs import Generated, Small
from small_runs import curve, episodes, goes_on_to_the_last_digit, small

import agentgym
from agentgym.agents.demonstrator import Demonstrator
from agentgym.errors import BadConfig, UnknownName
from agentgym.rollout.draw import Draw
from agentgym.trainers import resume, train
from agentgym.trainers.config.train_config import newest_checkpoint
from agentgym.trainers.samplers.history import HardAttempts, Prioritized
from agentgym.trainers.samplers.interface import SAMPLERS, GroupOutcome, TaskSource, Uniform, Window
from agentgym.trainers.samplers.starts import Starts

ROOT = Path(__file__).resolve().parents[3]


for page in ("task_samplers", "selection"):
    text = (ROOT / "docs" / "seams" / f"{page}.md").read_text()
    for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        if '@agentgym.sampler("repeat")' in block or '@agentgym.select("between")' in block:
            exec(block, {"__name__": "page"})  # declares the page's examples by their names


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    return small_runs.taught(tmp_path_factory.mktemp("taught"))


def file(name="file", seed=0, weight=1.0):
    return TaskSource(Small(), seed, "train", name, weight)


def seen(task, successes, of, env="file", label=""):
    return GroupOutcome(env, f"file-{task}", 0, (), (True,) * successes + (False,) * (of - successes), label)


def test_prioritized_draws_by_p_times_1_minus_p_with_a_floor():
    found = Prioritized([file()], floor=0.1, decay=0.5)
    assert np.allclose(found.chances("file"), 1 / 6)
    found.update([seen(0, 8, 8), seen(1, 0, 8)])  # p = 9/10 and 1/10: worth 0.09 each, the four others 0.25
    expected = [0.9 * 0.09 / 1.18 + 0.1 / 6] * 2 + [0.9 * 0.25 / 1.18 + 0.1 / 6] * 4
    chances = dict(zip([task.id for task in found.sources["file"].tasks], found.chances("file"), strict=True))
    assert np.allclose([chances[f"file-{n}"] for n in range(6)], expected) and np.isclose(sum(expected), 1)
    found.update([seen(0, 0, 8)])  # (0.5 * 8 + 0 + 1) / (0.5 * 8 + 8 + 2)
    assert found.rate("file", "file-0") == pytest.approx(5 / 14)
    found.update([GroupOutcome("file", "file-3", 0, (), ())])  # nothing but faults
    assert found.rate("file", "file-3") == 0.5


def test_prioritized_meets_what_can_be_learned_more_often_and_no_task_twice_in_a_step():
    found = Prioritized([file()], floor=0.05)
    counts = Counter()
    for step in range(300):
        drawn = found.draw(step, 2)
        assert drawn[0].task.id != drawn[1].task.id
        counts.update(draw.task.id for draw in drawn)
        found.update([seen(draw.task.id[-1], {"0": 20, "1": 0}.get(draw.task.id[-1], 10), 20) for draw in drawn])
    assert min(counts[f"file-{n}"] for n in range(2, 6)) > 3 * max(counts["file-0"], counts["file-1"]) > 0
    again = Prioritized([file()], floor=0.05)
    again.load_state_dict(found.state_dict())
    assert again.draw(300, 8) == found.draw(300, 8)
    names = [(draw.task.id, draw.epoch) for draw in Prioritized([file()]).draw(0, 13)]
    assert len(set(names)) == 13  # six tasks: a third time is another group than the first


def test_hard_attempts_gives_more_attempts_to_what_succeeds_less():
    found = HardAttempts([file()], least=2, most=12)
    found.update([seen(0, 8, 8), seen(1, 0, 8), seen(2, 4, 8)])  # p = 0.9, 0.1, 0.5
    wanted = {"file-0": 3, "file-1": 11, "file-2": 7, "file-3": None, "file-4": None, "file-5": None}
    assert {draw.task.id: draw.attempts for draw in found.draw(0, 6)} == wanted


def test_window_moves_difficulty_with_success_in_each_environment_alone():
    sources = [TaskSource(Generated(), 0, "train", name) for name in ("a", "b")]
    found = Window(sources, low=0.3, high=0.7, groups=2, start=1, most=2)

    def step(successes, env="a"):
        draws = [draw for draw in found.draw(0, 4) if draw.env == env]
        found.update(
            [
                GroupOutcome(env, d.task.id, d.task.difficulty, (), (True,) * successes + (False,) * (4 - successes))
                for d in draws
            ]
        )
        return found.difficulty

    assert step(4) == {"a": 2, "b": 1} and step(4) == {"a": 2, "b": 1}  # no higher than `most`
    assert step(0) == {"a": 1, "b": 1} and step(2) == {"a": 1, "b": 1}
    assert step(0) == {"a": 0, "b": 1} and step(0) == {"a": 0, "b": 1}
    assert step(4, "b") == {"a": 0, "b": 2}
    found.update([GroupOutcome("a", "t", 5, (), (True,) * 4)] * 8)  # of a difficulty that was left: not counted
    assert found.difficulty == {"a": 0, "b": 2}
    again = Window(sources, low=0.3, high=0.7, groups=2, start=1, most=2)
    again.load_state_dict(found.state_dict())
    assert again.draw(9, 6) == found.draw(9, 6)


def test_starts_go_further_back_as_they_succeed():
    found = Starts([file()], high=0.5, groups=2, stride=2, most=4, whole=0.25)
    labels = [found._labelled(draw).label for draw in Uniform([file()]).draw(0, 8)]
    assert labels == ["@1", "@1", "@1", ""] * 2
    found.update([seen(0, 4, 4), seen(1, 4, 4, label="@1")])  # one of them began at the beginning: it does not count
    assert found.back == {"file": 1}
    found.update([seen(0, 2, 4, label="@1")])
    assert found.back == {"file": 3}
    found.update([seen(0, 1, 4, label="@3"), seen(1, 2, 4, label="@3")])
    assert found.back == {"file": 3}
    found.update([seen(0, 3, 4, label="@3"), seen(1, 2, 4, label="@3")])
    assert found.back == {"file": 4}


def test_groups_of_failed_demonstrations_do_not_count_as_starts(taught, tmp_path, monkeypatch):
    expert = Small.expert
    monkeypatch.setattr(Small, "expert", lambda env: iter(["1"] * 9) if env.secret == 4 else expert(env))
    options = {"back": 2, "groups": 1000, "whole": 0.0}
    train(small(tmp_path / "run", taught, sampler="starts", sampler_options=options, tasks_per_step=6, steps=1))
    groups = {row["task_id"]: row["group_id"] for row in episodes(tmp_path / "run")}
    assert {task for task, group in groups.items() if not group.endswith("@2")} == {"file-3"}
    assert curve(tmp_path / "run")[0]["curriculum/groups"] == 5  # their demonstrations are too short, but succeed


def test_with_window_a_run_gets_harder(taught, tmp_path):
    options = {"low": 0.0, "high": 0.1, "groups": 3}
    train(small(tmp_path / "run", taught, env="small/Generated-v0", sampler="window", sampler_options=options))
    difficulties = {row["group_id"].split("/")[0]: row["labels"]["difficulty"] for row in episodes(tmp_path / "run")}
    assert difficulties["1"] == "0" and difficulties["3"] > "0"


@pytest.mark.parametrize("env", ["small/File-v0", "small/Blocking-v0"])
def test_episodes_begin_inside_a_demonstration_in_its_very_tokens(taught, tmp_path, env, monkeypatch):
    conversations = []
    begin = Demonstrator.begin

    def noted(self, task, tools):
        talk = begin(self, task, tools)
        conversations.append((task.id, talk.talk))
        return talk

    monkeypatch.setattr(Demonstrator, "begin", noted)
    options = {"back": 1, "whole": 0.0, "groups": 1000}
    env = f"small_envs:{env}"
    train(
        small(
            tmp_path / "run",
            taught,
            env=env,
            sampler="starts",
            sampler_options=options,
            tasks_per_step=6,
            steps=1,
            workers=1,
        )
    )
    played = agentgym.read_episodes(tmp_path / "run" / "episodes.jsonl")
    held_ids = {task: talk.history_ids for task, talk in conversations}
    begun = 0
    for episode in played:
        secret = Small().find(episode.task_id).data["secret"]
        turns = {2: 1, 1: 2, 3: 2, 4: 3}[secret]  # of halving 1 to 4
        assert episode.group_id.endswith("@1") and len(episode.turns) <= 3 - (turns - 1)
        if turns > 1:  # the last reply of the demonstration is missing, all before stands in the first prompt
            begun += 1
            first = list(episode.turns[0].prompt_ids)
            assert first == held_ids[episode.task_id][: len(first)] and episode.turns[0].observation in ("Higher.", "Lower.")
    assert begun >= 9


CHOICES = [
    ("uniform", {}, "refill", {"rounds": 2}),
    ("prioritized", {}, "drop", {}),
    ("hard_attempts", {"most": 6}, "replay", {}),
    ("uniform", {}, "demonstrations", {}),
    ("starts", {"groups": 2, "high": 0.1}, "variance", {}),
    ("repeat", {"most": 2}, "between", {}),
]


@pytest.mark.long
@pytest.mark.parametrize(("sampler", "options", "select", "select_options"), CHOICES)
def test_a_resumed_run_goes_on_to_the_last_digit(taught, tmp_path, sampler, options, select, select_options):
    stages = {"sampler": sampler, "sampler_options": options, "select": select, "select_options": select_options}
    goes_on_to_the_last_digit(tmp_path, lambda folder: small(folder, taught, **stages))
    stage_states = [torch.load(newest_checkpoint(tmp_path / name) / "trainer.pt")["stages"] for name in ("cut", "whole")]
    same = [re.sub(r'"seconds": [^,]*,', "", repr(state)) for state in stage_states]  # of the episodes that are kept
    assert same[0] == same[1] and bool(stage_states[0][0]["select"]) == (select in ("replay", "between"))


def test_a_resumed_run_with_moving_difficulty_goes_on_to_the_last_digit(taught, tmp_path):
    options = {"env": "small/Generated-v0", "sampler": "window", "sampler_options": {"low": 0.0, "high": 0.1, "groups": 4}}
    train(small(tmp_path / "whole", taught, **options))
    train(small(tmp_path / "cut", taught, **{**options, "steps": 2}))
    resume(tmp_path / "cut", steps=3)
    assert curve(tmp_path / "cut") == curve(tmp_path / "whole")


def test_attempts_of_each_draw_reach_credit_and_metrics(taught, tmp_path):
    batches = []
    config = small(tmp_path / "run", taught, sampler="hard_attempts", sampler_options={"most": 9}, steps=4)
    train(config, lambda kind, n: batches.append(n) if kind == "progress" and ", episode" in n["what"] else None)
    played = agentgym.read_episodes(tmp_path / "run" / "episodes.jsonl")
    sizes = Counter(episode.group_id for episode in played)
    assert {size for name, size in sizes.items() if name[0] in "12"} == {3}  # six tasks, three a step: none seen before
    later = {size for name, size in sizes.items() if name[0] in "34"}
    assert len(later) > 1 and max(later) > 3
    assert all("advantage" in turn.extra for episode in played for turn in episode.turns)
    for step in "1234":
        own = [n for n in batches if n["what"].startswith(f"step {step},")]
        total = sum(size for name, size in sizes.items() if name[0] == step)
        assert own[-1]["done"] == own[-1]["total"] == total
        row = next(row for row in curve(tmp_path / "run") if row["step"] == int(step))
        success = [episode.success for episode in played if episode.group_id[0] == step]
        assert row["success_train"] == pytest.approx(sum(success) / len(success))


@agentgym.sampler("twice")
class Twice(Uniform):
    def draw(self, step, number):
        return super().draw(step, 1) * 2


@agentgym.sampler("nowhere")
class Nowhere(Uniform):
    def draw(self, step, number):
        return [Draw(draw.task, env="elsewhere") for draw in super().draw(step, number)]


@agentgym.sampler("coroutine")
class Coroutine(Uniform):
    """As `uniform`, but asked in another way, and without a word of the environment."""

    async def draw(self, step, number, *, run):
        await asyncio.sleep(0)
        assert run.config.sampler == "coroutine"
        return [Draw(draw.task, draw.epoch) for draw in super().draw(step, number)]


def test_a_sampler_may_be_a_coroutine_that_is_handed_the_run(taught, tmp_path):
    train(small(tmp_path / "one", taught, sampler="coroutine", steps=1))
    train(small(tmp_path / "two", taught, sampler="uniform", steps=1))
    assert curve(tmp_path / "one") == curve(tmp_path / "two")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sampler": "windo"}, "Did you mean 'window'"),
        (
            {"sampler": "window"},
            "it adapts the difficulty of generated tasks, and those of .* come from a file",
        ),
        ({"sampler": "window", "env": "small/Generated-v0", "sampler_options": {"low": 0.9}}, "expected low below high"),
        (
            {"sampler": "window", "env": "small/Generated-v0", "sampler_options": {"start": 9, "most": 3}},
            "start 9 and most 3",
        ),
        ({"sampler": "prioritized", "env": "small/Generated-v0"}, r"generated tasks of .* never repeat. Set --env.pool N"),
        ({"sampler": "prioritized", "sampler_options": {"floor": 2}}, "expected a number from 0 to 1"),
        ({"sampler": "prioritized", "sampler_options": {"floor": 1}}, "makes all tasks alike"),
        ({"sampler": "hard_attempts", "env": "small/Generated-v0"}, r"generated tasks of .* never repeat. Set --env.pool N"),
        ({"sampler": "hard_attempts", "sampler_options": {"least": 1}}, "expected a number from 2"),
        ({"sampler": "hard_attempts", "sampler_options": {"least": 9, "most": 9}}, "expected least below most"),
        (
            {"sampler": "starts", "env": "small/Silent-v0"},
            "needs an environment with an expert, and small/Silent-v0 has none",
        ),
        ({"sampler": "starts", "agent": "summary"}, "no expert can play for agent 'summary'"),
        ({"sampler": "starts", "sampler_options": {"whole": 1}}, "every task is played from its beginning"),
        ({"sampler": "starts", "sampler_options": {"back": 9, "most": 3}}, "back 9 and most 3"),
        ({"sampler": "starts", "select": "demonstrations"}, "they cannot be compared"),
        ({"select": "demonstrations", "env": "small/Silent-v0"}, "needs an environment with an expert"),
        ({"select": "replay", "env": "small/Generated-v0"}, "needs tasks that repeat"),
        ({"select": "variance", "select_options": {"share": 2}}, "expected a number from 0 to 1"),
    ],
)
def test_what_would_do_nothing_is_refused_before_anything_is_loaded(taught, tmp_path, changes, message, monkeypatch):
    monkeypatch.setattr("agentgym.trainers.learners.local.load_policy", lambda *_: pytest.fail("a model was loaded"))
    with pytest.raises((BadConfig, UnknownName), match=message):
        train(small(tmp_path / "run", taught, **changes))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("select", ["self_imitation", "memorize"])
def test_starts_inside_a_demonstration_and_added_episodes_are_not_compared(taught, tmp_path, select):
    options = {"select": select, "credit": "off_policy", "credit_options": {}}
    with pytest.raises(BadConfig, match="they cannot be compared"):
        train(small(tmp_path / "run", taught, sampler="starts", **options))


@pytest.mark.parametrize(
    ("sampler", "message"), [("twice", "drew task 'file-.' of .* twice in step 1"), ("nowhere", "'elsewhere'")]
)
def test_draws_that_cannot_be_played_are_named(taught, tmp_path, sampler, message):
    with pytest.raises((BadConfig, UnknownName), match=message):
        train(small(tmp_path / "run", taught, sampler=sampler, steps=1))


@pytest.mark.parametrize("name", ["attempts", "horizon"])
def test_a_draw_of_no_attempts_or_turns_is_refused(name):
    with pytest.raises(BadConfig, match=re.escape(f"{name} of a draw of task 'file-1' is 0; expected at least 1")):
        Draw(Small().numbered(1), **{name: 0})


def test_the_files_of_the_page_run(taught, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    stages = {"sampler": "examples.stages.sampler:Repeat", "select": "examples.stages.selection:between"}
    train(small(tmp_path / "run", taught, **stages, steps=2))
    first, second = ({e["task_id"] for e in episodes(tmp_path / "run") if e["group_id"][0] == step} for step in "12")
    assert first == second and len(first) == 6  # the same again, and twice as many as asked for
    for name in ("sampler", "selection"):
        assert len((ROOT / "examples" / "stages" / f"{name}.py").read_text().splitlines()) <= 30


def test_every_sampler_is_on_the_page():
    page = (ROOT / "docs" / "seams" / "task_samplers.md").read_text()
    assert all(f"| `{name}` |" in page for name in SAMPLERS.table)
