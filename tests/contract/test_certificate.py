"""Certificates: what they say, that they can be held against an environment, and that none talks its way to one."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from broken_envs import Stairs

import agentgym
from agentgym.cli import main
from agentgym.contract import supervised
from agentgym.contract.certificate import CLAIMS, subject
from agentgym.contract.checks import CHECKS
from agentgym.contract.env_under_test import EnvUnderTest
from agentgym.errors import BadConfig
from agentgym.registry import register_foreign

HERE = str(Path(__file__).parents[1] / "fakes")
EMPTY = (
    """{"format": 1, "environment": {}, "budget": {"seed": %s}, "tasks": {}, "splits": {}, "claims": {}, "checks": [%s]}"""
)
SOME = ("--check", "same again", "--check", "same elsewhere", "--check", "outcome alone", "--check", "oracle solves")


@pytest.fixture
def check(tmp_path, monkeypatch, capfd):
    """Return a function that runs the command and returns its code, its output and the certificate."""
    monkeypatch.syspath_prepend(HERE)
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        file = tmp_path / "certificate.json"
        code = main(["check", *arguments, *(() if "--verify" in arguments else ("--certificate", str(file)))])
        captured = capfd.readouterr()
        return code, captured.out + captured.err, json.loads(file.read_text()) if file.exists() else None

    return run


def test_a_sound_environment_has_a_certificate_that_holds(check, tmp_path):
    code, printed, made = check("broken_envs:broken/Vault-v0")
    printed = " ".join(printed.split())
    assert code == 0 and made["verdict"] == "passed" and "certificate.json (passed)" in printed
    assert {name: claim["verdict"] for name, claim in made["claims"].items()} == dict.fromkeys(CLAIMS, "holds")
    assert [row["check"] for row in made["checks"]] == list(CHECKS)
    assert made["shortcuts"]["empty"] == {"success": 0.0, "allowed": 0.0} and made["shortcuts"]["echo"]["success"] == 0.0
    assert "no tool that runs commands" in made["shortcuts"]["forged reward file"]["does not apply"]
    oracle = next(row for row in made["checks"] if row["check"] == "oracle solves")
    assert oracle["numbers"]["success"] == 1.0 and oracle["numbers"]["tasks"] >= 30
    assert made["tasks"]["count"] == 30 == len(made["tasks"]["ids"]) and len(made["tasks"]["sha256"]) == 64
    again = "--verify", "certificate.json", "--certificate", "certificate.json"  # verified and written again in one place
    code, printed, made = check("broken_envs:broken/Vault-v0", *again)
    assert code == 0 and "the certificate holds" in printed and [row["check"] for row in made["checks"]] == list(CHECKS)


def test_a_certificate_of_other_tasks_or_another_verdict_does_not_hold(check, tmp_path):
    *_, made = check("broken_envs:broken/Stairs-v0", *SOME[:2], *SOME[4:])
    assert made["verdict"] == "partial" and made["claims"]["leaks"]["verdict"] == "not checked"
    file = tmp_path / "certificate.json"
    made["tasks"]["sha256"] = "0" * 64
    made["checks"][0]["status"] = "broken"
    file.write_text(json.dumps(made))
    code, output, _ = check("broken_envs:broken/Stairs-v0", "--verify", str(file))
    assert code == 1 and "the certificate does not hold" in output
    assert (
        "tasks: sha256" in output
        and "check 'same again'" in output
        and "oracle" not in output.split("outcome alone")[-1][200:]
    )
    code, output, _ = check("broken_envs:broken/Vault-v0", "--verify", str(file))
    assert code == 1 and "environment: name" in output


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "has format None; expected a certificate of format 1"),
        ('{"format": 2}', "has format 2"),
        ('{"format": 1}', "lacks a part"),
        (
            '{"format": 1, "environment": {}, "budget": {}, "tasks": {}, "splits": {}, "claims": {}, "checks": [3]}',
            "lacks a part",
        ),
        (EMPTY % ("0", '{"check": []}'), "which this version has not"),
        (EMPTY % ('"os"', ""), "seed is 'os'; expected an integer"),
    ],
)
def test_what_is_no_certificate_is_said(check, tmp_path, text, message):
    file = tmp_path / "no.json"
    file.write_text(text)
    code, out, _ = check("broken_envs:broken/Stairs-v0", "--verify", str(file))
    assert code == 2 and message in out and "Traceback" not in out


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("EndsTheProcess", "the environment ended the process that checks it, with code 0"),
        ("RaisesSystemExit", "raised SystemExit: 0"),
        ("RaisesKeyboardInterrupt", "or its tasks cannot be listed: raised KeyboardInterrupt"),
        ("RaisesWhereNobodyLooks", "or its tasks cannot be listed: raised RuntimeError: no size"),
        ("PrintsACertificate", "raised RuntimeError: no"),
        ("LeavesAThread", "raised RuntimeError: no"),
        ("LeavesADaemon", "raised RuntimeError: no"),
        ("AnswersOtherwiseTheSecondTime", "another process answers otherwise"),
    ],
)
def test_no_environment_breaks_its_check_or_talks_its_way_through(check, tmp_path, monkeypatch, kind, message):
    monkeypatch.setenv("FORGE", str(tmp_path / "certificate.json"))
    code, out, made = check(f"hostile_envs:hostile/{kind}-v0", *SOME)
    assert code == 1 and made["verdict"] == "failed" and message in " ".join(out.split()), out
    assert made["claims"]["determinism"]["verdict"] == "broken" and len(made["checks"]) == 4
    left = subprocess.run(["pgrep", "-f", "left-by-an-environment"], capture_output=True, text=True, check=False)
    assert not left.stdout.strip()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["LoopsForEver", "LoopsWhenMade", "SaysHalfAMessage"])
def test_an_environment_that_does_not_end_is_ended(check, kind):
    started = time.monotonic()
    code, out, made = check(f"hostile_envs:hostile/{kind}-v0", *SOME, "--seconds", "4")
    assert code == 1 and made["verdict"] == "failed" and "did not end within 4 s" in " ".join(out.split())
    assert time.monotonic() - started < 120  # no check waits for ever
    assert [row["status"] for row in made["checks"]][-1] == "skipped"


@pytest.mark.parametrize(
    ("note", "skipped"), [("it did not end within 4 s", 2), ("raised SystemExit: the game did not end", 0)]
)
def test_only_checks_that_hang_lead_to_skipped_ones(monkeypatch, note, skipped):
    def sitting(request, report, done, seconds):
        yield supervised._result(request.checks[0], "broken", note)

    monkeypatch.setattr(supervised, "_sitting", sitting)
    request = supervised.CheckRequest("e", {}, list(CHECKS)[:4])
    results = list(supervised.supervised(request, lambda subject: None, 4.0))
    assert [result.status for result in results] == ["broken"] * (4 - skipped) + ["skipped"] * skipped


def test_an_environment_that_behaves_while_it_is_checked_is_found_elsewhere(check):
    code, _, made = check("hostile_envs:hostile/BehavesWhenChecked-v0", "--check", "same again", "--check", "same elsewhere")
    rows = {row["check"]: row["status"] for row in made["checks"]}
    assert code == 1 and rows == {"same again": "holds", "same elsewhere": "broken"}


def test_what_an_environment_prints_is_in_no_result(check, tmp_path):
    command = [sys.executable, "-m", "agentgym", "check", "hostile_envs:hostile/PrintsACertificate-v0", *SOME, "--json"]
    variables = {"PYTHONPATH": ":".join([HERE, *sys.path]), "PATH": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=variables, cwd=tmp_path, check=False)
    assert done.returncode == 1 and json.loads(done.stdout)["ok"] is False


def processes(*arguments, cwd, **variables):
    """Start the command as a user does."""
    command = [sys.executable, "-m", "agentgym", "check", *arguments]
    environment = {"PYTHONPATH": ":".join([HERE, *sys.path]), "PATH": "", **variables}
    return subprocess.Popen(command, env=environment, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_check_outlives_its_command(tmp_path, end):
    command = processes("hostile_envs:hostile/WritesDownItsProcess-v0", *SOME, cwd=tmp_path, PLACE=str(tmp_path / "process"))
    while not (tmp_path / "process").exists():
        assert command.poll() is None
        time.sleep(0.05)
    command.send_signal(end)
    command.communicate(timeout=120)  # the end of its output is the end of all that write to it
    assert command.returncode == (128 + end if end == signal.SIGINT else -end)


def test_an_older_certificate_is_gone_when_its_command_is_killed(tmp_path):
    (tmp_path / "certificate.json").write_text('{"verdict": "passed"}')
    command = processes("hostile_envs:hostile/KillsItsParent-v0", "--certificate", "certificate.json", cwd=tmp_path)
    command.communicate()
    assert command.returncode == -signal.SIGKILL and not (tmp_path / "certificate.json").exists()


SUBJECT = {
    "environment": {"name": "hostile_envs:hostile/SaysNonsense-v0", "id": "x"},
    "budget": {},
    "tasks": {},
    "splits": {},
}
RESULT = {
    "check": "shortcut policies fail", "status": "holds", "note": "", "task": "", "seed": 0, "actions": [], "cause": "",
    "numbers": {}, "applies": True, "seconds": 0.0,
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(
    "printed_text",
    [
        [{}],
        [{"environment": 3}],
        [SUBJECT | {"verdict": "passed", "claims": {}}],
        [SUBJECT | {"environment": {"name": "another", "id": "x"}}],
        [SUBJECT, RESULT | {"numbers": {"success": float("nan")}}],
        [SUBJECT, RESULT | {"seconds": float("inf")}],
        [SUBJECT, RESULT | {"status": "passed"}],
        [SUBJECT, []],
    ],
)
def test_what_is_said_in_the_place_of_a_check_is_looked_at(check, tmp_path, monkeypatch, printed_text):
    monkeypatch.setenv("WORDS", str(tmp_path / "words"))
    (tmp_path / "words").write_text("".join(json.dumps(message) + "\n" for message in printed_text))
    code, out, made = check(SUBJECT["environment"]["name"], "--check", "shortcut policies fail")
    assert code == 1 and made["verdict"] == "failed", out
    assert re.search("the process (printed something that is not|did not print)", " ".join(out.split())), out


def test_numbers_that_are_no_tables_break_no_certificate(check, tmp_path, monkeypatch):
    monkeypatch.setenv("WORDS", str(tmp_path / "words"))
    lines = [SUBJECT, RESULT | {"numbers": {"success": [1], "allowed": "no"}}]
    (tmp_path / "words").write_text("".join(json.dumps(message) + "\n" for message in lines))
    _, _, made = check(SUBJECT["environment"]["name"], "--check", "shortcut policies fail")
    assert made["shortcuts"] == {}


def test_no_environment_puts_another_policy_in_the_place_of_one_that_all_are_held_to(check):
    code, out, made = check("hostile_envs:hostile/PaysForNothing-v0", "--check", "shortcut policies fail")
    assert code == 1 and made["claims"]["shortcuts"]["verdict"] == "broken"
    assert "shortcuts() names 'empty', which is the name of a general policy" in " ".join(out.split())


def test_success_that_is_true_but_not_true_itself_counts(check):
    code, out, made = check("hostile_envs:hostile/PaysWithNumPysTrue-v0", "--check", "shortcut policies fail")
    assert code == 1 and made["shortcuts"]["empty"]["success"] == 1.0, out


@pytest.mark.parametrize(
    "wrong", [{"random_bound": float("nan")}, {"expert_bound": -1}, {"ceilings": {"empty": float("nan")}}]
)
def test_a_bound_that_nothing_is_above_cannot_be_declared(wrong):
    with pytest.raises(BadConfig, match="expected a share of episodes, from 0 to 1"):
        agentgym.Declarations(**wrong)


@pytest.mark.parametrize(("flag", "file"), [("--certificate", "there"), ("--markdown", "nowhere/summary.md")])
def test_what_could_not_be_written_is_said_before_anything_is_checked(tmp_path, monkeypatch, capsys, flag, file):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    assert main(["check", "guessnumber", flag, file]) == 2
    captured = capsys.readouterr()
    assert f"{flag} is {file}, but" in captured.err and captured.out == ""


@pytest.mark.parametrize(("flag", "closed"), [("--certificate", "."), ("--markdown", "file")])
def test_an_old_file_that_cannot_be_written_is_said_before_anything_is_checked(tmp_path, monkeypatch, capsys, flag, closed):
    """A certificate is replaced, for which its folder is to be writable; to a summary, lines are appended."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("old")
    access = os.access  # root may write to everything
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != closed and access(path, mode))
    assert main(["check", "guessnumber", flag, "file"]) == 2
    captured = capsys.readouterr()
    assert f"{flag} is file, but nothing can be written to {closed}; choose another" in captured.err and captured.out == ""
    assert (tmp_path / "file").read_text() == "old"


def test_where_somebody_elses_environment_lies_is_not_among_its_options(tmp_path):
    options = []
    for place in ("here/tasks", "there/tasks"):
        id = register_foreign("harbor", str(tmp_path / place), "broken_envs:Stairs", horizon=len(place))
        certificate = subject("harbor:tasks", EnvUnderTest(id, Stairs, {"horizon": len(place), "difficulty": 1}))
        options.append(certificate["environment"]["options"])
    assert options == [{"difficulty": 1}] * 2


def test_secrets_among_the_options_stay_out(check):
    certificate = subject("x", EnvUnderTest("x", Stairs, {"horizon": 5}))
    assert certificate["environment"]["options"] == {"horizon": 5}

    class WithKey(Stairs):
        settings = ("api_key",)
        api_key = ""

    certificate = subject("x", EnvUnderTest("x", WithKey, {"api_key": "sk-1"}))
    assert certificate["environment"]["options"] == {"api_key": "***"}
