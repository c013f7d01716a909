"""What a harness's file may say."""

from pathlib import Path

import pytest

from agentgym.errors import BadConfig, BadData, UnknownName
from agentgym.harness.description import NAMES, Harness, is_harness, load

FILE = 'start = ["play", "{instruction}"]\n'


def written(folder: Path, text: str) -> str:
    path = folder / "own.toml"
    path.write_text(text)
    return f"harness:{path}"


def test_five_come_with_the_package() -> None:
    assert NAMES == ("claude-code", "codex", "mini-swe-agent", "opencode", "qwen-code")
    for name in NAMES:
        harness = load(f"harness:{name}")
        words = " ".join((*harness.start, *harness.environment.values()))
        assert harness.name == name and "{instruction}" in words and "{api_key}" in words and harness.about
        assert "{base_url}" in words or "{origin}" in words
        assert harness.shell["tool"] and harness.shell["parameter"]
        assert all(part in harness.install for part in ("install", f"/opt/agentgym/{name}"))


def test_gaps_are_filled_once_and_other_braces_stay(tmp_path: Path) -> None:
    harness = load(written(tmp_path, FILE + 'environment = {A = "{model} {other} {{folder}}"}'))
    gaps = {"model": "{folder}", "folder": "/task", "instruction": "; rm -rf / {api_key}"}
    assert harness.filled(harness.environment["A"], gaps) == "{folder} {other} {/task}"
    assert harness.filled(harness.start[1], gaps) == "; rm -rf / {api_key}"
    with pytest.raises(BadConfig, match="more than 100000 bytes"):
        harness.filled("{instruction}", {"instruction": "é" * 50_001})


def test_the_fingerprint_is_that_of_all_it_says(tmp_path: Path) -> None:
    first = load(written(tmp_path, FILE))
    assert first == load(written(tmp_path, FILE)) and first == Harness("own", ("play", "{instruction}"))
    assert first.fingerprint != load(written(tmp_path, FILE + 'install = "true"')).fingerprint


def test_names() -> None:
    assert is_harness("harness:codex") and not is_harness("codex") and not is_harness("module:harness")
    with pytest.raises(UnknownName, match=r"mini-swe-agent.*harness:FILE\.toml"):
        load("harness:mini-swe")
    with pytest.raises(BadData, match="cannot be read"):
        load("harness:none.toml")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("start = [", "expected TOML"),
        ('install = "x"', "start is None; expected the program"),
        ("start = []", "start is"),
        ('start = ["a", 1]', "start is"),
        (FILE + "install = 3", "install is 3; expected text"),
        (FILE + "[environment]\nA = 1", "table of texts"),
        (FILE + '[room]\nmemory = "1"', "table of numbers"),
        (FILE + "[room]\nmemory = true", "table of numbers"),
        (FILE + "grace = -1", "grace is -1"),
        (FILE + '[files]\n"../x" = ""', "below the harness's memory folder"),
        (FILE + '[files]\n"/x" = ""', "below the harness's memory folder"),
        (FILE + "shell = 3", "expected a tool and its parameter"),
        (FILE + '[shell]\ntool = "bash"', "expected a tool and its parameter"),
        (FILE + '[shell]\ntext = "RUN"', "text with {command}"),
        (FILE + '[shell]\ntext = "{command}"\ntool = "bash"\nparameter = "c"', "expected a tool and its parameter"),
        (FILE + '[shell]\ntool = "bash"\nparameter = "c"\narguments = 1', "expected a tool and its parameter"),
        (FILE + '[shell]\nend = "exit"', "expected a tool and its parameter"),
    ],
)
def test_what_a_file_has_wrong(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(BadData, match=why):
        load(written(tmp_path, text))


def test_an_unknown_key(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="instal"):
        load(written(tmp_path, FILE + 'instal = ""'))
    with pytest.raises(BadConfig, match="parameter"):
        load(written(tmp_path, FILE + '[shell]\nparam = "x"'))
