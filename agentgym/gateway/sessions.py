"""Conversations by session: exact tokens, merged if a request extends the past, a new row if it rewrote it."""

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
    """A session that is to be finished waits for a reply."""


@dataclass(slots=True)
class ChatState:
    """A conversation as it stood after a reply."""

    cache: str
    """Id of the row in the engine."""
    ended: bool = True
    """True if the reply ended with its own stop token."""
    reply: Message = field(default_factory=Message)
    """The last reply as sent to its client."""
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    """The calls in it, as the model's family has them."""
    row: int = 0
    length: int = 0
    """Number of the row's tokens up to the end of the turn: its prompt and its reply."""
    before: "ChatState | None" = None
    """The conversation that it continues."""
    new: list[Message] = field(default_factory=list[Message])
    """Messages of the client after that."""
    instructed: bool = False
    """True if its first message is the instructions of a request, which the next request does not go on from."""
    extended: bool = False
    """True if a request went on from it."""


@dataclass(frozen=True, slots=True)
class ReplySlot:
    """Place of the replies to one request, looked up once for all of them."""

    base: ChatState | None
    """The conversation that they go on from."""
    prompt: "array[int]"
    drifted: int
    """Number of the conversation's tokens that the prompt does not repeat."""
    digest: bytes
    """Digest of the messages; empty without messages."""
    tools: str = ""
    """Names the tools that the request offered."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Budget of one session; 0 means no limit."""

    turns: int = 0
    """Replies."""
    tokens: int = 0
    """Sampled tokens."""
    cost: float = 0.0
    """US dollars, at the two prices."""
    input_price: float = 0.0
    """US dollars of a prompt token."""
    output_price: float = 0.0
    """US dollars of a sampled token."""
    turn_tokens: int = 0
    """Maximum tokens of one reply; overrides the client's limit."""


