"""MiniWoB++: the package's own tasks and words, judged free of the clock, and solvers that solve them."""

import importlib.util
import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentgym.browser.chromium import arguments, chromium
from agentgym.envs.miniwob import MiniWoB
from agentgym.envs.miniwob.names import NAMES, THRESHOLDS
from agentgym.envs.miniwob.pages import folder, url
from agentgym.envs.miniwob.solve_click import win_probability
from agentgym.envs.miniwob.solvers import DEFAULT, FRAGILE, SOLVERS
from agentgym.errors import BadConfig, UnknownName

pytestmark = pytest.mark.skipif(chromium() is None, reason="needs a Chromium: apt install chromium")

SOME = ("click-color", "multi-layouts", "email-inbox-nl-turk", "find-word", "unicode-test")
BROWSERGYM = """
import json, os, sys
import gymnasium, browsergym.miniwob
import playwright.sync_api as api
launch = api.BrowserType.launch
api.BrowserType.launch = lambda self, **k: launch(self, **{**k, "executable_path": os.environ["CHROMIUM"],
    "args": [*(k.get("args") or []), "--no-sandbox"]})
found = {}
for name in json.loads(sys.argv[1]):
    env = gymnasium.make(f"browsergym/miniwob.{name}", headless=True)
    seeds = []
    real = env.unwrapped.task_entrypoint
    obs, _ = env.reset(seed=7)
    found[name] = [obs["goal"], env.unwrapped.task.random.__class__(7).randint(0, 1000000)]
    env.close()
print("FOUND", json.dumps(found))
"""


@pytest.fixture(scope="module")
def env():
    made = MiniWoB(preset="all")
    yield made
    made.close()


def start(env, task, **options):
    return env.reset(seed=0, options={"task": task, **options})


def test_the_tasks_are_those_of_the_package():
    import gymnasium
    import miniwob  # noqa: F401  # registers them

    registered = {id.removeprefix("miniwob/").removesuffix("-v1") for id in gymnasium.registry if id.startswith("miniwob/")}
    assert set(NAMES) == registered and len(NAMES) == len(registered) == 128
    assert set(THRESHOLDS) | set(SOLVERS) <= set(NAMES) and len(DEFAULT) >= 40


def utterances(names, seed):
    """Return what the genuine pages say, opened as the package opens them: from its folder, with its calls."""
    from playwright.sync_api import sync_playwright

    found = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=arguments("")[-1:])
        page = browser.new_page()
        for name in names:
            page.goto(f"file://{folder()}/miniwob/{name}.html")
            page.wait_for_selector("#sync-task-cover")
            page.evaluate("core.endEpisode(0)")
            page.evaluate(f"Math.seedrandom({seed}); core.setDataMode('train'); core.startEpisodeReal();")
            utterance = page.evaluate("core.getUtterance()")
            found[name] = utterance["utterance"] if isinstance(utterance, dict) else utterance
        browser.close()
    return found


