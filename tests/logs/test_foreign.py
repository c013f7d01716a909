"""Logs of Harbor and inspect_ai, in the shape their programs write them, as episodes that every command reads."""

import json
import struct
import zipfile
import zlib

import pytest
from foreign_logs import DOCUMENT, job, log, sample, trial

from agentgym.cli import main
from agentgym.episodes.episode import Episode, Turn, read_episodes
from agentgym.errors import BadConfig, BadData
from agentgym.evaluate.compare import read_evaluation
from agentgym.evaluate.frames import to_pandas
from agentgym.evaluate.leaderboard import leaderboard
from agentgym.logs.atif import to_atif
from agentgym.logs.foreign import Logs
from agentgym.trainers.data.stored import Filter, read_files


def test_a_job_of_harbor(tmp_path):
    logs = Logs()
    logs.read(job(tmp_path / "job"))
    rows = [(e.env, e.task_id, e.attempt, e.success, e.reward, len(e.turns), e.instruction) for e in logs.episodes]
    assert rows == [
        ("rlvr/Harbor-v0", "hello", 0, True, 1.0, 1, "Do it."),
        ("rlvr/Harbor-v0", "hello", 1, False, 0.0, 1, "Do it."),
        ("rlvr/Harbor-v0", "other", 0, False, 0.0, 1, "Do it."),
    ]
    assert logs.episodes[1].metrics == {"one": 1.0, "two": 0.5} and logs.episodes[0].turns[0].rewards == {"success": 1.0}
    assert json.loads(logs.episodes[0].turns[0].action) == {"name": "bash", "arguments": {"command": "ls"}}
    assert logs.episodes[0].final_observation == "a"


def test_a_trial_without_a_reward_is_an_infrastructure_error(tmp_path):
    (tmp_path / "job").mkdir()
    trial(tmp_path / "job", "x", None, exception={"exception_type": "EnvironmentError", "exception_message": "gone"})
    trial(tmp_path / "job", "y", {"reward": 1}, exception={"exception_type": "AgentTimeoutError", "exception_message": ""})
    logs = Logs()
    logs.read(tmp_path / "job")
    assert [(e.success, e.reason, e.error) for e in logs.episodes] == [
        (None, "crash", "EnvironmentError: gone"),
        (True, "success", "AgentTimeoutError: "),
    ]


def test_a_log_of_inspect_ai(tmp_path):
    logs = Logs()
    error = {"message": "lost", "traceback": ""}
    logs.read(
        log(tmp_path / "x.eval", [sample(1, "C"), sample(1, 0.5, epoch=2), sample(2, "I"), sample(3, None, error=error)])
    )
    rows = [(e.env, e.task_id, e.attempt, e.success, e.reason) for e in logs.episodes]
    assert rows == [
        ("inspect_ai/arith", "1", 0, True, "success"),
        ("inspect_ai/arith", "1", 1, False, "failure"),
        ("inspect_ai/arith", "2", 0, False, "failure"),
        ("inspect_ai/arith", "3", 0, None, "crash"),
    ]
    first, second = logs.episodes[0].turns
    assert (first.observation, second.observation, second.text) == ("Be good.\n\n1 + 1?", "2", "2")
    assert first.text == "<think>\nhm\n</think>\n\nI count." and json.loads(first.action)["name"] == "python"


def test_a_log_of_inspect_ai_as_json(tmp_path):
    made = {"version": 2, "eval": {"task": "arith"}, "samples": [sample(1, "C"), sample(2, "I")]}
    (tmp_path / "x.json").write_text(json.dumps(made))
    logs = Logs()
    logs.read(tmp_path / "x.json")
    assert [(e.env, e.task_id, e.success) for e in logs.episodes] == [
        ("inspect_ai/arith", "1", True),
        ("inspect_ai/arith", "2", False),
    ]


def test_a_log_that_zstandard_compressed(tmp_path):
    """The archive that inspect_ai 0.3.285 writes: the same, with method 93."""
    zstandard = pytest.importorskip("zstandard")
    plain = log(tmp_path / "plain.eval", [sample(1, "C")])
    made, directory = b"", b""
    with zipfile.ZipFile(plain) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    for name, content in entries.items():
        packed = zstandard.ZstdCompressor().compress(content)
        common = struct.pack("<HHHHHIIIHH", 63, 0, 93, 0, 33, zlib.crc32(content), len(packed), len(content), len(name), 0)
        directory += (
            b"PK\x01\x02" + struct.pack("<H", 63) + common + struct.pack("<HHHII", 0, 0, 0, 0, len(made)) + name.encode()
        )
        made += b"PK\x03\x04" + common + name.encode() + packed
    end = struct.pack("<HHHHIIH", 0, 0, len(entries), len(entries), len(directory), len(made), 0)
    (tmp_path / "x.eval").write_bytes(made + directory + b"PK\x05\x06" + end)
    logs = Logs()
    logs.read(tmp_path / "x.eval")
    assert [(e.task_id, e.success) for e in logs.episodes] == [("1", True)]


