"""Experts reach what their environments declare at every difficulty, within the environments' own horizons."""

import shutil

import pytest

import agentgym
from agentgym import Task
from agentgym.agents.policies import ExpertAgent
from agentgym.browser.chromium import chromium
from agentgym.envs.scienceworld.tasks import TURNS
from agentgym.sandbox.bubblewrap.sandbox import missing

QUICK = (
    "Household",
    "FrozenLake",
    "TicTacToe",
    "ConnectFour",
    "KuhnPoker",
    "Negotiation",
    "BabyAI",
    "TextCraft",
    "TwentyQuestions",
    "Wordle",
    "GuessNumber",
    "SQL",
    "Functions",
    "Instructions",
    "Memory",
)


def success(id, difficulty, tasks):
    env = agentgym.make(id, difficulty=difficulty)
    won = 0
    for seed, task in enumerate(env.tasks(tasks)):
        env.reset(seed=seed, options={"task": task})
        over = False
        while not over:
            _, _, terminated, truncated, info = env.step(next(env.expert()))
            over = terminated or truncated
        won += info["success"] is True
    env.close()
    return won / tasks, env.declared.expert_bound


@pytest.mark.parametrize("difficulty", range(6))
@pytest.mark.parametrize("name", QUICK)
def test_experts_reach_their_bound(name, difficulty):
    if name == "BabyAI":
        pytest.importorskip("minigrid", reason="BabyAI needs minigrid")
    rate, bound = success(f"rlvr/{name}-v0", difficulty, 12)
    assert rate >= bound


@pytest.mark.long
@pytest.mark.parametrize("difficulty", [1, 3, 4])
def test_the_buyer_reaches_its_bound(difficulty):
    rate, bound = success("rlvr/Shop-v0", difficulty, 60)
    assert rate >= bound


@pytest.mark.long
@pytest.mark.parametrize("difficulty", [4, 5])
def test_the_reader_reaches_its_bound(difficulty):
    rate, bound = success("rlvr/Search-v0", difficulty, 60)
    assert rate >= bound


def test_guesses_follow_the_range_and_the_words():
    guess, wordle = agentgym.make("rlvr/GuessNumber-v0"), agentgym.make("rlvr/Wordle-v0")
    limits = [guess.limit_of(Task(data={"limit": 100 * 10**difficulty, "secret": 1})) for difficulty in range(4)]
    assert limits == [12, 15, 21, 25]  # 7, 10, 14 and 17 halvings
    assert [wordle.limit_of(Task(data={"words": ("crane",) * words})) for words in (1, 29, 41)] == [40, 40, 52]
    assert agentgym.make("rlvr/GuessNumber-v0", horizon=3).limit_of(Task(data={"limit": 10**9, "secret": 1})) == 3
    assert TURNS["mendelian-genetics-known-plant"] > 257


@pytest.mark.parametrize("difficulty", [16, 17, 40])
def test_numbers_of_any_size_can_be_guessed(difficulty):
    rate, bound = success("rlvr/GuessNumber-v0", difficulty, 5)
    assert rate == bound == 1


def test_forty_one_words_can_be_guessed():
    env = agentgym.make("rlvr/Wordle-v0", difficulty=40)
    env.reset(seed=0)
    while env.success is None:
        env.step(next(env.oracle()))
    assert env.success and env.turn == 41


BLOCKING = {
    "Code": {}, "Math": {}, "Terminal": {"families": "rename,csv,ini,links"}, "TextWorld": {},
    "ScienceWorld": {"tasks_of": ("find-animal", "find-plant")}, "Web": {}, "MiniWoB": {},
}  # fmt: skip
"""Environments that play in worker processes and have an expert, with options that keep them quick; all of them are slow."""


def played_elsewhere(name, difficulty, tasks):
    """Let the expert play in worker processes; return its share of successes, its bound, and how the rest ended."""
    needed = {"TextWorld": "textworld", "ScienceWorld": "scienceworld", "MiniWoB": "miniwob"}.get(name)
    if needed:
        pytest.importorskip(needed, reason=f"{name} needs {needed}")
    if name in ("Code", "Math", "Terminal") and missing():
        pytest.skip(missing())
    if name in ("Web", "MiniWoB") and chromium() is None:
        pytest.skip("needs a Chromium: apt install chromium")
    if name == "ScienceWorld" and shutil.which("java") is None:
        pytest.skip("needs Java: apt install default-jre-headless")
    id, options = f"rlvr/{name}-v0", {**BLOCKING[name], "difficulty": difficulty}
    episodes = agentgym.collect(ExpertAgent(), id, tasks=tasks, env_options=options, config=agentgym.RolloutConfig(2))
    bound = agentgym.make(id, **options).declared.expert_bound
    return (
        sum(e.success is True for e in episodes) / tasks,
        bound,
        [(e.task_id, e.reason) for e in episodes if not e.success],
    )


@pytest.mark.long
@pytest.mark.parametrize("name", ["Math", "TextWorld"])
def test_experts_reach_their_bound_in_worker_processes_too(name):
    rate, bound, lost = played_elsewhere(name, 3, 3)
    assert rate >= bound, lost


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "difficulty"), [(name, d) for name in BLOCKING for d in range(1 if name == "ScienceWorld" else 4)]
)  # ScienceWorld has no difficulty but 0
def test_experts_in_worker_processes_reach_their_bound_at_every_difficulty(name, difficulty):
    rate, bound, lost = played_elsewhere(name, difficulty, 12)
    assert rate >= bound, lost
