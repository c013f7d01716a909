"""Policies of the functions environment: an oracle, and an expert that uses only what it observed."""

import json
from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from agentgym.core.actions import spell
from agentgym.envs.functions import wording
from agentgym.envs.functions.catalog import DESCRIPTIONS, Function, Meaning, by_description
from agentgym.envs.functions.generate import meaning_of
from agentgym.envs.functions.services import SERVICES
from agentgym.envs.functions.system import Memory, Operation, Row, System, Value


class Next(Exception):
    """Carries the next action out of the planner's nested calls."""

    def __init__(self, action: str) -> None:
        super().__init__(action)
        self.action = action


class NoSuitableFunction(Exception):
    """No offered function does what a request needs."""


class Case(Protocol):
    """Attributes of the environment that the oracle and the expert use."""

    functions: dict[str, Function]
    requests: list[Row]
    memory: Memory
    declined: set[int]
    answered: set[int]
    search_mode: bool

    @property
    def system(self) -> System:
        """The services over the current records."""
        ...


def written(name: str, arguments: Mapping[str, object]) -> str:
    """Return a call as text: in brackets if it has at most one argument and that is text, else as JSON."""
    values = list(arguments.values())
    if len(values) < 2 and all(isinstance(value, str) for value in values):
        return spell(name, *values)
    return json.dumps({"name": name, "arguments": dict(arguments)})


def call(case: Case, function: Function, values: Mapping[str, object]) -> str:
    """Return a call of a function as text, with arguments given by role; in search mode, through `call_function`."""
    names = zip(function.tool.properties, function.roles, strict=True)
    arguments = {name: values[role] for name, role in names}
    if case.search_mode:
        return json.dumps({"name": "call_function", "arguments": {"name": function.name, "arguments": arguments}})
    return written(function.name, arguments)


# The oracle


def oracle_action(case: Case) -> str:
    """Return the next action of a correct solution."""
    try:
        _repair(case)
        for number, request in enumerate(case.requests):
            if request["missing"]:
                if number not in case.declined:
                    return spell("decline", number + 1)
                continue
            for service, key in request["needs"] if request["ops"] else ():
                if ("row", service, key) not in case.memory.revealed:
                    _use(case, (service, "get", ""), {"id": key})
            for op in request["ops"]:
                _carry_out(case, op)
    except Next as found:
        return found.action
    return spell("finish", next((request["answer"] for request in case.requests if request["answer"]), "done"))


def _repair(case: Case) -> None:
    """Undo unrequested changes; only `set` can have made them, since any other would have ended the episode.

    Raises:
        Next: there is such a change, with the call that undoes it.
    """
    system, requested = case.system, dict[tuple[str, str, str], Value]()
    for request in case.requests:
        requested |= {(op[1], op[2], op[3]): op[4] for op in request["ops"] if op[0] == "set" and not request["missing"]}
    for (service, key), row in case.memory.changes.items():
        before = system.original(service, key)
        for name in row or ():
            if row and row[name] != before[name] and row[name] != requested.get((service, key, name), before[name]):
                _use(case, (service, "set", name), {"id": key, "value": before[name]})


def _carry_out(case: Case, op: Operation) -> None:
    system, service = case.system, op[1]
    if op[0] == "set" and system.row(service, op[2])[op[3]] != op[4]:
        _use(case, meaning_of(op), {"id": op[2], "value": op[4]})
    if op[0] == "create" and op[2] not in case.memory.made.values():
        _use(case, meaning_of(op), op[2])
    if op[0] == "delete" and op[2] in system.ids(service):
        _use(case, meaning_of(op), {"id": op[2]})
    if op[0] == "pay" and ("pay", *op[2:]) not in case.memory.ledger:
        _use(case, meaning_of(op), {"id": op[2], "account": op[3], "amount": op[4]})


def _use(case: Case, meaning: Meaning, values: Mapping[str, object]) -> None:
    """Call a function, or first a function that removes an obstacle.

    Raises:
        Next: always, with the call to make now.
    """
    system, service = case.system, meaning[0]
    functions = {function.meaning: function for function in case.functions.values()}
    if service in system.obstacles["sign_in"] and service not in case.memory.signed:
        raise Next(call(case, functions[service, "sign_in", ""], {}))
    if meaning[1] in ("set", "delete", "pay") and system.locked(str(values["id"])):
        raise Next(call(case, functions[service, "unlock", ""], values))
    raise Next(call(case, functions[meaning], values))


