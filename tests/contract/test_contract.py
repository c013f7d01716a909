"""Every registered environment is held to the contract."""

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from by_check import FEW

import agentgym
from agentgym.contract import CHECKS, Report, check, examine, looks
from agentgym.registry import ENVS
from agentgym.rewards import expressions
from agentgym.sandbox.bubblewrap.sandbox import missing


@pytest.fixture(scope="session")
def alfworld_data(tmp_path_factory):
    """A data folder of exported houses, with hand-made words where a genuine file has its grammar."""
    from household_files import DOMAIN, GRAMMAR

    from agentgym.envs.household.export import export_game

    root = tmp_path_factory.mktemp("alfworld")
    for split in ("train", "valid_seen", "valid_unseen"):
        for task in agentgym.make("rlvr/Household-v0", split=split).tasks(4):
            export_game(task, root / split / f"{task.data['type']}-{task.id.replace('/', '-')}" / "trial_1", DOMAIN, GRAMMAR)
    return root


@pytest.fixture(scope="session")
def webshop_data(tmp_path_factory):
    """A data folder in the form of WebShop's."""
    from shop_files import write

    return str(write(tmp_path_factory.mktemp("webshop")))


DATA = {"rlvr/ALFWorld-v0": "alfworld_data", "rlvr/WebShop-v0": "webshop_data"}


SANDBOXED = {"rlvr/Code-v0", "rlvr/CodeDialogue-v0", "rlvr/Math-v0", "rlvr/Terminal-v0", "rlvr/SWE-v0"}
"""tests/contract/test_contract_sandboxed.py looks at them check by check; here the test marked slow does."""


LONG = {
    "rlvr/TextWorld-v0": ("splits are disjoint", "shortcut policies fail"),
    "rlvr/ScienceWorld-v0": (
        "equal keys",
        "failure never wins",
        "snapshots here",
        "oracle recovers",
        "shortcut policies fail",
        "chance is poor",
    ),
}
"""Environments whose plays take seconds, and their checks that take minutes: the test marked slow looks at all of them."""


SEED = int(os.environ["AGENTGYM_CHECK_SEED"])
"""Draws other tasks every week; conftest.py sets it, and prints it."""


def options(id, request):
    if id in ("rlvr/MiniWoB-v0", "rlvr/Web-v0"):
        pytest.skip("it plays in a browser: tests/browser/test_contract_browser.py holds it to the contract")
    if id in SANDBOXED and missing():
        pytest.skip(missing())
    if id == "rlvr/ReasoningGym-v0":
        pytest.importorskip("reasoning_gym", reason="needs the extra `reasoning-gym`: ./dev test-reasoning-gym")
    if id == "rlvr/Math-v0" and not expressions.installed():
        return {"preset": "numbers"}
    if id == "rlvr/SWEBench-v0":
        pytest.skip("it plays in containers: tests/with_docker/test_docker_swe.py holds it to the contract")
    if id == "rlvr/Harbor-v0":
        pytest.skip("it plays in containers: tests/with_docker/test_harbor.py holds it to the contract")
    if id == "rlvr/BabyAI-v0":
        pytest.importorskip("minigrid", reason="needs the extra `babyai`")
    if id == "rlvr/TextWorld-v0":
        pytest.importorskip("textworld", reason="needs the extra `textworld`")
    if id == "rlvr/ScienceWorld-v0":
        pytest.importorskip("scienceworld", reason="needs the extra `scienceworld`")
        if shutil.which("java") is None:
            pytest.skip("needs Java: apt install default-jre-headless")
        return {"tasks_of": ("find-animal", "find-plant")}  # quick ones; all thirty: tests/envs/scienceworld
    if id == "rlvr/Terminal-v0":  # quick families; tests/envs/terminal/test_terminal_families.py has them all
        return {"families": "rename,csv,ini,links", "difficulty": 0}
    return {"data": request.getfixturevalue(DATA[id])} if id in DATA else {}


LONGEST = {"rlvr/TextWorld-v0", "rlvr/ScienceWorld-v0", "rlvr/SQL-v0", "rlvr/Shop-v0"}
"""Held to it by ./dev test-long."""


@pytest.mark.parametrize(
    "id", [pytest.param(id, marks=[pytest.mark.long] * (id in LONGEST)) for id in ENVS if id not in SANDBOXED]
)
def test_environment_keeps_the_contract(id, request):
    checks = [name for name in CHECKS if name not in LONG.get(id, ())]
    under_test = examine(id, seed=SEED, **options(id, request))
    report = Report(id, list(looks(replace(under_test, **FEW) if id in LONG else under_test, checks)))
    assert report.ok, f"{report}\nagain with AGENTGYM_CHECK_SEED={SEED}"
    assert sum(result.status == "holds" for result in report.results) >= 18 - len(LONG.get(id, ())), str(report)


@pytest.mark.slow
@pytest.mark.parametrize("id", ENVS)
def test_environment_keeps_the_contract_thoroughly(id, request):
    report = check(id, thorough=id not in LONG, **options(id, request))
    assert report.ok, str(report)


@pytest.mark.parametrize("difficulty", [1, 3])
@pytest.mark.parametrize("id", ["rlvr/GuessNumber-v0", "rlvr/FrozenLake-v0"])
def test_harder_tasks_keep_it_too(id, difficulty):
    report = check(
        id, difficulty=difficulty, horizon=60, checks=["same again", "equal keys", "oracle recovers", "expert is good"]
    )
    assert report.ok, str(report)


def test_self_play_keeps_what_it_promises():
    # A win that was given away stays away, and a weak player meets itself: see the environment's docstring.
    checks = [name for name in CHECKS if name not in ("oracle recovers", "shortcut policies fail", "chance is poor")]
    report = check("rlvr/TicTacToe-v0", opponent="self", checks=checks)
    assert report.ok, str(report)


def test_the_environment_of_the_page_keeps_the_contract(tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "guides" / "contract.md").read_text(encoding="utf-8")
    ladder, vault, *_ = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "page_of_envs.py").write_text(ladder + vault, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    report = check("page_of_envs:me/Ladder-v0", slippery=0.1)
    assert report.ok, str(report)
    table = page.partition("## The contract")[2]
    assert all(name in table or f", {name.split()[-1]} |" in table for name in CHECKS)
