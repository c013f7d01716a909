"""Who may sample when: pauses, updates, aborts and closes in every order, on what all engines over servers share."""

import asyncio
from collections.abc import Coroutine

import pytest
import tiny

from agentgym.engines import Sampling
from agentgym.engines.hf.engine import HFEngine
from agentgym.engines.in_flight import InFlight
from agentgym.engines.scripted import ByteTokenizer


def play(coroutine: Coroutine[object, object, None]) -> None:
    asyncio.run(asyncio.wait_for(coroutine, 30))


async def turns(number: int = 5) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


class Server:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.begun, self.answer = 0, asyncio.Event()

    async def request(self) -> str:
        self.begun += 1
        await self.answer.wait()
        return "answer"


def ask(door: InFlight, server: Server, session: str = "a") -> asyncio.Task[str | None]:
    return asyncio.create_task(door.run_request(server.request, session))


def test_a_request_that_waits_is_aborted_and_one_that_waits_at_the_end_is_let_go() -> None:
    async def run() -> None:
        door, server = InFlight(), Server()
        await door.pause()
        first, second = ask(door, server, "a"), ask(door, server, "b")
        await turns()
        door.abort("a")
        assert await first is None and not second.done()
        door.hang_up()
        assert await second is None and server.begun == 0

    play(run())


def test_updates_are_alone_and_an_early_end_of_one_opens_nothing() -> None:
    async def run() -> None:
        door, server, inside, most = InFlight(), Server(), 0, 0

        async def update(step: asyncio.Event) -> None:
            nonlocal inside, most
            async with door.updating():
                inside += 1
                most = max(most, inside)
                await step.wait()
                inside -= 1

        steps = [asyncio.Event(), asyncio.Event()]
        updates = [asyncio.create_task(update(step)) for step in steps]
        await turns()
        request = ask(door, server)
        steps[0].set()
        await turns(20)
        assert updates[0].done() and not updates[1].done() and server.begun == 0
        steps[1].set()
        await turns(20)
        assert server.begun == 1 and most == 1
        server.answer.set()
        assert await request == "answer" and not door._running and not door._sessions

    play(run())


@pytest.mark.parametrize("given_up", ["pause", "update"])
@pytest.mark.parametrize("other", ["pause", "update"])
def test_what_is_given_up_opens_nothing_that_another_one_holds_closed(given_up: str, other: str) -> None:
    async def run() -> None:
        door, server = InFlight(), Server()

        async def closes(what: str) -> None:
            if what == "pause":
                await door.pause()
            else:
                async with door.updating():
                    pass

        running = ask(door, server)
        await turns()
        one, two = asyncio.create_task(closes(given_up)), asyncio.create_task(closes(other))
        await turns()
        one.cancel()
        await turns()
        late = ask(door, server, "b")
        await turns()
        assert server.begun == 1 and not two.done()
        server.answer.set()
        await two
        await turns()
        assert await running == "answer" and late.done() is (other == "update")
        await door.resume()
        assert await late == "answer"

    play(run())


def test_a_pause_that_ends_during_an_update_stays() -> None:
    async def run() -> None:
        door, server = InFlight(), Server()
        async with door.updating():
            await door.pause()
        request = ask(door, server)
        await turns()
        assert door.paused and not door.is_open and server.begun == 0
        await door.resume()
        server.answer.set()
        assert await request == "answer"

    play(run())


def test_an_update_begins_after_the_last_of_a_request_whose_caller_has_gone() -> None:
    async def run() -> None:
        door, events = InFlight(), list[str]()

        async def slow_to_go() -> None:
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0.01)
                events.append("hung up")

        request = asyncio.create_task(door.run_request(slow_to_go, "a"))
        await turns()
        request.cancel()
        async with door.updating():
            events.append("updates")
        assert events == ["hung up", "updates"] and request.cancelled()

    play(run())


def test_what_a_paused_engine_left_waiting_in_one_event_loop_does_not_matter_in_the_next() -> None:
    door = InFlight()

    async def first() -> None:
        await door.pause()
        ask(door, Server())
        await turns()

    async def second() -> None:
        server = Server()
        request = ask(door, server)
        await turns()
        await door.resume()
        server.answer.set()
        assert await request == "answer"

    play(first())
    play(second())


def test_the_hf_engine_pauses_although_another_pause_is_given_up() -> None:
    async def run() -> None:
        engine = HFEngine(tiny.model(), ByteTokenizer(), slots=2)
        running = asyncio.create_task(engine.generate([1, 2], Sampling(max_tokens=40), "a"))
        await turns()
        given_up, pause = asyncio.create_task(engine.pause()), asyncio.create_task(engine.pause())
        await turns()
        given_up.cancel()
        await turns()
        late = asyncio.create_task(engine.generate([1, 2], Sampling(max_tokens=2), "b"))
        await pause
        assert running.done() and not late.done()
        await engine.load_weights((), 1)
        await turns()
        assert not late.done()  # an update opens nothing either
        await engine.resume()
        assert (await late).policy_version == 1

    play(run())
