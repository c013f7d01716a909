"""What the tinker engine keeps of its requests while another sampler comes; real servers are in tests/with_tinker."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from agentgym.engines import Completion, Sampling
from agentgym.engines.tinker import TinkerEngine
from agentgym.errors import Fault

LIKE = Sampling(max_tokens=2)


class Sampler:
    """Samples token after token of its own number."""

    def __init__(self, number: int) -> None:
        self.number = number

    def sample(self, prompt: list[int], count: int, params: dict[str, Any]) -> object:
        ids = [self.number] * params["max_tokens"]
        return SimpleNamespace(sequences=[SimpleNamespace(tokens=ids, logprobs=[-1.0] * len(ids))])

    def compute_logprobs(self, prompt: list[int]) -> list[float | None]:
        return [None, *[-float(self.number)] * (len(prompt) - 1)]


class Service:
    """Answers after a while."""

    url = "http://tinker"
    answered = 0
    tinker = SimpleNamespace(SamplingParams=dict, ModelInput=SimpleNamespace(from_ints=list))

    async def acall(self, what: str, function: Any, *arguments: Any) -> Any:
        answer = function(*arguments)
        await asyncio.sleep(0.02)
        self.answered += 1
        return answer


async def engine(number: int = 1) -> TinkerEngine:
    made = TinkerEngine(Service(), SimpleNamespace(eos_token_id=None), 64)
    await made.serve(lambda: Sampler(number), number)
    return made


def test_what_runs_ends_under_the_old_sampler_and_what_comes_waits_for_the_new_one() -> None:
    async def play() -> list[Any]:
        made = await engine()
        early = [made.generate([7], LIKE, "a"), made.score([7, 8])]
        running = [asyncio.ensure_future(work) for work in early]
        await asyncio.sleep(0.01)
        update = asyncio.ensure_future(made.serve(lambda: Sampler(2), 2))
        await asyncio.sleep(0)
        late = [made.generate([7], LIKE, "b"), made.score([7, 8])]
        answers = await asyncio.gather(*running, *late, update)
        assert not made._running
        return answers

    first, scored, last, scored_after, _ = asyncio.run(play())
    assert (first.ids, first.policy_version, scored) == ([1, 1], 1, [-1.0])
    assert (last.ids, last.policy_version, scored_after) == ([2, 2], 2, [-2.0])


def test_who_waits_for_a_sampler_that_does_not_come_is_told() -> None:
    def fails() -> Sampler:
        raise RuntimeError("server error")

    async def play() -> None:
        made = await engine()
        update = asyncio.ensure_future(made.serve(fails, 2))
        await asyncio.sleep(0)
        waiting = [asyncio.ensure_future(work) for work in (made.generate([7], LIKE, "b"), made.score([7, 8]))]
        with pytest.raises(RuntimeError, match="server error"):
            await update
        for task in waiting:
            with pytest.raises(Fault, match="http://tinker serves no weights"):
                await task
        await made.serve(lambda: Sampler(3), 3)
        assert (await made.generate([7], LIKE, "c")).policy_version == 3

    asyncio.run(play())


def test_an_update_that_is_given_up_while_requests_run_leaves_the_engine_open() -> None:
    async def play() -> Completion:
        made = await engine()
        running = asyncio.ensure_future(made.generate([7], LIKE, "a"))
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(made.serve(lambda: Sampler(2), 2), 0.005)
        assert (await running).ids == [1, 1]
        return await asyncio.wait_for(made.generate([7], LIKE, "b"), 1)

    assert asyncio.run(play()).policy_version == 1


def test_an_aborted_request_is_empty_and_a_cancelled_one_is_cancelled() -> None:
    async def play() -> Completion:
        made = await engine()
        aborted, cancelled = (asyncio.ensure_future(made.generate([7], LIKE, name)) for name in "ab")
        await asyncio.sleep(0.005)
        made.abort("a")
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        ended, answered = await aborted, list[int]()

        def sampler() -> Sampler:
            answered.append(made.service.answered)
            return Sampler(2)

        await made.serve(sampler, 2)
        assert answered == [2]  # the server samples on, and some lose the newer weights by it
        return ended

    ended = asyncio.run(play())
    assert (ended.ids, ended.finish) == ([], "abort")


def test_a_close_while_a_text_is_scored_is_a_fault() -> None:
    async def play() -> None:
        made = await engine()
        scoring = asyncio.ensure_future(made.score([7, 8]))
        await asyncio.sleep(0.005)
        made.close()
        with pytest.raises(Fault, match="was closed while a server scored"):
            await scoring

    asyncio.run(play())
