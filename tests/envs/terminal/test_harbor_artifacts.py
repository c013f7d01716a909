"""What an agent's container may hand to a verifier's: archives that a hostile agent packed, and artifacts that overlap."""

import io
import os
import tarfile

import pytest

from agentgym.envs.terminal.harbor.artifacts import Artifact, _excluded, cleaned, collect


def tar(*members) -> bytes:
    """Pack (name, kind, content or target) as they stand, with every bit set."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, kind, content in members:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode, entry.uid, entry.uname = kind, 0o6777, 1000, "me"
            if kind == tarfile.REGTYPE:
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content.encode()))
            else:
                entry.linkname = content
                archive.addfile(entry)
    return made.getvalue()


FILE, FOLDER, LINK, HARD, DEVICE = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE


def names(archive: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        return [member.name for member in opened]


@pytest.mark.parametrize(
    ("members", "left"),
    [
        ([("out", FOLDER, ""), ("out/a", FILE, "1"), ("out/b", HARD, "out/a")], ["out", "out/a", "out/b"]),
        ([("out", FOLDER, ""), ("out/l", LINK, "a/b")], ["out", "out/l"]),
        ([("out", FOLDER, ""), ("out/a/l", LINK, "../b")], ["out", "out/a/l"]),
        ([("out", FOLDER, ""), ("out/l", LINK, "/tests")], ["out"]),
        ([("out", FOLDER, ""), ("out/l", LINK, "../tests")], ["out"]),
        ([("out", FOLDER, ""), ("out/l", LINK, "a/../../tests")], ["out"]),
        # A link that leads up through another, and a file below a link, before and after it.
        ([("out", FOLDER, ""), ("out/d/l", LINK, ".."), ("out/m", LINK, "d/l/../tests")], ["out", "out/d/l"]),
        ([("out", FOLDER, ""), ("out/l", LINK, "a"), ("out/l/x", FILE, "1")], ["out", "out/l"]),
        ([("out", FOLDER, ""), ("out/l/x", FILE, "1"), ("out/l", LINK, "a")], ["out", "out/l/x"]),
        ([("out", FOLDER, ""), ("out/h", HARD, "/logs/verifier/reward.txt")], ["out"]),
        ([("out", FOLDER, ""), ("out/null", DEVICE, "")], ["out"]),
        ([("out", FOLDER, ""), ("out/../tests/test.sh", FILE, "1"), ("/tests/test.sh", FILE, "1")], ["out"]),
        ([("out", FOLDER, ""), ("tests", FOLDER, ""), ("out", LINK, "tests")], ["out"]),
        ([("out", LINK, "a")], []),
        ([("out", FILE, "1"), ("out", LINK, "a"), ("tests", FILE, "1")], ["out"]),
    ],
)
def test_what_can_do_harm_does_not_arrive(members, left):
    assert names(cleaned(tar(*members))) == left


def test_hard_links_are_not_copies():
    """A thousand names of one file are as large as the file, and lead to it alone."""
    links = [(f"out/{n}", HARD, "out/a") for n in range(1000)]
    archive = tar(("out", FOLDER, ""), ("out/a", FILE, "x" * 100_000), *links)
    made = cleaned(archive)
    assert len(made) <= len(archive) and len(names(made)) == 1002
    with tarfile.open(fileobj=io.BytesIO(made)) as opened:
        assert opened.extractfile("out/999").read() == b"x" * 100_000
        assert {member.linkname for member in opened if member.islnk()} == {"out/a"}

    links = [(f"out/{n}", HARD, "out/a") for n in range(1000)]  # of a name that is left out: the first one is the file
    made = cleaned(tar(("out", FOLDER, ""), ("out/a", FILE, "x" * 100_000), *links), ("a",))
    assert len(made) < 2_000_000
    with tarfile.open(fileobj=io.BytesIO(made)) as opened:
        assert opened.extractfile("out/999").read() == b"x" * 100_000
        assert {member.linkname for member in opened if member.islnk()} == {"out/0"}


def test_a_file_that_is_larger_than_its_archive_does_not_arrive():
    """A sparse file of 64 MB in 2 KB, as an agent's own `tar` may pack it, in both forms of GNU tar."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        entry = tarfile.TarInfo("out/huge")
        entry.pax_headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": str(64 << 20), "GNU.sparse.numblocks": "1"}
        archive.addfile(entry)
        archive.addfile(tarfile.TarInfo("out/small"))
    assert names(cleaned(made.getvalue())) == ["out/small"]
    old = bytearray(tar(("out/huge", tarfile.GNUTYPE_SPARSE, "")))
    old[257:265] = b"ustar  \0"
    old[386:398] = old[398:410] = b"%011o\0" % 0
    old[483:495] = b"%011o\0" % ((64 << 20) - 1)
    old[148:156] = b" " * 8
    old[148:156] = b"%06o\0 " % sum(old[:512])
    assert names(bytes(old)) == ["out/huge"] and names(cleaned(bytes(old))) == []


def test_what_arrives_is_roots_and_readable():
    with tarfile.open(
        fileobj=io.BytesIO(cleaned(tar(("o", FOLDER, ""), ("o/a", FILE, "1"), ("o/b", HARD, "o/a"))))
    ) as opened:
        members = list(opened)
        assert [(m.mode, m.uid, m.uname) for m in members] == [(0o755, 0, "root")] * 3
        assert members[2].islnk() and opened.extractfile(members[2]).read() == b"1"


@pytest.mark.parametrize(
    "pattern", ["*.pyc", "node_modules", "a/b", "b/c.txt", "./a/b", "a/*/d", "c.*", "b", "a", "**", "d/e", "x", "?", "[ab]"]
)
def test_patterns_are_those_of_gnu_tar(pattern, tmp_path):
    places = ["a/b/c.txt", "a/b.pyc", "d/e/f", "node_modules/x/y", "z/node_modules", "a/x/d/q", "top"]
    for place in places:
        (tmp_path / "s" / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "s" / place).write_text("1")
    archive = tmp_path / "made.tar"
    assert os.system(f"cd {tmp_path}/s && tar cf {archive} '--exclude={pattern}' .") == 0
    with tarfile.open(archive) as opened:
        genuine = sorted(member.name.removeprefix("./") for member in opened if member.isreg())
    assert sorted(place for place in places if not _excluded(place, [pattern])) == genuine


class Container:
    """Files by path, and what was run; the shape of a sandbox as `collect` sees it."""

    def __init__(self, **files):
        self.files, self.ran = files, []

    def run_as(self, user, command, timeout):
        self.ran.append((user, command[-1], timeout))

    def copy_out(self, path):
        if path.rpartition("/")[2] not in self.files:
            raise FileNotFoundError(path)
        return self.files[path.rpartition("/")[2]]


def test_the_first_of_artifacts_that_overlap_is_collected():
    container = Container(
        app=tar(("app", FOLDER, ""), ("app/x", FILE, "1")), x=tar(("x", FILE, "2")), y=tar(("y", FILE, "3"))
    )
    listed = [Artifact("/app", exclude=("x",)), Artifact("/app/x"), Artifact("/y"), Artifact("/absent")]
    found = collect(container, "/", (), listed)
    assert {path: names(archive) for path, archive in found.items()} == {"/app": ["app"], "/y": ["y"]}
    assert list(collect(container, "/", (), [Artifact("/app"), Artifact("/app/x")])) == ["/app", "/app/x"]
    assert list(collect(container, "/", (), [Artifact("/x", "o"), Artifact("/y", "o")])) == ["/x"]
