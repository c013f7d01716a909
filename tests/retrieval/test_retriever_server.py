"""The HTTP form of a retriever: a real server in a process of its own."""

import asyncio
import json
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from retrievers import DOCUMENTS, serving, world_documents, write_corpus

from agentgym.cli import main
from agentgym.retrieval.app import App
from agentgym.retrieval.batching import Batches, QueueFull
from agentgym.retrieval.client import Client
from agentgym.retrieval.memory import Corpus
from agentgym.retrieval.opening import open_retriever
from agentgym.retrieval.protocol import Hit


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[str, Path]]:
    """The address of a server over an index that it made itself, and the folder of its corpus."""
    folder = tmp_path_factory.mktemp("served")
    corpus = write_corpus(folder / "c.jsonl", [*DOCUMENTS, *world_documents(0)])
    with serving("--corpus", corpus, "--index", str(folder / "index"), "--body-mib", "1") as (url, _):
        yield url, folder


def post(url: str, body: object) -> Any:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx2.post(url, content=content, timeout=30, trust_env=False)


def test_the_shape_is_that_of_search_r1(place: tuple[str, Path]) -> None:
    """As its retrieval_server.py answers, and as its generation.py reads it."""
    url, _ = place
    body = {"queries": ["red sea", "nowhere"], "topk": 2, "return_scores": True}
    answer = post(url, body)
    assert answer.status_code == 200 and answer.headers["content-type"] == "application/json"
    found = answer.json()
    assert list(found) == ["result"] and len(found["result"]) == 2 and found["result"][1] == []
    first = found["result"][0][0]
    assert first["document"] == {"id": "c", "contents": '"Green"\nsea sea sea red boat'} and first["score"] > 0
    title, _, text = first["document"]["contents"].partition("\n")
    assert f"Doc 1(Title: {title}) {text}\n" == 'Doc 1(Title: "Green") sea sea sea red boat\n'
    bare = post(url, {**body, "return_scores": False}).json()["result"]
    assert bare == [[entry["document"] for entry in entries] for entries in found["result"]]
    assert len(post(url, {"queries": ["town"]}).json()["result"][0]) == 3  # its default
    assert post(url, {"queries": [], "topk": 3, "return_scores": True}).json() == {
        "result": []
    }  # asked when nobody searches
    assert httpx2.get(url.replace("retrieve", "health"), trust_env=False).json() == {"status": "ok", "documents": 64}


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{", 422, "not JSON"),
        (b"[" * 100_000, 422, "not JSON"),
        ([], 422, "queries"),
        ({"queries": "red"}, 422, "queries"),
        ({"queries": [1]}, 422, "queries"),
        ({"queries": ["red"], "topk": -1}, 422, "topk is -1"),
        ({"queries": ["red"], "topk": True}, 422, "topk is True"),
        ({"queries": ["red"], "topk": 10**6}, 422, "1 to 1000"),
        ({"queries": ["red"] * 200, "topk": 501}, 422, "at most 100000 documents"),
        ({"queries": ["red"], "return_scores": "yes"}, 422, "return_scores"),
        ({"queries": ["red"] * 5000}, 422, "at most 4096"),
        ({"queries": ["x" * (1 << 20)]}, 413, "at most 1048576 bytes"),
    ],
)
def test_bad_requests_are_refused_and_nothing_else_suffers(
    place: tuple[str, Path], body: object, status: int, words: str
) -> None:
    answer = post(place[0], body)
    assert answer.status_code == status and words in answer.json()["detail"]
    assert Client(place[0]).search(["red"], 1)[0]


def test_wrong_paths_and_methods(place: tuple[str, Path]) -> None:
    url, _ = place
    assert httpx2.get(url, trust_env=False).status_code == 405
    assert post(url.replace("retrieve", "v1/models"), {}).status_code == 404


def test_on_loopback_only_names_of_this_machine_are_answered(place: tuple[str, Path]) -> None:
    """A web page can have its own name point to loopback, and read what it is answered."""
    for host, status in (("page.example", 403), ("", 403), ("LOCALHOST:1", 200), ("[::1]:80", 200)):
        answer = httpx2.post(place[0], json={"queries": ["red"]}, headers={"Host": host}, timeout=30, trust_env=False)
        assert answer.status_code == status, host
    assert "localhost" in httpx2.post(place[0], json={}, headers={"Host": "a.b"}, trust_env=False).json()["detail"]


def test_the_client_finds_what_the_index_finds(place: tuple[str, Path]) -> None:
    url, folder = place
    client, index = Client(url), open_retriever(f"tantivy:{folder / 'index'}")
    queries = ["red sea", "town festival founder", "nowhere", "\ud800 é \x00", "x " * 9000]
    assert client.search(queries, 7) == index.search(queries, 7)
    assert client.titled("green") == index.titled("green") == [DOCUMENTS[2]] and client.titled("sea") == []
    assert client.size is None and client.blocking and not client.unique(DOCUMENTS[2])
    assert open_retriever(url.removesuffix("/retrieve")) is open_retriever(url.removesuffix("/retrieve"))


