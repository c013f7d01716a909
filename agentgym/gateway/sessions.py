"""What was said in each session: exact tokens, merged where a request extends the past, a new row where it rewrote it."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentgym.agents.tool_calls import Attempt
from agentgym.engines.slots import common_prefix
from agentgym.episode import Episode, Turn, append_episodes
from agentgym.gateway.tools import Message, canonical


@dataclass(slots=True)
class Held:
    """A conversation as it stood after a reply."""

    ids: list[int]
    """Every token so far: the turn's prompt and its reply."""
    ended: bool
    """Whether the reply ended with a stop token of its own."""
    row: int
    cache: str
    """What the engine knows the row as."""
    said: Message = field(default_factory=dict[str, Any])
    """The last reply as its client was told it."""
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    """The calls in it, as the model's family has them."""


@dataclass(slots=True)
class Session:
    """One agent's conversation, with every branch it took."""

    name: str
    rows: list[list[Turn]] = field(default_factory=list[list[Turn]])
    requests: int = 0
    drifted: int = 0
    """Held tokens that a request which extends the past did not repeat exactly: 0, or something is wrong."""
    _known: dict[bytes, Held] = field(default_factory=dict[bytes, Held])
    _ends: list[Held] = field(default_factory=list[Held])

    def find(self, messages: Sequence[Message], tools: str = "") -> tuple[Held | None, int]:
        """Return the longest held conversation that messages extend, and how many messages it has; `tools` names them."""
        digests = _digests(messages, tools)
        for count in range(len(messages) - 1, 0, -1):
            held = self._known.get(digests[count - 1])
            if held is not None:
                return held, count
        return None, 0

    def find_ids(self, prompt: Sequence[int]) -> Held | None:
        """Return the longest row that a prompt extends token by token."""
        fits = [end for end in self._ends if end.ids == list(prompt[: len(end.ids)])]
        return max(fits, key=lambda end: len(end.ids), default=None)

    def record(
        self,
        turn: Turn,
        base: Held | None,
        held: Held,
        messages: Sequence[Message] = (),
        tools: str = "",
    ) -> None:
        """Keep a turn and how the conversation stands after it: at the end of the row it extends, else of a new one."""
        held.row = len(self.rows)
        if base is not None:
            self.drifted += len(base.ids) - common_prefix(base.ids, turn.prompt_ids)
        if base is not None and self._ends[base.row] is base:
            held.row = base.row
            self.rows[held.row].append(turn)
            self._ends[held.row] = held
        else:  # the past was rewritten, or another reply has been given to it since
            self.rows.append([turn])
            self._ends.append(held)
        if messages:
            self._known[_digests([*messages, held.said], tools)[-1]] = held

    def counts(self) -> dict[str, int]:
        """Return how much was recorded."""
        turns = [turn for row in self.rows for turn in row]
        return {
            "turns": len(turns),
            "rows": len(self.rows),
            "output_tokens": sum(len(turn.output_ids) for turn in turns),
            "held_tokens": sum(len(end.ids) for end in self._ends),
            "drifted_tokens": self.drifted,
        }

    def episode(self, reward: float = 0.0, success: bool | None = None, task: str = "", group: str = "") -> Episode:
        """Return the session as an episode, row after row; the reward is paid to the last turn.

        Without `success` it is one of which nobody said how it went: a fault, which is never trained on.
        """
        turns = [turn for row in self.rows for turn in row]
        if turns:
            turns[-1].reward = reward
            turns[-1].rewards = {"reward": reward}
        return Episode(
            "gateway",
            task or self.name,
            group or task or self.name,
            0,
            turns=turns,
            labels={"session": self.name},
            reward=reward,
            final_rewards={"agent": reward},
            metrics={name: float(value) for name, value in self.counts().items()},
            success=success,
            reason={True: "success", False: "failure", None: "timeout"}[success],
            error="nobody said how this session ended" if success is None else None,
        )


class Sessions:
    """Every open session; a finished one becomes a line of `out`. Of more than `limit` the longest idle is closed."""

    def __init__(self, out: str | Path | None = None, limit: int = 10_000) -> None:
        self.open: dict[str, Session] = {}
        self.finished = 0
        self._limit = limit
        self._file = None if out is None else append_episodes(out)

    def get(self, name: str) -> Session:
        """Return a session, made where there is none."""
        session = self.open.pop(name, None) or Session(name)
        self.open[name] = session  # the last used comes last
        while len(self.open) > self._limit:
            self.finish(next(iter(self.open)))
        return session

    def finish(
        self, name: str, reward: float = 0.0, success: bool | None = None, task: str = "", group: str = ""
    ) -> Episode:
        """Close a session and return its episode; raises KeyError where there is none."""
        episode = self.open.pop(name).episode(reward, success, task, group)
        if episode.turns and self._file is not None:
            self._file.write(episode.to_json() + "\n")
            self._file.flush()
        self.finished += 1
        return episode

    def close(self) -> None:
        """Write what is open, as sessions whose end nobody told."""
        for name in list(self.open):
            self.finish(name)
        if self._file is not None:
            self._file.close()
            self._file = None


def _digests(messages: Sequence[Message], tools: str = "") -> list[bytes]:
    """Return for every message the hash of the conversation up to it.

    White space around a content does not count: clients trim replies, and what is held is the truth anyway.
    """
    found: list[bytes] = []
    digest = tools.encode()
    for message in messages:
        digest = hashlib.blake2b(digest + json.dumps(canonical(message)).encode(), digest_size=16).digest()
        found.append(digest)
    return found
