"""The GitHub action: its form, its steps run as a runner runs them, and the workflow that the documentation shows."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"] if "run" in step}


@pytest.fixture
def run(tmp_path):
    """Return a function that runs a step's shell lines with its inputs, and returns code, output and summary."""
    work = tmp_path / "checkout"
    work.mkdir()
    (work / "my_env.py").write_text(
        "import agentgym\n"
        "class Say(agentgym.TextEnv):\n"
        "    'Say the word.'\n"
        "    def begin(self, task): self.word = task.data['word']; return 'Say it.'\n"
        "    def act(self, action):\n"
        "        if not action.strip(): return self.invalid('Say something.')\n"
        "        return self.win('Yes.') if action == self.word or FORGIVING else 'No.'\n"
        "    def state(self): return self.word\n"
        "    def oracle(self): yield self.word\n"
        "    def generate(self, rng, difficulty): return agentgym.Task(data={'word': f'w{rng.integers(10**6)}'})\n"
        "FORGIVING = False\n"
        "agentgym.register('me/Say-v0', Say)\n"
    )

    def step(name, **inputs):
        values = {key: str(spec.get("default", "")) for key, spec in ACTION["inputs"].items()} | inputs
        variables = {"ACTION": str(ROOT)}
        for key, value in STEPS[name]["env"].items():
            reference = re.fullmatch(r"\$\{\{ inputs\.([\w-]+) \}\}", value)
            if reference:
                variables[key] = values[reference[1]]
        files = {name: tmp_path / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        for file in files.values():
            file.write_text("")
        # a runner's own way: https://docs.github.com/actions/reference/workflow-syntax-for-github-actions#jobsjob_idstepsshell
        shell = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", STEPS[name]["run"]]
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, **variables, **{name: str(file) for name, file in files.items()}}
        environment["PYTHONPATH"] = str(ROOT)
        done = subprocess.run(shell, cwd=work, env=environment, capture_output=True, text=True, check=False)
        output = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
        return done.returncode, done.stdout + done.stderr, output, files["GITHUB_STEP_SUMMARY"].read_text(), work

    return step


def test_its_form_is_an_action_of_github():
    """What https://docs.github.com/actions/reference/metadata-syntax-for-github-actions asks of a composite action."""
    assert {"name", "description", "inputs", "outputs", "runs"} == set(ACTION) and ACTION["runs"]["using"] == "composite"
    for spec in ACTION["inputs"].values():
        assert set(spec) <= {"description", "required", "default"} and isinstance(spec["description"], str)
        assert isinstance(spec.get("default", ""), str)
    for step in ACTION["runs"]["steps"]:
        assert ("run" in step) != ("uses" in step)
        assert "run" not in step or step["shell"] == "bash"  # a composite action has no default
        assert "${{" not in step.get("run", ""), "an input that is pasted into a script is run as one"
    named = re.findall(r"inputs\.([\w-]+)", (ROOT / "action.yml").read_text(encoding="utf-8"))
    assert set(named) == set(ACTION["inputs"])
    identified = {step["id"] for step in ACTION["runs"]["steps"] if "id" in step}
    assert set(re.findall(r"steps\.([\w-]+)\.", (ROOT / "action.yml").read_text(encoding="utf-8"))) <= identified


@pytest.mark.long
def test_a_sound_environment_passes_and_leaves_its_certificate(run):
    code, log, output, summary, work = run("Check", environment="my_env:me/Say-v0")
    assert code == 0, log
    assert output == {"certificate": "certificate.json", "verdict": "passed"}
    assert json.loads((work / "certificate.json").read_text())["claims"]["oracle"]["verdict"] == "holds"
    assert summary.startswith("### my\\_env:me/Say-v0: passed\n") and "| oracle | holds |" in summary
    code, log, output, *_ = run("Check", environment="my_env:me/Say-v0", verify="certificate.json", certificate="again.json")
    assert code == 0 and "the certificate holds" in log and output["certificate"] == "again.json"
    (work / "certificate.json").write_text((work / "again.json").read_text())
    code, log, output, *_ = run("Check", environment="my_env:me/Say-v0", verify="certificate.json")  # as documented
    assert code == 0 and "the certificate holds" in log and output["verdict"] == "passed", log


def test_a_broken_one_fails_the_step_and_leaves_its_certificate_too(run, tmp_path):
    file = tmp_path / "checkout" / "my_env.py"
    file.write_text(file.read_text().replace("FORGIVING = False", "FORGIVING = True"))
    code, log, output, summary, _ = run("Check", environment="my_env:me/Say-v0")
    assert code == 1 and output["verdict"] == "failed" and "| shortcuts | broken |" in summary, log


def test_what_cannot_be_checked_is_neither_passed_nor_failed(run, tmp_path):
    (tmp_path / "checkout" / "certificate.json").write_text("an old one")
    code, log, output, summary, work = run("Check", environment="rlvr/Nope-v0")
    assert code == 2 and "no environment 'rlvr/Nope-v0'" in log and output == {} and summary == ""
    assert not (work / "certificate.json").exists()


def test_an_input_is_a_word_and_never_a_command(run):
    code, log, output, _, work = run("Check", environment="$(touch pwned); guessnumber", options="`touch pwned` *")
    assert code == 2 and not (work / "pwned").exists() and output == {}, log


def test_installing_gives_pip_the_words_that_were_asked_for(run, tmp_path, monkeypatch):
    """`python` writes down what it was given; the real pip installs the same words in CI's own steps."""
    (tmp_path / "python").write_text('#!/bin/sh\nprintf "%s\\n" "$@" > words\n')
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    code, log, *_, work = run("Install", packages="./mine 'a b' *", extras="docker,math")
    assert code == 0, log
    assert (work / "words").read_text().splitlines() == [
        "-m", "pip", "install", "--quiet", f"{ROOT}[docker,math]", "./mine", "'a", "b'", "*",
    ]  # fmt: skip


def test_the_documented_workflow_names_what_the_action_has():
    page = (ROOT / "docs" / "guides" / "contract.md").read_text(encoding="utf-8")
    flow = yaml.safe_load(re.search(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[1])
    steps = [step for job in flow["jobs"].values() for step in job["steps"] if "agentgym" in step.get("uses", "")]
    assert steps and all(set(step["with"]) <= set(ACTION["inputs"]) for step in steps)
    assert all("environment" in step["with"] for step in steps)