# The expert


def expert_action(case: Case) -> str:
    """Return the next action, using only the requests, the functions' descriptions, and the results of calls."""
    reader = Reader(case)
    for number, request in enumerate(case.requests):
        try:
            kind, parts = wording.read(request["text"])
            if number not in case.declined:
                WORK[kind](reader, parts, number)
        except Next as found:
            return found.action
        except NoSuitableFunction:
            return spell("decline", number + 1)
    return spell("finish", reader.answer or "done")


class Reader:
    """The expert's planner, which reads descriptions and remembers what it observed."""

    def __init__(self, case: Case) -> None:
        self.case, self.memory, self.system = case, case.memory, case.system
        self.answer = ""
        meanings = by_description()
        self.known = {
            meanings[function.tool.description]: function
            for function in case.functions.values()
            if not case.search_mode or ("function", function.name) in self.memory.revealed
        }

    def function(self, meaning: Meaning) -> Function:
        """Return the function with this meaning.

        Raises:
            Next: the function must be searched for first.
            NoSuitableFunction: no function has this meaning.
        """
        if meaning in self.known:
            return self.known[meaning]
        service, op, name = meaning
        for description in DESCRIPTIONS[op] if self.case.search_mode else ():
            kind = SERVICES[service]
            query = description.format(noun=kind.noun, plural=kind.plural, field=name, service=service)
            if ("query", query) not in self.memory.revealed:
                raise Next(spell("search_tools", query))
        raise NoSuitableFunction

    def use(self, meaning: Meaning, values: Mapping[str, object]) -> None:
        """Call a function, or first a function that removes an obstacle observed so far.

        Raises:
            Next: always, with the call to make now.
        """
        service, function = meaning[0], self.function(meaning)
        if ("sign_in", service) in self.memory.revealed and service not in self.memory.signed:
            raise Next(call(self.case, self.function((service, "sign_in", "")), {}))
        key = str(values.get("id", ""))
        known = ("locked", key) in self.memory.revealed or ("row", service, key) in self.memory.revealed
        if meaning[1] in ("set", "delete", "pay") and known and self.system.locked(key):
            raise Next(call(self.case, self.function((service, "unlock", "")), values))
        raise Next(call(self.case, function, values))

    def row(self, service: str, key: str) -> Row:
        """Return a record's values; raise Next with the call that reads the record if it has not been read."""
        if ("row", service, key) not in self.memory.revealed:
            self.use((service, "get", ""), {"id": key})
        return self.system.row(service, key)

    def key(self, service: str, ref: str) -> str | None:
        """Return the id of the record that a phrase refers to; None if no such record was found or it was deleted.

        Raise Next with a call if the expert must first search for the title or read a record.
        """
        title, name, value = wording.read_reference(ref)
        if ("find", service, title.lower()) not in self.memory.revealed:
            self.use((service, "find", ""), {"text": title})
        rows = self.system.base[service]
        keys = [key for key in rows if rows[key]["title"] == title and ("title", service, key) in self.memory.revealed]
        if name:
            keys = [key for key in keys if self._present(service, key) and self.row(service, key)[name] == value] or [
                key for key in keys if not self._present(service, key)
            ]
        return keys[0] if keys and self._present(service, keys[0]) else None

    def _present(self, service: str, key: str) -> bool:
        return self.memory.changes.get((service, key), self) is not None

    def set(self, service: str, key: str, name: str, value: str) -> None:
        """Raise Next with the call that sets a field, unless the field is known to have this value."""
        target = wording.typed(service, name, value)
        known = {("row", service, key), ("field", service, key, name)} & self.memory.revealed
        if not known or self.system.row(service, key)[name] != target:
            self.use((service, "set", name), {"id": key, "value": target})


def _set(reader: Reader, parts: wording.Parts, _: int, value: str = "") -> None:
    service, name = parts["service"], parts["field"]
    reader.function((service, "set", name))
    key = reader.key(service, parts["ref"])
    if key is not None:
        reader.set(service, key, name, value or parts["value"])


