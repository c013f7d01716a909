"""SQuAD's numbers, worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.rewards.exact_match import exact_match, f1, normalise


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The  Cat's\tPyjamas!", "cats pyjamas"),
        ("a.b.c.", "abc"),
        ("An apple a day", "apple day"),
        ("theatre", "theatre"),  # an article is a whole word
        ("The", ""),
        ("", ""),
        ("...", ""),
        ("Zoë’s café", "zoë’s café"),  # only ASCII punctuation goes
        ("New-York", "newyork"),
        ("1,000", "1000"),
        ("ÉCOLE", "école"),
        ("the_end", "theend"),  # punctuation goes before articles
    ],
)
def test_normalise(text: str, normal: str) -> None:
    assert normalise(text) == normal


def test_any_gold_answer_will_do() -> None:
    assert exact_match("the Eiffel Tower.", ["Tour Eiffel", "Eiffel tower"]) == 1.0
    assert exact_match("Eiffel", ["Tour Eiffel", "Eiffel tower"]) == 0.0
    assert exact_match("x", []) == 0.0


def test_a_list_of_candidates_is_no_answer() -> None:
    assert exact_match("Paris, London, Rome", ["Paris"]) == 0.0


def test_nothing_left_after_normalisation_must_be_matched_as_written() -> None:
    assert exact_match("+", ["+"]) == 1.0
    assert exact_match("-", ["+"]) == 0.0
    assert exact_match("a", ["The"]) == 0.0
    assert exact_match(" the ", ["The"]) == 1.0
    assert exact_match(".", ["cat"]) == 0.0
    assert exact_match("", [""]) == 1.0


def test_f1_by_hand() -> None:
    # given: red cat sat; gold: red cat -> precision 2/3, recall 1, F1 4/5
    assert f1("The red cat sat", ["a red cat"]) == pytest.approx(0.8)
    # each word counts as often as both have it: given b b, gold b -> precision 1/2, recall 1, F1 2/3
    assert f1("b b", ["b"]) == pytest.approx(2 / 3)
    assert f1("b c", ["x y", "c d e f"]) == pytest.approx(2 * 1 / (2 + 4))  # the best gold answer counts
    assert f1("cat", ["dog"]) == 0.0
    assert f1("", ["dog"]) == 0.0
    assert f1("the", ["a"]) == 0.0
    assert f1("x", []) == 0.0


@given(st.text(), st.text())
def test_contract_checks(answer: str, gold: str) -> None:
    assert exact_match(gold, [gold]) == 1.0
    assert normalise(normalise(gold)) == normalise(gold)
    assert 0.0 <= f1(answer, [gold]) <= 1.0
    assert f1(answer, [gold]) == pytest.approx(f1(gold, [answer]))
    if exact_match(answer, [gold]) and normalise(gold):
        assert f1(answer, [gold]) == pytest.approx(1.0)
