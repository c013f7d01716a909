"""`agentgym new`: the package that it writes installs, is found, keeps the contract, and its tests pass."""

import os
import subprocess
import sys

import pytest

from agentgym.cli import main


def python(*arguments, cwd, path):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(path), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, *arguments], cwd=cwd, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
def test_a_new_package_installs_and_keeps_the_contract(tmp_path, capsys):
    source, site = tmp_path / "frost", tmp_path / "site"
    assert main(["new", "frost-envs", "--id", "frost/Lighthouse-v0", "--out", str(source)]) == 0
    assert "agentgym check frost/Lighthouse-v0" in capsys.readouterr().out
    pip = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target", str(site), str(source))
    python(*pip, cwd=tmp_path, path=site)
    assert "3 passed" in python("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", cwd=source, path=site)
    assert "0 broken" in python("-m", "agentgym", "check", "lighthouse", cwd=tmp_path, path=site)
    played = ("-m", "agentgym", "eval", "lighthouse", "--policy", "expert", "--tasks", "4", "--out", "runs/expert")
    assert "100.0 %" in python(*played, cwd=tmp_path, path=site)


def test_nothing_is_overwritten(tmp_path, capsys):
    (tmp_path / "mine").write_text("x")
    assert main(["new", "frost-envs", "--out", str(tmp_path)]) == 2
    assert "is not empty" in capsys.readouterr().err and [p.name for p in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["Frost Envs"],
        ["../frost"],
        ["frost-envs", "--id", "rlvr/Lighthouse-v0"],
        ["frost-envs", "--id", "frost/lighthouse-v0"],
        ["frost-envs", "--id", 'frost/A"; import os-v0'],
        ["class"],
        ["agentgym"],
    ],
)
def test_names_that_would_not_work_are_refused(tmp_path, monkeypatch, capsys, arguments):
    monkeypatch.chdir(tmp_path)
    assert main(["new", *arguments]) == 2
    assert "expected" in (errors := capsys.readouterr().err) or "choose another name" in errors
    assert not list(tmp_path.iterdir())
