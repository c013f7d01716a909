"""Usage of an evaluation's requests: tokens by kind, cost as reported or by a price table, and latency."""

import asyncio
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from agentgym.core.outcome import Finish
from agentgym.engines import ChatEngine, Completion, Sampling
from agentgym.episodes.episode import Episode, Turn
from agentgym.episodes.usage import MOST, SECONDS, Usage, amount, from_extra
from agentgym.errors import BadConfig, BadData, EngineDead, no_such
from agentgym.evaluate.replies import replies

MILLION = 1_000_000
LOOK = 0.1
"""Polling interval in seconds while waiting for running attempts to end."""
COUNTS = ("input", "output", "cached", "written", "reasoning")


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens of a model."""

    input: float
    output: float
    cached: float | None = None
    """Price of input read from the server's cache; None: the price of other input."""
    written: float | None = None
    """Price of input written to the cache; None: the price of other input."""
    source: str = ""
    """Source of the prices, with the date of access."""

    def of(self, usage: Usage) -> float:
        """Return the cost of a request in US dollars."""
        cached = self.input if self.cached is None else self.cached
        written = self.input if self.written is None else self.written
        fresh = max(0, usage.input - usage.cached - usage.written)
        total = fresh * self.input + usage.cached * cached + usage.written * written + usage.output * self.output
        return total / MILLION


class OverBudget(EngineDead):
    """The evaluation reached its cost limit; finished episodes are stored."""


def read_prices(path: str | Path) -> dict[str, Price]:
    """Return the prices in a TOML file that has a table for each model.

    Raises:
        BadConfig: the file cannot be read, or a model's prices are incomplete or invalid.
        BadData: the file is not TOML.
    """
    path = Path(path)
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise BadConfig(f"{path}: cannot be read ({error.strerror}); expected a TOML file of prices") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadData(f"{path}: not TOML ({error})") from error
    return {model: _price(f"{path.name}: {model}", table) for model, table in raw.items()}


def _price(where: str, table: object) -> Price:
    known = [entry.name for entry in fields(Price)]
    values = cast("dict[str, Any]", table) if isinstance(table, dict) else {}
    for name, value in values.items():
        if name not in known:
            raise BadConfig(no_such(f"key in {where}:", name, known))
        if name == "source":
            if not isinstance(value, str):
                raise BadConfig(f"{where}: source is {value!r}; expected text")
        elif amount(value) is None:
            raise BadConfig(f"{where}: {name} is {value!r}; expected US dollars for a million tokens, from 0 to {MOST:,.0f}")
    if not {"input", "output"} <= {*values}:
        raise BadConfig(f"{where} needs input and output: US dollars for a million tokens")
    return Price(**values)


def price_of(model: str, prices: Mapping[str, Price]) -> Price | None:
    """Return the price of a model, listed by its full name or without `chat:`, URL or organization; None if not listed."""
    bare = model.removeprefix("chat:")
    own = bare.rpartition("#")[2] if bare.startswith(("http://", "https://")) else bare.partition("/")[2]
    return next((prices[name] for name in (model, bare, own) if name in prices), None)


def cost_of(usage: Usage, price: Price | None) -> float | None:
    """Return the cost of a request: as reported by the server, else by the price; None if neither is known."""
    if usage.cost is not None:
        return usage.cost
    return None if price is None else price.of(usage)


def usage_of(turn: Turn) -> Usage | None:
    """Return the usage of a turn's requests: as counted by the server, else the recorded tokens; None if unknown."""
    if counted := from_extra(turn.extra):
        return counted
    calls = [call for call in turn.calls if call.output_ids]
    return Usage(sum(len(call.prompt_ids) for call in calls), turn.sampled) if calls else None


def requests(episodes: Iterable[Episode]) -> Iterator[tuple[Turn, Usage | None]]:
    """Yield the turns that began with an answered request, with the request's usage or None if it is unknown."""
    for episode in episodes:
        for turn in replies(episode):
            if turn.finish not in (Finish.CONTEXT, Finish.ABORT):
                yield turn, usage_of(turn)


def total_cost(episodes: Iterable[Episode], price: Price | None) -> float | None:
    """Return the cost in US dollars of requests with known usage; None if there are none or any has no price."""
    costs = [cost_of(usage, price) for _, usage in requests(episodes) if usage]
    known = [cost for cost in costs if cost is not None]
    return float(sum(known)) if costs and len(known) == len(costs) else None


def spending(episodes: Sequence[Episode], price: Price | None) -> dict[str, object]:
    """Return the entries `usage`, `uncounted`, `cost` and `latency` of a summary; faults count too.

    Requests without a usable answer are not included, though a server may charge for some; the summary's `met` counts them.

    `usage`: total tokens by kind (`COUNTS`); None if no request's usage is known. `uncounted`: number of requests of
    unknown usage; above 0, usage and cost are too low. `cost`: US dollars (`total`, `per_episode`, and `per_success`,
    which is None without a success) and `by` (`server` or `prices`); None if no usage is known, or a request with known
    usage has neither a reported cost nor a price. `latency`: `median` and `p95` in seconds, and `requests`, the number of
    measured replies; None if no reply was measured.
    """
    counted = [usage for _, usage in requests(episodes)]
    usages = [usage for usage in counted if usage]
    seconds = [
        value for episode in episodes for turn in replies(episode) if (value := amount(turn.extra.get(SECONDS))) is not None
    ]
    total, won = total_cost(episodes, price), sum(episode.success is True for episode in episodes)
    cost = None
    if total is not None:
        cost = {
            "total": total,
            "per_episode": total / len(episodes),
            "per_success": total / won if won else None,
            "by": "server" if all(usage.cost is not None for usage in usages) else "prices",
        }
    median, p95 = (float(np.quantile(seconds, share)) for share in (0.5, 0.95)) if seconds else (0.0, 0.0)
    return {
        "usage": {name: sum(getattr(usage, name) for usage in usages) for name in COUNTS} if usages else None,
        "uncounted": len(counted) - len(usages),
        "cost": cost,
        "latency": {"median": median, "p95": p95, "requests": len(seconds)} if seconds else None,
    }


