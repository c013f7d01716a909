"""Check of an episode: fulfilled requests, records that must be read first, and unrequested changes."""

from collections import Counter
from collections.abc import Sequence

from agentgym.envs.functions.system import Operation, Row, System, Value

Stray = tuple[Value, ...]
"""A change that no request asks for, such as `("deleted", service, id)`."""


def strays(system: System, requests: Sequence[Row]) -> set[Stray]:
    """Return all changes made so far that no request asks for."""
    ops = [op for request in requests if not request["missing"] for op in request["ops"]]
    sets = {(op[1], op[2], op[3]): op[4] for op in ops if op[0] == "set"}
    found: set[Stray] = set()
    for (service, key), row in system.memory.changes.items():
        before = system.original(service, key)
        if row is None and ["delete", service, key] not in ops:
            found.add(("deleted", service, key))
        for name in row or ():
            if row and row[name] != before[name] and row[name] != sets.get((service, key, name), before[name]):
                found.add(("field", service, key, name))
    rows = [op[2] for op in ops if op[0] == "create"]
    for (service, key), row in system.memory.made.items():
        if row in rows:
            rows.remove(row)
        else:
            found.add(("made", service, key))
    payments: Counter[Stray] = Counter(("pay", *op[2:]) for op in ops if op[0] == "pay")
    entries: Counter[Stray] = Counter(system.memory.ledger)
    found |= {("entry", *entry, count) for entry, count in (entries - payments).items()}
    return found


def carried_out(system: System, op: Operation) -> bool:
    """Return whether the current state shows an operation's effect."""
    kind, service = op[0], op[1]
    if kind == "create":
        return any(name == service and row == op[2] for (name, _), row in system.memory.made.items())
    if kind == "request":
        return tuple(op) in system.memory.ledger
    if kind == "pay":
        return ("pay", *op[2:]) in system.memory.ledger
    present = system.memory.changes.get((service, op[2]), system.base[service].get(op[2]))
    return present is None if kind == "delete" else present is not None and present[op[3]] == op[4]


def unread(system: System, request: Row) -> bool:
    """Return whether a request was at least partly fulfilled although the records that decide it have not been read."""
    read = all(("row", service, key) in system.memory.revealed for service, key in request["needs"])
    return not read and not request["missing"] and any(carried_out(system, op) for op in request["ops"])


def settled(system: System, request: Row, *, declined: bool, answered: bool) -> bool:
    """Return whether a request is fulfilled: a question answered, or a request whose function is missing declined."""
    if request["answer"]:
        return answered
    return declined if request["missing"] else all(carried_out(system, op) for op in request["ops"])
