"""Of a prompt that goes on from the last one only what is new is looked at, and nothing wrong gets through."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
import loopback
import tiny
from fake_vllm import FakeVLLM
from hypothesis import given
from hypothesis import strategies as st

from agentgym.engines import Sampling, engine
from agentgym.engines.checked import CheckedIds
from agentgym.engines.hf.engine import HFEngine
from agentgym.gateway import App, Gateway

IDS = st.lists(st.integers(-1, 4), max_size=6)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["extend", "cut", "change", "anew"]), IDS)))
def test_what_is_wrong_is_found_as_by_looking_at_everything(prompts) -> None:
    checked, last = CheckedIds(4, sessions=2), {}
    for session, how, ids in prompts:
        known = last.get(session, [])
        known = {"extend": known, "cut": known[: len(known) // 2], "change": [3, *known[1:]], "anew": []}[how]
        prompt = [*known, *ids]
        last[session] = prompt
        assert checked.wrong(session, prompt) == next((id for id in prompt if not 0 <= id < 4), None)


class Counted(list[int]):
    """A list that tells how long the parts were that it was asked for: what is compared, and what is looked at."""

    def __init__(self, ids: list[int]) -> None:
        super().__init__(ids)
        self.parts: list[int] = []

    def __getitem__(self, key):  # type: ignore[no-untyped-def]
        part = super().__getitem__(key)
        self.parts.append(len(part))
        return part


def test_what_was_good_is_not_looked_at_again_until_it_is_forgotten() -> None:
    checked = CheckedIds(10, sessions=1)

    def parts(session: str, ids: list[int]) -> list[int]:
        prompt = Counted(ids)
        assert checked.wrong(session, prompt) is None
        return prompt.parts

    assert parts("a", [1] * 50) == [0, 50]
    assert parts("a", [1] * 50 + [2] * 3) == [50, 3]
    assert parts("a", [2] * 4) == [4]  # the past was rewritten: all of it is looked at
    assert parts("b", [3]) == [0, 1]  # there is room for one session
    assert parts("a", [2] * 4) == [0, 4]
    checked.forget("a")
    assert parts("a", [2] * 4) == [0, 4]


class Seen(int):
    """A token id that counts how often one is compared with a bound or with another."""

    times = 0

    def __lt__(self, other):  # type: ignore[no-untyped-def]
        Seen.times += 1
        return int(self) < int(other)

    def __gt__(self, other):  # type: ignore[no-untyped-def]
        Seen.times += 1
        return int(self) > int(other)

    __le__, __ge__ = int.__le__, int.__ge__


@contextlib.contextmanager
def made(kind: str, folder: Path) -> Iterator[Any]:
    """An engine of a kind over a tiny model, behind a server where it has one."""
    if kind == "hf":
        yield engine(f"hf:{folder}", slots=1)
    elif kind == "openai":
        with loopback.serving(App(Gateway(HFEngine(folder, slots=1), "tiny"))) as url:
            yield engine(f"openai:{url}/v1")
    else:
        server = FakeVLLM(folder).start()
        try:
            yield engine(f"vllm:{server.url}")
        finally:
            server.kill()


@pytest.mark.parametrize("kind", ["hf", "openai", "vllm servers"])
def test_an_engine_looks_at_the_ids_of_an_episode_once(kind: str, tmp_path: Path) -> None:
    old, new = [Seen(40 + number % 50) for number in range(300)], [Seen(70), Seen(71), Seen(72)]

    async def turns(under_test: Any) -> list[int]:
        seen = []
        for prompt, session in ((old, "a"), ([*old, *new], "a"), ([*old, *new], "b")):
            Seen.times = 0
            await under_test.generate(prompt, Sampling(max_tokens=1), session)
            seen.append(Seen.times)
        under_test.abort("b")
        Seen.times = 0
        await under_test.generate([*old, *new], Sampling(max_tokens=1), "b")  # an aborted session is not remembered
        return [*seen, Seen.times]

    with made(kind, tiny.folder(tmp_path)) as under_test:
        first, second, other, again = asyncio.run(turns(under_test))
        under_test.close()
    assert first >= len(old) and other >= len(old) and again >= len(old)
    assert second <= 4 * len(new)
