"""The current folder of a command: only modules that its user names are imported from it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentgym import registry
from agentgym.core import beside
from agentgym.errors import UnknownName

HOSTILE = (
    *("docker", "wandb", "mlflow", "trackio", "tensorboard", "math_verify", "sympy", "ray", "vllm", "verifiers", "openenv"),
    *("nemo_gym", "harbor", "swebench", "mcp", "anthropic", "playwright", "datasets", "faiss", "tantivy", "uvloop", "peft"),
    *("json", "pickle", "multiprocessing", "random", "socket", "struct", "selectors", "agentgym", "sitecustomize"),
)
"""Packages that may not be installed, and modules of Python that are imported first where a folder is looked at first."""


@pytest.fixture
def download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a current folder with modules that say when they are imported."""
    folder = tmp_path / "download"
    folder.mkdir()
    for name in HOSTILE:
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'a').write({name + ' '!r})\n")
    monkeypatch.chdir(folder)
    return folder


def imported(folder: Path) -> str:
    file = folder.parent / "imported"
    return file.read_text() if file.exists() else ""


def command(folder: Path, *words: str) -> str:
    """Run the command as its console script does: a file elsewhere."""
    script = folder.parent / "bin" / "agentgym"
    script.parent.mkdir(exist_ok=True)
    script.write_text("import sys\nfrom agentgym.cli import main\nsys.exit(main())\n")
    root = str(Path(registry.__file__).parents[1])
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": root, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(script), *words], cwd=folder, env=variables, capture_output=True, text=True, check=False
    )
    return f"{done.returncode}\n{done.stdout}\n{done.stderr}"


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the path of modules, which a test may change."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(beside, "FOLDERS", [])
    return sys.path


@pytest.mark.parametrize("first", ["", "here"])
def test_a_command_takes_the_current_folder_off_the_path(download, path, first):
    path.insert(0, str(download) if first else "")
    beside.leave_folder()
    assert str(download) not in path and "" not in path[:1] and list(beside.FOLDERS) == [str(download)]


def test_a_folder_that_is_gone_is_no_folder(path, monkeypatch):
    def gone() -> Path:
        raise FileNotFoundError

    monkeypatch.setattr(beside.Path, "cwd", gone)
    beside.leave_folder()
    assert beside.FOLDERS == []


def test_a_named_module_is_found_in_the_folder_with_its_neighbors(download, path):
    (download / "mine_31.py").write_text("from neighbor_31 import make\n")
    (download / "neighbor_31.py").write_text("def make(): return 3\n")
    beside.leave_folder()
    assert registry.load("mine_31:make", "engine", {})() == 3 and path[-1] == str(download)
    assert not imported(download)


def test_what_is_installed_is_never_taken_from_the_folder(download, path):
    (download / "pytest.py").write_text("open('../imported', 'w')\n")
    beside.leave_folder()
    assert registry.load("pytest:raises", "engine", {}) is pytest.raises and str(download) not in path


def test_a_name_without_a_module_looks_nowhere(download, path):
    beside.leave_folder()
    with pytest.raises(UnknownName):
        registry.full_id("docker")
    with pytest.raises(UnknownName):
        registry.load("wandb", "logger", {"console": "agentgym.cli:main"})
    assert str(download) not in path and not imported(download)


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("docker:me/Env-v0", "docker"),
        ("a.b:me/Env-v0", "a.b"),
        ("household", ""),
        ("rlvr/SQL-v0", ""),
        ("openenv:http://localhost:8000", ""),
        ("harbor:tasks", ""),
        ("nemo_gym:folder", ""),
        ("verifiers:reverse-text", "reverse_text"),
    ],
)
def test_the_module_that_a_name_says(name, module):
    assert registry.module_named(name) == module


def test_an_entry_point_of_a_broken_package_is_not_looked_for_in_the_folder(download, path):
    beside.leave_folder()
    registry.register("ghost/Env-v0", "docker_31:Env")
    (download / "docker_31.py").write_text("open('../imported', 'w')\n")
    with pytest.raises(UnknownName):
        registry.make("ghost/Env-v0")
    assert not imported(download)


@pytest.mark.long
@pytest.mark.parametrize(
    "words",
    [
        ["doctor"],
        ["envs"],
        ["eval", "guessnumber", "--policy", "expert", "--tasks", "2", "--workers", "1", "--out", "run"],
        ["eval", "math", "--policy", "expert", "--tasks", "2", "--out", "run"],
        ["check", "guessnumber", "--check", "same elsewhere"],
        ["check", "verifiers:nothing-here"],
        ["train", "household", "--logger", "wandb", "--plan"],
    ],
    ids=" ".join,
)
def test_a_command_imports_nothing_of_a_download(download, words):
    output = command(download, *words)
    assert not imported(download), output


@pytest.mark.long
def test_an_environment_beside_the_user_is_played_and_checked(download):
    (download / "ladder_31.py").write_text(
        "import agentgym\nfrom rungs_31 import GOAL\n"
        "class Ladder(agentgym.TextEnv):\n"
        "    'Climb.'\n"
        "    horizon = 9\n"
        "    def begin(self, task):\n        self.rung = 0\n        return 'Climb.'\n"
        "    def act(self, action):\n"
        "        self.rung += action == 'up'\n"
        "        return self.win('There.') if self.rung == GOAL else 'Up you go.'\n"
        "    def generate(self, rng, difficulty):\n        return agentgym.Task('Climb.', {'n': int(rng.integers(1000))})\n"
        "    def oracle(self):\n        yield 'up'\n"
        "    def commands(self):\n        return ['up']\n"
        "agentgym.register('me/Ladder31-v0', Ladder)\n"
    )
    (download / "rungs_31.py").write_text("GOAL = 3\n")
    name = "ladder_31:me/Ladder31-v0"
    output = command(download, "eval", name, "--policy", "oracle", "--tasks", "2", "--workers", "1", "--out", "run")
    assert output.startswith("0"), output
    output = command(download, "check", name, "--check", "same elsewhere")
    assert "passed" in output or "ok" in output, output
    assert not imported(download)
