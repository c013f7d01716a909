"""What an evaluation's requests took: tokens by kind, money by the server's word or a table of prices, and seconds."""

import asyncio
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, cast

import numpy as np

from agentgym.core.outcome import Finish
from agentgym.engines import ChatEngine, Completion, Sampling
from agentgym.episodes.episode import Episode, Turn
from agentgym.episodes.usage import MOST, SECONDS, Usage, amount, from_extra
from agentgym.errors import BadConfig, BadData, EngineDead, no_such
from agentgym.evaluate.replies import replies

MILLION = 1_000_000
COUNTS = ("input", "output", "cached", "written", "reasoning")


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million tokens of a model."""

    input: float
    output: float
    cached: float | None = None
    """Of input that came from the server's cache; None: that of input."""
    written: float | None = None
    """Of input that went into it; None: that of input."""
    source: str = ""
    """Where the prices are written down, and when they were read."""

    def of(self, usage: Usage) -> float:
        """Return what a request costs, in US dollars."""
        cached = self.input if self.cached is None else self.cached
        written = self.input if self.written is None else self.written
        fresh = max(0, usage.input - usage.cached - usage.written)
        total = fresh * self.input + usage.cached * cached + usage.written * written + usage.output * self.output
        return total / MILLION


class OverBudget(EngineDead):
    """More money was spent than an evaluation may; finished episodes are kept."""


def read_prices(path: str | Path) -> dict[str, Price]:
    """Return the prices by model in a TOML file, a table for each; BadConfig and BadData for a file that is none."""
    path = Path(path)
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise BadConfig(f"{path}: cannot be read ({error.strerror}); expected a TOML file of prices") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadData(f"{path}: not TOML ({error})") from error
    return {model: _price(f"{path.name}: {model}", table) for model, table in raw.items()}


def _price(where: str, table: object) -> Price:
    known = [field.name for field in fields(Price)]
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
    """Return the price of a model as a command names it: under that name, or under the model's own."""
    bare = model.removeprefix("chat:")
    own = bare.rpartition("#")[2] if bare.startswith(("http://", "https://")) else bare.partition("/")[2]
    return next((prices[name] for name in (model, bare, own) if name in prices), None)


def cost_of(usage: Usage, price: Price | None) -> float | None:
    """Return what a request costs: what the server says, else by the price; None where neither is known."""
    if usage.cost is not None:
        return usage.cost
    return None if price is None else price.of(usage)


def usage_of(turn: Turn) -> Usage | None:
    """Return what a turn's requests took: as the server counted, or the exact tokens."""
    if counted := from_extra(turn.extra):
        return counted
    calls = [call for call in turn.calls if call.output_ids]
    return Usage(sum(len(call.prompt_ids) for call in calls), turn.sampled) if calls else None


def requests(episodes: Iterable[Episode]) -> Iterator[tuple[Turn, Usage | None]]:
    """Yield the turns that began with a request that was answered, with what it took; None where nobody counted that."""
    for episode in episodes:
        for turn in replies(episode):
            if turn.finish not in (Finish.CONTEXT, Finish.ABORT):
                yield turn, usage_of(turn)


def total_cost(episodes: Iterable[Episode], price: Price | None) -> float | None:
    """Return what counted requests cost in US dollars; None where one of them has no price."""
    costs = [cost_of(usage, price) for _, usage in requests(episodes) if usage]
    known = [cost for cost in costs if cost is not None]
    return float(sum(known)) if costs and len(known) == len(costs) else None


def spending(episodes: Sequence[Episode], price: Price | None) -> dict[str, object]:
    """Return `usage` (tokens of all requests), `cost` (US dollars) and `latency` (seconds of a request that was answered).

    Each is None where nothing is known of it. Episodes that ended as faults count: they were paid for. `uncounted` requests
    have no part in usage and cost, which are then too low.
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


class Metered:
    """A chat engine that counts what its requests cost, and ends the evaluation when that is more than it may be.

    `spent` is what earlier sessions cost. Episodes under way are played to their ends, so that nothing is paid twice: each
    may spend more, and no other one begins.
    """

    tokenizer = None

    def __init__(self, engine: ChatEngine, price: Price | None, most: float | None, spent: float = 0.0) -> None:
        self.inner, self._price, self._most, self.spent = engine, price, most, spent
        self._playing: set[str] = set()
        """Episodes under way, by the beginning of their sessions."""
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def met(self) -> dict[str, int]:
        """What the engine met."""
        return getattr(self.inner, "met", {})

    @property
    def adapted(self) -> dict[str, str]:
        """What the engine's server refused to be told."""
        return getattr(self.inner, "adapted", {})

    @property
    def settings(self) -> dict[str, object]:
        """What of the engine's options decides replies."""
        return getattr(self.inner, "settings", {})

    async def chat(
        self, messages: Sequence[dict[str, object]], tools: Sequence[dict[str, object]], sampling: Sampling, session: str
    ) -> Completion:
        """Return the engine's reply; OverBudget where nothing is left, BadConfig where nobody knows what a token costs."""
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
        """Let the episode of a session begin or go on; of one too many, raise OverBudget when the others have ended."""
        name = session.removesuffix("#check").rpartition("#")[0]
        if name not in self._playing and self._most is not None and self.spent >= self._most:
            while self._playing:
                self._waiting.append(asyncio.get_running_loop().create_future())
                await self._waiting[-1]
            raise OverBudget(f"${self.spent:.4f} of --max-cost {self._most:g} are spent")
        self._playing.add(name)

    def ended(self, episode: Episode) -> None:
        """Take note that an episode is over and kept."""
        self._playing.discard(f"{episode.group_id}#{episode.attempt}")
        while self._waiting and not self._playing:
            if not (waiter := self._waiting.pop()).done():
                waiter.set_result(None)

    def abort(self, session: str) -> None:
        """End the session's request."""
        self.inner.abort(session)

    def close(self) -> None:
        """Free everything."""
        self.inner.close()


def price_in(summary: Mapping[str, object]) -> Price | None:
    """Return the price that a summary was made with; None where there was none, or what is there is none."""
    try:
        return _price("summary.json", summary.get("price"))
    except BadConfig:
        return None


def recorded(price: Price | None) -> dict[str, object] | None:
    """Return a price for the record."""
    return None if price is None else {name: value for name, value in asdict(price).items() if value is not None}
