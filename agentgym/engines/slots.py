"""Assignment of sessions to slots of the key-value cache, and reuse of what their prompts share.

Sessions with equal tokens share a slot, so that their next step is computed once. One whose tokens differ moves to another.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

BLOCK = 16  # tokens; shared prefixes are found at multiples of this, and shorter ones are not worth a copy
PREFILL = 8192  # default maximum of prompt tokens that the hf engine computes at a time


@dataclass(slots=True, eq=False)
class Slot:
    """One row of a key-value cache."""

    number: int
    sessions: set[str] = field(default_factory=set[str])
    """Sessions whose last request ran in the slot: several, if their tokens were equal then."""
    running: set[str] = field(default_factory=set[str])
    """Those of them that have a running request. A slot without any is idle."""
    cached_ids: list[int] = field(default_factory=list[int])
    """Token ids whose keys and values are cached."""
    pending: Sequence[int] = ()
    """Token ids to append in the next step."""
    used: int = 0
    """Sequence number of the last assignment; the least recently assigned idle slot is evicted first."""
    keys: list[int] = field(default_factory=list[int])
    """Keys of the prefixes under which other sessions can find the slot."""

    def stop(self, session: str) -> None:
        """Note that a session's request ended; pending tokens are dropped with the last one."""
        self.running.discard(session)
        if not self.running:
            self.pending = ()


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

    def claim(self, session: str, prompt: Sequence[int]) -> Slot | None:
        """Assign a slot for one request of the session, mark it running, and return it.

        It is the session's own slot unless another session needs that, else an empty one, else the least recently used
        idle one, which is cleared. Return None if the session has a running request, or if no slot is idle.
        """
        slot = self._by_session.get(session)
        if slot is not None and session in slot.running:
            return None
        if slot is None or _needed(slot, prompt):
            slot = self._idle()
            if slot is None:
                return None
        self.join(session, slot)
        return slot

    def _idle(self) -> Slot | None:
        """Clear an idle slot and return it, the first empty one if possible; None if a request runs in every slot."""
        idle = [slot for slot in self.slots if not slot.running]
        if not idle:
            return None
        slot = min(idle, key=lambda slot: (slot.used if slot.sessions else 0, slot.number))
        self.free(slot)
        return slot

    def join(self, session: str, slot: Slot) -> None:
        """Move a session to a slot, for one request."""
        if session not in slot.sessions:
            self.leave(session)
            slot.sessions.add(session)
            self._by_session[session] = slot
        self._grants += 1
        slot.used = self._grants
        slot.running.add(session)

    def leave(self, session: str) -> Slot | None:
        """Detach a session from its slot; return the slot if that cleared it, since it was the last session."""
        slot = self._by_session.pop(session, None)
        if slot is None:
            return None
        slot.sessions.discard(session)
        slot.stop(session)
        if slot.sessions:
            return None
        self.free(slot)
        return slot

    def split(self, slot: Slot, sessions: Iterable[str]) -> Slot:
        """Move running sessions of a slot to another with the same tokens, whose cache the caller copies, and return that.

        An idle slot exists as long as there are no more running requests than slots.
        """
        other = self._idle()
        assert other is not None
        for session in sessions:
            self.join(session, other)
        other.cached_ids, other.pending = list(slot.cached_ids), slot.pending
        return other

    def announce(self, slot: Slot, prompt: Sequence[int]) -> None:
        """Register a slot under the prefixes of `prompt`, except those under which another slot is registered."""
        for key in _prefix_keys(prompt):
            if self._by_prefix.setdefault(key, slot) is slot:
                slot.keys.append(key)

    def donor(self, prompt: Sequence[int], session: str) -> PrefixSource | None:
        """Return a slot whose cache has, now or after the next step, at least `BLOCK` tokens of the prompt; else None.

        A session that keeps its slot needs none. One whose slot others need, with other tokens, copies from that.
        """
        own = self._by_session.get(session)
        if own is not None:
            found = [own] if _needed(own, prompt) else []
        else:
            found = (slot for key in reversed(_prefix_keys(prompt)) if (slot := self._by_prefix.get(key)) is not None)
        for slot in found:
            now = later = common_prefix(slot.cached_ids, prompt)
            if now == len(slot.cached_ids):
                later += common_prefix(slot.pending, prompt[now:])
            if later >= BLOCK:
                return PrefixSource(slot, now, later)
        return None

    def free(self, slot: Slot) -> None:
        """Clear a slot and detach its sessions."""
        for session in slot.sessions:
            self._by_session.pop(session, None)
        for key in slot.keys:
            self._by_prefix.pop(key, None)
        slot.sessions, slot.running = set(), set()
        slot.cached_ids, slot.pending, slot.keys = [], (), []

    def forget_all(self) -> None:
        """Clear all slots."""
        for slot in self.slots:
            self.free(slot)


def _needed(slot: Slot, prompt: Sequence[int]) -> bool:
    """Return True if a prompt of one of the slot's sessions must not replace tokens in it, which others need."""
    if slot.running:
        return True
    return len(slot.sessions) > 1 and common_prefix(slot.cached_ids, prompt) < len(slot.cached_ids)


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
