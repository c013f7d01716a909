"""`./dev`: what it says, what it refuses, and that it installs once."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def dev(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = ["sh", str(folder / "dev"), *arguments]
    full = {**os.environ, **environment}
    return subprocess.run(command, cwd="/", env=full, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout that has the script and nothing to install, in a folder whose name has a blank."""
    folder = tmp_path / "my checkout"
    folder.mkdir()
    shutil.copy(ROOT / "dev", folder)
    (folder / "constraints.txt").touch()
    (folder / "pyproject.toml").touch()
    return folder


def test_help_names_every_command() -> None:
    done = dev(ROOT, "help")
    assert done.returncode == 0
    own = ("test-vllm", "test-clients", "test-docker", "test-reasoning-gym")
    for command in ("train", "test", "check", "parity", *own, "full", "help"):
        assert f"\n  {command} " in done.stdout


def test_unknown_command_is_refused() -> None:
    done = dev(ROOT, "tset")
    assert done.returncode == 1
    assert "no command 'tset'" in done.stderr


def test_without_python_it_says_what_is_needed(checkout: Path) -> None:
    done = dev(checkout, "check", AGENTGYM_PYTHON="/nowhere/python3")
    assert done.returncode == 1
    assert "3.11" in done.stderr and "/nowhere/python3" in done.stderr and "AGENTGYM_PYTHON=" in done.stderr


def test_a_folder_that_is_no_environment_is_left_alone(checkout: Path) -> None:
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / "thesis.tex").write_text("years of work")
    done = dev(checkout, "check")
    assert done.returncode == 1
    assert ".venv exists and is not a virtual environment" in done.stderr
    assert (checkout / ".venv" / "thesis.tex").exists()


def test_a_failed_installation_says_why_and_is_tried_again(checkout: Path) -> None:
    for _ in range(2):
        done = dev(checkout, "train", AGENTGYM_PIP_ARGS="--no-index --no-such-option")
        assert done.returncode == 1
        assert "no such option" in done.stderr and "pip install failed" in done.stderr
        assert not list((checkout / ".venv").glob("agentgym-*"))
    assert "making .venv" not in done.stderr  # the environment itself was sound the second time


def test_an_interrupted_installation_starts_anew(checkout: Path) -> None:
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / "pyvenv.cfg").touch()
    process = subprocess.Popen(["true"])
    process.wait()
    (checkout / ".venv" / "unfinished").write_text(f"{process.pid}\n")
    done = dev(checkout, "train", AGENTGYM_PIP_ARGS="--no-such-option")
    assert "was interrupted" in done.stderr and "making .venv" in done.stderr
    assert not (checkout / ".venv" / "unfinished").exists()


def test_two_do_not_install_at_once(checkout: Path) -> None:
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / "unfinished").write_text(f"{os.getpid()}\n")
    done = dev(checkout, "train")
    assert done.returncode == 1
    assert f"process {os.getpid()} is installing" in done.stderr


def test_shell_is_posix() -> None:
    for shell in filter(None, map(shutil.which, ("dash", "busybox", "sh"))):
        command = [shell, "sh", "-n"] if shell.endswith("busybox") else [shell, "-n"]
        done = subprocess.run([*command, str(ROOT / "dev")], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert "[[" not in (ROOT / "dev").read_text() and "pipefail" not in (ROOT / "dev").read_text()


def test_shellcheck_finds_nothing() -> None:
    if not shutil.which("shellcheck"):
        pytest.skip("no shellcheck here")
    done = subprocess.run(["shellcheck", "dev", ".ci/run"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
