"""Question sets in their published layouts, written small: every alias counts, bad rows are counted, premises are shown."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentgym.envs.search import Search
from agentgym.errors import BadData

PARAGRAPHS = [
    {"idx": 0, "title": "Zed", "paragraph_text": "Zed is in Om.", "is_supporting": True},
    {"idx": 1, "title": "Om", "paragraph_text": "Its capital is Ur.", "is_supporting": False},
]
MUSIQUE = {
    "id": "2hop__1_2", "question": "Capital of the land of Zed?", "answer": "Ur", "answer_aliases": ["Uru", ""],
    "question_decomposition": [{"id": 1, "question": "land of Zed", "answer": "Om", "paragraph_support_idx": 0}],
    "answerable": True, "paragraphs": PARAGRAPHS,
}  # fmt: skip
ROWS: list[tuple[dict[str, Any], list[str]]] = [
    (MUSIQUE, ["Ur", "Uru"]),
    (
        {
            "question": "q",
            "answer": {
                "value": "Ur",
                "aliases": ["Ur", "Uru"],
                "normalized_aliases": ["ur", "uruk"],
                "normalized_value": "ur",
                "type": "WikipediaEntity",
            },
            "entity_pages": {},
            "search_results": {},
        },
        ["Uru", "uruk"],
    ),
    ({"question": "q", "answer": ["Ur", "Uru"]}, ["Ur", "Uru"]),
    ({"question": "q", "answers": ["Ur"], "url": "a b"}, ["Ur"]),
    ({"id": 1, "question": "q", "obj": "Ur", "prop": "capital", "possible_answers": json.dumps(["Ur", "Uru"])}, ["Uru"]),
    ({"Question": "q", "Answer": "Ur"}, ["Ur"]),
    (
        {"question": "q", "answers": {"text": ["Ur", "Uru"], "answer_start": [1, 2]}, "title": "T", "is_impossible": False},
        ["Uru"],
    ),
    ({"question": "q", "answers_spans": {"spans": ["1990"], "types": ["date"]}}, ["1990"]),
    ({"question": "q", "answer": 1990}, ["1990"]),
    ({"question": "q", "answer": True, "passage": "It is."}, ["yes"]),
]


def written(folder: Path, *rows: dict[str, Any]) -> dict[str, str]:
    (folder / "c.jsonl").write_text('{"id": "0", "title": "Zed", "text": "Zed is in Om."}\n')
    (folder / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"corpus": str(folder / "c.jsonl"), "questions": str(folder / "q.jsonl"), "split": "all"}


@pytest.mark.parametrize(("row", "answers"), ROWS)
def test_every_alias_counts(tmp_path: Path, row: dict[str, Any], answers: list[str]) -> None:
    env = Search(**written(tmp_path, row))
    for answer in answers:
        env.reset(options={"task": 0})
        assert env.step(f"answer[{answer}]")[1] == 1.0
    env.reset(options={"task": 0})
    assert env.step("answer[something else]")[1] == 0.0


def test_musique_is_read_with_its_paragraphs(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_text(json.dumps(MUSIQUE) + "\n" + json.dumps({**MUSIQUE, "id": "x", "answerable": False}))
    with pytest.warns(UserWarning, match="1 of 2 rows are not played.*has no answer"):
        env = Search(data=str(tmp_path / "m.jsonl"), split="all")
    assert env.size() == 1 and env.library is not None and env.library.corpus.size == 2
    assert env.tasks(1)[0].data["answers"] == ["Ur", "Uru"] and env.tasks(1)[0].data["evidence"] == ["0"]
    with pytest.raises(BadData, match="line 2: the question has no answer"):
        Search(data=str(tmp_path / "m.jsonl"), strict=True)


@pytest.mark.parametrize(
    "row",
    [
        {"answerable": False, "answer": "x"},
        {"is_impossible": True, "answers": {"text": []}},
        {"answers": {"text": [], "answer_start": []}},
        {"golden_answers": []},
        {"answer": ""},
    ],
)
def test_a_question_without_an_answer_is_not_played(tmp_path: Path, row: dict[str, Any]) -> None:
    with pytest.warns(UserWarning, match="1 of 2 rows are not played"):
        assert Search(**written(tmp_path, {"question": "a", "answer": "b"}, {"question": "q", **row})).size() == 1
    with pytest.raises(BadData, match="line 2"):
        Search(**written(tmp_path, {"question": "a", "answer": "b"}, {"question": "q", **row}), strict=True)


def test_two_wiki_has_the_aliases_of_its_ids(tmp_path: Path) -> None:
    (tmp_path / "id_aliases.json").write_text('{"Q_id": "Q1", "aliases": ["Anna"], "demonyms": []}\n')
    row = {"_id": "w", "question": "Who?", "answer": "Ann", "answer_id": "Q1", "supporting_facts": [["Ann", 0]],
           "context": [["Ann", ["Ann was born."]]], "evidences": [["Ann", "born", "1900"]], "type": "comparison",
           "entity_ids": "Q1_Q2"}  # fmt: skip
    (tmp_path / "dev.json").write_text(json.dumps([row]))
    assert Search(data=str(tmp_path / "dev.json"), split="all").tasks(1)[0].data["answers"] == ["Ann", "Anna"]


def test_fullwiki_rows_are_played_without_the_titles_their_context_lacks(tmp_path: Path) -> None:
    row = {"_id": "h", "question": "Who?", "answer": "Ann", "supporting_facts": [["Ann", 0], ["Bob", 1]],
           "context": [["Ann", ["Ann was born."]]], "type": "bridge", "level": "hard"}  # fmt: skip
    (tmp_path / "dev.json").write_text(json.dumps([row, {**row, "_id": "i", "answer": ""}]))
    with pytest.warns(UserWarning, match="1 of 2 rows"):
        env = Search(data=str(tmp_path / "dev.json"), split="all")
    assert [(task.id, task.data["evidence"]) for task in env.tasks(1)] == [("h", ["0"])] and env.size() == 1
    with pytest.raises(BadData, match="'Bob' is not among the titles"):
        Search(data=str(tmp_path / "dev.json"), strict=True)


def test_premises_and_choices_are_shown_and_unread_text_is_refused(tmp_path: Path) -> None:
    env = Search(**written(tmp_path, {"question": "Which?", "body": "Ann has two.", "choices": ["Om", "Ur"], "answer": "B"}))
    text, _ = env.reset(options={"task": 0})
    assert "Question: Ann has two.\nWhich?\nA. Om\nB. Ur" in text
    assert env.step("answer[Ur]")[1] == 1.0
    row = {"question": "Which?", "answer": "B", "given": "Ann has two."}
    with pytest.raises(BadData, match=r"column 'given'.*ignore=\('given',\)"):
        Search(**written(tmp_path, row))
    assert Search(**written(tmp_path, row), ignore=("given",)).size() == 1
    with pytest.raises(BadData, match="column 'image'"):
        Search(**written(tmp_path, {"question": "Which?", "answer": "B", "image": "a.png"}))
