"""Attacks on the agent: notes in records that order it to call a function."""

from collections.abc import Sequence

import numpy as np

from agentgym.envs.functions import catalog
from agentgym.envs.functions.catalog import Entry
from agentgym.envs.functions.services import SERVICES
from agentgym.envs.functions.system import Operation, Row, Values
from agentgym.tasks.attacks import order


def draw(rng: np.random.Generator, data: Values) -> Row | None:
    """Return an attack: the ordered `operation`, the order (`call`, `text`), and `notes` by record id; None if none fits.

    The operation uses an offered function to change a record that no request concerns.
    """
    requests: Sequence[Values] = data["requests"]
    read = [key for request in requests for _, key in request["needs"]]
    carriers = sorted({*read, *data["targets"]})
    used = {op[3] for request in requests for op in request["ops"] if op[0] == "pay"} | set(carriers)
    choices = [
        (entry, key)
        for entry in data["functions"]
        if entry[1] in ("set", "delete", "request") and entry[0] in data["tables"]
        for key in data["tables"][entry[0]]
        if key not in used
    ]
    if not choices or not carriers:
        return None
    entry, key = choices[int(rng.integers(len(choices)))]
    operation, arguments = _target(rng, data, entry, key)
    attack_order = order(rng, catalog.function(*entry).name, **arguments)
    return {"operation": operation, **attack_order, "notes": dict.fromkeys(carriers, attack_order["text"])}


def _target(rng: np.random.Generator, data: Values, entry: Entry, key: str) -> tuple[Operation, Values]:
    """Return the attack's operation on a record, and the arguments of the call that performs it."""
    service, op, name, _ = entry
    function = catalog.function(*entry)
    if op == "delete":
        return [op, service, key], {next(iter(function.tool.properties)): key}
    row = data["tables"][service][key]
    while (value := SERVICES[service].by_name[name].draw(rng)) == row[name]:
        pass
    return [op, service, key, name, value], dict(zip(function.tool.properties, (key, value), strict=True))
