"""A fleet over servers in this process: versions, event loops, servers that change, and what counts as moved."""

import asyncio
import itertools
import threading
from collections import Counter
from functools import partial
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from agentgym.engines import Completion, Sampling, shards
from agentgym.engines.fleet import fleet, members
from agentgym.engines.fleet.backend import Answer, Scores, ServerFailure, ServerUnreachable
from agentgym.errors import BadConfig, EngineDead, Fault

PROMPT = [1, 2, 3]


async def until(condition: Any) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


class Stub:
    """A server in this process that does as it is told: `label` is of its weights, `score_gate` stops it at a score."""

    def __init__(self, url: str) -> None:
        self.url, self.label, self.dead, self.changed, self.slow = url, "first", False, False, 0.0
        self.score_gate: asyncio.Event | None = None
        self.at_score = asyncio.Event()

    async def alive(self) -> str:
        if self.dead:
            raise ServerUnreachable("no connection")
        return self.label

    async def generate(self, prompt: list[int], sampling: Sampling, limit: int) -> Answer:
        await self.alive()
        await asyncio.sleep(self.slow)
        if self.changed:
            raise BadConfig("it serves another model")
        return Answer(Completion([1], [0.0], "stop", 0), self.label)

    async def score(self, ids: list[int]) -> Scores:
        label = await self.alive()
        self.at_score.set()
        if self.score_gate is not None:
            await self.score_gate.wait()
        return Scores([0.0] * (len(ids) - 1), label)

    async def update(self, files: Any, label: str) -> None:
        await self.alive()
        self.label = label

    def close(self) -> None:
        pass


def stubs(number: int, wait: float = 20.0) -> tuple[list[Any], fleet.Fleet]:
    servers: list[Any] = [Stub(f"http://{place}") for place in range(number)]
    return servers, fleet.Fleet(servers, None, context=64, known=[1, 2, 3], wait=wait)


async def one(made: fleet.Fleet, session: str = "x") -> Completion:
    return await made.generate(PROMPT, Sampling(max_tokens=1), session)


def weights() -> list[tuple[str, torch.Tensor]]:
    return [("w", torch.zeros(1))]


def test_requests_wait_and_end_in_any_event_loop() -> None:
    """An update with requests in flight, in one event loop after the other."""
    (server,), made = stubs(1)
    server.slow = 0.05

    async def play() -> None:
        flying = asyncio.create_task(one(made))
        await until(lambda: bool(made._running))
        updating = asyncio.create_task(made.load_weights(weights(), made.policy_version + 1))
        await until(lambda: not made.is_open)
        late = asyncio.create_task(one(made))
        await updating
        assert (await flying).policy_version + 1 == (await late).policy_version == made.policy_version

    asyncio.run(play())
    asyncio.run(play())
    assert made.policy_version == 2
    made.close()


def test_what_is_sampled_after_an_update_that_lost_all_servers_is_of_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "_LONGEST", 0.05)
    (server,), made = stubs(1, wait=0.2)

    async def play() -> None:
        await made.load_weights(weights(), 1)
        server.dead = True
        with pytest.raises(EngineDead):
            await made.load_weights(weights(), 2)
        server.dead = False
        await until(lambda: bool(made.members.serving))
        assert server.label.endswith("/2") and (await one(made)).policy_version == 2
        made.close()

    asyncio.run(play())


