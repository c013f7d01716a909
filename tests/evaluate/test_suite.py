"""Suites: those of the package, files of one's own, and what is wrong with a file."""

from pathlib import Path

import pytest

from agentgym import BadConfig, BadData
from agentgym.evaluate.suite import Suite, envs, read_suite, resolve, suites
from agentgym.registry import ENVS, make

NEED = {"rlvr/ALFWorld-v0", "rlvr/WebShop-v0", "rlvr/Harbor-v0", "rlvr/SWEBench-v0", "rlvr/ReasoningGym-v0"} | {
    "rlvr/BabyAI-v0",
    "rlvr/TextWorld-v0",
    "rlvr/ScienceWorld-v0",
    "rlvr/Web-v0",
    "rlvr/MiniWoB-v0",
}
"""Environments that need files of others, or an extra."""
SANDBOXED = {"rlvr/Code-v0", "rlvr/CodeDialogue-v0", "rlvr/Math-v0", "rlvr/Terminal-v0", "rlvr/SWE-v0"}
OWN = set(ENVS) - NEED - {"rlvr/SearchR1-v0"}  # which has the tasks of another in other words
EMBEDDED = {"core": OWN, "smoke": OWN - SANDBOXED}


def test_names_of_environments():
    assert envs("guessnumber, rlvr/Search-v0") == ("rlvr/GuessNumber-v0", "rlvr/Search-v0")
    assert envs("my_module:me/Env-v0") == ("my_module:me/Env-v0",)
    assert resolve("household") == Suite(("rlvr/Household-v0",))


@pytest.mark.parametrize("name", [name for name in suites() if "@" not in name])
def test_suites_of_the_package_have_all_embedded_environments_and_what_they_say_can_be_made(name: str):
    suite = resolve(name)
    assert set(suite.envs) == EMBEDDED[name]
    assert suite.name == name and suite.description
    for env in suite.envs:
        make(env, **suite.env_options(env)).close()


def test_a_file_is_read_whole(tmp_path: Path):
    (tmp_path / "mine.txt").write_text("a prompt")
    path = tmp_path / "mine.toml"
    path.write_text(
        'split = "train"\nhorizon = 9\ntemperature = 1\nprompt = "mine.txt"\nagent = "window"\n'
        "[envs]\nhousehold = {}\nsearch = { horizon = 3, options = { difficulty = 1 } }\n"
    )
    found = resolve(str(path))
    assert found.envs == ("rlvr/Household-v0", "rlvr/Search-v0")
    assert (found.split, found.temperature, found.agent, found.tasks) == ("train", 1.0, "window", None)
    assert found.prompt == str(tmp_path / "mine.txt")
    assert found.env_options("rlvr/Household-v0") == {"horizon": 9}
    assert found.env_options("rlvr/Search-v0") == {"horizon": 3, "difficulty": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('env = ["household"]', "no key in s.toml: 'env'. Did you mean 'envs'?"),
        ('envs = ["household"]\nattemps = 2', "Did you mean 'attempts'?"),
        ("[envs.household]\nhorizn = 2", "no key in s.toml: household: 'horizn'. Did you mean 'horizon'?"),
        ("[envs.household]\ntemperature = 1.0", "no key in s.toml: household: 'temperature'"),
        ('envs = ["houshold"]', "Did you mean 'household'?"),
        ("tasks = 3", "envs is None; expected a list"),
        ("envs = []", r"envs is \[\]; expected a list"),
        ("envs = [3]", r"envs is \[3\]; expected a list"),
        ('envs = "household"', "envs is 'household'; expected a list"),
        ('envs = ["household"]\ntasks = 0', "tasks is 0; expected int of at least 1"),
        ('envs = ["household"]\ntasks = true', "tasks is True; expected int"),
        ('envs = ["household"]\ntemperature = -1', "temperature is -1.0; expected float of at least 0"),
        ("[envs]\nhousehold = 3", "household is 3; expected a table"),
        ("[envs.household]\noptions = 3", "options is 3; expected a table"),
        ('[envs]\nhousehold = {}\n"rlvr/Household-v0" = {}', "each only once"),
        ("envs = [", "not TOML"),
    ],
)
def test_what_is_wrong_is_named(text: str, message: str, tmp_path: Path):
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises((BadConfig, BadData, LookupError), match=message):
        read_suite(path)


def test_the_suite_on_the_page_is_read(tmp_path: Path):
    page = (Path(__file__).resolve().parents[2] / "docs/guides/evaluate.md").read_text(encoding="utf-8")
    path = tmp_path / "my_suite.toml"
    path.write_text(page.partition("\n## Suites\n")[2].partition("```toml\n")[2].partition("```")[0])
    assert read_suite(path).own["rlvr/Search-v0"] == {"tasks": 20, "options": {"difficulty": 1}}
