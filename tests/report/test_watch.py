"""Following a run: files that grow, are cut off and written again, and what is known of their episodes."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import attack_episode, episode, metrics, write_run  # pyright: ignore
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym import BadConfig, BadData, Episode
from agentgym.report.facts import facts
from agentgym.report.html import _by_type  # pyright: ignore[reportPrivateUsage]
from agentgym.report.run_folder import open_run, read_metrics, row_of
from agentgym.report.watch.index import EpisodeIndex, head
from agentgym.report.watch.run import ClientState, FollowedRun
from agentgym.report.watch.tail import Tail


def test_a_line_without_its_end_is_left_for_later(tmp_path: Path):
    path = tmp_path / "a"
    tail = Tail(path)
    assert tail.look() == (0, [])  # not there yet
    path.write_bytes(b"one\ntw")
    assert tail.look() == (0, [b"one"])
    assert tail.look() == (1, [])
    with path.open("ab") as file:
        file.write(b"o\n\nfour\n")
    assert tail.look() == (1, [b"two", b"", b"four"])
    assert [tail.line(number) for number in range(4)] == [b"one\n", b"two\n", b"\n", b"four\n"]
    path.unlink()
    assert tail.look() == (0, []) and len(tail) == 0


def test_what_is_known_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "a"
    path.write_bytes(b"".join(b"%d %s\n" % (i, b"x" * 5000) for i in range(2000)))
    tail = Tail(path)
    assert len(tail.look()[1]) == 2000
    read: list[int] = []
    genuine = Path.open

    def opened(self: Path, *args: Any, **options: Any) -> Any:
        file = genuine(self, *args, **options)
        return Counting(file, read)

    monkeypatch.setattr(Path, "open", opened)
    assert tail.look() == (2000, []) and sum(read) == 0
    with genuine(path, "ab") as file:
        file.write(b"one more\n")
    assert tail.look() == (2000, [b"one more"])
    assert sum(read) < 3 * 5100  # the last known line, looked up, and the new one


def test_a_line_that_differs_only_at_its_end_is_another_line(tmp_path: Path):
    """A step that a resumed run plays again: the same tokens, and other seconds."""
    path, tail = tmp_path / "a", Tail(tmp_path / "a")
    path.write_bytes(b"first\n" + b"x" * 3000 + b" 0.25\n")
    tail.look()
    with path.open("rb+") as file:
        file.truncate(6)
        file.seek(6)
        file.write(b"x" * 3000 + b" 0.75\nnext\n")
    assert tail.look() == (1, [b"x" * 3000 + b" 0.75", b"next"])


class Counting:
    """A file that counts the bytes read from it."""

    def __init__(self, file: Any, read: list[int]) -> None:
        self.file, self.counts = file, read

    def __enter__(self) -> "Counting":
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def read(self, size: int = -1) -> bytes:
        content = self.file.read(size)
        self.counts.append(len(content))
        return content

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32), budget=st.integers(1, 40))
def test_however_a_file_changes_the_lines_are_those_of_the_file(
    seed: int, budget: int, tmp_path_factory: pytest.TempPathFactory
):
    """Appended to, cut off, cut off and written on, replaced, removed: as resumed runs and their users do."""
    rng = random.Random(seed)
    path = tmp_path_factory.mktemp("tail") / "a"
    tail, lines = Tail(path), list[bytes]()
    for number in range(12):
        kind = rng.choice(["append", "append", "append", "cut", "resume", "replace", "remove"])
        content = path.read_bytes() if path.exists() else b""
        fresh = b"".join(b"%d.%d %s\n" % (number, i, b"y" * rng.randrange(9)) for i in range(rng.randrange(5)))
        fresh += rng.choice([b"", b"half a li"])
        if kind == "append":
            with path.open("ab") as file:
                file.write(fresh)
        elif kind in ("cut", "resume") and content:
            keep = content[: rng.randrange(len(content) + 1)]
            keep = keep[: keep.rfind(b"\n") + 1]
            with path.open("rb+") as file:
                file.truncate(len(keep))
                file.seek(len(keep))
                file.write(fresh if kind == "resume" else b"")
        elif kind == "replace":
            path.with_name("b").write_bytes(fresh)
            path.with_name("b").replace(path)
        elif kind == "remove":
            path.unlink(missing_ok=True)
        if rng.random() < 0.6:
            follow(tail, lines, budget)
    follow(tail, lines, budget)
    content = path.read_bytes() if path.exists() else b""
    assert lines == content.split(b"\n")[:-1]


def follow(tail: Tail, lines: list[bytes], budget: int) -> None:
    while True:
        unchanged, added = tail.look(budget)
        lines[unchanged:] = added
        assert len(tail) == len(lines)
        if not tail.behind:
            return


def test_the_head_of_a_line_is_the_episode_without_its_turns():
    made = episode(3, "3/train/0/3", True, np.random.default_rng(0))
    for one in (made, attack_episode()):
        one.instruction += ', "turns": [{}], "reason": "success"'
        one.labels["turns"], one.metrics["turns"] = ', "turns": [', 3.0
        whole = json.loads(one.to_json())
        del whole["turns"]
        assert head(one.to_json().encode()) == whole
    other = json.dumps({"turns": [], "reason": "horizon", "a": 1}).encode()  # of another writer, in another order
    assert head(other) == {"reason": "horizon", "a": 1}
    for bad in (b"", b"[1]", b"3", b'{"a": 1, "turns": [{}', made.to_json().encode()[:-30], b"\xff"):
        with pytest.raises((ValueError, TypeError)):
            head(bad)


def counted(index: EpisodeIndex) -> dict[str, int]:
    return {name: index.total(name) for name in ("succeeded", "failed", "fault")}


def test_the_index_agrees_with_the_page_of_the_finished_run(run_folder: Path):
    run = FollowedRun(run_folder)
    run.look()
    rows = list(open_run(run_folder).rows())
    assert counted(run.episodes) == {
        name: sum(row.outcome == name for row in rows) for name in ("succeeded", "failed", "fault")
    }
    assert len(run.episodes) == len(rows)
    assert run.metrics.rows == read_metrics(run_folder / "metrics.jsonl")
    listed = run.state()["episodes"]
    assert listed["groups"][0]["step"] == "50" and listed["too_many"] == (listed["faults"] > 0.01 * len(rows))
    for group in listed["groups"]:
        episodes = run.group(group["group"])["episodes"]
        assert [e["outcome"] for e in episodes] == group["outcomes"] or len(episodes) > 1
        assert all(e["env"] == group["env"] for e in episodes)


def test_a_run_that_resumes_from_an_earlier_checkpoint(tmp_path: Path):
    folder = write_run(tmp_path / "run", steps=40)
    file, table = folder / "episodes.jsonl", folder / "metrics.jsonl"
    whole = file.read_bytes().splitlines(keepends=True)
    rows = table.read_bytes().splitlines(keepends=True)
    run = FollowedRun(folder)
    run.look()
    state = run.state()
    known = ClientState(state["generation"], len(state["rows"]), state["version"], state["about_version"])
    again = run.state(known)
    assert again["rows"] == [] and "episodes" not in again and "about" not in again
    with table.open("rb+") as f:
        f.truncate(sum(map(len, rows[:30])))
    with file.open("rb+") as f:
        f.truncate(sum(map(len, whole[:10])))
    run.look()
    cut = run.state(known)
    assert cut["generation"] != known.generation and cut["from"] == 0 and len(cut["rows"]) == 30
    assert cut["episodes"]["total"] == 10
    fresh = FollowedRun(folder)
    fresh.look()
    assert counted(fresh.episodes) == counted(run.episodes)
    other = [line.replace(b'"success": true', b'"success": false') for line in whole[10:20]]
    with file.open("ab") as f:
        f.writelines(other)
    run.look()
    assert run.state()["episodes"]["total"] == 20
    assert counted(run.episodes)["succeeded"] == counted(fresh.episodes)["succeeded"]


def test_an_attempt_counts_once_while_its_file_grows_and_again_after_it_was_cut_off(tmp_path: Path):
    path = tmp_path / "some.jsonl"
    lines = [episode(0, f"g{n}", n % 2 == 0, np.random.default_rng(n)).to_json() for n in range(3)]
    other = lines[0].replace('"success": true, "reason": "success"', '"success": false, "reason": "failure"')
    assert other != lines[0]
    path.write_text("\n".join([*lines, lines[0], other, other, ""]))
    run = FollowedRun(path)
    run.look()
    assert len(run.episodes) == 3 and len(run.episodes.damaged) == 3
    path.write_text("\n".join([*lines[:2], ""]))
    run.look()
    assert len(run.episodes) == 2
    path.write_text("\n".join([*lines[:2], lines[2], other, ""]))  # of the lines that stand none counts twice
    run.look()
    assert len(run.episodes) == 3 and list(run.episodes.damaged) == [3]


def test_only_new_rows_are_sent_until_the_warm_start_moves(tmp_path: Path):
    run, path = FollowedRun(tmp_path), tmp_path / "metrics.jsonl"
    lines = [json.dumps(row) + "\n" for row in metrics(5)]
    path.write_text("".join(lines[:20]))  # the warm start
    run.look()
    first = run.state()
    assert [row["x"] for row in first["rows"]] == list(range(20))
    with path.open("a") as file:
        file.write(lines[20])
    run.look()
    second = run.state(ClientState(first["generation"], 20, 0, 0))
    assert second["from"] == 0 and [row["x"] for row in second["rows"]] == [*range(-20, 0), 0]
    with path.open("a") as file:
        file.write(lines[21] + lines[22][:9])
    run.look()
    third = run.state(ClientState(second["generation"], 21, 0, 0))
    assert third["from"] == 21 and [row["x"] for row in third["rows"]] == [1]


def test_damaged_lines_are_said_and_passed_over(tmp_path: Path):
    folder = write_run(tmp_path / "run", steps=20)
    good = (folder / "episodes.jsonl").read_bytes()
    bad = [
        b"{",
        b"[]",
        b'{"reason": "success"}',
        b"[" * 5000,
        b"\xff\xfe",
        b'{"labels": 3, "success": 1, "reason": "", "group_id": ""}',
    ]
    (folder / "episodes.jsonl").write_bytes(b"\n".join([*bad, b""]) + good)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": "x"}\n[]\n{"step": NaN, "deep": ' + "[" * 900 + "]" * 900 + "}\n")
    run = FollowedRun(folder)
    run.look()
    state = run.state()
    assert len(run.episodes) == len(good.splitlines())
    assert any("line 1" in problem and "5 more" in problem for problem in state["problems"])
    assert any("metrics.jsonl" in problem for problem in state["problems"])
    json.dumps(state)


def test_numbers_and_nesting_that_python_does_not_hold_are_damage_too(tmp_path: Path):
    """An int that no float holds, and JSON or TOML deeper than the stack: said, and what follows is read on."""
    huge, deep = "9" * 400, "[" * 100_000
    line = Episode("e", "t", "1/t", 0, turns=[], success=True, reason="success").to_json()
    for name, content in {
        "metrics.jsonl": f'{{"step": {huge}}}\n{{"step": 2}}\n',
        "episodes.jsonl": line.replace('"reward": 0.0', f'"reward": {huge}') + f"\n{line}\n",
        "config.toml": f"a = {deep[:5000]}",
        "manifest.json": '{"options": [1]}',
    }.items():
        (tmp_path / name).write_text(content)
    run = FollowedRun(tmp_path)
    run.look()
    state = run.state()
    assert [row["step"] for row in state["rows"]] == [2] and len(run.episodes) == 1
    assert [problem.split(":")[0] for problem in state["problems"]] == ["metrics.jsonl, line 1", "episodes.jsonl, line 1"]
    assert len(run.group(0)["episodes"]) == 1
    with pytest.raises(BadData, match=r"metrics\.jsonl, line 1"):
        open_run(tmp_path)
    for name in ("manifest.json", "summary.json"):
        (tmp_path / name).write_text(deep)
    run.look()
    assert "summary.json is not JSON" in run.trouble and len(run.group(0)["episodes"]) == 1


@pytest.mark.parametrize("step", ["NaN", "Infinity", '"5"', "true", "null"])
def test_a_step_is_a_number(tmp_path: Path, step: str):
    (tmp_path / "metrics.jsonl").write_text(f'{{"step": {step}}}\n{{"step": 2}}\n')
    run = FollowedRun(tmp_path)
    run.look()
    assert [row["step"] for row in run.state()["rows"]] == [2]
    assert [problem.split(":")[0] for problem in run.state()["problems"]] == ["metrics.jsonl, line 1"]


def test_what_is_no_run_is_refused_and_what_is_not_there_is_waited_for(tmp_path: Path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_text("")
    (tmp_path / "a.txt").write_text("hello\n")
    for name in ("photos", "a.txt"):
        with pytest.raises(BadConfig, match="expected"):
            FollowedRun(tmp_path / name).check()
    for name in ("absent", "absent.jsonl"):
        run = FollowedRun(tmp_path / name)
        run.check()
        run.look()
        assert run.state()["state"] == "waiting" and "does not exist yet" in run.state()["said"]
    write_run(tmp_path / "absent", steps=20)
    made = Episode("rlvr/GuessNumber-v0", "t", "g", seed=0, success=True, reason="success")
    (tmp_path / "absent.jsonl").write_text(made.to_json() + "\n")
    for name, count in (("absent", 17), ("absent.jsonl", 1)):
        run = FollowedRun(tmp_path / name)
        run.check()
        run.look()
        assert run.state()["episodes"]["total"] == count, name


def test_who_writes_is_running_and_who_does_not_has_stopped_or_finished(tmp_path: Path):
    from agentgym.core.folders import alone

    folder = write_run(tmp_path / "run", steps=20)
    (folder / "summary.json").unlink()
    run = FollowedRun(folder)
    with alone(folder, "training run"):
        run.look()
        assert run.state()["state"] == "running"
    assert run.state()["state"] == "stopped"
    (folder / "summary.json").write_text("{}")
    assert run.state()["state"] == "finished"


def test_facts_are_found_in_both_forms_of_a_configuration():
    assert facts('env = "a"\nsteps = 7\n[credit]\nname = "grpo"\n') == {"env": "a", "steps": 7, "credit": "grpo"}
    assert facts('credit = "gigpo"\n[sampler]\nsteps = 9\n') == {"steps": 9, "credit": "gigpo"}
    assert facts("steps = [") == {} and facts('env = ["a"]') == {}


def test_branches_are_told_apart_from_episodes_that_the_policy_played_whole(tmp_path: Path):
    whole = Episode("rlvr/Household-v0", "t", "3/t", 0, success=True, reason="success")
    branch = replace(whole, attempt=1, forks=[[0, 1, 0]], success=False, reason="horizon")
    evaluation = replace(branch, group_id="eval/3/t")  # an evaluation never branches off, whatever a file says
    assert [row_of(0, json.loads(e.to_json()), training=True).part for e in (whole, branch, evaluation)] == [
        "train",
        "branched",
        "eval",
    ]
    assert row_of(0, head(branch.to_json().encode()), training=True).part == "branched"
    (tmp_path / "config.toml").write_text("")
    (tmp_path / "episodes.jsonl").write_text(f"{whole.to_json()}\n{branch.to_json()}\n")
    tables = _by_type(list(open_run(tmp_path).rows()), 100)
    assert {table["part"]: table["rows"][0]["mean"] for table in tables} == {"branched": 0.0, "train": 1.0}
