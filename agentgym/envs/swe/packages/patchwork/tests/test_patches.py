import pytest
from patchwork import Hunk, PatchError, apply_patch, hunks_of, merge, parse_patch, unified

OLD = "".join(f"line {number}\n" for number in range(1, 21))
NEW = OLD.replace("line 3\n", "line three\n").replace("line 15\n", "")


def test_unified():
    assert unified("a\nb\nc\n", "a\nx\nc\n", "f.txt") == "--- a/f.txt\n+++ b/f.txt\n@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n"


def test_unified_of_the_same():
    assert unified(OLD, OLD) == ""


def test_far_changes_are_hunks_of_their_own():
    hunks = hunks_of(OLD.splitlines(), NEW.splitlines())
    assert [hunk.header for hunk in hunks] == ["@@ -1,6 +1,6 @@", "@@ -12,7 +12,6 @@"]


def test_near_changes_share_a_hunk():
    hunks = hunks_of(OLD.splitlines(), NEW.splitlines(), context=6)
    assert len(hunks) == 1
    assert len(hunks_of(OLD.splitlines(), NEW.splitlines(), context=5)) == 2


def test_no_context():
    (hunk,) = hunks_of(["a", "b", "c"], ["a", "c"], context=0)
    assert (hunk.header, hunk.lines) == ("@@ -2 +1,0 @@", ["-b"])


def test_hunks_of_an_empty_text():
    (hunk,) = hunks_of([], ["a", "b"])
    assert hunk.header == "@@ -0,0 +1,2 @@"


def test_reversed():
    hunk = Hunk(1, 2, 1, 1, [" a", "-b"])
    assert hunk.reversed() == Hunk(1, 1, 1, 2, [" a", "+b"])


def test_parse_is_the_inverse():
    files = parse_patch(unified(OLD, NEW, "f.txt"))
    assert files == {"f.txt": hunks_of(OLD.splitlines(), NEW.splitlines())}


def test_parse_several_files():
    files = parse_patch(unified("a\n", "b\n", "one") + unified("c\n", "d\n", "two"))
    assert {name: hunks[0].lines for name, hunks in files.items()} == {"one": ["-a", "+b"], "two": ["-c", "+d"]}


def test_parse_refuses():
    with pytest.raises(ValueError, match="shorter than it says"):
        parse_patch("+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n")
    with pytest.raises(ValueError, match="before the name"):
        parse_patch("@@ -1 +1 @@\n-a\n+b\n")


def test_apply():
    assert apply_patch(OLD, unified(OLD, NEW)) == NEW


def test_apply_in_reverse():
    assert apply_patch(NEW, unified(OLD, NEW), reverse=True) == OLD


def test_apply_to_an_empty_text():
    assert apply_patch("", unified("", "a\nb\n")) == "a\nb\n"
    assert apply_patch("a\n", unified("a\n", "")) == ""


def test_apply_to_a_text_that_has_moved():
    moved = "new\nnewer\n" + OLD
    assert apply_patch(moved, unified(OLD, NEW)) == "new\nnewer\n" + NEW


def test_apply_keeps_a_missing_end_of_line():
    assert apply_patch("a\nb", unified("a\nb\n", "a\nc\n")) == "a\nc"


def test_apply_refuses_what_does_not_fit():
    with pytest.raises(PatchError, match="hunk 2: does not fit at line 12") as error:
        apply_patch(OLD.replace("line 15", "other"), unified(OLD, NEW))
    assert error.value.hunk == 2


def test_fuzz():
    changed = OLD.replace("line 1\n", "first\n")
    with pytest.raises(PatchError):
        apply_patch(changed, unified(OLD, NEW))
    assert apply_patch(changed, unified(OLD, NEW), fuzz=1) == NEW.replace("line 1\n", "first\n")


def test_apply_needs_a_name_where_there_are_several():
    patch = unified("a\n", "b\n", "one") + unified("c\n", "d\n", "two")
    assert apply_patch("c\n", patch, name="two") == "d\n"
    assert apply_patch("x\n", patch, name="three") == "x\n"
    with pytest.raises(ValueError, match="2 files"):
        apply_patch("c\n", patch)


BASE = "a\nb\nc\nd\ne\n"


def test_merge_of_changes_apart():
    assert merge(BASE, BASE.replace("a", "A"), BASE.replace("e", "E")) == ("A\nb\nc\nd\nE\n", 0)


def test_merge_of_the_same_change():
    changed = BASE.replace("c", "C")
    assert merge(BASE, changed, changed) == (changed, 0)


def test_merge_of_one_side():
    assert merge(BASE, BASE, BASE.replace("c\n", "")) == ("a\nb\nd\ne\n", 0)
    assert merge(BASE, BASE.replace("c\n", "c\nx\n"), BASE) == ("a\nb\nc\nx\nd\ne\n", 0)


def test_conflict():
    text, conflicts = merge(BASE, BASE.replace("c", "ours"), BASE.replace("c", "theirs"), names=("me", "you"))
    assert conflicts == 1
    assert text == "a\nb\n<<<<<<< me\nours\n=======\ntheirs\n>>>>>>> you\nd\ne\n"


def test_conflict_settled():
    ours, theirs = BASE.replace("c", "ours"), BASE.replace("c", "theirs")
    assert merge(BASE, ours, theirs, prefer="ours") == (ours, 0)
    assert merge(BASE, ours, theirs, prefer="theirs") == (theirs, 0)


def test_overlapping_changes_are_one_conflict():
    ours = "a\nX\nY\nd\ne\n"
    theirs = "a\nb\nZ\nW\ne\n"
    text, conflicts = merge(BASE, ours, theirs)
    assert conflicts == 1
    assert text == "a\n<<<<<<< ours\nX\nY\nd\n=======\nb\nZ\nW\n>>>>>>> theirs\ne\n"
