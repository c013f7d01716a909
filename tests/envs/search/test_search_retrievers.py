"""The search worlds over every retriever: the same episodes, snapshots, files of sets, and what a dead server does."""

import gzip
import json
import pickle
import socket
import threading
from collections.abc import Generator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import agentgym
from agentgym.agents.policies import OracleAgent
from agentgym.contract import check
from agentgym.envs.search import Search, SearchR1
from agentgym.episodes.episode import Episode
from agentgym.errors import BadConfig, BadData
from agentgym.retrieval.disk import build_disk_index

pytest.importorskip("tantivy", reason="needs the extra `search-disk`")
pytest.importorskip("httpx2", reason="needs the extra `serve`")

from retrievers import make_encoder, serving, world_documents, write_corpus


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Generator[dict[str, str]]:
    """Documents of a world, questions about them, and a name of every retriever."""
    folder = tmp_path_factory.mktemp("searched")
    documents = world_documents(0)
    corpus = write_corpus(folder / "c.jsonl", documents)
    questions = [
        {"id": f"q{i}", "question": f"What is {d.title}", "golden_answers": [d.title], "supporting_titles": [d.title]}
        for i, d in enumerate(documents[:30])
    ]
    (folder / "q.jsonl").write_text("".join(json.dumps(question) + "\n" for question in questions))
    build_disk_index(corpus, folder / "index")
    with serving("--index", str(folder / "index")) as (url, _):
        yield {
            "corpus": corpus,
            "questions": str(folder / "q.jsonl"),
            "tantivy": f"tantivy:{folder / 'index'}",
            "http": url.removesuffix("/retrieve"),
            "folder": str(folder),
        }


def options(place: dict[str, str], kind: str) -> dict[str, Any]:
    where = {"corpus": place["corpus"]} if kind == "bm25s" else {"retriever": place[kind]}
    return {"questions": place["questions"], "split": "all", **where}


def played(env: Any, actions: list[str]) -> list[tuple[str, float, Any]]:
    env.reset(seed=1, options={"task": "q3"})
    found = []
    for action in actions:
        text, reward, _, _, info = env.step(action)
        found.append((text, reward, info["metrics"]))
    return found


@pytest.mark.parametrize("kind", ["tantivy", "http"])
def test_every_retriever_plays_the_same_episode(place: dict[str, str], kind: str) -> None:
    memory, other = SearchR1(**options(place, "bm25s")), SearchR1(**options(place, kind))
    title = memory.find("q3").data["answers"][0]
    actions = [f"<search>{title}</search>", "<search>town festival</search>", "<search>zzz</search>", "no tags"]
    assert played(memory, actions) == played(other, actions)
    assert played(other, [*actions, f"<answer>{title}</answer>"])[-1][1] == 1.0
    one, two = Search(**options(place, "bm25s")), Search(**options(place, kind))
    opened = [f"search[{title}]", f"open[{title}]", "open[no such thing]", "search[]"]
    first, second = played(one, opened), played(two, opened)
    assert second[1] == first[1] and second[3] == first[3] and second[0][2] == first[0][2]
    if kind == "tantivy":
        assert second[0] == first[0]
    else:  # whether a title is a document's own is not known over there: the id stands beside it
        assert [line.partition(", id: ")[0] for line in second[0][0].split("\n")] == [
            line.partition(")")[0] for line in first[0][0].split("\n")
        ]


@pytest.mark.parametrize("kind", ["tantivy", "http"])
def test_snapshots_go_on_without_asking_again(place: dict[str, str], kind: str) -> None:
    env, other = Search(**options(place, kind)), Search(**options(place, kind))
    env.reset(options={"task": "q3"})
    env.step("search[town festival]")
    env.step("open[3]")
    other.restore(pickle.loads(pickle.dumps(env.snapshot())))
    assert other.info() == env.info()
    for action in ("open[5]", "search[founder]", "open[The Nowhere]"):
        assert other.step(action) == env.step(action)


CHECKS = [
    "same again",
    "nasty actions",
    "info schema",
    "equal keys",
    "snapshots here",
    "oracle recovers",
    "infrastructure errors",
    "splits are disjoint",
]


@pytest.mark.parametrize("id", ["rlvr/Search-v0", "rlvr/SearchR1-v0"])
def test_the_checks_pass_on_disk(place: dict[str, str], id: str) -> None:
    report = check(id, checks=CHECKS, **options(place, "tantivy"))
    assert report.ok, str(report)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tantivy", "http"])
def test_the_checks_pass_in_other_processes_too(place: dict[str, str], kind: str) -> None:
    report = check("rlvr/Search-v0", checks=[*CHECKS, "same elsewhere", "snapshots elsewhere"], **options(place, kind))
    assert report.ok, str(report)


