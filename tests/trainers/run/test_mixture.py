"""Several environments in one run: shares, settings and results of each."""

import asyncio
import json

import pytest
from rich.console import Console
from small_envs import Blocking, Small
from small_runs import curve, policy, small

import agentgym
from agentgym.agents.base import sampled
from agentgym.agents.chat import ChatAgent
from agentgym.cli import main
from agentgym.cli.train_screen import Screen
from agentgym.engines.scripted import ScriptedEngine
from agentgym.errors import BadConfig, UnknownName
from agentgym.report.html import write_report
from agentgym.report.run_folder import open_run
from agentgym.trainers import TrainConfig, train
from agentgym.trainers.config.recipe_files import read_config, to_toml
from agentgym.trainers.config.settings import EnvSpec
from agentgym.trainers.samplers.interface import dealt

ENVS = (
    EnvSpec("small_envs:small/File-v0", weight=2, label="easy", horizon=(2, 3), valid_split="train"),
    EnvSpec("small_envs:small/File-v0", label="long", horizon=(4,), agent={"turn_tokens": 2}),
    EnvSpec("small_envs:small/Generated-v0", options={"difficulty": 1}, test_split="valid"),
)
NAMES = ["easy", "long", "small_envs:small/Generated-v0"]


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mixture")
    (folder / "a.toml").write_text(to_toml(config(folder)))
    assert read_config(folder / "a.toml") == config(folder)
    printed = []
    summary = train(read_config(folder / "a.toml"), lambda kind, numbers: printed.append((kind, numbers)))
    return folder / "run", summary, printed


def config(folder):
    changes = {"horizon_steps": 1, "tasks_per_step": 8, "eval_every": 1, "eval_tasks": 2, "test_tasks": 2, "steps": 2}
    return small(folder / "run", "init", envs=ENVS, horizon=(), vocabulary=300, sft_episodes=8, **changes)


def test_each_environment_has_its_share_horizon_agent_options_and_split(ran):
    played = agentgym.read_episodes(ran[0] / "episodes.jsonl")
    by = {name: [e for e in played if e.labels["env"] == name and e.group_id[0] in "12"] for name in NAMES}
    assert [len({e.group_id for e in by[name]}) for name in NAMES] == [8, 4, 4]
    assert {(e.group_id[0], e.horizon) for e in by["easy"]} == {("1", 2), ("2", 3)}
    assert {e.horizon for e in by["long"]} == {4}
    assert {len(t.output_ids) <= 2 for e in by["long"] for t in e.turns} == {True}
    assert max(len(t.output_ids) for e in by["easy"] for t in e.turns) > 2
    assert {e.labels["difficulty"] for e in by[NAMES[2]]} == {"1"} and {e.env for e in by[NAMES[2]]} == {
        "small/Generated-v0"
    }
    splits = {(e.labels["env"], e.group_id.split("/")[0], e.split) for e in played}
    assert {one for one in splits if one[1] == "eval"} == {
        (NAMES[0], "eval", "train"),
        *((n, "eval", "valid") for n in NAMES[1:]),
    }
    after = {one for one in splits if one[1] == "success_after"}
    assert after == {(NAMES[2], "success_after", "valid"), *((n, "success_after", "test") for n in NAMES[:2])}


def test_groups_of_two_environments_with_the_same_task_id_never_mix(ran):
    played = agentgym.read_episodes(ran[0] / "episodes.jsonl")
    groups = {}
    for episode in played:
        groups.setdefault(episode.group_id, set()).add(episode.labels["env"])
    assert all(len(envs) == 1 for envs in groups.values())
    shared = {name: {e.task_id for e in played if e.labels["env"] == name} for name in NAMES[:2]}
    assert shared["easy"] & shared["long"]
    assert len({(e.group_id, e.attempt) for e in played}) == len(played)


def test_results_by_environment_stand_everywhere(ran):
    folder, summary, printed = ran
    rows = [row for row in curve(folder) if row["phase"] == "rl"]
    for row in rows:
        assert {f"success_train/{name}" for name in NAMES} | {f"success_valid/{name}" for name in NAMES} <= set(row)
        assert row["success_train"] == pytest.approx(
            (row["success_train/easy"] * 2 + row["success_train/long"] + row[f"success_train/{NAMES[2]}"]) / 4
        )
    assert {f"success_{when}/{name}" for when in ("before", "sft", "after") for name in NAMES} <= set(summary)
    assert json.loads((folder / "summary.json").read_text()) == summary
    assert summary["tasks"] == 6 and summary["split"] == "test and valid"
    console = Console(width=300, record=True, force_terminal=False)
    screen = Screen(console, read_config(folder / "config.toml"), "run")
    for kind, numbers in printed:
        screen(kind, numbers)
    text = console.export_text()
    assert f"on {', '.join(NAMES)}" in text and "6 test and valid tasks" in text
    assert f"easy {rows[0]['success_train/easy']:.0%}" in text


