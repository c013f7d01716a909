"""Which session's tokens each cache slot holds, and which slot a new request gets."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Slot:
    """One row of a key-value cache."""

    number: int
    session: str | None = None
    held: list[int] = field(default_factory=list[int])
    """The tokens whose keys and values are in the cache."""
    busy: bool = False
    """Whether a request is running in it."""
    used: int = 0
    """When it was last given out, in grants: the least recent idle one is evicted first."""


class SlotTable:
    """Slots by session. Everything is decided by the order of calls, nothing by the clock."""

    def __init__(self, count: int) -> None:
        self.slots = [Slot(number) for number in range(count)]
        self.by_session: dict[str, Slot] = {}
        self._grants = 0

    def of(self, session: str) -> Slot | None:
        """Return the slot that holds a session, if one does."""
        return self.by_session.get(session)

    def claim(self, session: str) -> Slot | None:
        """Give a session its own slot, else an empty one, else the least recently used idle one; None where all run."""
        slot = self.by_session.get(session)
        if slot is None:
            idle = [slot for slot in self.slots if not slot.busy]
            if not idle:
                return None
            slot = min(idle, key=lambda slot: (slot.session is not None, slot.used, slot.number))
            self.free(slot)
            slot.session = session
            self.by_session[session] = slot
        elif slot.busy:
            return None
        self._grants += 1
        slot.busy, slot.used = True, self._grants
        return slot

    def free(self, slot: Slot) -> None:
        """Forget what a slot holds and whose it was."""
        if slot.session is not None:
            self.by_session.pop(slot.session, None)
        slot.session, slot.held, slot.busy = None, [], False

    def forget_all(self) -> None:
        """Forget everything cached."""
        for slot in self.slots:
            self.free(slot)


def common_prefix(held: Sequence[int], ids: Sequence[int]) -> int:
    """Return how many leading tokens two lists share."""
    n = min(len(held), len(ids))
    if held[:n] == ids[:n]:
        return n
    return next(i for i in range(n) if held[i] != ids[i])
