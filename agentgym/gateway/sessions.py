"""Recorded sessions: exact tokens in rows. A request that extends the past continues its row; any other starts a new row."""

import hashlib
import json
from array import array
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentgym.agents.tool_calls import Attempt
from agentgym.core.verdicts import amount, verdict
from agentgym.engines.slots import common_prefix
from agentgym.episodes.episode import Episode, Turn, append_episodes
from agentgym.gateway.rows import Row
from agentgym.gateway.tools import Message, canonical

UNTOLD = "nothing reported how this session ended"
FOR_ROOM = "this session was closed to make room, as the one idle longest: run fewer agents at a time, or shorter ones"


class SessionBusy(RuntimeError):
    """A session cannot be finished while it waits for a reply."""


@dataclass(slots=True)
class ChatState:
    """State of a conversation after one of its replies."""

    cache: str
    """Id under which the engine caches this conversation."""
    ended: bool = True
    """True if the reply ended with a stop token."""
    reply: Message = field(default_factory=Message)
    """The last reply, as its client received it."""
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    """Tool calls in the reply, in the syntax of the model family."""
    row: int = 0
    length: int = 0
    """Number of the row's tokens up to the end of this reply."""
    before: "ChatState | None" = None
    """State that this one continues; None for a new conversation."""
    new: list[Message] = field(default_factory=list[Message])
    """Messages that the client added between `before` and this reply."""
    instructed: bool = False
    """True if the conversation begins with the `instructions` of a request; a continuation does not repeat them."""
    extended: bool = False
    """True if a later request continued from here."""


@dataclass(frozen=True, slots=True)
class ReplySlot:
    """Position in the session of the replies to one request; all of them share it."""

    base: ChatState | None
    """Conversation that the replies continue; None for a new one."""
    prompt: "array[int]"
    drifted: int
    """Number of tokens of `base` that the prompt does not repeat."""
    digest: bytes
    """Digest of the request's messages; empty if it has no messages."""
    tools: str = ""
    """Key of the tools that the request offered."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Budget of one session; 0 means no limit."""

    turns: int = 0
    """Maximum number of replies."""
    tokens: int = 0
    """Maximum number of sampled tokens."""
    cost: float = 0.0
    """Maximum cost in US dollars, at the two prices below."""
    input_price: float = 0.0
    """Price of one prompt token in US dollars."""
    output_price: float = 0.0
    """Price of one sampled token in US dollars."""
    turn_tokens: int = 0
    """Maximum tokens of one reply; overrides the client's limit."""


