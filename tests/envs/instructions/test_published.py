"""Rows of IFEval and IFBench: each checker by hand, what is refused, and an episode."""

import json

import pytest

import agentgym
from agentgym import BadConfig, BadData
from agentgym.contract import check
from agentgym.envs.instructions.published.checks import arguments
from agentgym.envs.instructions.published.env import LONGEST, judge
from agentgym.envs.instructions.published.rows import ALL_CHECKS
from agentgym.envs.instructions.published.text import missing, sentences
from tests.envs.instructions.published_cases import IFBENCH, IFEVAL

ID = "rlvr/Instructions-v0"


def test_every_instruction_has_a_case():
    assert {name for name, *_ in IFEVAL + IFBENCH} == set(ALL_CHECKS)
    assert len(ALL_CHECKS) == 25 + 58


@pytest.mark.parametrize(("name", "values", "good", "bad"), IFEVAL + IFBENCH)
def test_each_checker_by_hand(name, values, good, bad):
    need = ALL_CHECKS[name].needs
    if need and missing(need):
        pytest.skip(missing(need))
    checks = [arguments(ALL_CHECKS, name, values, "row")]
    assert judge(good, checks) == [True]
    assert judge(bad, checks) == [False]


def test_sentences_by_hand():
    assert sentences("Mr. Fox met Dr. Who at 3.5 a.m. in the U.S.A. He left... Then? Yes!") == [
        "Mr. Fox met Dr. Who at 3.5 a.m. in the U.S.A.", "He left...", "Then?", "Yes!"]  # fmt: skip
    assert sentences('He said "go." She went to example.com. A. Smith of X Inc. We know') == [
        'He said "go".', "She went to example.com.", "A. Smith of X Inc", "We know"]  # fmt: skip


def test_a_loose_verdict_tries_the_reply_without_its_edges_and_stars():
    checks = [arguments(ALL_CHECKS, "startend:quotation", {}, "row")]
    for reply in ('Sure:\n"a"', '"a"\nBye', 'Sure:\n"a"\nBye', '*"a"*', 'Sure:\n*"a"*\nBye'):
        assert judge(reply, checks) == [False] and judge(reply, checks, loose=True) == [True], reply
    assert judge('Well\nso:\n"a"', checks, loose=True) == [False]
    assert judge(" \n", [arguments(ALL_CHECKS, "punctuation:no_comma", {}, "row")], loose=True) == [False]


def write(tmp_path, *rows):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def row(key=1, names=("punctuation:no_comma",), values=({},), **more):
    return {"key": key, "prompt": f"Prompt {key}", "instruction_id_list": list(names), "kwargs": list(values), **more}


TWO = row(2, ["punctuation:no_comma", "keywords:existence"], [{"keyword": None}, {"keywords": ["ox"], "N": None}])


def test_an_episode_and_its_measures(tmp_path):
    env = agentgym.make(ID, data=write(tmp_path, row("a"), TWO), split="all")
    assert env.reset(seed=0, options={"task": "2"})[0] == "Prompt 2"
    observation, reward, terminated, _, info = env.step("Sure, I will:\nAn ox")
    assert (reward, terminated, observation) == (0, True, "The reply does not keep: punctuation:no_comma.")
    assert info["metrics"] == {"strict": 0.5, "strict_all": 0, "loose": 1, "loose_all": 1}
    env = agentgym.make(ID, data=write(tmp_path, TWO), split="all", verdict="loose")
    env.reset(seed=0)
    assert env.step("Sure, I will:\nAn ox")[1] == 1
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step("")
    assert (reward, terminated, truncated, info["success"], info["valid"]) == (0, False, True, False, False)
    env.reset(seed=0)
    assert env.step("An ox " * (LONGEST // 6 + 1))[1:3] == (0, True)


@pytest.mark.parametrize("split", ["all", "train"])
def test_a_file_keeps_the_contract(tmp_path, split):
    report = check(ID, data=write(tmp_path, *(row(n) for n in range(10, 15)), row("x", split="train"), TWO), split=split)
    assert report.ok and sum(result.status == "holds" for result in report.results) >= 16, str(report)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (row(names=["no:such"]), "'no:such' is no instruction"),
        (row(names=["keywords:frequency"], values=[{"keyword": "a"}]), "expected keyword, frequency, relation"),
        (row(values=[{"surplus": 1}]), "kwargs of punctuation:no_comma are surplus; expected none"),
        (row(names=["keywords:existence"], values=[{"keywords": ["(a+)+$"]}]), "expected a literals"),
        (row(names=["count:numbers"], values=[{"N": 2.5}]), "N of count:numbers is '2.5'; expected a count"),
        (row(names=["count:numbers"], values=[{"N": -1}]), "expected a count"),
        (row(names=["keywords:letter_frequency"], values=[{"letter": "ab", "let_frequency": 1, "let_relation": "at least"}]),
         "expected a letter"),
        (row(names=["length_constraints:nth_paragraph_first_word"],
             values=[{"num_paragraphs": 2, "nth_paragraph": 3, "first_word": "ox"}]), "from 1 to num_paragraphs, 2"),
        (row(names=["length_constraints:nth_paragraph_first_word"],
             values=[{"num_paragraphs": 2, "nth_paragraph": 0, "first_word": "ox"}]), "is 0; expected a number from 1"),
        (row(values=[{}, {}]), "different lengths"),
        (row(key=None), "key is 'None'"),
        (row(prompt=" "), "prompt is ' '"),
    ],
)  # fmt: skip
def test_rows_that_cannot_be_judged_are_left_out_and_counted(tmp_path, bad, why):
    path = write(tmp_path, row("good"), bad)
    with pytest.warns(UserWarning, match="1 of 2 rows are not played") as warned:
        env = agentgym.make(ID, data=path, split="all")
    assert env.size() == 1 and why in str(warned[0].message)
    with pytest.raises(BadData, match="line 2"):
        agentgym.make(ID, data=path, strict=True)


def test_a_package_that_is_not_here_leaves_rows_out(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    path = write(tmp_path, row("good"), row(names=["language:response_language"], values=[{"language": "de"}]))
    with pytest.warns(UserWarning, match="language:response_language needs langdetect: pip install langdetect"):
        agentgym.make(ID, data=path, split="all")


def test_options(tmp_path):
    with pytest.raises(BadConfig, match="verdict of Instructions is 'lax'"):
        agentgym.make(ID, data=write(tmp_path, row()), verdict="lax")
    assert (
        agentgym.make(ID).stored_option_names() >= {"verdict", "strict"}
        and "data" not in agentgym.make(ID).stored_option_names()
    )


@pytest.mark.parametrize(
    "text", ["*\n" * 9000, "<" * 19000, "[" * 19000, "\n" * 19000 + "x", " \n" * 9000 + "a", "\"'" * 9000, "a." * 9000]
)
def test_no_checker_is_slow_on_a_hostile_reply(text):
    for name, values, *_ in IFEVAL + IFBENCH:
        if not ALL_CHECKS[name].needs:
            judge(text, [arguments(ALL_CHECKS, name, values, "row")], loose=True)
