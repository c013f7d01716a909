"""Base class of the desk's domains: tables, tools, a policy, and the matters (requests) of customers."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import ClassVar, TypeVar

import numpy as np

from agentgym.core.actions import Tool, tool
from agentgym.envs.desk import people
from agentgym.envs.desk.database import Database, Refused, Row, Tables

T = TypeVar("T")
Fact = tuple[str, str]
"""Kind (`money`, `date` or `number`) and value of information that the agent must give the customer."""
Ask = Callable[[str], str]
"""Function from a topic to what the customer says about it."""
Details = dict[str, str]
Drawn = tuple[str | None, Details]
"""A reference (None if the customer has no suitable row) and the customer's answer to each topic."""
PRIVATE = ("birth_date", "zip_code")
"""Fields of customers that no tool shows; only the customer knows them."""
FREE = ("transfer_to_human", "report_stranger")
"""Tools that change the database without the customer's consent."""
_Method = TypeVar("_Method", bound=Callable[..., object])


@dataclass(frozen=True)
class Decision:
    """Decision of the policy on a matter: a change to the database or a refusal, and facts to tell the customer."""

    text: str
    """A sentence for the customer, with the reference, the choices and the facts."""
    write: tuple[str, Row] | None = None
    """Name and arguments of the tool call that changes the database; None for a refusal or a mere answer."""
    facts: tuple[Fact, ...] = ()
    choices: tuple[str, ...] = ()
    """Values the customer asked for, which the agent must repeat before the customer consents."""


@dataclass(frozen=True)
class Topic:
    """A question that the agent can ask: a pattern that recognizes it, its best wording, and the customer's answer."""

    pattern: str
    question: str
    answer: str


@dataclass(frozen=True)
class Intent:
    """A kind of request (matter) from customers; the domain has methods `draw_NAME` and `decide_NAME` for it."""

    openings: tuple[str, ...]
    """First sentences a customer may say; each belongs to only one intent of the domain."""
    topics: Mapping[str, Topic] = field(default_factory=dict[str, Topic])
    charged: bool = False
    """True if the customer pays the stated amount and may reject it as too high."""


