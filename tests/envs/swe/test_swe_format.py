"""The format of software engineering tasks: edits, what the agent gets, what is graded, and the file."""

import io
import json
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.envs.swe.maker.edits import edits_between
from agentgym.envs.swe.tasks import Edit, Instance, Repository, read, source, write
from agentgym.envs.swe.tasks.instance import diff, edited
from agentgym.envs.swe.tasks.source import digest, pack, tree_of, unpack
from agentgym.envs.swe.tasks.suite import is_protected, without_tests
from agentgym.errors import BadData, UnknownName
from agentgym.tasks.reading import Reading

CODE = "def double(number):\n    return 2 * number  # twice\n\n\ndef half(number):\n    return number / 2\n"
TESTS = """import shop


# this one is hidden
@decorated
def test_double():
    assert shop.double(2) == 4


def test_half():
    assert shop.half(4) == 2


class TestBoth:
    def test_there_and_back(self):
        assert shop.half(shop.double(3)) == 3
"""


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "shop"
    (root / "tests").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("secret")
    (root / "shop.py").write_text(CODE)
    (root / "tests" / "test_shop.py").write_text(TESTS)
    (root / "setup.cfg").write_text("[tool:pytest]\n")
    return root


@pytest.fixture
def instance(folder):
    ids = ["double", "half", "TestBoth"]
    tests = (
        "tests/test_shop.py::test_double",
        "tests/test_shop.py::test_half",
        "tests/test_shop.py::TestBoth::test_there_and_back",
    )
    repository = Repository("shop", str(folder), digest(tree_of(str(folder))), "train", tests)
    bug = (Edit("shop.py", "    return 2 * number  # twice\n", "    return 3 * number  # twice\n"),)
    assert len(ids) == 3
    return Instance(
        "shop-1", repository, "double is wrong", bug, (tests[0], tests[2]), (tests[1],), "wrong constant", 1, 0.25
    )


def test_an_edit_replaces_whole_lines_that_occur_once():
    tree = {"a": b"x = 1\nxx = 1\n"}
    Edit("a", "x = 1\n", "x = 2\n").apply(tree)  # the second line ends with the same text
    assert tree == {"a": b"x = 2\nxx = 1\n"}


@pytest.mark.parametrize(("text", "times"), [("y = 1\n", 0), ("x = 1\nx = 1\n", 2), ("", 0)])
def test_an_edit_that_fits_not_or_twice_is_refused(text, times):
    with pytest.raises(BadData, match=f"found them {times} times"):
        Edit("a", "x = 1\n", "x = 2\n").apply({"a": text.encode()})


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abcd"), max_size=12), st.booleans())
def test_edits_lead_there_and_back(old, new, ends):
    before, after = ("\n".join(lines) + ("\n" if ends else "") for lines in (old, new))
    if not before.strip() or not after.strip():
        return
    trees = {"f": before.encode()}, {"f": after.encode()}
    edits = edits_between(*trees)
    assert edited(trees[0], edits) == trees[1]
    assert edited(trees[1], [edit.back for edit in reversed(edits)]) == trees[0]


def test_the_agent_gets_the_bug_and_not_the_tests_that_notice_it(instance):
    broken = instance.broken()
    assert b"3 * number" in broken["shop.py"]
    text = broken["tests/test_shop.py"].decode()
    assert text == "import shop\n\n\n\n\ndef test_half():\n    assert shop.half(4) == 2\n\n\nclass TestBoth:\n    pass\n"
    assert edited(broken, instance.gold)["shop.py"] == CODE.encode()


def test_tests_with_parameters_go_as_a_whole():
    tree = {"t.py": b"@mark([1, 2])\ndef test_a(x):\n    pass\n\n\ndef test_ab():\n    pass\n"}
    assert without_tests(tree, ["t.py::test_a[2-[x]::y]"]) == {"t.py": b"\n\ndef test_ab():\n    pass\n"}


def test_what_is_graded_has_the_clean_tests_and_configuration(instance):
    tree = instance.broken()
    tree["shop.py"] = b"mended = True\n"
    tree["tests/test_shop.py"] = b"def test_double():\n    pass\n"
    del tree["setup.cfg"]
    hostile = [
        "conftest.py",
        "pytest.ini",
        ".pytest.ini",
        "tests/test_more.py",
        "pkg/conftest.py",
        "pkg/test/data.txt",
        "tox.ini",
    ]
    caches = ["__pycache__/shop.cpython-311.pyc", "tests/__pycache__/x", "shop.pyc"]
    graded = instance.graded({**tree, **dict.fromkeys([*hostile, *caches], b"evil"), "helper.py": b"mine"})
    assert graded == {
        "shop.py": b"mended = True\n",
        "helper.py": b"mine",
        "tests/test_shop.py": TESTS.encode(),
        "setup.cfg": b"[tool:pytest]\n",
    }


@pytest.mark.parametrize(
    ("path", "protected"),
    [("tests/data.json", True), ("a/test/x.py", True), ("a/test_x.py", True), ("x_test.py", True), ("pyproject.toml", True),
     ("testing/x.py", False), ("contest.py", False), ("latest/x.py", False), ("a/attest.py", False)],
)  # fmt: skip
def test_what_is_protected(path, protected):
    assert is_protected(path) is protected


def test_the_patch_is_a_diff(instance):
    assert instance.patch() == (
        "--- a/shop.py\n+++ b/shop.py\n@@ -1,5 +1,5 @@\n def double(number):\n"
        "-    return 3 * number  # twice\n+    return 2 * number  # twice\n \n \n def half(number):\n"
    )
    assert diff({"a": b"x"}, {}) == "--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\\ No newline at end of file\n"