@dataclass(slots=True)
class Session:
    """One agent's conversation, with every branch it took."""

    name: str
    budget: Budget = Budget()
    state: Callable[[], Awaitable[str | None]] | None = None
    """Function that returns the state when a request arrives; None if it is not recorded."""
    side_calls: bool | None = None
    """True if calls outside the main conversation are trained; the main conversation then comes last. None does not
    distinguish them.
    """
    measures: dict[str, float] = field(default_factory=dict[str, float])
    """Additional fields of its episode."""
    used_up: str = ""
    """Part of the budget that ended, once a request was refused for it."""
    replies: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0
    running: int = 0
    """Replies under way."""
    unanswered: int = 0
    """Requests that the engine failed to answer."""
    drifted: int = 0
    """Held tokens that a request which extends the past did not repeat exactly: 0, or something is wrong."""
    tokens: int = 0
    """Tokens held, in all rows."""
    _rows: list[Row] = field(default_factory=list[Row])
    _known: dict[bytes, ChatState] = field(default_factory=dict[bytes, ChatState])
    _ends: list[ChatState] = field(default_factory=list[ChatState])
    _choices: list[list[ChatState]] = field(default_factory=list[list[ChatState]])
    _answers: dict[str, ChatState] = field(default_factory=dict[str, ChatState])

    @property
    def rows(self) -> list[list[Turn]]:
        """The turns, row by row."""
        return [row.turns() for row in self._rows]

    def ids(self, row_end: ChatState) -> list[int]:
        """Return the tokens of a recorded conversation."""
        return self._rows[row_end.row].ids[: row_end.length].tolist()

    def refuse_over_budget(self) -> str:
        """Return the exhausted part of the budget, after which no reply may follow; empty while budget remains."""
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
        """Return the longest recorded conversation that messages extend, and its number of messages; `tools` is the key
        of the tools.
        """
        digests = _digests(messages, tools)
        for count in range(len(messages) - 1, 0, -1):
            row_end = self._known.get(digests[count - 1])
            if row_end is not None:
                return row_end, count
        return None, 0

    def find_ids(self, prompt: Sequence[int]) -> ChatState | None:
        """Return the longest row that a prompt extends token by token."""
        fits = [end for end in self._ends if self._rows[end.row].begins(prompt)]
        return max(fits, key=lambda end: end.length, default=None)

    def place(
        self, prompt_ids: Sequence[int], base: ChatState | None, messages: Sequence[Message] = (), tools: str = ""
    ) -> ReplySlot:
        """Return the place for the replies to a prompt that continues `base`, and count its drift."""
        drifted = 0
        if base is not None:
            base.extended = True
            drifted = base.length - common_prefix(self.ids(base), prompt_ids)
            self.drifted += drifted
        digest = _digests(messages, tools)[-1] if messages else b""
        return ReplySlot(base, array("i", prompt_ids), drifted, digest, tools)

    def record(self, turn: Turn, place: ReplySlot, answer: ChatState) -> int:
        """Record a turn and the conversation after it, at the end of the row that it extends or in a new row.

        Returns the number of added tokens.
        """
        base = place.base
        if base is not None and not place.drifted and self._ends[base.row] is base:
            answer.row = base.row
            self._ends[answer.row] = answer
        else:  # the past was rewritten, or another reply has been given to it since
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
        """Remember which replies are choices of one request and, under an `id`, the first of them."""
        if len(choices) > 1:
            self._choices.append(choices)
        if id:
            self._answers[id] = choices[0]

    def conversation(self, id: str) -> list[Message] | None:
        """Return the messages up to and including an answer, without instructions; None if no such answer is stored."""
        answer = last = self._answers.get(id)
        if last is None:
            return None
        parts: list[Message] = []
        while answer is not None:
            parts += [answer.reply, *reversed(answer.new)]
            answer = answer.before
        return parts[::-1][1 if last.instructed else 0 :]

    def _leave_out_unused(self) -> None:
        """Do not train choices that their client dropped by continuing with another one."""
        for choices in self._choices:
            for answer in choices if any(answer.extended for answer in choices) else ():
                if not answer.extended:
                    self._rows[answer.row].last.extra["train"] = False

    def _in_order(self) -> list[Turn]:
        """Return the turns row by row; calls outside the main conversation come first if they are distinguished.

        The main conversation is every row with the same tools as the row with most turns: a rewritten prompt keeps these
        tools, while sub-agents, titles and summaries have other tools or none.
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
        """Return how much was recorded."""
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

        Without `success` the result is unknown: the episode is a fault and is never trained on; `why` is the reason.
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
    """Every open session; a finished one is written as a line of `out` and forgotten.

    Beyond `limit` sessions or `tokens` tokens in all, the session that is idle longest is closed without a result.
    Raises BadConfig if another process writes to `out`.
    """

    SHARE = 4
    """A session with this share of `tokens` is full; otherwise one agent could evict all others."""

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
        """Return a session, created if it does not exist."""
        self._trim(0 if name in self.open else 1)
        session = self.open.pop(name, None) or Session(name)
        self.open[name] = session  # the last used comes last
        return session

    def full(self, session: Session) -> bool:
        """Return whether a session is full."""
        return session.tokens * self.SHARE >= self._most

    def record(self, session: Session, turn: Turn, place: ReplySlot, answer: ChatState) -> None:
        """Record a turn in a session; see `Session.record`."""
        self._tokens += session.record(turn, place, answer)

    def finish(
        self, name: str, reward: float = 0.0, success: bool | None = None, task: str = "", group: str = ""
    ) -> Episode:
        """Close a session and return its episode; its line is written when this returns. If a session of this name was
        closed to make room, the episode is a fault: its earlier turns are lost.

        Raises:
            KeyError: no session has the name.
            SessionBusy: the session waits for a reply, which would be lost.
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
        """Write open sessions, as sessions that nothing finished."""
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
            episode.attempt = self._written[name]  # clients use a name again
            self._written[name] += 1
            self._file.write(episode.to_json() + "\n")
            self._file.flush()
        self.finished += 1
        return episode

    def _trim(self, room: int) -> None:
        """Close idle sessions until `room` more fit and the open ones are within their bounds."""
        while len(self.open) + room > self._limit or self._tokens > self._most:
            idle = next((name for name, session in self.open.items() if not session.running), None)
            if idle is None:
                return
            self._close(idle, why=FOR_ROOM)
            self.gave_way[idle] = None
            if len(self.gave_way) > self._limit:
                del self.gave_way[next(iter(self.gave_way))]


def _written(file: Path) -> Counter[str]:
    """Return the number of episodes of each session in a file that an earlier gateway wrote."""
    counts = Counter[str]()
    with file.open("rb") as lines:
        for line in lines:
            try:
                counts[json.loads(line)["labels"]["session"]] += 1
            except (ValueError, TypeError, LookupError, RecursionError):  # no episode of a gateway: readers say so
                continue
    return counts


def _digests(messages: Sequence[Message], tools: str = "") -> list[bytes]:
    """Return the hash of the conversation up to each message.

    White space around contents is ignored: clients trim replies, and the recorded tokens are authoritative.
    """
    digests: list[bytes] = []
    digest = tools.encode("utf-8", "surrogatepass")  # schemas may hold halves of characters
    for message in messages:
        digest = _extended(digest, message)
        digests.append(digest)
    return digests


def _extended(digest: bytes, message: Message) -> bytes:
    """Return the hash of a conversation with one message more."""
    return hashlib.blake2b(digest + json.dumps(canonical(message)).encode(), digest_size=16).digest()