class TokenCounts(Protocol):
    """Tokens of an attempt's requests so far."""

    prompt_tokens: int
    output_tokens: int


@dataclass
class AttemptCosts:
    """Cost of finished and running attempts, from the tokens of their requests; no attempt starts beyond the limit."""

    price: Price
    most: float
    """Limit in US dollars."""
    before: float = 0.0
    """Cost of earlier sessions in US dollars."""
    _attempts: list[TokenCounts] = field(default_factory=list[TokenCounts], init=False)

    @property
    def spent(self) -> float:
        """Cost so far, in US dollars."""
        counts = [Usage(attempt.prompt_tokens, attempt.output_tokens) for attempt in self._attempts]
        return self.before + sum(map(self.price.of, counts))

    async def admit(self, attempt: TokenCounts, running: Collection[object]) -> None:
        """Admit an attempt; `running` has the attempts that currently run.

        Raises:
            OverBudget: the limit is reached; raised once all running attempts have ended.
        """
        if self.spent >= self.most:
            while running:
                await asyncio.sleep(LOOK)
            raise OverBudget(f"${self.spent:.4f} of --max-cost {self.most:g} are spent")
        self._attempts.append(attempt)


class MeteredEngine:
    """Chat engine wrapper that adds up the cost of requests, and ends the evaluation at its limit.

    `spent` starts at the cost of earlier sessions; requests without a usable answer are not included. At the limit `most`
    (US dollars; None: no limit) no new episode starts, but running episodes finish, even beyond the limit, so that nothing
    is paid twice.
    """

    tokenizer = None

    def __init__(self, engine: ChatEngine, price: Price | None, most: float | None, spent: float = 0.0) -> None:
        self.inner, self._price, self._most, self.spent = engine, price, most, spent
        self._playing: set[str] = set()
        """Running episodes, by the common prefix of their session names."""
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def met(self) -> dict[str, int]:
        """Number of times that each problem occurred in the wrapped engine."""
        return getattr(self.inner, "met", {})

    @property
    def adapted(self) -> dict[str, str]:
        """Parameters that the server rejected, each with the adaptation that was made."""
        return getattr(self.inner, "adapted", {})

    @property
    def settings(self) -> dict[str, object]:
        """Engine options that affect replies."""
        return getattr(self.inner, "settings", {})

    async def chat(
        self, messages: Sequence[dict[str, object]], tools: Sequence[dict[str, object]], sampling: Sampling, session: str
    ) -> Completion:
        """Return the wrapped engine's reply; a new episode is first admitted under the cost limit.

        Raises:
            BadConfig: the limit is set and the cost of a token is unknown.
        """
        await self._admit(session)
        done = await self.inner.chat(messages, tools, sampling, session)
        cost = None if done.usage is None else cost_of(done.usage, self._price)
        if cost is not None:
            self.spent += cost
        elif self._most is not None and done.finish not in (Finish.CONTEXT, Finish.ABORT):
            raise BadConfig(
                f"--max-cost is {self._most:g}, and the server does not say what a request costs: name the model's prices "
                "with --prices FILE"
                if self._price is None
                else f"--max-cost is {self._most:g}, and the server did not count the tokens of a reply (no `usage`), so "
                "nobody knows what is spent: leave out --max-cost"
            )
        return done

    async def _admit(self, session: str) -> None:
        """Admit the episode of a session, unless the limit is reached and the episode is new.

        Raises:
            OverBudget: the limit is reached and all running episodes have ended.
        """
        name = session.removesuffix("#check").rpartition("#")[0]
        if name not in self._playing and self._most is not None and self.spent >= self._most:
            while self._playing:
                self._waiting.append(asyncio.get_running_loop().create_future())
                await self._waiting[-1]
            raise OverBudget(f"${self.spent:.4f} of --max-cost {self._most:g} are spent")
        self._playing.add(name)

    def ended(self, episode: Episode) -> None:
        """Record that an episode has ended and is stored."""
        self._playing.discard(f"{episode.group_id}#{episode.attempt}")
        while self._waiting and not self._playing:
            if not (waiter := self._waiting.pop()).done():
                waiter.set_result(None)

    def abort(self, session: str) -> None:
        """Abort the session's request."""
        self.inner.abort(session)

    def close(self) -> None:
        """Close the engine."""
        self.inner.close()


def price_in(summary: Mapping[str, object]) -> Price | None:
    """Return the price stored in a summary; None if it is missing or malformed."""
    try:
        return _price("summary.json", summary.get("price"))
    except BadConfig:
        return None


def recorded(price: Price | None) -> dict[str, object] | None:
    """Return a price as JSON values for the summary."""
    return None if price is None else {name: value for name, value in asdict(price).items() if value is not None}
