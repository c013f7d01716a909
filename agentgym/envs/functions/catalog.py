"""Functions of the services: names in several styles, and descriptions that distinguish near-duplicates."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from agentgym.core.actions import Tool
from agentgym.envs.functions.services import SERVICES, Service

Entry = tuple[str, str, str, int]
"""Service, operation, field ("" for most operations), and a number that selects name and wording."""
Parameter = tuple[str, dict[str, object], str]
"""A parameter's name, JSON schema and role."""
Meaning = tuple[str, str, str]
"""Service, operation and field ("" for most operations)."""
VERBS: Mapping[str, tuple[str, ...]] = {
    "find": ("find", "search", "look_up"),
    "get": ("get", "show", "read"),
    "list": ("list", "filter", "select"),
    "set": ("set", "change", "update"),
    "create": ("create", "add", "make"),
    "delete": ("delete", "cancel", "remove"),
    "unlock": ("unlock", "release", "open"),
    "sign_in": ("sign_in", "log_in", "connect"),
    "pay": ("pay", "settle", "clear"),
    "preview": ("preview", "try", "simulate"),
    "set_all": ("set_all", "change_all", "update_all"),
    "request": ("request", "propose", "suggest"),
    "default": ("set_default", "change_default", "update_default"),
    "schedule": ("schedule_payment_of", "plan_payment_of", "queue_payment_of"),
}
DESCRIPTIONS: Mapping[str, tuple[str, ...]] = {
    "find": (
        "Find {plural} by part of their title. Shows ids and titles.",
        "Search {plural} for a text in their title.",
    ),
    "get": ("Show all fields of one {noun}.", "Read one {noun} with its fields."),
    "list": (
        "List the {plural} with a given {field}. Shows ids and titles.",
        "Show the {plural} with a certain {field}.",
    ),
    "set": ("Set the {field} of one {noun}.", "Change the {field} of one {noun}."),
    "create": ("Create a {noun} with a title and its fields.", "Add a new {noun}."),
    "delete": ("Delete one {noun} for good.", "Remove one {noun}. This cannot be undone."),
    "unlock": ("Unlock one {noun} so that it can be changed.", "Remove the lock from one {noun}."),
    "sign_in": ("Sign in to the {service} service.", "Start a session with the {service} service."),
    "pay": ("Pay an {noun} from an account immediately.", "Transfer the money for an {noun} from an account now."),
    "preview": (
        "Preview one {noun} with a different {field}. Changes nothing.",
        "Try a different {field} for one {noun} without changing it.",
    ),
    "set_all": (
        "Set the {field} of all {plural} at once.",
        "Give every {noun} the same {field}.",
    ),
    "request": (
        "Ask an administrator to set the {field} of one {noun}. Sends a message; the {noun} itself does not change.",
        "Propose a different {field} for one {noun}; someone else decides whether to change it.",
    ),
    "default": ("Set the {field} that new {plural} get.", "Change the default {field} of a {noun}."),
    "schedule": (
        "Schedule the payment of an {noun} from an account for next month.",
        "Arrange for an {noun} to be paid from an account next month.",
    ),
}
TWINS: Mapping[str, tuple[str, ...]] = {
    "set": ("preview", "set_all", "request", "default"),
    "pay": ("schedule",),
}
"""Operation -> near-duplicates that are easily mistaken for it."""
PLAIN = 100
"""Argument `number` of `function` that gives the simplest name (no service prefix, first verb, first description)."""
REVERSIBLE = frozenset({"set"})
"""Operations that another call can undo; an unrequested effect of any other operation ends the episode."""


@dataclass(frozen=True)
class Function:
    """A function that the agent can call."""

    meaning: Meaning
    tool: Tool
    roles: tuple[str, ...]
    """Role of each parameter, in order: `id`, `value`, `text`, `account`, `amount`, `title`, or a field's name."""

    @property
    def name(self) -> str:
        """Name under which the function is called."""
        return self.tool.name


def meanings(service: Service) -> list[Meaning]:
    """Return the meanings of all functions that a service has."""
    plain = [
        "find",
        "get",
        "create",
        "delete",
        "unlock",
        "sign_in",
        *(["pay", "schedule"] if service.name == "billing" else []),
    ]
    setters = [(service.name, op, field) for field in service.settable for op in ("set", *TWINS["set"])]
    lists = [(service.name, "list", field) for field in service.choices]
    return [*((service.name, op, "") for op in plain), *lists, *setters]


def entry(rng: np.random.Generator, meaning: Meaning, style: int) -> Entry:
    """Return a random function with this meaning; `style` sets the naming style."""
    return (*meaning, 100 * style + int(rng.integers(100)))


@cache
def function(service: str, op: str, field: str, number: int) -> Function:
    """Return the function described by an entry; `number` selects name and wording."""
    kind = SERVICES[service]
    style, draw = divmod(number, 100)
    verb = VERBS[op][draw % len(VERBS[op])]
    wording = DESCRIPTIONS[op][draw // 10 % len(DESCRIPTIONS[op])]
    several = op in ("find", "list", "set_all", "default")
    noun = kind.plural if several else kind.noun
    suffix = {"list": f"_by_{field}", "sign_in": ""}.get(op, f"_{field}" if field else "")
    parts = [verb, f"{noun}{suffix}"] if op != "sign_in" else [verb]
    tokens = [service, *parts] if style % 3 == 0 or op == "sign_in" else parts
    name = _joined("_".join(tokens), camel=style % 3 == 2)
    parameters = _parameters(kind, op, field, style)
    description = wording.format(noun=kind.noun, plural=kind.plural, field=field, service=service)
    properties = {name: schema for name, schema, _ in parameters}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return Function((service, op, field), Tool(name, description, schema), tuple(role for *_, role in parameters))


def _joined(name: str, *, camel: bool) -> str:
    if not camel:
        return name
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _parameters(kind: Service, op: str, field: str, style: int) -> list[Parameter]:
    """Return the parameters of a function in a naming style."""
    record: Parameter = (f"{kind.noun}_id" if style // 3 % 2 == 0 else "id", {"type": "string"}, "id")
    value: Parameter = (field if style // 6 % 2 == 0 else "value", _schema(kind, field) if field else {}, "value")
    by_op: dict[str, list[Parameter]] = {
        "find": [("text", {"type": "string"}, "text")],
        "sign_in": [],
        "list": [value],
        "set_all": [value],
        "default": [value],
        "set": [record, value],
        "preview": [record, value],
        "request": [record, value],
        "create": [("title", {"type": "string"}, "title"), *((f.name, _schema(kind, f.name), f.name) for f in kind.fields)],
    }
    payment: list[Parameter] = [
        record,
        ("account_id", {"type": "string"}, "account"),
        ("amount", {"type": "integer"}, "amount"),
    ]
    return by_op.get(op, payment if op in ("pay", "schedule") else [record])


def _schema(kind: Service, name: str) -> dict[str, object]:
    field = kind.by_name[name]
    if field.kind == "choice":
        return {"type": "string", "enum": list(field.values)}
    if field.kind == "number":
        return {"type": "integer"}
    return {"type": "string", "description": "For example 2026-03-31." if field.kind == "day" else "For example 14:30."}


@cache
def by_description() -> dict[str, Meaning]:
    """Return the meaning of each possible description, as the expert needs it to understand descriptions."""
    table: dict[str, Meaning] = {}
    for service in SERVICES.values():
        for name, op, field in meanings(service):
            for wording in DESCRIPTIONS[op]:
                text = wording.format(noun=service.noun, plural=service.plural, field=field, service=service.name)
                table[text] = (name, op, field)
    return table
