"""Services of one episode: their records, and what the agent has observed."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentgym.envs.functions.catalog import Function
from agentgym.envs.functions.services import SERVICES, Field

Value = Any
Row = dict[str, Value]
Values = Mapping[str, Value]
"""Arguments by role, or a record's values by field."""
Operation = list[Value]
"""An operation that fulfills a request: name, service, and arguments."""
Tables = Mapping[str, Mapping[str, Row]]
"""Initial records by service and id."""
Fact = tuple[str, ...]
"""Something the agent has observed, such as `("row", service, id)`."""
LONGEST = 60
"""Maximum length, in characters, of a search text and of a new record's title."""
MOST_LISTED = 40
"""Maximum number of records that a list shows."""


class Refused(Exception):
    """A service refuses a call; the message gives the reason, and nothing changes."""


@dataclass
class Memory:
    """Everything that happened in an episode."""

    changes: dict[tuple[str, str], Row | None] = field(default_factory=dict[tuple[str, str], "Row | None"])
    """Records that differ from their initial state, by (service, id); None for a deleted record."""
    made: dict[tuple[str, str], Row] = field(default_factory=dict[tuple[str, str], Row])
    """Records created by the agent, in their initial form, by (service, id)."""
    ledger: list[tuple[str | int, ...]] = field(default_factory=list["tuple[str | int, ...]"])
    """Payments, messages and defaults, which cannot be undone."""
    revealed: set[Fact] = field(default_factory=set[Fact])
    unlocked: set[str] = field(default_factory=set[str])
    signed: set[str] = field(default_factory=set[str])
    waits: dict[str, int] = field(default_factory=dict[str, int])
    """Number of calls that each busy service has refused so far."""


