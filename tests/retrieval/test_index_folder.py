"""Index folders: made whole or not at all, by one of several processes, read by all, refused where they are another's."""

import gzip
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from retrievers import DOCUMENTS, ids, world_documents, write_corpus

from agentgym.cli import main
from agentgym.errors import BadConfig, BadData
from agentgym.retrieval import Document
from agentgym.retrieval.disk import DiskIndex, build_disk_index
from agentgym.retrieval.opening import open_retriever

BUILD = (
    "import sys; from agentgym.retrieval.disk import build_disk_index;"
    "said = []; index = build_disk_index(sys.argv[1], sys.argv[2], lambda *what: said.append(what));"
    "print(len(said), index.size, *[hit.document.id for hit in index.search(['town festival'], 5)[0]])"
)


def test_two_processes_that_build_one_folder_make_one_index(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "c.jsonl", world_documents())
    command = [sys.executable, "-c", BUILD, corpus, str(tmp_path / "index")]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    (first, *found), (second, *same) = [process.communicate(timeout=400)[0].split() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted([first, second])[0] == "0" and int(max(first, second)) > 0  # the other one found it made
    assert found == same and found[0] == "330" and len(found) == 6
    assert not (tmp_path / "index.partial").exists()


def test_a_second_build_waits_for_the_first(tmp_path: Path) -> None:
    corpus, index = write_corpus(tmp_path / "c.jsonl", DOCUMENTS), tmp_path / "index"
    there, go, messages = threading.Event(), threading.Event(), list[str]()

    def pause(what: str, done: int, total: int | None) -> None:
        there.set()
        go.wait(60)

    first = threading.Thread(target=build_disk_index, args=(corpus, index, pause))
    second = threading.Thread(target=build_disk_index, args=(corpus, index, lambda what, *_: messages.append(what)))
    first.start()
    assert there.wait(60)
    second.start()
    second.join(1)
    assert second.is_alive() and not index.exists()
    go.set()
    first.join(60)
    second.join(60)
    assert messages == [] and DiskIndex(index).size == 4


def test_two_processes_share_an_index_while_a_third_is_killed(tmp_path: Path) -> None:
    build_disk_index(write_corpus(tmp_path / "c.jsonl", world_documents()), tmp_path / "index")
    ask = (
        "import sys; from agentgym.retrieval.disk import DiskIndex; index = DiskIndex(sys.argv[1]);"
        "found = lambda: [hit.document.id for hit in index.search(['town festival'], 5)[0]];"
        "print(*found(), flush=True); sys.stdin.readline(); print(*found())"
    )
    command = [sys.executable, "-c", ask, str(tmp_path / "index")]
    three = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    before = [process.stdout.readline() for process in three if process.stdout]
    three[0].kill()
    after = [process.communicate("\n", timeout=300)[0] for process in three]
    assert len(set(before)) == 1 and before[0].split() and after == ["", before[1], before[2]]


def test_a_killed_build_is_gone_on_with(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "c.jsonl", [Document(str(i), f"t{i}", "red fox") for i in range(12_000)])
    waits = BUILD.replace("said.append(what)", "(print(what, flush=True), __import__('time').sleep(60))")
    with subprocess.Popen(
        [sys.executable, "-c", waits, corpus, str(tmp_path / "index")], stdout=subprocess.PIPE, text=True
    ) as killed:
        assert killed.stdout is not None and "reading documents" in killed.stdout.readline()
        killed.send_signal(signal.SIGKILL)
    assert (tmp_path / "index.partial").exists() and not (tmp_path / "index").exists()
    with pytest.raises(BadConfig, match=r"no index at .*index.partial is an unfinished one\); make it: agentgym index"):
        open_retriever(f"tantivy:{tmp_path / 'index'}")
    index = build_disk_index(corpus, tmp_path / "index")
    assert index.size == 12_000 and ids(index, "t777", 2) == ["777"]


def test_what_was_read_is_not_read_again_but_a_changed_corpus_is(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "c.jsonl", DOCUMENTS)

    def stop(what: str, done: int, total: int | None) -> None:
        if what == "indexing":
            raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            build_disk_index(corpus, tmp_path / "index", stop)
        store = tmp_path / "index.partial" / "documents.sqlite"
        written = store.stat().st_ino
    with pytest.raises(KeyboardInterrupt):
        build_disk_index(corpus, tmp_path / "index", stop)
    assert store.stat().st_ino == written
    write_corpus(tmp_path / "c.jsonl", DOCUMENTS[:2])
    assert build_disk_index(corpus, tmp_path / "index").size == 2


def test_an_index_of_another_corpus_is_refused(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "c.jsonl", DOCUMENTS)
    index = tmp_path / "index"
    build_disk_index(corpus, index)
    os.utime(corpus, (1, 1))  # copied: another date, the same bytes
    assert build_disk_index(corpus, index).size == DiskIndex(index, corpus).size == 4
    write_corpus(tmp_path / "c.jsonl", [*DOCUMENTS[:3], Document("d", "Grey", "stone hall")])
    for make in (build_disk_index, lambda corpus, folder: open_retriever(f"tantivy:{folder}", corpus)):
        with pytest.raises(BadConfig, match=r"is the index of another corpus \(c.jsonl\)"):
            make(corpus, index)


def test_folders_that_are_no_index(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "c.jsonl", DOCUMENTS)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(BadConfig, match="holds something that is not an index"):
        build_disk_index(corpus, tmp_path / "mine")
    (tmp_path / "other.partial").mkdir()
    (tmp_path / "other.partial" / "thesis.txt").write_text("years of work")
    with pytest.raises(BadConfig, match="holds something that no build left"):
        build_disk_index(corpus, tmp_path / "other")
    assert (tmp_path / "mine" / "thesis.txt").exists() and (tmp_path / "other.partial" / "thesis.txt").exists()
    for name, words in (
        ("tantivy:", "expected 'bm25s'"),
        ("bm25", "expected 'bm25s'"),
        (f"tantivy:{tmp_path}/no", "make it"),
    ):
        with pytest.raises(BadConfig, match=words):
            open_retriever(name)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "dense"}, "is an index of kind 'dense', not 'tantivy'"),
        ({"format": 2}, "make the index again"),
        ({"analyser": "words-0"}, "make the index again"),
        ({"documents": 5}, "holds 4 documents, index.json says 5"),
        ({"documents": "4"}, "documents is '4'"),
    ],
)
def test_a_manifest_that_does_not_fit(tmp_path: Path, change: dict[str, object], words: str) -> None:
    build_disk_index(write_corpus(tmp_path / "c.jsonl", DOCUMENTS), tmp_path / "index")
    manifest = tmp_path / "index" / "index.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), **change}))
    with pytest.raises((BadConfig, BadData), match=words):
        DiskIndex(tmp_path / "index")