def test_broken_logs_are_refused(tmp_path):
    (tmp_path / "a.eval").write_bytes(b"PK\x03\x04 no")
    (tmp_path / "b.json").write_text("[" * 100_000)
    (tmp_path / "empty").mkdir()
    (tmp_path / "c.txt").write_text("")
    for name, kind in (("a.eval", BadData), ("b.json", BadData), ("empty", BadConfig), ("c.txt", BadConfig)):
        with pytest.raises(kind, match=name):
            Logs().read(tmp_path / name)


def test_a_large_member_is_not_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("agentgym.logs.foreign.LARGEST", 1000)
    with pytest.raises(BadData, match="has more than"):
        Logs().read(log(tmp_path / "x.eval", [sample(1, "C", store="x" * 10_000)]))


def test_commands_read_what_was_imported(tmp_path, capsys):
    for name, first in (("a", 0.0), ("b", 1.0)):
        assert main(["import", str(job(tmp_path / f"job-{name}", first)), "--out", str(tmp_path / name)]) == 0
    out = capsys.readouterr().out
    assert "3 episodes from 3 Harbor trials" in out
    assert main(["import", str(tmp_path / "job-a"), "--out", str(tmp_path / "a")]) != 0
    assert "holds episodes" in capsys.readouterr().err
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    assert main(["view", a]) == 0 and "Do it." in (tmp_path / "a" / "report.html").read_text()
    assert main(["compare", a, b, "--json"]) == 0
    compared = capsys.readouterr().out
    assert json.loads(compared[compared.index("{") :])["all"]["b"] > 0
    assert main(["leaderboard", a, b, "--out", str(tmp_path / "board.html")]) == 0
    assert "rlvr/Harbor-v0" in (tmp_path / "board.html").read_text()


@pytest.fixture(params=["job", "trial", "eval", "evals", "json", "atif", "documents"])
def a_log(request, tmp_path):
    """A log of each kind, with a page's path."""
    if request.param in ("job", "trial"):
        folder = job(tmp_path / "job.v2")
        folder = folder / "hello__a" if request.param == "trial" else folder
        return folder, folder / "report.html"
    if request.param == "eval":
        return log(tmp_path / "x.eval", [sample(1, "C"), sample(2, "I")]), tmp_path / "x.html"
    if request.param == "evals":
        (tmp_path / "logs").mkdir()
        for n, name in enumerate("ab"):
            log(tmp_path / "logs" / f"{name}.eval", [sample(n, "C")])
        return tmp_path / "logs", tmp_path / "logs/report.html"
    if request.param == "json":
        made = {"version": 2, "eval": {"task": "arith"}, "samples": [sample(1, "C"), sample(2, "I")]}
        (tmp_path / "x.json").write_text(json.dumps(made))
        return tmp_path / "x.json", tmp_path / "x.html"
    (tmp_path / "atif").mkdir()
    (tmp_path / "atif/one.json").write_text(json.dumps(DOCUMENT))
    alone = request.param == "atif"
    return tmp_path / ("atif/one.json" if alone else "atif"), tmp_path / ("atif/one.html" if alone else "atif/report.html")


def test_a_log_is_read_as_it_is(a_log, capsys):
    """`view` and `compare` on their pages, `sft` and `export` by `read_files`: the episodes that `import` writes."""
    path, page = a_log
    logs = Logs()
    logs.read(path)
    assert main(["view", str(path)]) == 0 and capsys.readouterr().out.strip() == str(page)
    text = page.read_text()
    data = json.loads(text[text.index("application/json") :].partition(">")[2].partition("</script>")[0])
    assert sorted(e["task"] for e in data["episodes"]) == sorted(e.task_id for e in logs.episodes)
    assert {turn["action"] for e in data["episodes"] for turn in e["turns"]} == {
        turn.action for e in logs.episodes for turn in e.turns
    }
    (read,) = read_files([str(path)], Filter())
    assert [e.to_json() for e in read] == [e.to_json() for e in logs.episodes if e.turns and not e.fault]
    if len({e.success for e in logs.episodes}) > 1:
        (won,) = read_files([str(path)], Filter(success=True))
        assert [e.success for e in won] == [True] * sum(e.success is True for e in logs.episodes)
    assert main(["view", str(path)]) == 0  # its own page is no part of the log
    with pytest.raises(BadConfig, match="named twice"):
        read_files([str(path), str(path)], Filter())