def test_an_index_in_memory_and_clear_errors_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = write_corpus(tmp_path / "c.jsonl", DOCUMENTS)
    with serving("--corpus", corpus) as (url, _):
        assert Client(url).search(["red sea"], 3) == Corpus(DOCUMENTS).search(["red sea"], 3)
    for flags, words in (
        ([], "say what to serve"),
        (["--index", str(tmp_path / "no")], "say what to make it from"),
        (["--port", "70000"], "expected 0 to 65535"),
        (["--indx", "x"], "Did you mean '--index'"),
    ):
        assert main(["serve", "retriever", *flags]) == 2
        assert words in capsys.readouterr().err


class Slow:
    """A retriever that waits for a sign, and notes what it was asked together."""

    size, blocking = 1, False

    def __init__(self) -> None:
        self.go, self.batches = threading.Event(), list[list[str]]()

    def search(self, queries: list[str], count: int) -> list[list[Hit]]:
        self.batches.append(list(queries))
        assert self.go.wait(30)
        if "bad" in queries:
            raise ValueError("bad query")
        return [[Hit(DOCUMENTS[0], float(len(query)))] * count for query in queries]


def test_what_arrives_together_is_answered_by_one_batch() -> None:
    async def play() -> None:
        slow = Slow()
        batches = Batches(slow, most=8, cached=5)  # pyright: ignore[reportArgumentType]
        searches = [asyncio.ensure_future(batches.search([f"q{i % 10}"], 1)) for i in range(40)]
        await asyncio.sleep(0.05)
        searches += [
            asyncio.ensure_future(batches.search(["other", "q0"], 2)),
            asyncio.ensure_future(batches.search(["q9"], 1)),
        ]
        await asyncio.sleep(0.05)
        slow.go.set()
        found = await asyncio.gather(*searches)
        assert [hit.score for hits in found[:10] for hit in hits[0]] == [2.0] * 10 and len(found[40][0]) == 2
        assert slow.batches == [[f"q{i}" for i in range(8)], ["q8", "q9"], ["other", "q0"]]
        assert (batches.searched, batches.batches, batches.remembered) == (12, 3, 0)
        await batches.search(["q9"], 1)
        assert batches.remembered == 1
        await batches.search(["q1"], 1)  # forgotten: five answers are kept
        assert batches.searched == 13
        batches.close()

    asyncio.run(play())


def test_long_answers_leave_room_for_fewer() -> None:
    async def play() -> None:
        slow = Slow()
        slow.go.set()
        batches = Batches(slow, cached=3)  # pyright: ignore[reportArgumentType]
        for query, count in (("a", 15), ("b", 15), ("c", 1)):  # thirty documents are kept
            await batches.search([query], count)
        await batches.search(["b"], 15)
        await batches.search(["c"], 1)
        assert (batches.searched, batches.remembered) == (3, 2)
        await batches.search(["a"], 15)  # forgotten
        assert (batches.searched, batches.remembered) == (4, 2)
        await batches.search(["d"], 31)  # too long to be kept at all
        await batches.search(["d"], 31)
        assert (batches.searched, batches.remembered) == (6, 2)
        batches.close()

    asyncio.run(play())


def test_a_failure_is_that_of_each_who_asked_and_of_no_other() -> None:
    async def play() -> None:
        slow = Slow()
        slow.go.set()
        batches = Batches(slow, most=1)  # pyright: ignore[reportArgumentType]
        found = await asyncio.gather(*(batches.search([q], 1) for q in ("bad", "good")), return_exceptions=True)
        assert isinstance(found[0], ValueError) and found[1] == [[Hit(DOCUMENTS[0], 4.0)]]
        batches.close()

    asyncio.run(play())


def test_close_fails_what_waits() -> None:
    async def play() -> None:
        slow = Slow()
        batches = Batches(slow, most=1)  # pyright: ignore[reportArgumentType]
        searches = [asyncio.ensure_future(batches.search([query], 1)) for query in ("searched", "queued")]
        while not slow.batches:
            await asyncio.sleep(0.01)
        batches.close()
        slow.go.set()
        later = asyncio.ensure_future(batches.search(["queued"], 1))
        done, _ = await asyncio.wait([*searches, later], timeout=10)
        assert len(done) == 3 and all(isinstance(search.exception(), RuntimeError) for search in done)
        assert slow.batches == [["searched"]]

    asyncio.run(play())


def test_time_and_waiting_are_limited() -> None:
    async def ask(app: App, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        sent = list[dict[str, Any]]()

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": json.dumps(body).encode()}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await app({"type": "http", "path": "/retrieve", "method": "POST"}, receive, send)
        return sent[0]["status"], json.loads(sent[1]["body"])

    async def play() -> None:
        slow = Slow()
        batches = Batches(slow, waiting=2)  # pyright: ignore[reportArgumentType]
        app = App(batches, seconds=0.2)
        status, answer = await ask(app, {"queries": ["first"]})
        assert status == 504 and "longer than 0.2 seconds" in answer["detail"]
        waiting = [asyncio.ensure_future(ask(app, {"queries": [name]})) for name in ("a", "b", "c")]
        assert [status for status, _ in await asyncio.gather(*waiting)] == [504, 504, 503]
        with pytest.raises(QueueFull, match="2 queries wait already"):
            await batches.search(["c"], 3)
        slow.go.set()
        while batches.batches < 2:
            await asyncio.sleep(0.01)
        patient = App(batches, seconds=30)
        assert (await ask(patient, {"queries": ["first", "a", "d"]}))[0] == 200  # what was late is remembered
        assert slow.batches == [["first"], ["a", "b"], ["d"]]
        batches.close()

    asyncio.run(play())