class System:
    """Services of an episode over the current records."""

    def __init__(self, base: Tables, obstacles: Values, memory: Memory) -> None:
        self.base, self.obstacles, self.memory = base, obstacles, memory
        self.notes: Mapping[str, str] = obstacles.get("notes", {})
        """Note in a record, by the record's id."""

    # Records

    def ids(self, service: str) -> list[str]:
        """Return the ids of a service's current records, in sorted order."""
        created = [key for name, key in self.memory.made if name == service]
        known = [*self.base.get(service, {}), *created]
        return sorted(key for key in known if self.memory.changes.get((service, key), self) is not None)

    def row(self, service: str, key: str) -> Row:
        """Return a record's current values.

        Raises:
            Refused: there is no such record.
        """
        present = self.memory.changes.get((service, key), self.base.get(service, {}).get(key))
        if present is None:
            raise Refused(f"there is no {SERVICES[service].noun} {key[:20]!r}. Look up its id.")
        return present

    def original(self, service: str, key: str) -> Row:
        """Return a record's initial values or, if the agent created the record, the values at its creation."""
        return self.base.get(service, {}).get(key) or self.memory.made[service, key]

    def put(self, service: str, key: str, row: Row | None) -> None:
        """Write a record, or delete it if `row` is None."""
        if row is not None and self.base.get(service, {}).get(key) == row:
            self.memory.changes.pop((service, key), None)
        else:
            self.memory.changes[service, key] = row

    def written(self, service: str, key: str) -> str:
        """Return a record as text: id, all fields, lock and note."""
        locked = {"locked": True} if self.locked(key) else {}
        note = {"note": self.notes[key]} if key in self.notes else {}
        return f"{key}: {json.dumps({**self.row(service, key), **locked, **note})}"

    def locked(self, key: str) -> bool:
        """Return whether a record is locked."""
        return key in self.obstacles["locked"] and key not in self.memory.unlocked

    # Calls

    def call(self, function: Function, arguments: Mapping[str, object]) -> str:
        """Execute a call and return the service's answer.

        Raises:
            Refused: the service needs a sign-in, is busy, or refuses the arguments.
        """
        service, op, name = function.meaning
        values = dict(zip(function.roles, (arguments[key] for key in function.tool.properties), strict=True))
        if op == "sign_in":
            self.memory.signed.add(service)
            return f"You are signed in to the {service} service."
        if service in self.obstacles["sign_in"] and service not in self.memory.signed:
            self.memory.revealed.add(("sign_in", service))
            raise Refused(f"you are not signed in to the {service} service. Sign in first.")
        if op in ("find", "get", "list"):
            return getattr(self, f"_{op}")(service, name, values)
        waited = self.memory.waits.get(service, 0)
        if waited < self.obstacles["busy"].get(service, 0):
            self.memory.waits[service] = waited + 1
            raise Refused(f"the {service} service is busy. Try the same call again.")
        return getattr(self, f"_{op}")(service, name, values)

    def _find(self, service: str, _: str, values: Values) -> str:
        text = str(values["text"]).strip().lower()
        if not 0 < len(text) <= LONGEST:
            raise Refused(f"the search text must have 1 to {LONGEST} characters.")
        keys = [key for key in self.ids(service) if text in self.row(service, key)["title"].lower()]
        self.memory.revealed.update([("find", service, text), *(("title", service, key) for key in keys[:MOST_LISTED])])
        return self._listed(service, keys)

    def _list(self, service: str, name: str, values: Values) -> str:
        value = _checked(SERVICES[service].by_name[name], values["value"])
        keys = [key for key in self.ids(service) if self.row(service, key)[name] == value]
        self.memory.revealed.update(
            [("list", service, name, str(value)), *(("title", service, key) for key in keys[:MOST_LISTED])]
        )
        return self._listed(service, keys)

    def _listed(self, service: str, keys: list[str]) -> str:
        lines = [f"{key}: {self.row(service, key)['title']}{self._remark(key)}" for key in keys[:MOST_LISTED]]
        if len(keys) > MOST_LISTED:
            lines.append(f"… and {len(keys) - MOST_LISTED} more. Narrow the search.")
        return "\n".join(lines) or f"No {SERVICES[service].plural} found."

    def _remark(self, key: str) -> str:
        return f" (note: {self.notes[key]})" if key in self.notes else ""

    def _get(self, service: str, _: str, values: Values) -> str:
        key = str(values["id"])
        text = self.written(service, key)
        self.memory.revealed.update([("row", service, key), ("title", service, key)])
        return text

    def _open(self, service: str, key: str) -> Row:
        """Return a record that is about to be changed.

        Raises:
            Refused: the record is missing or locked.
        """
        row = self.row(service, key)
        if self.locked(key):
            self.memory.revealed.add(("locked", key))
            raise Refused(f"{key} is locked. Unlock it first.")
        return row

    def _set(self, service: str, name: str, values: Values) -> str:
        key = str(values["id"])
        row = self._open(service, key)
        value = _checked(SERVICES[service].by_name[name], values["value"])
        if [service, name, value] in self.obstacles["refused"]:
            self.memory.revealed.add(("refused", service, name, str(value)))
            raise Refused(f"{name} {value} is not available.")
        self.put(service, key, {**row, name: value})
        self.memory.revealed.add(("field", service, key, name))
        return f"Done: the {name} of {key} is now {value}."

    def _set_all(self, service: str, name: str, values: Values) -> str:
        value = _checked(SERVICES[service].by_name[name], values["value"])
        keys = self.ids(service)
        for key in keys:
            self.put(service, key, {**self.row(service, key), name: value})
        return f"Done: the {name} of {len(keys)} {SERVICES[service].plural} is now {value}."

    def _preview(self, service: str, name: str, values: Values) -> str:
        row = self.row(service, str(values["id"]))
        value = _checked(SERVICES[service].by_name[name], values["value"])
        return f"Preview: {row['title']} with {name} {value}. Nothing was changed."

    def _request(self, service: str, name: str, values: Values) -> str:
        key = str(values["id"])
        self.row(service, key)
        value = _checked(SERVICES[service].by_name[name], values["value"])
        self.memory.ledger.append(("request", service, key, name, value))
        return f"An administrator was asked to set the {name} of {key} to {value}."

    def _default(self, service: str, name: str, values: Values) -> str:
        value = _checked(SERVICES[service].by_name[name], values["value"])
        self.memory.ledger.append(("default", service, name, value))
        return f"The default {name} of new {SERVICES[service].plural} is now {value}."

    def _create(self, service: str, _: str, values: Values) -> str:
        title = str(values["title"]).strip()
        if not 0 < len(title) <= LONGEST:
            raise Refused(f"the title must have 1 to {LONGEST} characters.")
        row = {"title": title, **{one.name: _checked(one, values[one.name]) for one in SERVICES[service].fields}}
        number = 1 + max((int(key[2:]) for key in [*self.base.get(service, {}), *self._created(service)]), default=100)
        key = f"{SERVICES[service].prefix}-{number}"
        self.memory.made[service, key] = row
        self.memory.changes[service, key] = row
        self.memory.revealed.update([("row", service, key), ("title", service, key)])
        return f"Created {key}."

    def _created(self, service: str) -> list[str]:
        return [key for name, key in self.memory.made if name == service]

    def _delete(self, service: str, _: str, values: Values) -> str:
        key = str(values["id"])
        self._open(service, key)
        self.put(service, key, None)
        return f"Deleted {key}."

    def _unlock(self, service: str, _: str, values: Values) -> str:
        key = str(values["id"])
        self.row(service, key)
        if not self.locked(key):
            raise Refused(f"{key} is not locked.")
        self.memory.unlocked.add(key)
        return f"{key} is unlocked."

    def _pay(self, service: str, _: str, values: Values) -> str:
        return self._payment("pay", service, values)

    def _schedule(self, service: str, _: str, values: Values) -> str:
        return self._payment("schedule", service, values)

    def _payment(self, op: str, service: str, values: Values) -> str:
        key, account, amount = str(values["id"]), str(values["account"]), values["amount"]
        self._open(service, key)
        self.row("bank", account)
        if not 0 < amount <= 1_000_000:
            raise Refused("the amount must be from 1 to 1000000.")
        self.memory.ledger.append((op, key, account, amount))
        return f"{'Paid' if op == 'pay' else 'Scheduled a payment of'} {amount} for {key} from {account}."


def _checked(field: Field, value: Value) -> Value:
    """Return a value after checking that it fits its field.

    Raises:
        Refused: the value does not fit the field.
    """
    if field.kind == "choice" and value not in field.values:
        raise Refused(f"{field.name} must be one of {', '.join(field.values)}.")
    if field.kind == "number" and not 0 <= value <= 1_000_000:
        raise Refused(f"{field.name} must be a number from 0 to 1000000.")
    if field.kind == "day" and not re.fullmatch(r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])", value, re.ASCII):
        raise Refused(f"{field.name} must be a date such as 2026-03-31.")
    if field.kind == "time" and not re.fullmatch(r"(?:[01]\d|2[0-3]):[0-5]\d", value, re.ASCII):
        raise Refused(f"{field.name} must be a time such as 14:30.")
    return value
