import pytest
from patchwork import Change, distance, longest_common, opcodes, similarity
from patchwork.diff import closest


def test_longest_common():
    assert longest_common("abc", "abc") == [(0, 0), (1, 1), (2, 2)]
    assert longest_common("abc", "xyz") == []


@pytest.mark.parametrize(("old", "new", "length"), [("abcbdab", "bdcaba", 4), ("xaxbxc", "abc", 3), ("", "abc", 0)])
def test_longest_common_length(old, new, length):
    pairs = longest_common(old, new)
    assert len(pairs) == length
    assert all(old[i] == new[j] for i, j in pairs)
    assert pairs == sorted(pairs)


def test_opcodes():
    assert opcodes("abcd", "axcde") == [
        Change("equal", 0, 1, 0, 1),
        Change("replace", 1, 2, 1, 2),
        Change("equal", 2, 4, 2, 4),
        Change("insert", 4, 4, 4, 5),
    ]


def test_opcodes_of_deletions():
    assert opcodes("abc", "c") == [Change("delete", 0, 2, 0, 0), Change("equal", 2, 3, 0, 1)]


def test_opcodes_of_nothing():
    assert opcodes("", "") == []
    assert opcodes("ab", "ab") == [Change("equal", 0, 2, 0, 2)]


@pytest.mark.parametrize(("old", "new"), [("kitten", "sitting"), ("aaa", "aa"), ("abab", "baba"), ("", "xy"), ("xyx", "x")])
def test_opcodes_lead_from_old_to_new(old, new):
    made = ""
    for change in opcodes(old, new):
        made += new[change.new_start : change.new_end]
        if change.kind == "equal":
            assert old[change.old_start : change.old_end] == new[change.new_start : change.new_end]
    assert made == new


def test_similarity():
    assert similarity("abcd", "bcde") == 0.75
    assert similarity("", "") == 1.0
    assert similarity("a", "") == 0.0


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [("kitten", "sitting", 3), ("", "abc", 3), ("abc", "", 3), ("same", "same", 0), ("ab", "ba", 2)],
)
def test_distance(old, new, expected):
    assert distance(old, new) == expected


def test_distance_with_swaps():
    assert distance("ab", "ba", swaps=True) == 1
    assert distance("abcd", "acbd", swaps=True) == 1
    assert distance("abc", "cba", swaps=True) == 2


def test_closest():
    assert closest("colour", ["flavour", "color", "cooler"]) == "color"
    assert closest("zzz", ["color"]) is None
    assert closest("ab", ["ax", "ay"], cutoff=0.5) == "ax"
