"""`agentgym compare` as a user calls it."""

import json
import shutil
from pathlib import Path

import pytest

from agentgym.cli import main


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    found = [str(tmp_path_factory.mktemp("compare") / name) for name in ("random", "oracle")]
    for folder in found:
        who = Path(folder).name
        assert main(["eval", "guessnumber,frozenlake", "--policy", who, "--tasks", "8", "--out", folder]) == 0
    return found[0], found[1]


def test_the_screen_says_what_was_compared_and_what_it_shows(
    folders: tuple[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["compare", *folders, "--tasks", "2"]) == 0
    output = capsys.readouterr().out
    assert 'policy: "random" in A, "oracle" in B' in output
    assert "B is better; sign test p =" in output
    assert "solved by A alone: 0" in output
    assert "more: --tasks N or --json" in output
    assert "power 80 %, two-sided 5 %" in output


def test_many_different_options_do_not_push_the_result_away(
    folders: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    other = shutil.copytree(folders[1], tmp_path / "other")
    manifest = json.loads((other / "manifest.json").read_text())
    manifest["options"] |= {f"option_{i:02}": i for i in range(30)}
    (other / "manifest.json").write_text(json.dumps(manifest))
    assert main(["compare", folders[0], str(other), "--page", str(tmp_path / "page.html")]) == 0
    output = capsys.readouterr().out
    assert output.count(" in A, ") == 12 and "... and 19 more differences: on the page, or --json" in output
    notes = json.loads((tmp_path / "page.html").read_text().split('id="data">')[1].split("</script>")[0])["notes"]
    assert notes == []  # the page has them in a table of their own


def test_an_evaluation_is_not_compared_with_itself_in_silence(
    folders: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    copy = str(shutil.copytree(folders[0], tmp_path / "copy"))
    for other in (folders[0], f"{folders[0]}/../random", copy):
        page = tmp_path / "page.html"
        assert main(["compare", folders[0], other, "--page", str(page)]) == 0
        assert "A and B hold the same episodes" in capsys.readouterr().out and "hold the same episodes" in page.read_text()
    assert main(["compare", *folders]) == 0 and "the same episodes" not in capsys.readouterr().out


def test_json_is_all_there_is(folders: tuple[str, str], capsys: pytest.CaptureFixture[str]):
    assert main(["compare", *folders, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["tasks"]["paired"] == 16
    assert found["all"]["b"] == 1
    assert found["all"]["difference"]["low"] > 0
    assert set(found["envs"]) == {"rlvr/GuessNumber-v0", "rlvr/FrozenLake-v0"}


def test_there_is_no_verdict_where_faults_are_too_many(
    folders: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    worse = shutil.copytree(folders[1], tmp_path / "worse")
    lines = [json.loads(line) for line in (worse / "episodes.jsonl").read_text().splitlines()]
    lines[0] |= {"success": None, "reason": "timeout", "error": "no answer"}
    (worse / "episodes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["compare", folders[0], str(worse)]) == 1
    output = " ".join(capsys.readouterr().out.split())
    assert "B: infrastructure errors ended 12.5% of 8 episodes of rlvr/GuessNumber-v0" in output
    assert (
        "no verdict" in output
        and "is better" not in output
        and "infrastructure errors, left out: 0 (0.0%) in A, 1 (6.2%) in B" in output
    )
    assert main(["compare", folders[0], str(worse), "--json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["not_comparable"]) == 1


def test_a_folder_without_an_evaluation_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["compare", str(tmp_path), str(tmp_path)]) == 2
    assert "holds no evaluation" in capsys.readouterr().err


@pytest.mark.parametrize("page", [".", "no/such/folder/page.html"])
def test_a_page_that_cannot_be_written_is_said_before_anything_is_compared(
    page: str, folders: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    assert main(["compare", *folders, "--page", page]) == 2
    captured = capsys.readouterr()
    assert f"error: --page is {page}; expected the name of a file" in captured.err and not captured.out


def test_a_verdict_does_not_hang_on_a_page_that_nobody_asked_for(
    folders: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    there = shutil.copytree(folders[1], tmp_path / "b")
    page = there / f"compare-with-{Path(folders[0]).name}.html"
    page.unlink(missing_ok=True)
    page.mkdir()  # as if it could not be written
    assert main(["compare", folders[0], str(there)]) == 0
    assert "no page was written" in capsys.readouterr().out
