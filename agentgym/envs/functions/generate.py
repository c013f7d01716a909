"""Generated tasks: records, a user's requests, obstacles, and the functions offered."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from agentgym.envs.functions import catalog
from agentgym.envs.functions.catalog import Meaning
from agentgym.envs.functions.services import SERVICES, Service
from agentgym.envs.functions.system import Operation, Row
from agentgym.envs.functions.wording import WORDINGS, reference, say, say_fields

T = TypeVar("T")
Request = Row
LEVELS = {
    "set": 0, "create": 0, "delete": 0, "question": 0,
    "copy": 1, "pay": 1, "ask": 1, "fallback": 1, "missing": 1,
    "condition": 2, "above": 2, "each": 2,
}  # fmt: skip
"""Lowest difficulty of each family of requests; in the family `missing`, no function can fulfill the request."""
MOST_FUNCTIONS = 200
MISSING = 0.4
"""Fraction of tasks with several requests in which one request has no function."""
LOCKED, BUSY, SIGN_IN = 0.3, 0.2, 0.2
"""Fractions of tasks, from difficulty 1 on, with a locked record, a busy service, and a service to sign in to."""


def pick(rng: np.random.Generator, choices: Sequence[T]) -> T:
    """Return a random choice."""
    return choices[int(rng.integers(len(choices)))]


@dataclass
class Drawing:
    """A task under construction."""

    rng: np.random.Generator
    difficulty: int
    tables: dict[str, dict[str, Row]]
    used: set[str] = field(default_factory=set[str])
    """Ids of records that a request uses, and titles of records to create; no other request may use them."""
    touched: set[str] = field(default_factory=set[str])
    """Names of services that a request uses."""
    closed: set[str] = field(default_factory=set[str])
    """Names of services reserved for one request."""
    refused: list[list[str | int]] = field(default_factory=list["list[str | int]"])

    def target(self, service: Service) -> tuple[str, str] | None:
        """Reserve a record that no request uses; return its id and a phrase for it, or None if no record is left."""
        free = [key for key in self.tables[service.name] if key not in self.used]
        if not free:
            return None
        key = pick(self.rng, free)
        self.used.add(key)
        self.touched.add(service.name)
        rows = self.tables[service.name]
        row = rows[key]
        twin = next((other for other in rows if other != key and rows[other]["title"] == row["title"]), None)
        if twin is None:
            return key, reference(row["title"])
        self.used.add(twin)
        name = pick(self.rng, [name for name in service.choices if rows[twin][name] != row[name]])
        return key, reference(row["title"], name, row[name])

    def other(self, service: Service, name: str, *values: object) -> str | int:
        """Return a random value of a field that differs from the given values."""
        while (value := service.by_name[name].draw(self.rng)) in values:
            pass
        return value


def titles(rng: np.random.Generator, service: Service, count: int) -> list[str]:
    """Return distinct random titles, numbered once all pairs of words are used."""
    pairs = [f"{first} {second}" for first in service.first for second in service.second]
    order = rng.permutation(len(pairs)).tolist()
    return [pairs[order[n % len(pairs)]] + (f" {n // len(pairs) + 1}" if n >= len(pairs) else "") for n in range(count)]


def tables(
    rng: np.random.Generator, names: Sequence[str], count: int, namesakes: int, numbered: int
) -> dict[str, dict[str, Row]]:
    """Return random records of the services, by service and id.

    In each service, `namesakes` pairs of records share a title; `numbered` is the number of possible ids.
    """
    made: dict[str, dict[str, Row]] = {}
    for name in names:
        service = SERVICES[name]
        numbers = sorted(rng.choice(range(101, 101 + numbered), size=count, replace=False).tolist())
        rows = [{"title": title, **{f.name: f.draw(rng) for f in service.fields}} for title in titles(rng, service, count)]
        order = [int(place) for place in rng.permutation(count)]
        for one, other in zip(order[:namesakes], order[namesakes : 2 * namesakes], strict=True):
            field = service.by_name[pick(rng, service.choices)]
            rows[other] |= {
                "title": rows[one]["title"],
                field.name: pick(rng, [value for value in field.values if value != rows[one][field.name]]),
            }
        made[name] = {f"{service.prefix}-{number}": row for number, row in zip(numbers, rows, strict=True)}
    return made


# Requests: each returns the parts of its wording, the operations, and the records that must be read first.

Made = tuple[Row, list[Operation], list[list[str]]]


def _set(draw: Drawing, service: Service) -> Made | None:
    target = draw.target(service)
    if target is None:
        return None
    key, ref = target
    name = pick(draw.rng, [n for n in service.settable if f"({n} " not in ref])
    value = draw.other(service, name, draw.tables[service.name][key][name])
    parts = {"noun": service.noun, "ref": ref, "field": name, "value": value}
    return parts, [["set", service.name, key, name, value]], []


def _create(draw: Drawing, service: Service) -> Made | None:
    present = [row["title"] for row in draw.tables[service.name].values()]
    fresh = [f"{a} {b}" for a in service.first for b in service.second if f"{a} {b}" not in present]
    if not fresh:
        return None
    fields = {one.name: one.draw(draw.rng) for one in service.fields}
    title = pick(draw.rng, fresh)
    if title in draw.used:
        return None
    draw.used.add(title)
    draw.touched.add(service.name)
    parts = {"noun": service.noun, "title": title, "fields": say_fields(fields)}
    return parts, [["create", service.name, {"title": title, **fields}]], []


def _delete(draw: Drawing, service: Service) -> Made | None:
    target = draw.target(service)
    if target is None:
        return None
    return {"noun": service.noun, "ref": target[1]}, [["delete", service.name, target[0]]], []


def _question(draw: Drawing, service: Service) -> Made | None:
    target = draw.target(service)
    if target is None:
        return None
    key, ref = target
    name = pick(draw.rng, [one.name for one in service.fields if f"({one.name} " not in ref])
    answer = str(draw.tables[service.name][key][name])
    return {"noun": service.noun, "ref": ref, "field": name, "answer": answer}, [], [[service.name, key]]


def _copy(draw: Drawing, service: Service) -> Made | None:
    made, source = _set(draw, service), draw.target(service)
    if made is None or source is None:
        return None
    parts, [[_, _, key, name, _]], _ = made
    row = draw.tables[service.name][source[0]]
    if f"({name} " in source[1]:
        return None
    row[name] = draw.other(service, name, draw.tables[service.name][key][name])
    return {**parts, "source": source[1]}, [["set", service.name, key, name, row[name]]], [[service.name, source[0]]]


def _pay(draw: Drawing, _: Service) -> Made | None:
    invoice, account = draw.target(SERVICES["billing"]), draw.target(SERVICES["bank"])
    if invoice is None or account is None:
        return None
    amount = draw.tables["billing"][invoice[0]]["amount"]
    parts = {"noun": "invoice", "ref": invoice[1], "source": account[1]}
    return parts, [["pay", "billing", invoice[0], account[0], amount]], [["billing", invoice[0]]]


def _fallback(draw: Drawing, service: Service) -> Made | None:
    made = None if service.name in draw.touched else _set(draw, service)
    if made is None:
        return None
    parts, [[_, _, key, name, value]], _ = made
    other = draw.other(service, name, value, draw.tables[service.name][key][name])
    draw.closed.add(service.name)
    if draw.rng.random() < 0.5:
        draw.refused.append([service.name, name, value])
        value = other
    return {**parts, "other": other}, [["set", service.name, key, name, value]], []


def _condition(draw: Drawing, service: Service) -> Made | None:
    return _branches(draw, service, [one.name for one in service.fields if one.kind == "choice"], above=False)


def _above(draw: Drawing, service: Service) -> Made | None:
    return _branches(draw, service, [one.name for one in service.fields if one.kind == "number"], above=True)


def _branches(draw: Drawing, service: Service, tests: list[str], *, above: bool) -> Made | None:
    """Return a request with two branches; None if no record or field is left.

    The branches depend on one of the fields `tests`: with `above`, on a number that does or does not exceed a
    threshold, else on a value. Each branch is right in half of the tasks.
    """
    made = _set(draw, service)
    if made is None:
        return None
    parts, [[_, _, key, name, value]], _ = made
    tests = [test for test in tests if test != name and f"({test} " not in parts["ref"]]
    if not tests:
        return None
    by, row = pick(draw.rng, tests), draw.tables[service.name][key]
    other, holds = draw.other(service, name, value, row[name]), bool(draw.rng.random() < 0.5)
    test = row[by] if holds else draw.other(service, by, row[by])
    if above:  # the record's number is drawn around the threshold, which so reveals nothing
        test = max(11, int(draw.other(service, by)))
        row[by] = test + (1 if holds else -1) * int(draw.rng.integers(1, 10))
    operation = ["set", service.name, key, name, value if holds else other]
    return {**parts, "other": other, "by": by, "is": test}, [operation], [[service.name, key]]


def _each(draw: Drawing, service: Service) -> Made | None:
    rows = draw.tables[service.name]
    if service.name in draw.touched or len(rows) < 3:
        return None
    by = pick(draw.rng, service.choices)
    name = pick(draw.rng, [n for n in service.settable if n != by])
    group = sorted(pick(draw.rng, list(rows)) for _ in range(3))
    test, value = draw.other(service, by), draw.other(service, name)
    for key, row in rows.items():
        row[by] = test if key in group else draw.other(service, by, test)
        row[name] = draw.other(service, name, value)
    draw.touched.add(service.name)
    draw.closed.add(service.name)
    parts = {"noun": service.noun, "field": name, "value": value, "by": by, "is": test}
    return parts, [["set", service.name, key, name, value] for key in dict.fromkeys(group)], []


BUILDERS: dict[str, Callable[[Drawing, Service], Made | None]] = {
    "set": _set, "create": _create, "delete": _delete, "question": _question, "copy": _copy, "pay": _pay, "ask": _set,
    "fallback": _fallback, "condition": _condition, "above": _above, "each": _each,
}  # fmt: skip


def draw(
    rng: np.random.Generator,
    difficulty: int,
    families: Sequence[str],
    services: Sequence[str],
    functions: int,
    *,
    plain: bool = False,
) -> Row:
    """Draw a task's data.

    `functions` is the number of functions offered, or 0 for the difficulty's number; the task has more if it needs more.
    With `plain`, every function has one name and one description, ids come from a small range, and `set` requests have
    one wording.
    """
    names = [services[int(place)] for place in rng.permutation(len(services))[: 2 + difficulty]]
    if not {"bank", "billing"} <= set(services):
        families = [family for family in families if family != "pay"]
    if "pay" in families and difficulty >= LEVELS["pay"]:
        names = list(dict.fromkeys([*names, "bank", "billing"]))
    count = 8 + 2 * difficulty
    numbered = 9 * count if plain else max(800, 9 * count)
    drawing = Drawing(rng, difficulty, tables(rng, names, count, count // 4 if difficulty >= 2 else 0, numbered))
    requests: list[Request] = []
    while len(requests) < 1 + (difficulty + 1) // 2:
        request = _request(drawing, names, families, requests, plain=plain)
        if request is None:  # no unused record is left
            return draw(rng, difficulty, families, services, functions, plain=plain)
        requests.append(request)
    if "missing" in families and len(requests) > 1 and rng.random() < MISSING:
        _withhold(rng, requests)
    obstacles: Row = {"locked": [], "busy": {}, "sign_in": []}
    if difficulty:
        obstacles = _obstacles(rng, drawing, requests)
    obstacles["refused"] = drawing.refused
    number_offered = functions or min(8 + 12 * difficulty, MOST_FUNCTIONS)
    return {
        "tables": drawing.tables,
        "requests": requests,
        "obstacles": obstacles,
        "functions": _offered(rng, requests, obstacles, number_offered, plain=plain),
        "targets": sorted({op[2] for request in requests for op in request["ops"] if isinstance(op[2], str)}),
    }


def _request(
    drawing: Drawing, names: Sequence[str], families: Sequence[str], before: Sequence[Request], *, plain: bool
) -> Request | None:
    """Draw one more request after the requests `before`; return None if no draw fits."""
    kinds = [kind for kind in families if kind in BUILDERS and LEVELS[kind] <= drawing.difficulty]
    if any(request["answer"] for request in before):
        kinds = [kind for kind in kinds if kind != "question"] or ["set"]
    for _ in range(60):
        kind = pick(drawing.rng, kinds)
        open_names = [name for name in names if name not in drawing.closed]
        if not open_names or (kind == "pay" and drawing.closed & {"bank", "billing"}):
            continue
        made = BUILDERS[kind](drawing, SERVICES[pick(drawing.rng, open_names)])
        if made is None:
            continue
        parts, ops, needs = made
        query = {"field": parts["field"], "ref": parts["ref"], "value": parts["value"]} if kind == "ask" else None
        text = say(kind, parts, int(drawing.rng.integers(len(WORDINGS[kind]))), plain=plain)
        return {
            "text": text,
            "ops": ops,
            "needs": needs,
            "asks": query,
            "answer": parts.get("answer", ""),
            "missing": False,
        }
    return None


def meaning_of(op: Operation) -> Meaning:
    """Return the meaning of the function that performs this operation."""
    return op[1], op[0], op[3] if op[0] == "set" else ""


def _withhold(rng: np.random.Generator, requests: list[Request]) -> None:
    """Mark a request as lacking its function, if no other request needs that function."""
    for place in map(int, rng.permutation(len(requests))):
        ops: list[Operation] = requests[place]["ops"]
        lacking = [meaning_of(op) for op in ops]
        others = {meaning_of(op) for n, request in enumerate(requests) if n != place for op in request["ops"]}
        if lacking and lacking[0] not in others:
            requests[place] |= {"missing": True}
            return


def _obstacles(rng: np.random.Generator, drawing: Drawing, requests: Sequence[Request]) -> Row:
    """Return the obstacles: locked records, busy services, services that need a sign-in."""
    touched = [(op[1], op[2]) for request in requests for op in request["ops"] if op[0] in ("set", "delete", "pay")]
    names = sorted({op[1] for request in requests for op in request["ops"]})
    locked = [pick(rng, touched)[1]] if touched and rng.random() < LOCKED else []
    busy = {pick(rng, names): int(rng.integers(1, 3))} if names and rng.random() < BUSY else {}
    sign_in = [pick(rng, names)] if names and rng.random() < SIGN_IN else []
    return {"locked": locked, "busy": busy, "sign_in": sign_in}


def _offered(
    rng: np.random.Generator, requests: Sequence[Request], obstacles: Row, count: int, *, plain: bool
) -> list[catalog.Entry]:
    """Return the functions needed and, up to `count`, near-duplicates and then random others, all in random order."""
    needed: list[Meaning] = []
    twins: list[Meaning] = []
    withheld: set[Meaning] = set()
    for request in requests:
        read = [name for name, _ in request["needs"]] + [op[1] for op in request["ops"]] + _accounts(request)
        needed += [(name, op, "") for name in read for op in ("find", "get")]
        words = set(request["text"].split())
        needed += [(name, "list", field) for name in read for field in SERVICES[name].choices if field in words]
        for meaning in dict.fromkeys(map(meaning_of, request["ops"])):
            (withheld.add if request["missing"] else needed.append)(meaning)
            twins += [(meaning[0], twin, meaning[2]) for twin in catalog.TWINS.get(meaning[1], ())]
            needed += [(meaning[0], "unlock", "")] if obstacles["locked"] else []
    needed += [(name, "sign_in", "") for name in obstacles["sign_in"]]
    pool = [meaning for service in SERVICES.values() for meaning in catalog.meanings(service)]
    rest = [pool[int(place)] for place in rng.permutation(len(pool))]
    order = [twins[int(place)] for place in rng.permutation(len(twins))]
    chosen = [meaning for meaning in dict.fromkeys(needed) if meaning not in withheld]
    extra = [meaning for meaning in dict.fromkeys([*order, *rest]) if meaning not in withheld and meaning not in chosen]
    chosen += extra[: max(count - len(chosen), 0)]
    style = int(rng.integers(12))
    order = [chosen[int(place)] for place in rng.permutation(len(chosen))]
    return [(*meaning, catalog.PLAIN) if plain else catalog.entry(rng, meaning, style) for meaning in order]


def _accounts(request: Request) -> list[str]:
    return ["bank"] if any(op[0] == "pay" for op in request["ops"]) else []
