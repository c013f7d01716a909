"""Suites: those of the package, files of one's own, and what is wrong with a file."""

from pathlib import Path

import pytest

from agentgym import BadConfig, BadData
from agentgym.evaluate.suite import Suite, read_suite, resolve, suites, worlds
from agentgym.registry import WORLDS, make

NEED = {"rlvr/ALFWorld-v0", "rlvr/WebShop-v0", "rlvr/Harbor-v0", "rlvr/SWEBench-v0", "rlvr/ReasoningGym-v0"}
"""Worlds that need files of others, or an extra."""
JAILED = {"rlvr/Code-v0", "rlvr/Math-v0", "rlvr/Terminal-v0", "rlvr/SWE-v0"}
BROWSER = {"rlvr/MiniWoB-v0", "rlvr/Web-v0"}
OWN = set(WORLDS) - NEED - {"rlvr/SearchR1-v0"}  # which has the tasks of another in other words
EMBEDDED = {"core": OWN, "smoke": OWN - JAILED - BROWSER}


def test_names_of_worlds():
    assert worlds("guessnumber, rlvr/Search-v0") == ("rlvr/GuessNumber-v0", "rlvr/Search-v0")
    assert worlds("my_module:me/World-v0") == ("my_module:me/World-v0",)
    assert resolve("household") == Suite(("rlvr/Household-v0",))


@pytest.mark.parametrize("name", [name for name in suites() if "@" not in name])
def test_suites_of_the_package_have_all_embedded_worlds_and_what_they_say_can_be_made(name: str):
    suite = resolve(name)
    assert set(suite.worlds) == EMBEDDED[name]
    assert suite.name == name and suite.description
    for world in suite.worlds:
        make(world, **suite.env_options(world)).close()


def test_a_file_is_read_whole(tmp_path: Path):
    (tmp_path / "mine.txt").write_text("a prompt")
    path = tmp_path / "mine.toml"
    path.write_text(
        'split = "train"\nhorizon = 9\ntemperature = 1\nprompt = "mine.txt"\nagent = "window"\n'
        "[worlds]\nhousehold = {}\nsearch = { horizon = 3, options = { difficulty = 1 } }\n"
    )
    found = resolve(str(path))
    assert found.worlds == ("rlvr/Household-v0", "rlvr/Search-v0")
    assert (found.split, found.temperature, found.agent, found.tasks) == ("train", 1.0, "window", None)
    assert found.prompt == str(tmp_path / "mine.txt")
    assert found.env_options("rlvr/Household-v0") == {"horizon": 9}
    assert found.env_options("rlvr/Search-v0") == {"horizon": 3, "difficulty": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('world = ["household"]', "no key in s.toml: 'world'. Did you mean 'worlds'?"),
        ('worlds = ["household"]\nattemps = 2', "Did you mean 'attempts'?"),
        ("[worlds.household]\nhorizn = 2", "no key in s.toml: household: 'horizn'. Did you mean 'horizon'?"),
        ("[worlds.household]\ntemperature = 1.0", "no key in s.toml: household: 'temperature'"),
        ('worlds = ["houshold"]', "Did you mean 'household'?"),
        ("tasks = 3", "worlds is None; expected a list"),
        ("worlds = []", r"worlds is \[\]; expected a list"),
        ("worlds = [3]", r"worlds is \[3\]; expected a list"),
        ('worlds = "household"', "worlds is 'household'; expected a list"),
        ('worlds = ["household"]\ntasks = 0', "tasks is 0; expected int of at least 1"),
        ('worlds = ["household"]\ntasks = true', "tasks is True; expected int"),
        ('worlds = ["household"]\ntemperature = -1', "temperature is -1.0; expected float of at least 0"),
        ("[worlds]\nhousehold = 3", "household is 3; expected a table"),
        ("[worlds.household]\noptions = 3", "options is 3; expected a table"),
        ('[worlds]\nhousehold = {}\n"rlvr/Household-v0" = {}', "each only once"),
        ("worlds = [", "not TOML"),
    ],
)
def test_what_is_wrong_is_named(text: str, message: str, tmp_path: Path):
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises((BadConfig, BadData, LookupError), match=message):
        read_suite(path)


def test_the_suite_on_the_page_is_read(tmp_path: Path):
    page = (Path(__file__).resolve().parents[2] / "docs/evaluate.md").read_text(encoding="utf-8")
    path = tmp_path / "my_suite.toml"
    path.write_text(page.partition("```toml\n")[2].partition("```")[0])
    assert read_suite(path).own["rlvr/Search-v0"] == {"tasks": 20, "options": {"difficulty": 1}}