@dataclass(slots=True)
class Session:
    """All recorded conversations of one agent, in rows."""

    name: str
    budget: Budget = Budget()
    state: Callable[[], Awaitable[str | None]] | None = None
    """Function that returns the environment's state key when a request arrives; None to record none."""
    side_calls: bool | None = None
    """How replies outside the main conversation (sub-agents, titles) are treated: True trains on them, False does not; in
    both cases they come first in the episode. None does not distinguish them.
    """
    measures: dict[str, float] = field(default_factory=dict[str, float])
    """Additional metrics of the session's episode."""
    used_up: str = ""
    """The part of the budget that was exhausted when a request was first refused; empty before."""
    replies: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0
    running: int = 0
    """Number of requests now waiting for replies."""
    unanswered: int = 0
    """Number of requests that the engine failed to answer."""
    drifted: int = 0
    """Number of recorded tokens that later prompts failed to repeat; anything but 0 is a bug."""
    tokens: int = 0
    """Number of tokens stored in all rows."""
    _rows: list[Row] = field(default_factory=list[Row])
    _known: dict[bytes, ChatState] = field(default_factory=dict[bytes, ChatState])
    _ends: list[ChatState] = field(default_factory=list[ChatState])
    _choices: list[list[ChatState]] = field(default_factory=list[list[ChatState]])
    _answers: dict[str, ChatState] = field(default_factory=dict[str, ChatState])

    @property
    def rows(self) -> list[list[Turn]]:
        """Turns of each row."""
        return [row.turns() for row in self._rows]

    def ids(self, row_end: ChatState) -> list[int]:
        """Return the token ids of a recorded conversation."""
        return self._rows[row_end.row].ids[: row_end.length].tolist()

    def refuse_over_budget(self) -> str:
        """Return the exhausted part of the budget, such as `20 turns` (empty if none), and store it in `used_up`."""
        budget = self.budget
        cost = self.prompt_tokens * budget.input_price + self.output_tokens * budget.output_price
        used = {
            f"{budget.turns} turns": budget.turns and self.replies + self.running >= budget.turns,
            f"{budget.tokens} tokens": budget.tokens and self.output_tokens >= budget.tokens,
            f"{budget.cost:g} US dollars": budget.cost and cost >= budget.cost,
        }
        self.used_up = self.used_up or next((what for what, over in used.items() if over), "")
        return self.used_up

    def find(self, messages: Sequence[Message], tools: str = "") -> tuple[ChatState | None, int]:
        """Return the longest recorded conversation that `messages` extend, and its number of messages.

        `tools` is the key of the request's tools. The result is (None, 0) if there is no such conversation.
        """
        digests = _digests(messages, tools)
        for count in range(len(messages) - 1, 0, -1):
            row_end = self._known.get(digests[count - 1])
            if row_end is not None:
                return row_end, count
        return None, 0

    def find_ids(self, prompt: Sequence[int]) -> ChatState | None:
        """Return the longest recorded conversation whose tokens are a prefix of `prompt`; None if there is none."""
        fits = [end for end in self._ends if self._rows[end.row].begins(prompt)]
        return max(fits, key=lambda end: end.length, default=None)

    def place(
        self, prompt_ids: Sequence[int], base: ChatState | None, messages: Sequence[Message] = (), tools: str = ""
    ) -> ReplySlot:
        """Return the position of the replies to a prompt that continues `base` (None: a new conversation).

        Mark `base` as extended, and count in `drifted` the tokens of `base` that the prompt fails to repeat.
        """
        drifted = 0
        if base is not None:
            base.extended = True
            drifted = base.length - common_prefix(self.ids(base), prompt_ids)
            self.drifted += drifted
        digest = _digests(messages, tools)[-1] if messages else b""
        return ReplySlot(base, array("i", prompt_ids), drifted, digest, tools)

    def record(self, turn: Turn, place: ReplySlot, answer: ChatState) -> int:
        """Record a turn and the conversation after it: append to the row that it extends, or start a new row.

        Returns the number of tokens added.
        """
        base = place.base
        if base is not None and not place.drifted and self._ends[base.row] is base:
            answer.row = base.row
            self._ends[answer.row] = answer
        else:  # the past was rewritten, or it has another reply since
            answer.row = len(self._rows)
            self._rows.append(Row(place.tools))
            self._ends.append(answer)
        added = self._rows[answer.row].append(turn, place.prompt)
        self._rows[answer.row].last_reply = self.replies = self.replies + 1
        self.prompt_tokens += len(place.prompt)
        self.output_tokens += len(turn.output_ids)
        answer.length = len(self._rows[answer.row].ids)
        self.tokens += added
        if place.digest:
            self._known[_extended(place.digest, answer.reply)] = answer
        return added

    def keep(self, choices: list[ChatState], id: str = "") -> None:
        """Remember the replies to one request, and store the first of them under `id` if that is not empty."""
        if len(choices) > 1:
            self._choices.append(choices)
        if id:
            self._answers[id] = choices[0]

    def conversation(self, id: str) -> list[Message] | None:
        """Return the messages up to the answer stored under `id`, without instructions; None if there is no such answer."""
        answer = last = self._answers.get(id)
        if last is None:
            return None
        parts: list[Message] = []
        while answer is not None:
            parts += [answer.reply, *reversed(answer.new)]
            answer = answer.before
        return parts[::-1][1 if last.instructed else 0 :]

    def _leave_out_unused(self) -> None:
        """Exclude replies from training if the client continued with another reply to the same request."""
        for choices in self._choices:
            for answer in choices if any(answer.extended for answer in choices) else ():
                if not answer.extended:
                    self._rows[answer.row].last.extra["train"] = False

    def _in_order(self) -> list[Turn]:
        """Return the turns row by row. Unless `side_calls` is None, put the main conversation last and mark the others.

        The main conversation consists of all rows with the same tools as the row with the most turns. An agent that rewrites
        its prompt keeps its tools; sub-agents, titles and summaries use other tools or none.
        """
        if self.side_calls is None or not self._rows:
            return [turn for row in self.rows for turn in row]
        main = max(self._rows, key=len).tools
        for row in self._rows:
            if row.tools != main:
                row.mark_side(trained=self.side_calls)
        order = sorted(self._rows, key=lambda row: (row.tools == main, row.last_reply))
        return [turn for row in order for turn in row.turns()]

    def counts(self) -> dict[str, int]:
        """Return the numbers of recorded turns and rows, and of sampled, stored and drifted tokens, by name."""
        return {
            "turns": sum(len(row) for row in self._rows),
            "rows": len(self._rows),
            "output_tokens": sum(row.output_tokens for row in self._rows),
            "held_tokens": self.tokens,
            "drifted_tokens": self.drifted,
        }

    def episode(
        self, reward: float = 0.0, success: bool | None = None, task: str = "", group: str = "", why: str = UNTOLD
    ) -> Episode:
        """Return the session as an episode, row by row; the last turn gets the reward.

        With `success=None` the result is unknown: the episode is a fault with the error `why`, and is never trained on.
        """
        self._leave_out_unused()
        turns = self._in_order()
        episode = Episode(
            "gateway",
            task or self.name,
            group or task or self.name,
            0,
            turns=turns,
            labels={"session": self.name},
            reward=reward,
            final_rewards={"agent": reward},
            metrics={**{name: float(value) for name, value in self.counts().items()}, **self.measures},
            success=success,
            reason={True: "success", False: "failure", None: "timeout"}[success],
            error=why if success is None else None,
        )
        if turns:
            episode.pay_last(reward, {"reward": reward})
        return episode


