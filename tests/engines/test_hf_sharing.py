"""Random conversations on the hf engine: sessions that share slots get the replies that they get alone."""

import asyncio
import random
from dataclasses import dataclass

import pytest
import tiny

from agentgym.engines import Completion, Sampling
from agentgym.engines.hf.engine import HFEngine

MODEL = tiny.model()


@dataclass(frozen=True)
class Plan:
    """What a session does; sessions of one kind begin alike."""

    kind: int
    turns: int
    delays: tuple[int, ...]
    """Rounds of the event loop before each turn."""
    own: bool
    """True if its sampling differs from that of its kind."""
    window: bool
    """True if a prompt replaces the last one instead of extending it."""
    cancels: bool
    likeliest: int


def planned(rng: random.Random) -> Plan:
    turns = rng.randint(1, 4)
    delays = tuple(rng.choice([0, 0, 0, 1, 3]) for _ in range(turns))
    own, window, cancels, likeliest = (rng.random() < p for p in (0.3, 0.2, 0.1, 0.1))
    return Plan(rng.randrange(3), turns, delays, own, window, cancels, 2 * likeliest)


async def session(engine: HFEngine, number: int, plan: Plan) -> list[Completion]:
    name, done = f"s{number}", list[Completion]()
    prompt = [100 + plan.kind, *range(20, 25 + 20 * plan.kind)]
    for turn, delay in enumerate(plan.delays):
        for _ in range(delay):
            await asyncio.sleep(0)
        sampling = Sampling(
            max_tokens=4 + plan.own * (number % 3),
            temperature=0.0 if plan.own and turn % 2 else 0.3,
            seed=1000 * turn + plan.own * number,
            stop_ids=(7, 9),
        )
        reply = asyncio.ensure_future(engine.generate(prompt, sampling, name, likeliest=plan.likeliest))
        if plan.cancels and turn == plan.turns - 1:
            for _ in range(3):
                await asyncio.sleep(0)
            reply.cancel()
            await asyncio.wait([reply])
            break
        done.append(await reply)
        prompt = [*([100] if plan.window else prompt), *done[-1].ids, *range(33, 50), turn]
    if number % 5 == 0:
        engine.abort(name)
    return done


async def play(engine: HFEngine, plans: dict[int, Plan]) -> dict[int, list[Completion]]:
    replies = await asyncio.gather(*(session(engine, number, plan) for number, plan in plans.items()))
    await engine.drained()
    assert not any(slot.running or slot.pending for slot in engine._table.slots)
    return dict(zip(plans, replies, strict=True))


@pytest.mark.parametrize("seed", range(12))
def test_sessions_that_share_slots_get_their_own_replies(seed: int) -> None:
    rng = random.Random(seed)
    plans = {number: planned(rng) for number in range(rng.randint(2, 10))}
    engine = HFEngine(MODEL, slots=rng.choice([1, 2, 3, 5, 8]), prefill_tokens=rng.choice([20, 60, 8192]))
    together = asyncio.run(play(engine, plans))
    for number, plan in plans.items():
        alone = asyncio.run(play(HFEngine(MODEL, slots=1), {number: plan}))[number]
        for a, b in zip(together[number], alone, strict=True):
            assert (a.ids, a.finish, [len(x) for x in a.likeliest]) == (b.ids, b.finish, [len(x) for x in b.likeliest])
            assert a.logprobs == pytest.approx(b.logprobs, abs=1e-3)


def test_sessions_of_one_slot_that_alternate_compute_only_what_is_new() -> None:
    async def play() -> list[int]:
        engine, prompts, computed = HFEngine(MODEL, slots=8), {"x": list(range(40)), "y": list(range(40))}, list[int]()

        async def turn(name: str, new: list[int]) -> None:
            prompts[name] += new
            prompts[name] += (await engine.generate(prompts[name], Sampling(max_tokens=4, seed=1), name)).ids

        await asyncio.gather(turn("x", []), turn("y", []))
        for number in range(3):
            for name, token in (("x", 50), ("y", 100)):
                before = engine.prefilled
                await turn(name, [token + number] * 40)
                computed.append(engine.prefilled - before)
        return computed

    assert max(asyncio.run(play())) <= 41


def test_an_aborted_request_gets_no_more_tokens() -> None:
    async def play() -> list[Completion]:
        engine = HFEngine(MODEL, slots=4)

        def watch(token: int, logprob: float) -> bool:
            engine.abort("later")
            return False

        sampling = Sampling(max_tokens=6, temperature=0)
        first = engine.generate(list(range(30)), sampling, "first", watch=watch)
        return list(await asyncio.gather(first, engine.generate(list(range(30)), sampling, "later")))

    first, later = asyncio.run(play())
    assert (len(first.ids), later.ids, later.finish) == (6, [], "abort")
