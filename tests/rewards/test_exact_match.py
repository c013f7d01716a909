"""SQuAD's numbers, worked out by hand."""

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.rewards.exact_match import exact_match, f1, normalise, normalise_scripts


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
    if exact_match(answer, [gold]) and normalise_scripts(gold):
        assert f1(answer, [gold]) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("《北京》。", "北京"),
        ("「東京」！", "東京"),
        ("北京 市", "北京市"),
        ("１９９７年", "1997年"),
        ("ＮＡＳＡ", "nasa"),
        ("ភ្នំពេញ។", "ភ្នំពេញ"),
        ("ရန်ကုန်။", "ရန်ကုန်"),
        ("दिल्ली।", "दिल्ली"),
        ("القاهرة؟", "القاهرة"),
        ("“Zoë’s” café…", "zoës café"),
        ("서울.", "서울"),
    ],
)
def test_punctuation_of_every_script_goes_but_in_squads_own(answer: str, gold: str) -> None:
    assert exact_match(answer, [gold]) == 1.0
    assert exact_match(answer + "x", [gold]) == 0.0
    if not answer.isascii() and answer != "서울.":
        assert exact_match(answer, [gold], normal=normalise) == 0.0  # string.punctuation is ASCII


def test_f1_of_a_script_without_spaces_counts_characters() -> None:
    # given 北京市 (3 characters), gold 北京 (2): precision 2/3, recall 1
    assert f1("北京市", ["北京"]) == pytest.approx(0.8)
    assert f1("北京市", ["北京"], normal=normalise) == 0.0
    assert exact_match("。", ["猫"]) == 0.0


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_ascii_is_normalised_as_by_squad(text: str) -> None:
    assert normalise_scripts(text) == normalise(text)


@given(st.text())
def test_normal_form_is_its_own_normal_form_but_for_case(text: str) -> None:
    normal = normalise_scripts(text)
    assert exact_match(normal, [normal]) == 1.0


def official(text: str) -> str:
    """Return what `normalize_answer` of SQuAD 1.1's evaluate-v1.1.py returns."""
    bare = "".join(character for character in text.lower() if character not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", bare).split())


@given(st.lists(st.sampled_from([*"aAnN .,_-\t\n\0\x1c\x1f1é’。", "an", "the", "The", "theatre", "a\x00b"])).map("".join))
def test_normalisation_is_the_official_one(text: str) -> None:
    assert normalise(text) == official(text)