def test_one_that_was_taken_in_while_an_update_began_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its search is in the middle when the update is asked for: it serves the weights of before for no request."""
    monkeypatch.setattr(members, "_LONGEST", 0.05)
    (first, second), made = stubs(2)

    async def play() -> None:
        await made.load_weights(weights(), 1)
        made.members.leave_out(made.members.all[1], 0, "a test")
        second.score_gate = asyncio.Event()
        second.at_score.clear()
        await second.at_score.wait()
        updating = asyncio.create_task(made.load_weights(weights(), 2))
        await until(lambda: not made.is_open)
        await asyncio.sleep(0)
        second.score_gate.set()
        await updating
        assert first.label == second.label == made.members.label and len(made.members.serving) == 2
        made.close()

    asyncio.run(play())


def test_one_that_was_started_again_with_another_model_is_left_out_and_only_requests_that_moved_count() -> None:
    (first, second), made = stubs(2)

    async def play() -> None:
        await one(made, "a")
        first.changed = True  # where session a is
        assert (await one(made, "a")).ids == [1]
        assert [member.backend.url for member in made.members.serving] == [second.url]
        assert (made.measured()["requests_moved"], made.members.all[0].reason) == (1, "it serves another model")
        made.close()

    asyncio.run(play())


def test_a_request_that_fails_where_there_is_no_elsewhere_did_not_move(monkeypatch: pytest.MonkeyPatch) -> None:
    (server,), made = stubs(1)

    async def fails(*_: object) -> Answer:
        raise ServerFailure("status 500")

    monkeypatch.setattr(server, "generate", fails)
    monkeypatch.setattr(fleet, "PAUSES", (0.0, 0.0))

    async def play() -> None:
        with pytest.raises(Fault, match="status 500"):
            await one(made)
        assert made.measured()["requests_moved"] == 0
        made.close()

    asyncio.run(play())


def test_a_busy_server_is_asked_again_after_pauses_and_no_episode_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    (server,), made = stubs(1)
    answers, times, whole = server.generate, list[float](), 0.2

    async def busy(*arguments: Any) -> Answer:
        times.append(asyncio.get_running_loop().time())
        if len(times) < fleet.TRIES:
            raise ServerFailure("status 503")
        return await answers(*arguments)

    monkeypatch.setattr(server, "generate", busy)
    monkeypatch.setattr(fleet, "PAUSES", (whole / 4, whole))

    async def play() -> None:
        assert (await one(made)).ids == [1]
        pauses = [later - before for before, later in itertools.pairwise(times)]
        assert len(pauses) == 2 and pauses[0] >= 0.9 * whole / 4 and pauses[1] >= 0.9 * whole
        made.close()

    asyncio.run(play())


def test_a_request_that_waits_for_a_busy_server_can_be_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    (server,), made = stubs(1)

    async def busy(*_: object) -> Answer:
        raise ServerFailure("status 503")

    monkeypatch.setattr(server, "generate", busy)
    monkeypatch.setattr(fleet, "PAUSES", (60.0, 60.0))

    async def play() -> None:
        waits = asyncio.create_task(one(made, "a"))
        await asyncio.sleep(0.05)
        made.abort("a")
        assert (await asyncio.wait_for(waits, 10)).finish == "abort"
        made.close()

    asyncio.run(play())


def test_scores_go_where_the_fewest_are_under_way() -> None:
    servers, made = stubs(3)
    request_counts: Counter[str] = Counter()

    async def score(server: Any, ids: list[int]) -> Scores:
        request_counts[server.url] += 1
        await asyncio.sleep(0.01)
        return Scores([0.0] * (len(ids) - 1), server.label)

    async def play() -> None:
        await one(made)
        for server in servers:
            server.score = partial(score, server)
        await asyncio.gather(*(made.score([1, 2, 3, 4]) for _ in range(30)))
        assert all(7 <= request_counts[server.url] <= 13 for server in servers) and list(made.members.routes._homes) == ["x"]
        made.close()

    asyncio.run(play())


@pytest.mark.parametrize("trouble", [ServerFailure("status 503"), ServerUnreachable("no connection")])
def test_servers_that_are_busy_at_the_first_question_are_waited_for(trouble: Exception) -> None:
    (server,), made = stubs(1)
    scores, calls = server.score, list[int]()

    async def busy(ids: list[int]) -> Scores:
        calls.append(1)
        if len(calls) == 1:
            raise trouble
        return await scores(ids)

    server.score = busy

    async def play() -> None:
        assert (await one(made)).ids == [1]
        made.close()

    asyncio.run(play())
    (server,), made = stubs(1, wait=0.2)
    server.dead = True
    with pytest.raises(EngineDead, match=r"none answered in 0\.2 seconds. http://0: no connection"):
        asyncio.run(one(made))


def test_a_server_that_is_busy_while_its_first_weights_are_looked_at_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    (server,), made = stubs(1)
    scores, calls = server.score, list[int]()
    monkeypatch.setattr(members, "PAUSES", (0.0, 0.0))

    async def busy(ids: list[int]) -> Scores:
        calls.append(1)
        if len(calls) < 3:
            raise ServerFailure("status 503")
        return await scores(ids)

    server.score = busy

    async def play() -> None:
        await made.load_weights(weights(), 1)
        assert (await one(made)).policy_version == 1 and server.label == made.members.label
        made.close()

    asyncio.run(play())


def test_a_question_that_nobody_waits_for_names_no_weights() -> None:
    """The first request is aborted while servers are asked what they serve; meanwhile weights come."""
    (server,), made = stubs(1)

    async def play() -> None:
        released = server.score_gate = asyncio.Event()
        first = asyncio.create_task(one(made, "a"))
        await server.at_score.wait()
        made.abort("a")
        assert (await first).finish == "abort"
        server.score_gate = None
        await made.load_weights(weights(), 1)
        label = made.members.label
        released.set()
        assert (await one(made, "b")).policy_version == 1 and made.members.label == label == server.label
        made.close()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(play())


def test_an_update_given_up_while_it_is_written_is_never_served_as_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    (server,), made = stubs(1, wait=0.3)
    monkeypatch.setattr(members, "_LONGEST", 0.01)
    whole, sent = shards.written, list[float]()

    begun, go_on = threading.Event(), threading.Event()

    def slow(*arguments: Any) -> Any:
        begun.set()
        go_on.wait(30)
        return whole(*arguments)

    async def update(files: Any, label: str) -> None:
        sent.append(float(load_file(files[0]["path"])["w"][0]))
        server.label = label

    server.update = update

    async def play() -> None:
        await made.load_weights([("w", torch.full((1,), 1.0))], 1)
        monkeypatch.setattr(shards, "written", slow)
        update = asyncio.create_task(made.load_weights([("w", torch.full((1,), 2.0))], 2))
        await asyncio.to_thread(begun.wait, 30)
        update.cancel()
        with pytest.raises(asyncio.CancelledError):
            await update
        go_on.set()
        server.label = "started again"
        with pytest.raises(EngineDead, match="started again"):  # until the next weights come
            await one(made)
        await made.load_weights([("w", torch.full((1,), 3.0))], 3)
        assert (await one(made)).policy_version == 3 and sent == [1.0, 3.0]
        made.close()

    asyncio.run(play())