class Domain:
    """Base class of service desks: tables, tools, a policy, and the kinds of requests from customers.

    A subclass sets the class attributes and defines `rules`, `policy`, `fill`, its tools, and `draw_NAME` and
    `decide_NAME` for each intent.
    """

    company: ClassVar[str]
    noun: ClassVar[str]
    """Word for a row of `table` in texts: order, booking, …"""
    table: ClassVar[str]
    """Name of the table with the orders, bookings, and so on; its keys are the references that customers give."""
    lister: ClassVar[str]
    """Name of the tool that lists a customer's rows of `table`."""
    readers: ClassVar[Mapping[str, str]]
    """Table -> tool that shows one of its rows; the tool's only argument is the key."""
    searchers: ClassVar[Mapping[str, str]] = {}
    """Table -> tool that searches it; the tool's arguments are the conditions."""
    amounts: ClassVar[tuple[str, ...]] = ()
    """Names of the fields that contain amounts in cents."""
    hint: ClassVar[str]
    """Template for a customer's description of the row if the reference is unknown, with the row's fields in braces."""
    hint_fields: ClassVar[tuple[str, ...]]
    intents: ClassVar[Mapping[str, Intent]]

    def __init__(self, db: Database, rules: Row) -> None:
        self.db, self.r = db, rules
        self.today = date.fromisoformat(rules["today"])

    # Defined by subclasses

    @staticmethod
    def rules(rng: np.random.Generator) -> Row:
        """Draw the numbers of a policy, such as limits and fees."""
        raise NotImplementedError

    def policy(self) -> str:
        """Return the domain's part of the policy."""
        raise NotImplementedError

    def fill(self, rng: np.random.Generator, customers: Sequence[str], extra: int) -> Tables:
        """Return all tables except the customers'; `extra` is the difficulty and adds rows."""
        raise NotImplementedError

    # Common to all domains

    @tool
    def find_customer(self, name: str) -> str:
        """Find customers by their full name. Shows their ids; verify_customer says which one is on the line.

        Raises:
            Refused: no customer has this name.
        """
        rows = self.db.base["customers"]
        matching = sorted(key for key, row in rows.items() if people.plain(row["name"]) == people.plain(name))
        if not matching:
            raise Refused(f"There is no customer named {name[:40]!r}. Ask for the full name.")
        self.db.seen.add(("names", people.plain(name)))
        return "\n".join(f"{key}: {rows[key]['name']}" for key in matching)

    @tool
    def get_customer(self, customer_id: str) -> str:
        """Show a customer's record."""
        return self.show("customers", customer_id)

    @tool
    def transfer_to_human(self, reference: str, department: str) -> str:
        """Hand one matter over to a department, where the policy says so. The rest of the conversation stays yours."""
        self.db.peek(self.table, reference)
        name = department.strip().lower().removesuffix(" department")
        self.db.put("handovers", reference, {"department": name})
        return f"Handed over: {reference} to {name[:40]}."

    @tool
    def report_stranger(self, name: str) -> str:
        """Report that somebody gave this name and that their details match no customer of that name."""
        self.db.put("strangers", people.plain(name), {"reported": True})
        return f"Reported: somebody who gave the name {name[:40]}."

    def one(self, rng: np.random.Generator, mine: Mapping[str, Row], **fields: Sequence[object]) -> str | None:
        """Return the key of a random row in `mine` with one of the given values in each field; None if no row fits."""
        matching = [key for key, row in mine.items() if all(row[name] in values for name, values in fields.items())]
        return pick(rng, matching) if matching else None

    def matches(self, customer_id: str, birth_date: str, zip_code: str) -> bool:
        """Return whether a customer has this birth date and ZIP code; raise Refused if there is no such customer."""
        row = self.db.peek("customers", customer_id)
        return (row["birth_date"], people.plain(row["zip_code"])) == (birth_date.strip(), people.plain(zip_code))

    def show(self, table: str, key: str) -> str:
        """Return a row in the form that the tools print."""
        return self._written(key, self.db.get(table, key))

    def list(self, table: str, **fields: object) -> str:
        """Return the rows with these field values in the form that the tools print."""
        rows = self.db.where(table, **fields)
        return "\n".join(self._written(key, row) for key, row in rows.items()) or f"No {table} found."

    def _written(self, key: str, row: Row) -> str:
        """Return a row as JSON, without private fields and with formatted amounts."""
        visible = {
            name: cents(value) if name in self.amounts else value for name, value in row.items() if name not in PRIVATE
        }
        return f"{key}: {json.dumps(visible, ensure_ascii=False)}"

    def gold(self, row: Row) -> bool:
        """Return whether a row belongs to a gold customer."""
        return self.db.get("customers", row["customer_id"])["tier"] == "gold"

    def day(self, text: str, days: int = 0) -> date:
        """Return the date `days` after an ISO date."""
        return date.fromisoformat(text) + timedelta(days)

    def until(self, text: str) -> int:
        """Return the number of days from today to an ISO date."""
        return (date.fromisoformat(text) - self.today).days

    @classmethod
    def tools(cls) -> dict[str, Tool]:
        """Return the domain's tools by name, those common to all domains first."""
        by_name: dict[str, Tool] = {}
        for klass in reversed(cls.__mro__):
            marked: list[Tool] = [member.__tool__ for member in vars(klass).values() if hasattr(member, "__tool__")]
            by_name |= {tool.name: tool for tool in marked}
        return by_name


def cents(value: int) -> str:
    """Format an amount in cents as dollars: $12.50."""
    return f"${value // 100}.{value % 100:02d}"


def to_cents(amount: float) -> int:
    """Convert an amount in dollars to cents.

    Raises:
        Refused: the amount is negative, or 10 million dollars or more.
    """
    if not 0 <= amount < 10_000_000:
        text = f"{amount:g}" if isinstance(amount, float) else str(amount)[:20]  # JSON's integers are unbounded
        raise Refused(f"{text} is not an amount in dollars.")
    return round(amount * 100)


def pick(rng: np.random.Generator, choices: Sequence[T]) -> T:
    """Return a random choice."""
    return choices[int(rng.integers(len(choices)))]


def integer(rng: np.random.Generator, low: int, high: int, step: int = 1) -> int:
    """Return a random number from `low` to `high`, inclusive, in steps of `step`."""
    return low + step * int(rng.integers((high - low) // step + 1))


def code(rng: np.random.Generator, prefix: str, existing: Mapping[str, object], digits: int = 5) -> str:
    """Return a new random key such as `R-48213`, with more digits once half of the keys are taken."""
    least: int = 10 ** (digits - 1)
    while 2 * len(existing) > 9 * least:
        least *= 10
    while True:
        key = f"{prefix}-{int(rng.integers(least, 10 * least))}"
        if key not in existing:
            return key
