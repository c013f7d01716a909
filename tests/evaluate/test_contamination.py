"""What is checked before an evaluation begins: it finds what was planted, counts it, and says where it cannot look."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import pytest
from household_files import game_text, write_game

import agentgym
from agentgym import Task, TextEnv
from agentgym.cli import main
from agentgym.evaluate.contamination import contamination
from agentgym.evaluate.run import EvaluationPlan, evaluate

WORDS = ("a marble bust", "Oslo", "no", "7", "New   York")


class Riddles(TextEnv):
    """Ten riddles in a list; the first observation shows what `leak` asks for."""

    splits: Mapping[str, float] = MappingProxyType({"train": 0.0, "test": 0.0})
    settings: ClassVar[tuple[str, ...]] = ("leak", "shared")
    leak: str = ""
    shared: int = 0
    """How many of the test split's riddles are in the training split too."""
    declared = agentgym.Declarations(answers=("answer",))

    def _all(self, split: str | None) -> list[Task]:
        split = split or self.split
        first = 0 if split == "train" else len(WORDS) - self.shared
        numbers = range(first, first + len(WORDS))
        return [Task("Guess.", {"answer": WORDS[n % len(WORDS)], "n": n}, f"{split}-{n}", split) for n in numbers]

    def begin(self, task: Task) -> str:
        if self.leak == "crash":
            raise KeyError("an environment that breaks")
        return f"I think of something ({self.leak.format(**task.data)})."

    def act(self, action: str) -> Any:
        return self.lose("No.")

    def split_of(self, task: Task) -> str:
        return task.split

    def size(self, split: str | None = None) -> int:
        return len(self._all(split))

    def tasks(self, n: int, split: str | None = None) -> list[Task]:
        return self._all(split)[:n]

    def split_key(self, task: Task) -> object:
        return task.data["n"]


class Uncounted(Riddles):
    """The same, but nobody knows how many there are, and nothing is hidden."""

    declared = agentgym.Declarations()

    def size(self, split: str | None = None) -> None:  # type: ignore[override]
        return None


@pytest.fixture(scope="module", autouse=True)
def envs() -> None:
    agentgym.register("me/Riddles-v0", Riddles)
    agentgym.register("me/Uncounted-v0", Uncounted)


def found(env: str, split: str = "test", **options: Any) -> dict[str, Any]:
    tasks = agentgym.make(env, split=split, **options).tasks(5)
    return contamination(env, [(options, tasks)])


def test_tasks_that_were_trained_on_are_counted_and_named() -> None:
    assert found("me/Riddles-v0", shared=0)["split_overlap"]["found"] == 0
    overlap = found("me/Riddles-v0", shared=2)["split_overlap"]
    assert (overlap["checked"], overlap["found"], overlap["examples"]) == (5, 2, ["test-3", "test-4"])
    assert overlap["how"] == "by content, with the 5 tasks of split 'train'" and not overlap["why"]
    training = found("me/Riddles-v0", split="train")["split_overlap"]
    assert (training["checked"], training["found"]) == (5, 5)


@pytest.mark.parametrize(
    ("leak", "shown_count"),
    [
        ("", 0),
        ("{answer}", 3),  # of five answers, "no" and "7" are too short to be looked for
        ("it is A Marble\nBust!", 1),
        ("a marble busted", 0),
        ("oslo, new york", 2),
    ],
)
def test_answers_that_are_shown_are_counted(leak: str, shown_count: int) -> None:
    answers = found("me/Riddles-v0", leak=leak)["answer_in_prompt"]
    assert (answers["checked"], answers["found"], len(answers["examples"])) == (3, shown_count, shown_count)
    assert answers["why"] == "not looked at: 2 below 3 characters, or one of yes, none, true, false"


def test_what_cannot_be_checked_is_said() -> None:
    checks = found("me/Uncounted-v0")
    assert {name: one["checked"] for name, one in checks.items()} == {"split_overlap": 0, "answer_in_prompt": 0}
    assert "split is only written on it" in checks["split_overlap"]["why"]
    assert checks["answer_in_prompt"]["why"] == "the environment names no hidden answers"
    broken = found("me/Riddles-v0", leak="crash")["answer_in_prompt"]
    assert broken["checked"] == 0 and "3 of environments that break at the start" in broken["why"]