class Sessions:
    """All open sessions; a finished session is written to `out` as one line and forgotten.

    If there are more than `limit` sessions, or more than `tokens` tokens in all of them, the session that has been idle
    longest is closed without a result. Raises BadConfig if another process writes to `out`.
    """

    SHARE = 4
    """A session is full at `tokens / SHARE` tokens; without this bound one agent could evict all others."""

    def __init__(self, out: str | Path | None = None, limit: int = 10_000, tokens: int = 100_000_000) -> None:
        self.open: dict[str, Session] = {}
        self.finished = 0
        self.gave_way: dict[str, None] = {}
        """Names of the last `limit` sessions that were closed to make room."""
        self._limit, self._most = limit, tokens
        self._tokens = 0
        self._file = None if out is None else append_episodes(out)
        self._written = Counter[str]() if out is None else _written(Path(out))

    def get(self, name: str) -> Session:
        """Return a session, and create it if it does not exist."""
        self._trim(0 if name in self.open else 1)
        session = self.open.pop(name, None) or Session(name)
        self.open[name] = session  # keep the most recently used session last
        return session

    def full(self, session: Session) -> bool:
        """Return True if a session may not grow further (see `SHARE`)."""
        return session.tokens * self.SHARE >= self._most

    def record(self, session: Session, turn: Turn, place: ReplySlot, answer: ChatState) -> None:
        """Record a turn in a session; see `Session.record`."""
        self._tokens += session.record(turn, place, answer)

    def finish(
        self, name: str, reward: float = 0.0, success: bool | None = None, task: str = "", group: str = ""
    ) -> Episode:
        """Close a session, write its line and return its episode.

        If a session of this name was closed to make room, earlier turns are lost, and the episode is a fault.

        Raises:
            KeyError: no session has the name.
            SessionBusy: the session is waiting for a reply.
            TypeError: success or reward has a wrong type.
        """
        reward, success = amount(reward, f"the reward of session {name!r}"), verdict(success, f"success of session {name!r}")
        if waits := self.open[name].running:
            raise SessionBusy(f"{waits} {'reply is' if waits == 1 else 'replies are'} under way in session {name!r}")
        if name in self.gave_way:
            del self.gave_way[name]
            return self._close(name, reward, None, task, group, FOR_ROOM)
        return self._close(name, reward, success, task, group)

    def close(self) -> None:
        """Write all open sessions, with an unknown result, and close the file."""
        for name in list(self.open):
            self._close(name)
        if self._file is not None:
            self._file.close()
            self._file = None

    def _close(
        self,
        name: str,
        reward: float = 0.0,
        success: bool | None = None,
        task: str = "",
        group: str = "",
        why: str = UNTOLD,
    ) -> Episode:
        session = self.open.pop(name)
        self._tokens -= session.tokens
        episode = session.episode(reward, success, task, group, why)
        if episode.turns and self._file is not None:
            episode.attempt = self._written[name]  # clients reuse names
            self._written[name] += 1
            self._file.write(episode.to_json() + "\n")
            self._file.flush()
        self.finished += 1
        return episode

    def _trim(self, room: int) -> None:
        """Close idle sessions until `room` more sessions fit within the limits."""
        while len(self.open) + room > self._limit or self._tokens > self._most:
            idle = next((name for name, session in self.open.items() if not session.running), None)
            if idle is None:
                return
            self._close(idle, why=FOR_ROOM)
            self.gave_way[idle] = None
            if len(self.gave_way) > self._limit:
                del self.gave_way[next(iter(self.gave_way))]


def _written(file: Path) -> Counter[str]:
    """Return the number of episodes by session in a file that an earlier gateway wrote."""
    counts = Counter[str]()
    with file.open("rb") as lines:
        for line in lines:
            try:
                counts[json.loads(line)["labels"]["session"]] += 1
            except (ValueError, TypeError, LookupError, RecursionError):  # not an episode of a gateway
                continue
    return counts


def _digests(messages: Sequence[Message], tools: str = "") -> list[bytes]:
    """Return a hash for each message, of the conversation up to and including it.

    White space around contents is ignored: clients trim replies, and the recorded tokens are authoritative.
    """
    digests: list[bytes] = []
    digest = tools.encode("utf-8", "surrogatepass")  # schemas may contain lone surrogates
    for message in messages:
        digest = _extended(digest, message)
        digests.append(digest)
    return digests


def _extended(digest: bytes, message: Message) -> bytes:
    """Return the hash of a conversation extended by one message."""
    return hashlib.blake2b(digest + json.dumps(canonical(message)).encode(), digest_size=16).digest()
