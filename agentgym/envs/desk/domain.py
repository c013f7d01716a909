"""What a domain of the desk is: tables, tools, a policy, and the matters that people call about."""

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
"""A kind (`money`, `date`, `number`) and a value that the customer has to be told."""
Ask = Callable[[str], str]
"""From a topic to what the customer says about it."""
Details = dict[str, str]
Drawn = tuple[str | None, Details]
"""A reference (None: the customer has none that fits) and what the customer says to each topic."""
PRIVATE = ("birth_date", "postcode")
"""Fields of customers that no tool shows: who knows them is the customer."""
FREE = ("transfer_to_human", "report_stranger")
"""Changes that need no yes of the customer."""
_Method = TypeVar("_Method", bound=Callable[..., object])


@dataclass(frozen=True)
class Decision:
    """What the policy says of a matter: what changes in the database (nothing: it is refused), and what must be told."""

    text: str
    """A sentence that tells the customer so, with the reference, the choices and the facts."""
    write: tuple[str, Row] | None = None
    """The one call that changes the database."""
    facts: tuple[Fact, ...] = ()
    choices: tuple[str, ...] = ()
    """What the customer wants to hear before a yes, besides the facts."""


@dataclass(frozen=True)
class Topic:
    """Something the customer can be asked: how questions for it look, one good question, and the answer."""

    pattern: str
    question: str
    answer: str


@dataclass(frozen=True)
class Intent:
    """A matter that people call about; `draw_NAME` and `decide_NAME` of the domain belong to it."""

    openings: tuple[str, ...]
    """The customer's first words, which no other intent of the domain has."""
    topics: Mapping[str, Topic] = field(default_factory=dict[str, Topic])
    charged: bool = False
    """Whether the amount that is told is one that the customer pays, and may find too much."""


class Domain:
    """One service desk. A subclass sets the class attributes, `rules`, `policy`, `fill`, tools, and its intents' methods."""

    company: ClassVar[str]
    noun: ClassVar[str]
    """What a reference is called: order, booking, …"""
    table: ClassVar[str]
    """The table whose keys are the references."""
    lister: ClassVar[str]
    """The tool that lists a customer's rows of that table."""
    readers: ClassVar[Mapping[str, str]]
    """The tool that shows a row, by table; it takes the key as its one argument."""
    searchers: ClassVar[Mapping[str, str]] = {}
    """The tool that searches a table, by table; it takes the conditions as its arguments."""
    amounts: ClassVar[tuple[str, ...]] = ()
    """Fields that hold an amount, in cents."""
    hint: ClassVar[str]
    """How a customer without a reference describes the row: a sentence with the row's fields in braces."""
    hint_fields: ClassVar[tuple[str, ...]]
    intents: ClassVar[Mapping[str, Intent]]

    def __init__(self, db: Database, rules: Row) -> None:
        self.db, self.r = db, rules
        self.today = date.fromisoformat(rules["today"])

    # What a domain defines

    @staticmethod
    def rules(rng: np.random.Generator) -> Row:
        """Draw the numbers of the policy."""
        raise NotImplementedError

    def policy(self) -> str:
        """Return the domain's own part of the policy."""
        raise NotImplementedError

    def fill(self, rng: np.random.Generator, customers: Sequence[str], extra: int) -> Tables:
        """Return the tables besides the customers; `extra` grows with difficulty."""
        raise NotImplementedError

    # What every domain has

    @tool
    def find_customer(self, name: str) -> str:
        """Find customers by their full name. Shows their ids; verify_customer says which one is on the line."""
        rows = self.db.base["customers"]
        matching = sorted(key for key, row in rows.items() if people.plain(row["name"]) == people.plain(name))
        if not matching:
            raise Refused(f"There is no customer of the name {name[:40]!r}. Ask for the full name.")
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
        """Return a key of the rows whose fields have one of the given values each; None where there is none."""
        matching = [key for key, row in mine.items() if all(row[name] in values for name, values in fields.items())]
        return pick(rng, matching) if matching else None

    def matches(self, customer_id: str, birth_date: str, postcode: str) -> bool:
        """Return whether these are the customer's own data; Refused where there is no such customer."""
        row = self.db.peek("customers", customer_id)
        return (row["birth_date"], people.plain(row["postcode"])) == (birth_date.strip(), people.plain(postcode))

    def show(self, table: str, key: str) -> str:
        """Return a row as the tools print it."""
        return self._written(key, self.db.get(table, key))

    def list(self, table: str, **fields: object) -> str:
        """Return the rows with these values as the tools print them."""
        rows = self.db.where(table, **fields)
        return "\n".join(self._written(key, row) for key, row in rows.items()) or f"No {table} found."

    def _written(self, key: str, row: Row) -> str:
        """Return a row without what only the customer knows, amounts as amounts."""
        shown = {name: cents(value) if name in self.amounts else value for name, value in row.items() if name not in PRIVATE}
        return f"{key}: {json.dumps(shown, ensure_ascii=False)}"

    def gold(self, row: Row) -> bool:
        """Return whether a row belongs to a gold customer."""
        return self.db.get("customers", row["customer_id"])["tier"] == "gold"

    def day(self, text: str, days: int = 0) -> date:
        """Return the day so many days after the one written."""
        return date.fromisoformat(text) + timedelta(days)

    def until(self, text: str) -> int:
        """Return the number of days from today to a day written."""
        return (date.fromisoformat(text) - self.today).days

    @classmethod
    def tools(cls) -> dict[str, Tool]:
        """Return the tools, the common ones first."""
        by_name: dict[str, Tool] = {}
        for klass in reversed(cls.__mro__):
            marked: list[Tool] = [member.__tool__ for member in vars(klass).values() if hasattr(member, "__tool__")]
            by_name |= {tool.name: tool for tool in marked}
        return by_name


def cents(value: int) -> str:
    """Return an amount in cents as it is written."""
    return f"${value // 100}.{value % 100:02d}"


def to_cents(amount: float) -> int:
    """Return an amount given in dollars in cents; Refused for what is no amount."""
    if not 0 <= amount < 10_000_000:
        shown = f"{amount:g}" if isinstance(amount, float) else str(amount)[:20]  # JSON's integers know no bounds
        raise Refused(f"{shown} is no amount of dollars.")
    return round(amount * 100)


def pick(rng: np.random.Generator, choices: Sequence[T]) -> T:
    """Return one of the choices."""
    return choices[int(rng.integers(len(choices)))]


def some(rng: np.random.Generator, low: int, high: int, step: int = 1) -> int:
    """Return a number from `low` to `high`, both included."""
    return low + step * int(rng.integers((high - low) // step + 1))


def code(rng: np.random.Generator, prefix: str, taken: Mapping[str, object], digits: int = 5) -> str:
    """Return a new key such as `R-48213`; one with more digits where half of these are taken."""
    least: int = 10 ** (digits - 1)
    while 2 * len(taken) > 9 * least:
        least *= 10
    while True:
        key = f"{prefix}-{int(rng.integers(least, 10 * least))}"
        if key not in taken:
            return key