GOOD = '{"id": "0", "contents": "\\"A\\"\\nx"}\n'


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (GOOD + "\n{", "c.jsonl, line 3: Expecting property name"),
        (GOOD + "[1]\n", "line 2: '\\[1\\]'; expected a JSON object"),
        (GOOD + '{"id": "1"}\n', "line 2: a document with the keys \\['id'\\]"),
        (GOOD + '{"id": true, "contents": "x"}\n', "line 2: id is 'True'"),
        (GOOD + '{"id": "1", "contents": " "}\n', "line 2: contents is ' '; expected text"),
        (GOOD + GOOD.replace("x", "y"), "the id '0' is that of document 1 and of document 2"),
        ("\n", "holds no document"),
    ],
)
def test_bad_lines_are_named_and_leave_no_index(tmp_path: Path, lines: str, words: str) -> None:
    (tmp_path / "c.jsonl").write_text(lines)
    with pytest.raises(BadData, match=words):
        build_disk_index(str(tmp_path / "c.jsonl"), tmp_path / "index")
    assert not (tmp_path / "index").exists()
    (tmp_path / "c.jsonl").write_text(GOOD)
    assert build_disk_index(str(tmp_path / "c.jsonl"), tmp_path / "index").size == 1


def test_compressed_passages_are_read_in_a_stream(tmp_path: Path) -> None:
    """40 MB of passages, packed into little, are read with a peak of memory far below that."""
    with gzip.open(tmp_path / "c.jsonl.gz", "wt", compresslevel=1) as file:
        for number in range(400):
            file.write(json.dumps({"id": str(number), "contents": f'"Title {number}"\n{"red fox " * 12_500}'}) + "\n")
    code = (
        "import resource, sys; from agentgym.retrieval.documents import read_documents;"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        "print(sum(1 for _ in read_documents(sys.argv[1])), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "c.jsonl.gz")], capture_output=True, text=True, check=True
    )
    count, grown = map(int, done.stdout.split())
    assert count == 400 and grown < 15_000  # KiB
    with pytest.raises(BadData, match="damaged or cut short"):
        (tmp_path / "cut.jsonl.gz").write_bytes((tmp_path / "c.jsonl.gz").read_bytes()[:-20])
        build_disk_index(str(tmp_path / "cut.jsonl.gz"), tmp_path / "index")


def test_the_command_makes_an_index_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = write_corpus(tmp_path / "c.jsonl", DOCUMENTS)
    assert main(["index", corpus, str(tmp_path / "index")]) == 0
    assert f"tantivy:{tmp_path / 'index'} has 4 documents" in capsys.readouterr().out
    assert main(["index", corpus, str(tmp_path / "index")]) == 0  # nothing to do
    capsys.readouterr()
    for flags, words in (
        (["--kind", "sparse"], "no kind of index 'sparse'"),
        (["--kind", "dense"], "a dense index needs --encoder"),
        (["--kind", "dense", "--encoder", "nowhere"], "no encoder at 'nowhere'"),
    ):
        assert main(["index", corpus, str(tmp_path / "other"), *flags]) == 2
        assert words in capsys.readouterr().err
    assert main(["index", str(tmp_path / "no.jsonl"), str(tmp_path / "other")]) == 2
    assert "no file" in capsys.readouterr().err


def test_an_open_index_outlives_its_threads(tmp_path: Path) -> None:
    index = build_disk_index(write_corpus(tmp_path / "c.jsonl", world_documents()), tmp_path / "index")
    expected, found = ids(index, "town festival", 9), list[list[str]]()
    for _ in range(3):
        threads = [threading.Thread(target=lambda: found.append(ids(index, "town festival", 9))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [expected] * 24
    child = os.fork()  # a connection that came through a fork is not used
    if child == 0:
        os._exit(0 if ids(index, "town festival", 9) == expected else 1)
    assert os.waitpid(child, 0) == (child, 0)
