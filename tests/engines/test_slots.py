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
    a, b = table.claim("a"), table.claim("b")
    assert a and b and (a.number, b.number) == (0, 1)
    assert table.claim("c") is None and table.claim("a") is None  # both run
    a.busy = b.busy = False
    assert table.claim("a") is a  # its own, now the more recent
    a.busy = False
    assert table.claim("c") is b and table.of("b") is None
    b.cached_ids = [1, 2]
    table.free(b)
    assert (b.cached_ids, b.session, table.of("c")) == ([], None, None)


def test_a_donor_is_found_by_its_longest_prefix() -> None:
    table = SlotTable(3)
    prompt = list(range(3 * BLOCK))
    slot = table.claim("a")
    assert slot
    table.announce(slot, prompt)
    slot.pending = prompt
    donor = table.donor([*prompt[: BLOCK + 5], 999, *prompt])
    assert donor and (donor.slot, donor.now, donor.later) == (slot, 0, BLOCK + 5)
    slot.cached_ids, slot.pending = prompt, ()
    donor = table.donor(prompt)
    assert donor and donor.now == donor.later == 3 * BLOCK
    assert table.donor([999, *prompt]) is None
    slot.cached_ids = [5]  # the session rewrote its past
    assert table.donor(prompt) is None
    table.free(slot)
    assert table.donor(prompt) is None
