"""Layouts of published sets, written small: every part of a question is shown, what nobody reads is refused by name."""

import json
import warnings

import pytest

import agentgym
from agentgym.core.actions import spell
from agentgym.envs.math import Math
from agentgym.errors import BadData

LAYOUTS = {
    "SVAMP": (
        {
            "ID": "c-1",
            "Body": "Ann has 3 pens.",
            "Question": "How many now?",
            "Equation": "( 3.0 - 1.0 )",
            "Answer": 2.0,
            "Type": "Subtraction",
        },
        ["Ann has 3 pens.", "How many now?"],
        "2",
        "3",
    ),
    "ASDiv": (
        {
            "body": "Ed eats 9 apples.",
            "question": "How many apples?",
            "solution_type": "Sum",
            "answer": "9 (apples)",
            "formula": "9=9",
        },
        ["Ed eats 9 apples."],
        "9",
        "8",
    ),
    "AQuA": (
        {"question": "2 + 19?", "options": ["A)21", "B)22", "C)23"], "rationale": "Add them up.", "correct": "A"},
        ["A. 21", "C. 23"],
        "A",
        "B",
    ),
    "MathQA": (
        {
            "Problem": "the loss is ?",
            "Rationale": "it is so",
            "options": "a ) 38 , b ) 27.5 , c ) 1,000 , d ) 4",
            "correct": "c",
            "annotated_formula": "add(1, 2)",
            "linear_formula": "add(n0,n1)|",
            "category": "gain",
        },
        ["B. 27.5", "C. 1,000"],
        "C",
        "A",
    ),
    "MMLU": (
        {
            "question": "Pick the noble gas.",
            "subject": "high_school_chemistry",
            "choices": ["iron", "gold", "neon", "lead"],
            "answer": 2,
        },
        ["C. neon"],
        "neon",
        "gold",
    ),
    "ARC": (
        {
            "id": "M_1",
            "question": "Which is hot?",
            "choices": {"text": ["ice", "fire"], "label": ["1", "2"]},
            "answerKey": "2",
        },
        ["2. fire"],
        "2",
        "1",
    ),
    "GPQA": (
        {
            "Question": "Which one?",
            "Correct Answer": "beta",
            "Incorrect Answer 1": "alpha",
            "Incorrect Answer 2": "gamma",
            "Incorrect Answer 3": "delta",
        },
        ["alpha", "beta", "gamma", "delta"],
        "beta",
        "alpha",
    ),
    "SciQ": (
        {
            "question": "What boils?",
            "distractor1": "ice",
            "distractor2": "sand",
            "distractor3": "iron",
            "correct_answer": "water",
            "support": "Water boils at 100 C.",
        },
        ["Water boils at 100 C.", "ice"],
        "water",
        "ice",
    ),
    "ReClor": (
        {
            "context": "All cats are grey.",
            "question": "What follows?",
            "answers": ["no cat", "grey cats"],
            "label": 1,
            "id_string": "train_1",
        },
        ["All cats are grey.", "B. grey cats"],
        "B",
        "A",
    ),
    "LogiQA": (
        {"context": "All cats are grey.", "query": "What follows?", "options": ["no cat", "grey cats"], "correct_option": 1},
        ["All cats are grey.", "B. grey cats"],
        "(B)",
        "(A)",
    ),
    "PubMedQA": (
        {
            "pubid": 7,
            "question": "Does it help?",
            "context": {"contexts": ["We tried it.", "It did."], "labels": ["A"], "meshes": ["Human Trial"]},
            "long_answer": "It does help.",
            "final_decision": "yes",
        },
        ["We tried it.", "It did."],
        "yes",
        "no",
    ),
    "StrategyQA": (
        {
            "qid": "1",
            "term": "Ant",
            "question": "Can ants fly?",
            "answer": True,
            "facts": ["Some ants have wings."],
            "decomposition": ["Do ants have wings?"],
        },
        ["Some ants have wings."],
        "True",
        "False",
    ),
    "MedMCQA": (
        {"question": "Which vitamin?", "opa": "A", "opb": "B12", "opc": "C", "opd": "D", "cop": 1},
        ["B. B12"],
        "B12",
        "C",
    ),
    "BoolQ": ({"question": "is it so", "passage": "It is so.", "answer": True}, ["It is so."], "true", "false"),
}


