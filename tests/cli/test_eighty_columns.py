"""What the commands print in a terminal of 80 columns: no line is longer, and no word or path is broken to fit."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from agentgym.cli import main

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
LAKE = ("rlvr/FrozenLake-v0", "--tasks", "6", "--attempts", "2", "--out")


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """Return what runs a command as in a terminal and returns its lines."""
    for name, value in (("COLUMNS", "80"), ("FORCE_COLOR", "1"), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)

    def run(*arguments: str) -> list[str]:
        main(list(arguments))
        return [line.rstrip() for line in re.split(r"[\r\n]", ESCAPES.sub("", capsys.readouterr().out))]

    return run


def joined(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


def test_doctor_has_short_rows_and_whole_notes_below_them(printed: Callable[..., list[str]], tmp_path: Path) -> None:
    lines = printed("doctor")
    assert max(map(len, lines)) <= 80
    rows = [line.split()[0] for line in lines if line and not line.startswith(" ")]
    assert {"torch", "chromium", "bubblewrap", "docker", "git"} <= set(rows)
    from agentgym.cli.doctor import NEEDS

    for need in NEEDS:
        if (place := need.find()) and ", but " in place:
            assert " ".join(place.partition(", but ")[2].split())[:60] in joined(lines)  # in whole words
        elif not place:
            assert need.how_to_get in joined(lines)


def test_envs_and_a_card_fit_and_settings_stay_in_their_column(printed: Callable[..., list[str]]) -> None:
    assert max(map(len, printed("envs"))) <= 80
    lines = printed("envs", "household", "--tasks", "1", "--difficulties", "0")
    assert max(map(len, lines)) <= 80
    start = next(i for i, line in enumerate(lines) if line.startswith("  settings"))
    assert lines[start + 1].startswith(" " * 12) and lines[start + 1][12] != " "


def test_eval_and_compare_break_sentences_between_words(printed: Callable[..., list[str]], tmp_path: Path) -> None:
    sides = [str(tmp_path / name) for name in ("random", "expert")]
    for policy, folder in zip(("random", "expert"), sides, strict=True):
        lines = printed("eval", *LAKE, folder, "--policy", policy)
        after = lines[next(i for i, line in enumerate(lines) if line.startswith("environment")) :]
        assert max(len(line) for line in after if "/" not in line) <= 80
        assert "no protocol: not comparable with published numbers" in joined(after)
        assert "report.html shows the episodes; summary.md, summary.json, episodes.jsonl, manifest.json" in joined(after)
    manifest = Path(sides[1], "manifest.json")
    long = json.loads(manifest.read_text())
    long["options"]["model"] = f"chat:https://api.example.com/v1#{'owner/a-model-with-a-long-name'}"
    manifest.write_text(json.dumps(long))
    lines = printed("compare", *sides)
    assert lines[lines.index("model:") + 1 :][:2] == ["  A  null", f'  B  "{long["options"]["model"]}"']
    assert max(len(line) for line in lines if "/" not in line) <= 80
    assert "6 are paired" in joined(lines)