def _create(reader: Reader, parts: wording.Parts, _: int) -> None:
    service = parts["service"]
    fields = {name: wording.typed(service, name, text) for name, text in wording.read_fields(parts["fields"]).items()}
    row = {"title": parts["title"], **fields}
    if row not in reader.memory.made.values():
        reader.use((service, "create", ""), row)


def _delete(reader: Reader, parts: wording.Parts, _: int) -> None:
    reader.function((parts["service"], "delete", ""))
    key = reader.key(parts["service"], parts["ref"])
    if key is not None:
        reader.use((parts["service"], "delete", ""), {"id": key})


def _question(reader: Reader, parts: wording.Parts, _: int) -> None:
    key = reader.key(parts["service"], parts["ref"])
    if key is not None:
        reader.answer = str(reader.row(parts["service"], key)[parts["field"]])


def _copy(reader: Reader, parts: wording.Parts, number: int) -> None:
    reader.function((parts["service"], "set", parts["field"]))
    source = reader.key(parts["service"], parts["source"])
    if source is not None:
        _set(reader, parts, number, str(reader.row(parts["service"], source)[parts["field"]]))


def _pay(reader: Reader, parts: wording.Parts, _: int) -> None:
    reader.function(("billing", "pay", ""))
    key, account = reader.key("billing", parts["ref"]), reader.key("bank", parts["source"])
    if key is None or account is None:
        return
    amount = reader.row("billing", key)["amount"]
    if ("pay", key, account, amount) not in reader.memory.ledger:
        reader.use(("billing", "pay", ""), {"id": key, "account": account, "amount": amount})


def _ask(reader: Reader, parts: wording.Parts, number: int) -> None:
    reader.function((parts["service"], "set", parts["field"]))
    if number not in reader.case.answered:
        raise Next(spell("ask_user", f"Which {parts['field']} should the {parts['noun']} {parts['ref']} have?"))
    _set(reader, parts, number, str(reader.case.requests[number]["asks"]["value"]))


def _fallback(reader: Reader, parts: wording.Parts, number: int) -> None:
    refused = ("refused", parts["service"], parts["field"], parts["value"]) in reader.memory.revealed
    _set(reader, parts, number, parts["other"] if refused else parts["value"])


def _condition(reader: Reader, parts: wording.Parts, number: int) -> None:
    _branches(reader, parts, number, lambda value: value == parts["is"])


def _above(reader: Reader, parts: wording.Parts, number: int) -> None:
    _branches(reader, parts, number, lambda value: int(value) > int(parts["is"]))


def _branches(reader: Reader, parts: wording.Parts, number: int, holds: Callable[[str], bool]) -> None:
    service = parts["service"]
    reader.function((service, "set", parts["field"]))
    key = reader.key(service, parts["ref"])
    if key is not None:
        present = str(reader.row(service, key)[parts["by"]])
        _set(reader, parts, number, parts["value"] if holds(present) else parts["other"])


def _each(reader: Reader, parts: wording.Parts, _: int) -> None:
    service, by, value = parts["service"], parts["by"], parts["is"]
    reader.function((service, "set", parts["field"]))
    if ("list", service, by, value) not in reader.memory.revealed:
        reader.use((service, "list", by), {"value": value})
    for key in reader.system.ids(service):
        if ("title", service, key) in reader.memory.revealed and reader.system.row(service, key)[by] == value:
            reader.set(service, key, parts["field"], parts["value"])


WORK: Mapping[str, Callable[[Reader, wording.Parts, int], None]] = {
    "set": _set, "create": _create, "delete": _delete, "question": _question, "copy": _copy, "pay": _pay, "ask": _ask,
    "fallback": _fallback, "condition": _condition, "above": _above, "each": _each,
}  # fmt: skip


def mistaken(case: Case, rng: np.random.Generator) -> str | None:
    """Return a careless action: a wrong function with the same parameters, or an early end; None if no call is due."""
    action = expert_action(case)
    name = json.loads(action)["name"] if action.startswith("{") else action.split("[")[0]
    if name not in case.functions:
        return None
    tools = {other: list(function.tool.properties) for other, function in case.functions.items()}
    alike = sorted(other for other in tools if other != name and tools[other] == tools[name])
    if not alike or rng.random() < 0.3:
        return spell("finish", "done")
    return action.replace(name, alike[int(rng.integers(len(alike)))], 1)