@pytest.mark.parametrize("name", list(LAYOUTS))
def test_a_layout_is_shown_whole_and_graded(tmp_path, name) -> None:
    row, instruction, right, wrong = LAYOUTS[name]
    path = tmp_path / "test.jsonl"
    path.write_text(json.dumps(row) + "\n")
    env = Math(data=str(path), split="test")
    text, _ = env.reset(options={"task": 0})
    assert all(part in text for part in instruction), text
    assert env.step(spell("answer", right))[1] == 1.0
    env.reset(options={"task": 0})
    assert env.step(spell("answer", wrong))[1:3] == (0.0, True)
    env.reset(options={"task": 0})
    assert env.step(next(env.oracle()))[1] == 1.0


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("premise_two", "Tom has three apples."),
        ("Given", "x = 3"),
        ("image", {"path": "a.png", "bytes": None}),
        ("images", ["a.png"]),
        ("figure", "a.png"),
        ("notes_for_solver", ["take the larger one"]),
        ("choices", "see the picture"),
    ],
)
def test_text_that_nobody_reads_is_refused_by_name(tmp_path, column, value) -> None:
    path = tmp_path / "test.jsonl"
    path.write_text("".join(json.dumps({"question": f"{n}?", "answer": "1", column: value}) + "\n" for n in range(2)))
    with pytest.raises(BadData, match=column.lower()):
        Math(data=str(path))
    if column != "choices":
        assert Math(data=str(path), ignore=(column,), split="test").size() == 2
        assert agentgym.make("rlvr/Math-v0", data=str(path), ignore=column, split="test").size() == 2


def test_what_is_about_a_row_is_no_premise(tmp_path) -> None:
    row = {
        "question": "1?",
        "answer": "1",
        "topic": "easy sums",
        "source": "a book of 1990",
        "problem_id": "a b",
        "n_steps": 3,
        "hash": "ab/cd",
        "solution": "it is one",
        "url": "https://example.org/a b",
        "passed": True,
    }
    (tmp_path / "test.jsonl").write_text(json.dumps(row))
    assert Math(data=str(tmp_path / "test.jsonl"), split="test").size() == 1


def test_one_bad_row_is_left_out_and_counted(tmp_path) -> None:
    rows = [
        {"question": "1?", "answer": "1"},
        {"question": "2?", "answer": ""},
        {"question": "3?"},
        {"question": "1?", "answer": "4"},
    ]
    path = tmp_path / "test.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.warns(UserWarning, match="2 of 4 rows are not played.*line 2"):
        assert Math(data=str(path), split="test").size() == 2
    with pytest.raises(BadData, match="line 2"):
        Math(data=str(path), strict=True)
    path.write_text(json.dumps(rows[0]) + "\n" + json.dumps({**rows[0], "answerable": False}) + "\n")
    with pytest.warns(UserWarning, match="has no answer"):
        assert Math(data=str(path), split="test").size() == 1
    path.write_text(json.dumps(rows[1]) + "\n")
    with pytest.raises(BadData, match="line 1"):
        Math(data=str(path))


VALUES = ['"007"', '"null"', '"2024-01-01"', "7", "9007199254740993", "1e5", "0.10", '"NA"', '"1,000"', "true"]


@pytest.mark.parametrize("form", ["jsonl", "json", "csv"])
def test_a_data_set_keeps_the_files_own_text(tmp_path, form) -> None:
    """datasets 5.2.0 infers one type for a column: "007" becomes 7, "null" None (findings/datasets_infers_types.sh)."""
    datasets = pytest.importorskip("datasets", reason="needs the library `datasets`")
    datasets.disable_progress_bars()
    rows = [f'{{"question": "{n}?", "answer": {value}}}' for n, value in enumerate(VALUES)]
    text = {
        "jsonl": "\n".join(rows),
        "json": f"[{','.join(rows)}]",
        "csv": "question,answer\n" + "\n".join(f"{n}?,{value}" for n, value in enumerate(VALUES)),
    }[form]
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / f"train.{form}").write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = Math(data=f"datasets:{folder}", split="train")
    expected = ["007", "null", "2024-01-01", "7", "9007199254740993", "1e5", "0.10", "NA", "1,000"]
    assert [task.data["answer"] for task in env.tasks(10)] == [*expected, "true" if form == "csv" else "yes"]


def test_a_data_set_of_parquet_is_read_as_typed(tmp_path) -> None:
    pytest.importorskip("datasets", reason="needs the library `datasets`").disable_progress_bars()
    parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    (tmp_path / "set").mkdir()
    table = arrow.table({"question": ["a?", "b?"], "answer": ["007", "null"]})
    parquet.write_table(table, tmp_path / "set" / "train.parquet")
    env = Math(data=f"datasets:{tmp_path / 'set'}", split="train")
    assert [task.data["answer"] for task in env.tasks(2)] == ["007", "null"]