def test_dense_documents_are_searched_and_opened(place: dict[str, str], tmp_path: Path) -> None:
    pytest.importorskip("faiss", reason="needs the extra `dense`")
    from agentgym.retrieval.dense import build_dense_index

    encoder = make_encoder(tmp_path, [document.contents for document in world_documents(0)])
    build_dense_index(place["corpus"], tmp_path / "index", encoder)
    env = Search(questions=place["questions"], retriever=f"dense:{tmp_path / 'index'}:{encoder}", split="all")
    env.reset(options={"task": "q3"})
    listed = env.step("search[a town]")[0]
    assert listed.count("Doc ") == 3
    other = Search(questions=place["questions"], retriever=f"dense:{tmp_path / 'index'}:{encoder}", split="all")
    other.reset(options={"task": "q3"})
    assert other.step("search[a town]")[0] == listed
    assert all(env.step(action)[1] == 0 or action.startswith("answer") for action in list(env.oracle()))
    assert env.success and env.info()["metrics"]["evidence"] == 1.0


def killed(process: Any) -> None:
    process.kill()
    process.wait()


def test_a_server_killed_in_the_middle_truncates_the_episode_as_a_fault(place: dict[str, str], monkeypatch: Any) -> None:
    from agentgym.retrieval import client

    monkeypatch.setattr(
        client.Client.__init__, "__kwdefaults__", {"timeout": 5.0, "retries": 2, "backoff": 0.01, "seconds": 9.0}
    )
    with serving("--corpus", place["corpus"]) as (url, process):
        env = Search(questions=place["questions"], retriever=url, split="all")
        unharmed = Search(**options(place, "http"))
        for one in (env, unharmed):
            one.reset(options={"task": "q3"})
            assert not one.step("search[town]")[3]
        killed(process)
        text, reward, terminated, truncated, info = env.step("search[festival]")
        assert (text, reward, terminated, truncated) == ("", 0.0, False, True)
        assert (info["reason"], info["success"], info["valid"]) == ("engine", None, True)
        assert "no answer from" in info["error"]
        assert not unharmed.step("search[festival]")[3]


class Picky(BaseHTTPRequestHandler):
    """A retriever that refuses some queries, and all of them while it is down."""

    down = False

    def do_POST(self) -> None:
        [query] = json.loads(self.rfile.read(int(self.headers["content-length"])))["queries"]
        status = 422 if "wild" in query else 500 if "broken" in query or type(self).down else 200
        document = {"id": "1", "contents": "Red\nfox"}
        content = {"result": [[{"document": document, "score": 1.0}]]} if status == 200 else {"detail": f"no {query}"}
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, *_: object) -> None:
        pass


def test_a_query_that_the_server_refuses_is_an_invalid_action(tmp_path: Path, monkeypatch: Any) -> None:
    from agentgym.retrieval import client

    few = {"timeout": 5.0, "retries": 1, "backoff": 0.01, "seconds": 9.0}
    monkeypatch.setattr(client.Client.__init__, "__kwdefaults__", few)
    row = {"id": "q", "question": "What is red", "golden_answers": ["fox"]}
    (tmp_path / "q.jsonl").write_text(json.dumps(row) + "\n")
    with ThreadingHTTPServer(("127.0.0.1", 0), Picky) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        env = Search(questions=str(tmp_path / "q.jsonl"), retriever=address, split="all")
        env.reset()
        for action, words in (
            ("search[wild card]", "status 422"),
            ("search[broken words]", "status 500"),
            ("open[wild title]", "no wild title"),
        ):
            text, _, terminated, truncated, info = env.step(action)
            assert words in text and (info["valid"], terminated, truncated) == (False, False, False)
        assert "fox" in env.step("search[red]")[0]
        Picky.down = True
        info = env.step("search[red]")[4]
        assert (info["success"], info["reason"]) == (None, "engine")
        server.shutdown()


