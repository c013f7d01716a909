"""Rows in the layouts of LongMemEval and MRCR, made by hand: reading, verdicts, and what is left out."""

import json
from difflib import SequenceMatcher

import pytest

import agentgym
from agentgym import BadConfig, BadData
from agentgym.contract import check, examine
from agentgym.contract.certificate import subject
from agentgym.envs.memory.published import MORE_WORDS, MOST_COMPARED, score

ID = "rlvr/Memory-v0"


def talk(*contents):
    return [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(contents)]


def long_mem(id="q1", answer="a blue bike", **more):
    sessions = [
        [*talk("I bought a blue bike.", "Nice."), {"role": "user", "content": "Yes.", "has_answer": True}],
        talk("Hello."),
    ]
    return {
        "question_id": id, "question_type": "single-session-user", "question": "What did I buy?", "answer": answer,
        "question_date": "2024/02/01 (Thu) 09:00", "haystack_session_ids": ["s1", "s2"],
        "haystack_dates": ["2024/01/30 (Tue) 08:00", "2024/01/31 (Wed) 08:00"], "haystack_sessions": sessions,
        "answer_session_ids": ["s1"], **more,
    }  # fmt: skip


def mrcr(answer="Zq1Drip, drop", **more):
    messages = talk("Haiku on rain", "Drip, drop", "Haiku on snow", "Flake", "Prepend Zq1 to the first haiku on rain.")
    return {"prompt": json.dumps(messages), "answer": answer, "random_string_to_prepend": "Zq1", "n_needles": 2, **more}


def write(tmp_path, *rows, as_list=False):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(rows) if as_list else "\n".join(map(json.dumps, rows)))
    return str(path)


@pytest.mark.parametrize("as_list", [True, False])
def test_a_stream_of_long_mem_eval(tmp_path, as_list):
    env = agentgym.make(ID, data=write(tmp_path, long_mem(), long_mem("q2_abs", "Not said."), as_list=as_list), split="all")
    observation, _ = env.reset(seed=0, options={"task": "q1"})
    assert observation.endswith(
        "Session 1 of 2, 2024/01/30 (Tue) 08:00\nUser: I bought a blue bike.\nAssistant: Nice.\nUser: Yes."
    )
    assert not env.step("answer[a blue bike]")[4]["valid"]
    assert env.step("note[bike is blue]")[4]["valid"] and env.step("search_notes[bike]")[0] == "1: bike is blue"
    assert env.step("next[]")[0].endswith("Question: What did I buy? (asked on 2024/02/01 (Thu) 09:00)")
    assert not env.step("next[]")[4]["valid"]
    assert env.step("answer[You bought a blue bike!]")[4]["success"] is True
    env.reset(seed=0, options={"task": "q2_abs"})
    env.step("next[]")
    state = env.snapshot()
    assert env.step("answer[a car]")[4]["success"] is False
    env.restore(state)
    assert env.step("answer[Unknown.]")[4]["success"] is True
    for task in env.tasks(2):
        env.reset(seed=0, options={"task": task})
        assert [env.step(action)[4]["success"] for action in env.oracle()][-1] is True


def test_a_stream_of_mrcr(tmp_path):
    env = agentgym.make(ID, data=write(tmp_path, mrcr()), split="all", notes=0)
    assert set(env.tools) == {"next", "answer"}
    assert "User: Haiku on rain\nAssistant: Drip, drop" in env.reset(seed=0)[0]
    assert env.step("next[]")[0].endswith("Question: Prepend Zq1 to the first haiku on rain.")
    info = env.step("answer[Zq1Flake]")[4]
    assert info["success"] is False and info["metrics"]["score"] == SequenceMatcher(None, "Flake", "Drip, drop").ratio()
    env.reset(seed=0)
    assert [env.step(action)[4]["success"] for action in env.oracle()][-1] is True


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("Zq1abcd", 1.0),
        ("Zq1abcx", 0.75),
        ("Zq1", 0.0),
        ("abcd", 0.0),
        (" Zq1abcd", 0.0),
        ("zq1abcd", 0.0),
        ("Zq1" + "a" * MOST_COMPARED, 0.0),
    ],
)
def test_mrcr_grades_by_prefix_and_ratio(answer, value):
    assert score({"prefix": "Zq1", "answer": "Zq1abcd"}, answer) == value