def test_pages_and_tables_of_logs(tmp_path, capsys):
    jobs = [job(tmp_path / "bad", first=0.0), job(tmp_path / "good")]
    assert main(["compare", *map(str, jobs)]) == 0 and (tmp_path / "good/compare-with-bad.html").exists()
    samples = [log(tmp_path / f"{name}.eval", [sample(1, name), sample(2, "C")]) for name in "IC"]
    assert main(["compare", *map(str, samples)]) == 0
    assert "I count." in (tmp_path / "compare-with-I.eval.html").read_text()  # a reply at the task that was gained
    assert main(["export", str(jobs[1]), "--as", "atif", "--out", str(tmp_path / "atif")]) == 0
    assert len(list((tmp_path / "atif").iterdir())) == 3
    frame = to_pandas(jobs[1])
    assert list(frame["task_id"]) == ["hello", "hello", "other"] and list(frame["success"]) == [True, False, False]


@pytest.mark.parametrize("name", ["empty", "x.txt", "absent", "bad.eval", "bad.json"])
def test_no_command_takes_what_is_no_log(name, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    for file in ("x.txt", "bad.eval", "bad.json"):
        (tmp_path / file).write_text("no log\n")
    for command in (["view"], ["export", "--out", str(tmp_path / "t.parquet")]):
        assert main([*command, str(tmp_path / name)]) != 0
        error = capsys.readouterr().err
        assert name in error and error.count("\n") == 1


def test_our_documents_come_back(tmp_path, capsys):
    original = Episode("rlvr/GuessNumber-v0", "train/0/3", "g", 5, 2, instruction="Guess.", success=True, reason="success")
    original.reward = 1.0
    original.add(Turn("Guess.", "k", None, [1, 2], [3], [-0.5], text="5", action="5", reward=1.0, rewards={"success": 1.0}))
    (tmp_path / "episodes.jsonl").write_text(f"{original.to_json()}\n")
    assert main(["export", str(tmp_path), "--as", "atif", "--out", str(tmp_path / "atif")]) == 0
    assert main(["import", str(tmp_path / "atif"), "--out", str(tmp_path / "back")]) == 0, capsys.readouterr().err
    (again,) = read_episodes(tmp_path / "back" / "episodes.jsonl")
    assert again.to_json() == original.to_json()
    assert main(["export", str(tmp_path), "--as", "atif", "--out", str(tmp_path / "atif")]) != 0
    assert "not empty" in capsys.readouterr().err


def test_logs_stand_in_a_leaderboard_as_they_are(tmp_path, capsys):
    """Two of four against three of four, of each program; no folder is written for them before."""
    half, more = ([sample(n, "C" if n < right else "I") for n in range(4)] for right in (2, 3))
    first, second = log(tmp_path / "half.eval", half), log(tmp_path / "more.eval", more)
    (tmp_path / "logs").mkdir()
    log(tmp_path / "logs" / "a.eval", more[:2])
    log(tmp_path / "logs" / "b.eval", more[2:])
    board = leaderboard([first, second, tmp_path / "logs"])
    assert [(e["name"], e["success"]["mean"]) for e in board["entries"]] == [
        ("more.eval", 0.75),
        ("logs", 0.75),
        ("half.eval", 0.5),
    ]
    assert board["envs"] == ["inspect_ai/arith"] and board["entries"][2]["differences"]["more.eval"]["mean"] == -0.25

    jobs = [job(tmp_path / "good"), job(tmp_path / "bad", first=0.0)]
    assert main(["leaderboard", *map(str, jobs), "--reference", str(jobs[0]), "--out", str(tmp_path / "b.html")]) == 0
    assert "25.0%" in capsys.readouterr().out and (tmp_path / "b.html").exists()

    for name, won in (("one", True), ("two", False)):
        made = Episode("me/A-v0", "t", "t", 0, success=won, reason="success" if won else "failure", instruction="Do it.")
        made.add(Turn(observation="Do it.", text="I do.", action="I do."))
        (tmp_path / f"{name}.json").write_text(json.dumps(to_atif(made)))
    board = leaderboard([tmp_path / "one.json", tmp_path / "two.json"])
    assert [(e["name"], e["success"]["mean"]) for e in board["entries"]] == [("one.json", 1.0), ("two.json", 0.0)]


def test_what_is_neither_evaluation_nor_log_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadConfig, match=r"empty holds no evaluation .* and no log of Harbor, inspect_ai or ATIF"):
        read_evaluation(tmp_path / "empty")
    (tmp_path / "x.eval").write_bytes(b"no archive")
    with pytest.raises(BadData, match=r"expected an .eval file of inspect_ai"):
        read_evaluation(tmp_path / "x.eval")


def test_a_log_that_is_named_again_counts_once(tmp_path):
    folder = job(tmp_path / "job")
    trials = sorted(path.parent for path in folder.rglob("result.json") if "trial_name" in path.read_text())
    logs = Logs()
    for path in (folder, folder, trials[0], tmp_path / "job" / ".." / "job"):
        logs.read(path)
    assert len(logs.episodes) == logs.kinds["Harbor trials"] == len(trials)
    file, again = log(tmp_path / "a.eval", [sample(1, "C")]), tmp_path / "again.eval"
    again.symlink_to(file)
    for path in (file, again, file):
        logs.read(path)
    assert len(logs.episodes) == len(trials) + 1
