"""Which slot a session gets."""

from hypothesis import given
from hypothesis import strategies as st

from agentgym.engines.slots import BLOCK, SlotTable, common_prefix

SMALL = st.lists(st.integers(0, 2), max_size=40)


@given(SMALL, SMALL)
def test_common_prefix(a: list[int], b: list[int]) -> None:
    n = common_prefix(a, b)
    assert a[:n] == b[:n] and (n == min(len(a), len(b)) or a[n] != b[n])


def test_own_then_empty_then_least_recently_used() -> None:
    table = SlotTable(2)
    a, b = table.claim("a", []), table.claim("b", [])
    assert a and b and (a.number, b.number) == (0, 1)
    assert table.claim("c", []) is None and table.claim("a", []) is None  # both run
    a.stop("a")
    b.stop("b")
    assert table.claim("a", []) is a  # its own, now the more recent
    a.stop("a")
    assert table.claim("c", []) is b and table.of("b") is None
    b.cached_ids = [1, 2]
    table.free(b)
    assert (b.cached_ids, b.sessions, table.of("c")) == ([], set(), None)


def test_sessions_share_a_slot_and_leave_it() -> None:
    table = SlotTable(3)
    slot = table.claim("a", [])
    assert slot
    slot.pending = [1, 2, 3]
    table.join("b", slot)
    table.join("c", slot)
    assert table.of("a") is table.of("b") is table.of("c") is slot and table.claim("b", []) is None  # it runs
    slot.cached_ids = [8, 9]
    other = table.split(slot, ["b", "c"])
    assert (other.number, other.cached_ids, list(other.pending), other.running) == (1, [8, 9], [1, 2, 3], {"b", "c"})
    other.cached_ids.append(7)
    assert slot.cached_ids == [8, 9] and slot.sessions == {"a"} and table.of("c") is other
    other.stop("b")
    assert other.pending  # "c" still runs
    own = table.claim("b", [])  # "c" runs in its slot with other tokens, so "b" moves on
    assert own and own.number == 2 and other.sessions == {"c"}
    assert table.leave("c") is other and table.leave("c") is None and not other.sessions
    table.join("a", own)
    assert table.leave("a") is None and own.running == {"b"}  # another session still needs it


def test_a_session_copies_from_its_slot_while_others_run_in_it() -> None:
    table = SlotTable(2)
    slot = table.claim("a", [])
    assert slot
    table.join("b", slot)
    slot.stop("b")
    slot.cached_ids, slot.pending = list(range(BLOCK + 4)), [5]
    donor = table.donor([*range(BLOCK + 4), 6, 6], "b")
    assert donor and (donor.slot, donor.now, donor.later) == (slot, BLOCK + 4, BLOCK + 4)
    slot.stop("a")
    assert table.donor([*range(BLOCK + 4), 6, 6], "b") is None  # it goes on in its own slot


def test_a_donor_is_found_by_its_longest_prefix() -> None:
    table = SlotTable(3)
    prompt = list(range(3 * BLOCK))
    slot = table.claim("a", [])
    assert slot
    table.announce(slot, prompt)
    slot.pending = prompt
    donor = table.donor([*prompt[: BLOCK + 5], 999, *prompt], "b")
    assert donor and (donor.slot, donor.now, donor.later) == (slot, 0, BLOCK + 5)
    slot.cached_ids, slot.pending = prompt, ()
    donor = table.donor(prompt, "b")
    assert donor and donor.now == donor.later == 3 * BLOCK
    assert table.donor([999, *prompt], "b") is None
    slot.cached_ids = [5]  # the session rewrote its past
    assert table.donor(prompt, "b") is None
    table.free(slot)
    assert table.donor(prompt, "b") is None