def test_the_packages_environments_pass_by_their_splits() -> None:
    checks = found("rlvr/Search-v0", difficulty=0)
    assert checks["split_overlap"] == {
        "checked": 5,
        "found": 0,
        "examples": [],
        "how": "a task's content decides its split",
        "why": "",
    }
    assert (checks["answer_in_prompt"]["checked"], checks["answer_in_prompt"]["found"]) == (5, 0)


def test_a_task_moved_by_hand_is_seen() -> None:
    env = agentgym.make("rlvr/GuessNumber-v0", split="train")
    moved = [dataclasses.replace(task, split="test") for task in env.tasks(3)]
    assert contamination("rlvr/GuessNumber-v0", [({}, moved)])["split_overlap"]["found"] == 3


def test_games_of_alfworld_are_compared_by_what_is_in_them(tmp_path: Path) -> None:
    for split, count in (("train", 2), ("valid_seen", 3), ("valid_unseen", 1)):
        for number in range(count):
            text = game_text(problem=game_problem(number)) if split == "valid_seen" else game_text()
            write_game(tmp_path / split / f"game-{number}" / "trial_T1", text=text)
    tasks = agentgym.make("rlvr/ALFWorld-v0", data=str(tmp_path), split="valid_seen").tasks(3)
    overlap = contamination("rlvr/ALFWorld-v0", [({"data": str(tmp_path)}, tasks)])["split_overlap"]
    assert (overlap["checked"], overlap["found"]) == (3, 1)  # number 0 is the game of the training split
    assert overlap["examples"] == ["valid_seen/game-0/trial_T1"]


def game_problem(number: int) -> str:
    """Return a problem that differs from the usual one where the number is not 0."""
    from household_files import PROBLEM

    return PROBLEM + f"; {number}" * bool(number)


def test_of_a_file_played_whole_its_own_training_questions_are_found(tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text('{"id": "0", "contents": "\\"Title\\"\\ntext"}\n')
    splits = ("train", "test", "train", "test")
    questions = [
        {
            "question": "WHAT is 0?" if i == 3 else f"What is {i}?",
            "golden_answers": ["some text"],
            "split": split,
            "id": str(i),
        }
        for i, split in enumerate(splits)
    ]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(question) + "\n" for question in questions))
    files = {"corpus": str(tmp_path / "c.jsonl"), "questions": str(tmp_path / "q.jsonl")}
    tasks = agentgym.make("rlvr/Search-v0", split="all", **files).tasks(4)
    overlap = contamination("rlvr/Search-v0", [(files, tasks)])["split_overlap"]
    assert (overlap["checked"], overlap["found"], overlap["examples"]) == (4, 3, ["0", "2", "3"])  # 3 asks what 0 does


def test_a_data_folder_without_its_training_split_is_said(tmp_path: Path) -> None:
    write_game(tmp_path / "valid_unseen" / "game-0" / "trial_T1")
    tasks = agentgym.make("rlvr/ALFWorld-v0", data=str(tmp_path), split="valid_unseen").tasks(1)
    overlap = contamination("rlvr/ALFWorld-v0", [({"data": str(tmp_path)}, tasks)])["split_overlap"]
    assert overlap["checked"] == 0 and "the training split cannot be read: " in overlap["why"]


def test_an_evaluation_looks_before_it_plays_and_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["eval", "me/Riddles-v0", "--policy", "random", "--env.leak", "it is {answer}", "--env.shared", "1"]
    assert main([*command, "--out", str(tmp_path / "a")]) == 0
    output = capsys.readouterr().out
    assert "contamination: 1 of 5 tasks are in the training split too, such as me/Riddles-v0 test-4" in output
    assert "contamination: 3 of 3 tasks show the answer at once" in output
    assert "not or partly checked: me/Riddles-v0" in output
    summary = json.loads((tmp_path / "a" / "summary.json").read_text())
    assert summary["contamination"] == json.loads((tmp_path / "a" / "contamination.json").read_text())
    assert summary["contamination"]["me/Riddles-v0"]["split_overlap"]["found"] == 1


def test_all_tasks_of_a_counted_split_are_played(tmp_path: Path) -> None:
    assert len(evaluate(agentgym.RandomAgent(), EvaluationPlan(("me/Riddles-v0",)), tmp_path / "a")) == 5
    assert len(evaluate(agentgym.RandomAgent(), EvaluationPlan(("me/Riddles-v0",), tasks=3), tmp_path / "b")) == 3