def test_the_report_tells_the_environments_apart(ran):
    run = open_run(ran[0])
    assert {row.env for row in run.rows()} == set(NAMES)
    page = write_report(ran[0]).read_text(encoding="utf-8")
    assert "success_train/easy" in page and "success_valid/long" in page


def test_a_mix_is_planned(tmp_path, capsys):
    model = policy(tmp_path / "policy", "small/File-v0", "small/Generated-v0")
    (tmp_path / "a.toml").write_text(to_toml(small(tmp_path / "run", model, envs=ENVS, horizon=())))
    assert main(["train", str(tmp_path / "a.toml"), "--plan", "--json"]) == 0
    several = json.loads(capsys.readouterr().out)
    (tmp_path / "b.toml").write_text(to_toml(small(tmp_path / "run", model, envs=ENVS[:1], horizon=())))
    assert main(["train", str(tmp_path / "b.toml"), "--plan", "--json"]) == 0
    assert several["row"] > json.loads(capsys.readouterr().out)["row"]  # the longest episodes of all, not those of the first
    assert not (tmp_path / "run").exists()


def test_shares_are_dealt_evenly():
    owed = dict.fromkeys("abc", 0.0)
    turns = dealt({"a": 2, "b": 1, "c": 1}, 5, owed) + dealt({"a": 2, "b": 1, "c": 1}, 7, owed)
    assert [turns.count(name) for name in "abc"] == [6, 3, 3]
    assert all(abs(turns[:n].count("a") - n / 2) < 1 for n in range(12))


def spec(**changes):
    return EnvSpec(**{"id": "rlvr/GuessNumber-v0", **changes})


@pytest.mark.parametrize(
    ("envs", "message"),
    [
        ((spec(), spec()), "two of one id need a label each"),
        ((spec(label="a"), spec(label="a/b")), "a name must not go on from another with a slash"),
        ((spec(weight=0),), "expected a number above 0"),
        ((spec(weight=float("nan")),), "expected a number above 0"),
        ((spec(weight=float("inf")),), "expected a number above 0"),
        ((spec(weight="2"),), "weight of environment rlvr/GuessNumber-v0 is '2'; expected a number"),
        ((spec(horizon=("9",)),), "expected whole numbers"),
        ((spec(horizon=(0,)),), "horizon is 0; expected at least 1"),
        ((spec(label="a\x1b[2J"),), "printable characters"),
        ((spec(options=[1]),), "options of an entry of \\[\\[envs\\]\\] is \\[1\\]; expected dict"),
        ((spec(agent={"lr": 1}),), "setting of the agent of environment rlvr/GuessNumber-v0: .*lr"),
        ((spec(agent={"temperature": 1.0}),), "temperature"),
        ((spec(agent={"turn_token": 1}),), "Did you mean 'turn_tokens'"),
        ((spec(agent={"agent": "my:play"}),), "my:play"),
    ],
)
def test_entries_that_make_no_sense_are_refused(envs, message):
    with pytest.raises((BadConfig, UnknownName), match=message):
        TrainConfig(envs=envs)


def test_the_agents_settings_are_held_to_their_bounds_and_say_where(tmp_path):
    with pytest.raises(BadConfig, match="agent of environment easy: turn_tokens is 0; expected at least 1"):
        train(small(tmp_path / "run", "init", envs=(EnvSpec("small/File-v0", label="easy", agent={"turn_tokens": 0}),)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[envs]]\nweight = 1", "has no id"),
        ("[[envs]]\nid = 'a'\nwieght = 1", "Did you mean 'weight'"),
        ("[[envs]]\nid = 'a'\nhorizon = 'long'", "expected whole numbers"),
        ("envs = 3", "expected \\[\\[envs\\]\\] tables"),
        ("env = 'rlvr/Search-v0'\n[[envs]]\nid = 'a'", "give one of the two"),
    ],
)
def test_bad_tables_of_a_recipe_are_explained(tmp_path, text, message):
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(BadConfig, match=message):
        read_config(tmp_path / "a.toml")


def test_a_draw_with_another_temperature_has_it_in_environments_with_tools_too():
    temperatures = []

    class Engine(ScriptedEngine):
        async def generate(self, prompt_ids, sampling, session, **options):
            temperatures.append(sampling.temperature)
            return await super().generate(prompt_ids, sampling, session, **options)

    agent = ChatAgent(Engine(["x"] * 9), tools="text")
    env = agentgym.make("rlvr/Math-v0")
    observation, info = env.reset(seed=0)
    assert env.tools
    for one in (agent, sampled(agent, {"temperature": 0.25}), agent):
        asyncio.run(one.begin(env.task, env.tools).take(observation, info, env=env, seed=0, session="s"))
    env.close()
    assert temperatures == [1.0, 0.25, 1.0]


def test_the_environments_of_these_tests_are_what_they_say():
    assert [Small().find(f"file-{n}").data["secret"] for n in range(6)] == [1, 2, 3, 4, 1, 2]
    assert Blocking.blocking