@pytest.mark.parametrize(
    "rows",
    [[mrcr(id=f"m{n}") for n in range(6)], [long_mem("q2_abs", "Not said."), *(long_mem(f"q{n}") for n in range(5, 10))]],
)
def test_a_file_keeps_the_contract(tmp_path, rows):
    path = write(tmp_path, *rows)
    splits = subject(ID, examine(ID, data=path, split="all"))["splits"]
    assert splits.pop("all") == 6 == sum(splits.values())  # one of MRCR's has no row
    report = check(ID, data=path, split="all")
    assert report.ok and sum(result.status == "holds" for result in report.results) >= 18, str(report)


@pytest.mark.parametrize(
    ("expected", "answer", "value"),
    [
        ("three", "It was three times.", 1.0),
        ("three", "thirty-three", 0.0),
        ("33", "Thirty-three of them", 1.0),
        ("three", "threes", 0.0),
        ("3", "three", 1.0),
        ("3", "1 2 3 4 5", 0.0),
        ("3", "one of these: 3", 1.0),
        ("3", "3 in 2024", 1.0),  # a number of the question
        ("3.5 hours", "3.5 hours", 1.0),
        ("3.5 hours", "5 hours", 0.0),
        ("45 minutes", "45 min.", 1.0),
        ("45 min", "forty-five minutes each way", 1.0),
        ("1 hour", "a 1-hr ride", 1.0),
        ("45 minutes", "45 miles", 0.0),
        ("5 mi", "5 minutes", 0.0),
        ("2 hrs", "12 hours", 0.0),
        ("$1,300", "1300 dollars", 1.0),
        ("5°C", "-5°C", 0.0),
        ("-5", "\u22125", 1.0),
        ("C++", "C#", 0.0),
        ("C++", "In C++.", 1.0),
        ("3:30 pm", "at 3:30pm", 1.0),
        ("\u2764", "\u2764", 1.0),
        ("\u2764", "\u2763", 0.0),
        ("yes", "Yes, it is", 1.0),
        ("yes", "yes no", 0.0),
        ("7 days. 8 days (including the last day) is also acceptable.", "8 days", 1.0),
        ("7 days. 8 days (including the last day) is also acceptable.", "It took 7 days", 1.0),
        ("7 days. 8 days (including the last day) is also acceptable.", "7 or 8 days", 0.0),
        ("Oslo", " ".join(["Oslo", *["Bergen"] * (MORE_WORDS + 1)]), 0.0),
        ("a blue bike", "A blue, bike", 1.0),
        ("a blue bike", "a bike", 0.0),
        ("a blue bike", "Blue bike", 1.0),
        ("The Glass Menagerie", "It was Glass Menagerie.", 1.0),
        ("A", "a", 1.0),
        ("A", "B", 0.0),
        ("Caf\u00e9 Noir", "cafe\u0301 noir", 1.0),
        ("unknown", "Unknown.", 1.0),
        ("unknown", "The unknown soldier", 0.0),
        ("three", "unknown", 0.0),
    ],
)
def test_long_mem_eval_is_judged_by_its_words(expected, answer, value):
    assert score({"prefix": "", "answer": expected, "question": "How many, in 2024?"}, answer) == value


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"question": "What?"}, "expected LongMemEval or MRCR"),
        (long_mem("q3", haystack_dates=["one"]), "2 sessions and 1 dates"),
        (long_mem("q3", haystack_sessions=[[{"role": "user"}], []]), "expected role and content"),
        (long_mem("q3", answer=None), "answer is 'None'"),
        (
            long_mem("q3", "The user would prefer bikes.", question_type="single-session-preference"),
            "only a model can judge",
        ),
        (mrcr(answer="Drip"), "does not begin with 'Zq1'"),
        (mrcr(prompt="[{"), "prompt is no JSON"),
        (mrcr(prompt="[]"), "0 messages"),
    ],
)
def test_rows_that_cannot_be_played_are_left_out_and_counted(tmp_path, bad, why):
    path = write(tmp_path, long_mem(), bad)
    with pytest.warns(UserWarning, match="1 of 2 rows are not played") as warned:
        env = agentgym.make(ID, data=path, split="all")
    assert env.size() == 1 and why in str(warned[0].message)
    with pytest.raises(BadData):
        agentgym.make(ID, data=path, strict=True)


def test_options(tmp_path):
    with pytest.raises(BadConfig, match="passing of Memory is 2"):
        agentgym.make(ID, data=write(tmp_path, mrcr()), passing=2)
    with pytest.raises(BadConfig, match="notes of Memory is 1"):
        agentgym.make(ID, data=write(tmp_path, mrcr()), notes=1)
    names = agentgym.make(ID).stored_option_names()
    assert {"notes", "passing", "strict"} <= names and "data" not in names