def test_a_form_feed_ends_no_line():
    patch = diff({"a.py": "x\x0cy\u2028\nz\n".encode()}, {"a.py": "x\x0cy\u2028\nw\n".encode()})
    assert patch == "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n x\x0cy\u2028\n-z\n+w\n"
    tests = b"NAME = 'a'\n\x0c\n\ndef test_a():\n    assert 1\n\ndef test_b():\n    assert 2\n"
    left = without_tests({"test_a.py": tests}, ["test_a.py::test_a"])["test_a.py"]
    assert left == b"NAME = 'a'\n\x0c\n\n\ndef test_b():\n    assert 2\n"


def test_a_repository_that_has_changed_is_refused(instance, folder):
    (folder / "shop.py").write_text("new = 1\n")
    with pytest.raises(BadData, match="not the files that the tasks of 'shop' were made from"):
        instance.base()


def test_a_file_of_tasks_is_read_back(instance, folder, tmp_path):
    write(tmp_path / "tasks.jsonl", [instance])
    assert json.loads((tmp_path / "tasks.jsonl").read_text().splitlines()[0])["source"] == "shop"
    assert read(tmp_path / "tasks.jsonl") == [instance]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"of": "other"}, "line 2: repository 'other' has no line"),
        ({"fail_to_pass": []}, "line 2: fail_to_pass is"),
        ({"fail_to_pass": ["tests/test_shop.py::nothing"]}, "line 2: fail_to_pass is"),
        ({"fail_to_pass": "all"}, "line 2: 'all' is not a list"),
        ({"issue": None, "bug": [{"path": "x"}]}, "line 2: 'old' is missing"),
    ],
)
def test_bad_lines_are_named(instance, tmp_path, change, message):
    file = tmp_path / "tasks.jsonl"
    write(file, [instance])
    head, task = file.read_text().splitlines()
    file.write_text(head + "\n" + json.dumps({**json.loads(task), **change}))
    with pytest.raises(BadData, match=message):
        read(file)
    file.write_text(head + "\n{\n")
    with pytest.raises(BadData, match="line 2"):
        read(file)


def test_one_bad_line_refuses_no_file_and_text_that_nobody_reads_does(instance, tmp_path):
    file = tmp_path / "tasks.jsonl"
    write(file, [instance])
    head, task = file.read_text().splitlines()
    bad = json.dumps({**json.loads(task), "id": "b", "fail_to_pass": []})
    file.write_text(f"{head}\n{task}\n{bad}\n{task}\n")
    with pytest.warns(UserWarning, match=r"2 of 3 rows are not played.*line 3: fail_to_pass is"):
        assert read(file) == [instance]
    with pytest.raises(BadData, match="line 3: fail_to_pass is"):
        read(file, Reading(strict=True))
    file.write_text(f"{head}\n{task}\n" + json.dumps({**json.loads(task), "id": "c", "context": "Read this first."}))
    with pytest.raises(BadData, match=r"column 'context' holds 'Read this first\.'"):
        read(file)
    assert [one.id for one in read(file, Reading(ignore=("context",)))] == [instance.id, "c"]
    file.write_text(f'{{"repository": "x"}}\n{task}')  # all its tasks lean on a repository
    with pytest.raises(BadData, match="line 1: 'source' is missing"):
        read(file)


def test_folders_and_archives_are_one_repository(folder, tmp_path):
    tree = tree_of(str(folder))
    assert sorted(tree) == ["setup.cfg", "shop.py", "tests/test_shop.py"]
    (tmp_path / "shop-1.0.tar").write_bytes(pack({f"shop-1.0/{path}": content for path, content in tree.items()}))
    assert tree_of(str(tmp_path / "shop-1.0.tar")) == tree
    assert unpack(pack(tree)) == tree
    assert unpack(pack({f"r/{path}": content for path, content in tree.items()}), "r") == tree


def test_a_second_name_of_a_file_is_a_file(monkeypatch):
    """Also of one outside the folder; a thousand names of a large one are left out, as is a file that claims its size."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        file = tarfile.TarInfo("kept.py")
        file.size = 1000
        archive.addfile(file, io.BytesIO(b"x" * 1000))
        for name, target in (("r/a.py", "kept.py"), ("r/gone.py", "absent"), *((f"r/{n}", "kept.py") for n in range(1000))):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.LNKTYPE, target
            archive.addfile(link)
        huge = tarfile.TarInfo("r/huge")
        huge.pax_headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": str(64 << 20), "GNU.sparse.numblocks": "1"}
        archive.addfile(huge)
    monkeypatch.setattr(source, "LARGEST", 3000)
    assert unpack(made.getvalue(), "r") == dict.fromkeys(("a.py", "0", "1"), b"x" * 1000)


def test_archives_that_are_none_or_lead_out(tmp_path):
    (tmp_path / "a.tar.gz").write_bytes(b"\x1f\x8bnothing")
    with pytest.raises(BadData, match=r"a\.tar\.gz: no readable tar archive"):
        tree_of(str(tmp_path / "a.tar.gz"))
    with tarfile.open(tmp_path / "b.tar", "w") as archive:
        for name in ("../evil.py", "p/../../evil.py", "p/good.py"):
            member = tarfile.TarInfo(name)
            member.size = 1
            archive.addfile(member, io.BytesIO(b"x"))
        link = tarfile.TarInfo("p/link.py")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    assert tree_of(str(tmp_path / "b.tar")) == {"good.py": b"x"}
    with pytest.raises(FileNotFoundError):
        tree_of(str(tmp_path / "absent"))
    with pytest.raises(UnknownName, match="Did you mean 'spans'"):
        tree_of("package:span")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadData, match="no Python file"):
        tree_of(str(tmp_path / "empty"))
