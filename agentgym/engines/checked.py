"""Validation of prompt token ids that checks every id of a conversation once."""

from collections.abc import Sequence


class CheckedIds:
    """Remembers the last valid prompt of each session: if the next prompt extends it, only the new ids are checked."""

    def __init__(self, vocabulary: int, sessions: int = 4096) -> None:
        """Set the vocabulary size and the number of remembered sessions; prompts of older sessions are checked in full."""
        self._vocabulary, self._sessions = vocabulary, sessions
        self._good: dict[str, list[int]] = {}

    def wrong(self, session: str, ids: list[int]) -> int | None:
        """Return the first id outside the vocabulary; if all are valid, remember the prompt and return None.

        The caller must not change `ids` afterwards.
        """
        good = self._good.pop(session, [])
        new: Sequence[int] = ids[len(good) :] if ids[: len(good)] == good else ids
        if new and (min(new) < 0 or max(new) >= self._vocabulary):
            return next(id for id in new if not 0 <= id < self._vocabulary)
        self._good[session] = ids
        if len(self._good) > self._sessions:
            del self._good[next(iter(self._good))]
        return None

    def forget(self, session: str) -> None:
        """Forget the last prompt of a session."""
        self._good.pop(session, None)
