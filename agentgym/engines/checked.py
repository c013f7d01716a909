"""Token ids of prompts, each looked at once."""

from collections.abc import Sequence


class CheckedIds:
    """The last prompt of each session that was found good: of one that goes on from it only what is new is looked at."""

    def __init__(self, vocabulary: int, sessions: int = 4096) -> None:
        """`vocabulary`: ids are below it. `sessions`: how many are remembered; of more the oldest are looked at whole."""
        self._vocabulary, self._sessions = vocabulary, sessions
        self._good: dict[str, list[int]] = {}

    def wrong(self, session: str, ids: list[int]) -> int | None:
        """Return the first id that no token of the vocabulary has; None, and remember the prompt, where all have one.

        `ids` must not be changed afterwards.
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
        """Drop what is remembered of a session."""
        self._good.pop(session, None)
