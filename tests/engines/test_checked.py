"""Of a prompt that goes on from the last one only what is new is looked at, and nothing wrong gets through."""

from hypothesis import given
from hypothesis import strategies as st

from agentgym.engines.checked import CheckedIds

IDS = st.lists(st.integers(-1, 4), max_size=6)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["extend", "cut", "change", "anew"]), IDS)))
def test_what_is_wrong_is_found_as_by_looking_at_everything(prompts) -> None:
    checked, last = CheckedIds(4, sessions=2), {}
    for session, how, ids in prompts:
        held = last.get(session, [])
        held = {"extend": held, "cut": held[: len(held) // 2], "change": [3, *held[1:]], "anew": []}[how]
        prompt = [*held, *ids]
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
