"""Assignment of sessions to slots of the key-value cache, and reuse of prefixes that prompts share."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

BLOCK = 16  # tokens; shared prefixes are found at multiples of this, and shorter ones are not worth a copy
PREFILL = 8192  # default maximum of prompt tokens that the hf engine computes at a time


@dataclass(slots=True, eq=False)
class Slot:
    """One row of a key-value cache."""

    number: int
    session: str | None = None
    cached_ids: list[int] = field(default_factory=list[int])
    """Token ids whose keys and values are cached."""
    pending: Sequence[int] = ()
    """Token ids to append in the next step."""
    busy: bool = False
    """True if a request is running in the slot."""
    used: int = 0
    """Sequence number of the last assignment; the least recently assigned idle slot is evicted first."""
    keys: list[int] = field(default_factory=list[int])
    """Keys of the prefixes under which other sessions can find the slot."""


class PrefixSource(NamedTuple):
    """A slot that contains a prefix of a prompt, now or after the next step."""

    slot: Slot
    now: int
    """Number of the prompt's tokens that the slot's cache contains now."""
    later: int
    """Number of the prompt's tokens that the cache will contain after the next step."""


class SlotTable:
    """Slots by session and by prefix. All decisions depend on the order of calls, never on the clock."""

    def __init__(self, count: int) -> None:
        self.slots = [Slot(number) for number in range(count)]
        self._by_session: dict[str, Slot] = {}
        self._by_prefix: dict[int, Slot] = {}
        self._grants = 0

    def of(self, session: str) -> Slot | None:
        """Return the session's slot, or None."""
        return self._by_session.get(session)

    def claim(self, session: str) -> Slot | None:
        """Assign a slot for one request of the session, mark it busy, and return it.

        It is the session's own slot, else an empty one, else the least recently used idle one, which is cleared.
        Return None if the session's own slot is busy, or if all slots are.
        """
        slot = self._by_session.get(session)
        if slot is None:
            idle = [slot for slot in self.slots if not slot.busy]
            if not idle:
                return None
            slot = min(idle, key=lambda slot: (slot.session is not None, slot.used, slot.number))
            self.free(slot)
            slot.session = session
            self._by_session[session] = slot
        elif slot.busy:
            return None
        self._grants += 1
        slot.busy, slot.used = True, self._grants
        return slot

    def announce(self, slot: Slot, prompt: Sequence[int]) -> None:
        """Register a slot under the prefixes of `prompt`, except those under which another slot is registered."""
        for key in _prefix_keys(prompt):
            if self._by_prefix.setdefault(key, slot) is slot:
                slot.keys.append(key)

    def donor(self, prompt: Sequence[int]) -> PrefixSource | None:
        """Return a slot whose cache has, now or after the next step, at least `BLOCK` tokens of the prompt; else None."""
        for key in reversed(_prefix_keys(prompt)):
            slot = self._by_prefix.get(key)
            if slot is None:
                continue
            now = later = common_prefix(slot.cached_ids, prompt)
            if now == len(slot.cached_ids):
                later += common_prefix(slot.pending, prompt[now:])
            if later >= BLOCK:
                return PrefixSource(slot, now, later)
        return None

    def free(self, slot: Slot) -> None:
        """Clear a slot and detach it from its session."""
        if slot.session is not None:
            self._by_session.pop(slot.session, None)
        for key in slot.keys:
            self._by_prefix.pop(key, None)
        slot.session, slot.cached_ids, slot.pending, slot.keys, slot.busy = None, [], (), [], False

    def forget_all(self) -> None:
        """Clear all slots."""
        for slot in self.slots:
            self.free(slot)


def common_prefix(cached: Sequence[int], ids: Sequence[int]) -> int:
    """Return the length of the common prefix of two sequences."""
    low, high = 0, min(len(cached), len(ids))
    if list(cached[:high]) == list(ids[:high]):
        return high
    while low + 1 < high:  # the first `low` agree, the first `high` do not
        middle = (low + high) // 2
        if list(cached[low:middle]) == list(ids[low:middle]):
            low = middle
        else:
            high = middle
    return low


def _prefix_keys(ids: Sequence[int]) -> list[int]:
    """Return one hash for each whole block of tokens; each hash covers all tokens up to the end of its block.

    Hashes may collide, so the caller compares the tokens of a match.
    """
    keys: list[int] = []
    for end in range(BLOCK, len(ids) + 1, BLOCK):
        keys.append(hash((keys[-1] if keys else 0, *ids[end - BLOCK : end])))
    return keys
