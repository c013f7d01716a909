"""Columns that repeat a question in one set and are a part of it in another."""

import pytest

from agentgym.tasks.columns import UnreadText, lowered, whole_question

QUESTION = "How many legs has a cat?"


@pytest.mark.parametrize("name", ["prompt", "template", "comment", "comments", "notes", "legend"])
def test_text_that_nobody_reads_is_refused_by_name(name):
    row = {"question": QUESTION, name: "A cat lost one leg."}
    with pytest.raises(UnreadText, match=f"line 1: column '{name}'"):
        whole_question(row, QUESTION, ("question",), (), "line 1")
    assert whole_question(row, QUESTION, ("question",), (name,), "line 1") == QUESTION


@pytest.mark.parametrize(
    "value", [QUESTION, f"Think. {QUESTION} Answer:", [{"role": "user", "content": QUESTION}], "v1", ""]
)
def test_a_prompt_that_repeats_the_question_says_nothing_new(value):
    assert whole_question({"question": QUESTION, "prompt": value}, QUESTION, ("question",), (), "line 1") == QUESTION


def test_a_document_is_the_premise_where_no_other_column_is():
    row = {"question": QUESTION, "document": "Cats have four legs."}
    assert whole_question(row, QUESTION, ("question",), (), "line 1") == f"Cats have four legs.\n\n{QUESTION}"
    row = {"Context": "Cats walk.", **row}
    assert whole_question(row, QUESTION, ("question",), (), "line 1") == f"Cats walk.\n\n{QUESTION}"


def test_names_of_columns_are_lowered_once():
    for _ in range(2):  # the second time from the cache
        plain = {"".join(["ques", "tion"]): QUESTION}
        assert lowered(plain) is plain
    assert lowered({"Final Answer": 1, "final_answer": 2}) == {"final_answer": 1}