@pytest.mark.slow
def test_a_rollout_waits_for_a_server_that_comes_back(place: dict[str, str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    flags = ("--corpus", place["corpus"], "--port", port)
    with ExitStack() as servers:
        url, process = servers.enter_context(serving(*flags))

        def restart(_: Episode) -> None:
            if process.poll() is None:
                killed(process)
                servers.enter_context(serving(*flags))

        where = {"questions": place["questions"], "retriever": url}
        episodes = agentgym.collect(
            OracleAgent(),
            "rlvr/Search-v0",
            split="all",
            tasks=8,
            config=agentgym.RolloutConfig(concurrency=2, workers=1),
            env_options=where,
            progress=restart,
        )
    assert [episode.reason for episode in episodes] == ["success"] * 8


@pytest.mark.slow
def test_a_rollout_over_a_dead_server_ends_in_faults_that_are_no_failures(place: dict[str, str]) -> None:
    with serving("--corpus", place["corpus"]) as (url, process):
        where = {"questions": place["questions"], "retriever": url}
        episodes = agentgym.collect(
            OracleAgent(),
            "rlvr/Search-v0",
            split="all",
            tasks=3,
            config=agentgym.RolloutConfig(concurrency=1, workers=1),
            env_options=where,
            progress=lambda _: killed(process),
        )
    assert [(episode.reason, episode.success, episode.fault) for episode in episodes] == [
        ("success", True, False),
        *[("engine", None, True)] * 2,
    ]


# Sets of questions

TITLE = world_documents(0)[3].title


def write_set(folder: Path, name: str, **splits: int) -> None:
    """Write a set as FlashRAG has it; of hotpotqa the lines name their supporting facts."""
    (folder / name).mkdir(parents=True)
    for split, count in splits.items():
        rows = [
            {"id": f"{split}_{i}", "question": f"{name} {split} {i}?", "golden_answers": ["a", "b"], "metadata": {}}
            for i in range(count)
        ]
        if name == "hotpotqa":
            facts = {"title": [TITLE, TITLE, "Elsewhere"], "sent_id": [0, 1, 0]}
            rows = [{**row, "metadata": {"type": "bridge", "supporting_facts": facts}} for row in rows]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        path = folder / name / f"{split}.jsonl"
        if split == "train":
            path.with_suffix(".jsonl.gz").write_bytes(gzip.compress(text.encode()))
        else:
            path.write_text(text)


PUBLISHED: dict[str, dict[str, int]] = {
    "nq": {"train": 7, "dev": 2, "test": 3},
    "triviaqa": {"train": 5, "dev": 2, "test": 2},
    "popqa": {"test": 4},
    "hotpotqa": {"train": 6, "dev": 3},
    "2wikimultihopqa": {"train": 3, "dev": 2},
    "musique": {"train": 3, "dev": 2},
    "bamboogle": {"test": 2},
}


def test_the_seven_sets_keep_their_published_splits(place: dict[str, str], tmp_path: Path) -> None:
    for name, splits in PUBLISHED.items():
        write_set(tmp_path / "FlashRAG", name, **splits)
    where = {"retriever": place["tantivy"], "questions": str(tmp_path / "FlashRAG")}
    for split in ("train", "dev", "test"):
        env = Search(**where, split=split)
        tasks = env.tasks(env.size(split) or 0)
        counted = {name: sum(task.data["type"] == name for task in tasks) for name in PUBLISHED}
        assert counted == {name: splits.get(split, 0) for name, splits in PUBLISHED.items()}
        assert {task.split for task in tasks} == {split}
    assert set(env.splits) == {"train", "dev", "test", "all"}
    one = Search(retriever=place["tantivy"], questions=str(tmp_path / "FlashRAG" / "nq"), split="test")
    assert [task.id for task in one.tasks(3)] == ["nq/test_0", "nq/test_1", "nq/test_2"]
    two = SearchR1(
        retriever=place["tantivy"], questions=f"{tmp_path}/FlashRAG/nq, {tmp_path}/FlashRAG/bamboogle", split="test"
    )
    assert two.size() == 5
    hotpot = Search(retriever=place["tantivy"], questions=str(tmp_path / "FlashRAG" / "hotpotqa"), split="dev")
    hotpot.reset(options={"task": "hotpotqa/dev_1"})
    assert hotpot.task.data["titles"] == [TITLE, "Elsewhere"]
    assert hotpot.step(f"open[{TITLE}]")[4]["metrics"]["evidence"] == 0.5


def test_sets_that_are_damaged_are_named(place: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "nq").mkdir()
    with pytest.raises(BadData, match=r"holds no set of questions; expected train\.jsonl"):
        Search(retriever=place["tantivy"], questions=str(tmp_path))
    (tmp_path / "nq" / "dev.jsonl").write_text('{"question": "a", "golden_answers": ["x"]}\n{"question": "b"}\n')
    with pytest.raises(BadData, match=r"dev.jsonl, line 2: no golden_answers, answers or answer"):
        Search(retriever=place["tantivy"], questions=str(tmp_path), split="dev", strict=True)
    with pytest.raises(BadData, match="no file or folder"):
        Search(retriever=place["tantivy"], questions=str(tmp_path / "no"))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"retriever": "tantivy:x"}, "give questions=FILE too"),
        ({"retriever": "tantivy:x", "data": "y"}, "give questions=FILE too"),
        ({"retriever": "elastic", "questions": "q"}, "expected 'bm25s', 'tantivy:FOLDER'"),
        ({"retriever": "http://127.0.0.1:9", "questions": "q"}, "nothing answers at http://127.0.0.1:9/retrieve"),
        ({"retriever": "http://127.0.0.1:9", "questions": "q", "corpus": "c"}, "leave corpus out"),
    ],
)
def test_options_that_do_not_go_together(settings: dict[str, str], words: str) -> None:
    with pytest.raises(BadConfig, match=words):
        Search(**settings)
