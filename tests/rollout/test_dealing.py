"""One queue of groups for all processes: which step's groups come first."""

import asyncio
from collections import Counter

from agentgym.core.tasks import Task
from agentgym.rollout.dealing import TaskQueue
from agentgym.rollout.draw import Draw


class Store(Counter[str]):
    def add(self, key: str, number: int) -> int:
        self[key] += number
        return self[key]


def test_earlier_steps_take_their_groups_first() -> None:
    played: list[int] = []

    async def run() -> None:
        later = asyncio.Event()

        async def play(draws, step, progress):
            played.append(step)
            if played.count(1):
                later.set()
            await asyncio.sleep(0)
            return []

        queue = TaskQueue(play, Store(), concurrency=1, group_size=1, drawn_by="a test")
        draws = [Draw(Task(id=str(number))) for number in range(20)]
        steps = [asyncio.ensure_future(queue.collect(draws, step, f"{step}/0")) for step in (0, 1)]
        await later.wait()
        await queue.collect(draws, 0, "0/1")
        assert not steps[1].done()
        await asyncio.gather(*steps)

    asyncio.run(run())
    assert played[:21] == [0] * 20 + [1]
    again = played.index(0, 21)  # step 1 finishes at most the group that it has begun, and the one that it is taking
    assert again <= 23 and played[again:] == [0] * 20 + [1] * (40 - again)