def in_a_thread(function, *arguments):
    """The blocking interface of Playwright takes a thread's event loop for itself."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(function, *arguments).result()


@pytest.mark.long
@pytest.mark.parametrize("names", [SOME, pytest.param(NAMES, marks=pytest.mark.slow)], ids=["some", "all"])
def test_utterances_are_those_of_the_package(env, names):
    names = [name for name in names if not name.startswith("flight.")]  # these need a server, and tell fields
    for name, utterance in in_a_thread(utterances, names, 11).items():
        observation, _ = start(env, f"{name}/11")
        assert env.goal == utterance and observation.startswith(f"Goal: {utterance}\n"), name


def test_browsergym_says_the_same():
    python = os.environ.get("AGENTGYM_BROWSERGYM")
    if not python:
        pytest.skip("AGENTGYM_BROWSERGYM names no Python with browsergym-miniwob 0.14")
    assert importlib.util.find_spec("miniwob")
    variables = {**os.environ, "MINIWOB_URL": f"file://{folder()}/miniwob/", "CHROMIUM": chromium()}
    command = [python, "-c", BROWSERGYM, json.dumps(SOME)]
    done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
    assert "FOUND" in done.stdout, done.stderr[-2000:]
    env = MiniWoB(preset="all")
    for name, (goal, seed) in json.loads(done.stdout.split("FOUND")[1]).items():
        start(env, f"{name}/{seed}")
        assert env.goal == goal, name
    env.close()


def test_reward_is_the_raw_one_and_no_clock_enters(env):
    start(env, "click-test/3", horizon=100)
    for _ in range(40):  # forty seconds of the page's time: its own limit is ten
        assert env.step("noop[]")[1:4] == (0.0, False, False)
    _, reward, terminated, _, info = env.step("click[1]")
    assert (reward, terminated, info["success"], info["reason"]) == (1.0, True, True, "success")


def test_partial_reward_is_failure(env):
    observation, _ = start(env, "find-greatest/0")
    assert '[2] div "10"' in observation and '[3] div "5"' in observation
    env.step("click[3]")  # the raw reward of a wrong card is 0.1, which BrowserGym calls success
    _, reward, terminated, _, info = env.step("click[4]")
    assert (reward, terminated, info["success"]) == (0.0, True, False)


def test_the_cover_and_the_reward_are_not_shown(env):
    observation, _ = start(env, "click-test-2/3")
    assert observation.split("\n\n")[2] == '[1] button "ONE" id="subbtn"\n[2] button "TWO" id="subbtn2"'
    assert "START" not in observation and "reward" not in observation.lower()


def test_a_page_that_is_left_is_failed(env):
    start(env, "click-test/3")
    env.peek("location.reload()")
    assert env.step("noop[]")[4]["reason"] == "failure"


def test_no_tool_leads_away_or_evaluates(env):
    assert not {"goto", "back", "tab", "answer"} & set(env.tools)
    start(env, "click-test/3")
    assert env.step("goto[/miniwob/click-test-2.html]")[4]["valid"] is False


def test_tasks_take_turns_and_splits_follow_the_seed():
    env = MiniWoB(names=("click-test", "enter-text"))
    assert [task.id.split("/")[0] for task in env.tasks(4)] == ["click-test", "enter-text"] * 2
    assert {task.split for task in env.tasks(6, "test")} == {"test"}
    assert env.find("click-test/17").data == {"type": "click-test", "seed": 17}
    assert url("flight.AA") == "http://miniwob.test/flight/AA/wrapper.html"
    for wrong in ("click-tset/17", "click-test/1000000", "click-test/x", "17"):
        with pytest.raises(BadConfig, match="NAME/SEED"):
            env.find(wrong)
    with pytest.raises(UnknownName, match="click-test"):
        MiniWoB(names=("click-tset",))


def test_each_task_has_its_own_limit(env):
    start(env, "guess-number/1")
    assert env.limit == 25
    start(env, "click-test/1")
    assert env.limit == 10
    own = MiniWoB(horizon=3)
    start(own, "guess-number/1")
    assert own.limit == 3
    own.close()


def solve(env, task):
    start(env, task)
    for action in env.oracle():
        *_, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            return info["success"], info["reason"], env.turn
    return None


@pytest.mark.parametrize(
    "task",
    [
        "choose-date-easy/41",
        "click-menu/41",
        "circle-center/41",
        "email-inbox-noscroll/836640",  # a name with a hyphen
        "multi-layouts/397313",  # labels that are texts and no elements
        "sign-agreement/100",  # a field that is disabled and scrolls
    ],
)
def test_the_solver_solves(env, task):
    assert solve(env, task)[0] is True


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(SOLVERS) - {"tic-tac-toe"}))
def test_every_solver_solves(env, name):
    found = {seed: solve(env, f"{name}/{seed}") for seed in range(100, 104)}
    if name in FRAGILE:
        assert sum(won for won, *_ in found.values()) >= 3, found
    else:
        assert all(won for won, *_ in found.values()), found


@pytest.mark.parametrize(
    ("board", "x_moves", "probability"),
    [
        ("xx oo    ", True, 1.0),
        ("xxoox ox ", True, 1.0),
        ("xoxxoooxx", False, 0.0),  # a draw
        ("xxoooxx o", True, 0.0),  # the last cell completes nothing
        ("xoxoxoox ", False, 0.0),  # O takes the last cell: a draw
        ("xoooxxx  ", False, 0.275),  # a clever O blocks cell 8, a random one does so half the time: 0.55 / 2
    ],
)
def test_chances_at_tic_tac_toe_by_hand(board, x_moves, probability):
    assert win_probability(board, x_moves) == pytest.approx(probability)


@pytest.mark.slow
def test_tic_tac_toe_is_won_as_often_as_it_can_be(env):
    """A draw is a failure on the page: nobody wins more than 0.966 of the games that X begins, and 0.727 of the others."""
    assert win_probability(" " * 9, True) == pytest.approx(0.966, abs=5e-4)
    assert win_probability(" " * 9, False) == pytest.approx(0.727, abs=5e-4)
    won = [solve(env, f"tic-tac-toe/{seed}")[0] for seed in range(100, 112)]
    assert sum(won) >= 9, won  # 9 of these 12, 20 of the seeds 100 to 123


def test_tasks_without_a_solver_say_so(env):
    start(env, "click-shades/1")
    with pytest.raises(NotImplementedError, match="click-shades has no oracle"):
        next(env.oracle())
