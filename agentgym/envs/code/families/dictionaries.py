"""Dictionaries: stocks and records, filtered, merged, grouped and inverted."""

from agentgym.envs.code.families.family import Frame, ProgramFamily, ProgramSpec, Rng, Rule, typed
from agentgym.envs.code.families.slots import choice, integer, length, one, sampled, subset

THINGS = [
    "apple",
    "bread",
    "candle",
    "drum",
    "egg",
    "flute",
    "grape",
    "hammer",
    "ink",
    "jar",
    "kite",
    "lamp",
    "melon",
    "nail",
]
PEOPLE = ["Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gil", "Hana"]
TOWNS = ["Oslo", "Lima", "Rome", "Kyiv"]


def _stock(rng: Rng, difficulty: int, _: ProgramSpec) -> list[object]:
    names = sampled(THINGS, rng, min(length(rng, difficulty, 7), len(THINGS)))
    return [{name: int(rng.integers(-6, 16)) for name in names}]


def _two(rng: Rng, difficulty: int, plan: ProgramSpec) -> list[object]:
    return _stock(rng, difficulty, plan) + _stock(rng, difficulty, plan)


def _sales(rng: Rng, difficulty: int, _: ProgramSpec) -> list[object]:
    return [[(one(THINGS[:7], rng), int(rng.integers(-6, 16))) for _number in range(length(rng, difficulty, 9))]]


def _records(rng: Rng, difficulty: int, _: ProgramSpec) -> list[object]:
    def record() -> dict[str, object]:
        return {"name": one(PEOPLE, rng), "town": one(TOWNS, rng), "points": int(rng.integers(0, 30))}

    return [[record() for _number in range(length(rng, difficulty))]]


FRAMES = (
    Frame(
        "`stock` is a dictionary from names to integers; it may be empty.",
        "stock",
        _stock,
        "table = dict(stock)",
        gives="table",
        asks="Start with a copy of it, called the table below, and apply these steps in order:",
    ),
    Frame(
        "`stock` and `more` are dictionaries from names to integers.",
        "stock, more",
        _two,
        "table = {name: stock.get(name, 0) + more.get(name, 0) for name in [*stock, *more]}",
        ("table = {**stock, **more}",),
        gives="table",
        asks="Start with a table of all names, in which a name that is in both has the sum of its numbers, and apply "
        "these steps in order:",
    ),
    Frame(
        "`sales` is a list of tuples (name, integer), in which names may repeat.",
        "sales",
        _sales,
        "table = {}\nfor name, number in sales:\n    table[name] = table.get(name, 0) + number",
        ("table = dict(sales)",),
        gives="table",
        asks="Start with a table from each name to the sum of its numbers and apply these steps in order:",
    ),
    Frame(
        '`records` is a list of dictionaries with the keys "name", "town" (strings) and "points" (an integer).',
        "records",
        _records,
        "records = [dict(record) for record in records]",
        gives="records",
    ),
)
TABLE = (
    Rule(
        "Drop the names whose number is less than $n.",
        "table = {name: number for name, number in table.items() if number >= $n}",
        ("table = {name: number for name, number in table.items() if number > $n}",),
        {"n": integer(-2, 6)},
    ),
    Rule(
        "For each name that begins with one of the letters in $letters, multiply its number by $n.",
        "table = {name: number * $n if name[:1] in $letters else number for name, number in table.items()}",
        (
            "table = {name: number * $n for name, number in table.items()}",
            "table = {name: number * $n if name[-1:] in $letters else number for name, number in table.items()}",
        ),
        {"n": integer(2, 4), "letters": subset(list("abcdefgh"), 2, 4)},
    ),
    Rule(
        "Subtract $n from every number, but do not go below 0.",
        "table = {name: max(number - $n, 0) for name, number in table.items()}",
        ("table = {name: number - $n for name, number in table.items()}",),
        {"n": integer(1, 4)},
    ),
    Rule(
        "Truncate all names to their first $n letters; names that become equal share one entry with the sum of their "
        "numbers.",
        "cut = {}\nfor name, number in table.items():\n    cut[name[:$n]] = cut.get(name[:$n], 0) + number\ntable = cut",
        ("table = {name[:$n]: number for name, number in table.items()}",),
        {"n": integer(1, 3)},
        once=True,
    ),
    Rule(
        "Set the number of $name to $n, whether it is in the table or not.",
        "table = {**table, $name: $n}",
        ("table = {**table, $name: $n} if $name in table else table", "table = {**table, $name: table.get($name, 0) + $n}"),
        {"name": choice(*THINGS), "n": integer(0, 20)},
    ),
    Rule(
        "Remove the entry with the smallest number (in a tie, the one whose name is first alphabetically), if there is one.",
        "if table:\n    table.pop(min(table, key=lambda name: (table[name], name)))",
        (
            "if table:\n    table.pop(min(table, key=lambda name: table[name]))",
            "if table:\n    table.pop(max(table, key=lambda name: (table[name], name)))",
        ),
    ),
    Rule(
        "Add the length of each name to its number.",
        "table = {name: number + len(name) for name, number in table.items()}",
        ("table = {name: len(name) for name, number in table.items()}",),
    ),
)
RECORDS = (
    Rule(
        "Drop the records with fewer than $n points.",
        "records = [r for r in records if r['points'] >= $n]",
        ("records = [r for r in records if r['points'] > $n]",),
        {"n": integer(3, 15)},
    ),
    Rule(
        "Drop the records from $town.",
        "records = [r for r in records if r['town'] != $town]",
        ("records = [r for r in records if r['town'] == $town]",),
        {"town": choice(*TOWNS)},
    ),
    Rule(
        "Add $n points to every record from $town.",
        "records = [{**r, 'points': r['points'] + $n * (r['town'] == $town)} for r in records]",
        ("records = [{**r, 'points': r['points'] + $n} for r in records]",),
        {"town": choice(*TOWNS), "n": integer(1, 9, 2)},
    ),
    Rule(
        "Sort the records by points, highest first; break ties by name, alphabetically.",
        "records = sorted(records, key=lambda r: (-r['points'], r['name']))",
        (
            "records = sorted(records, key=lambda r: (r['points'], r['name']), reverse=True)",
            "records = sorted(records, key=lambda r: r['points'])",
        ),
    ),
    Rule(
        "For each name keep only the record with the most points (the earliest in a tie), and preserve the order of "
        "the records.",
        "records = [r for i, r in enumerate(records) if not any(o['name'] == r['name'] and (o['points'], -j) > "
        "(r['points'], -i)"
        " for j, o in enumerate(records))]",
        ("records = list({r['name']: r for r in records}.values())",),
        once=True,
    ),
    Rule(
        'Make a table from each "name" to the sum of the points of its records.',
        "table = {}\nfor r in records:\n    table[r['name']] = table.get(r['name'], 0) + r['points']",
        ("table = {r['name']: r['points'] for r in records}",),
        gives="table",
    ),
    Rule(
        'Make a table from each "town" to the number of its records.',
        "table = {}\nfor r in records:\n    table[r['town']] = table.get(r['town'], 0) + 1",
        ("table = {}\nfor r in records:\n    table[r['town']] = table.get(r['town'], 0) + r['points']",),
        gives="table",
    ),
)
ENDS_OF_TABLE = (
    Rule("the table.", "return table"),
    Rule(
        "the names as a list, in alphabetical order.",
        "return sorted(table)",
        ("return list(table)", "return sorted(table, reverse=True)"),
    ),
    Rule(
        "a dictionary from each number to the set of names that have it.",
        "turned = {}\nfor name, number in table.items():\n    turned.setdefault(number, set()).add(name)\nreturn turned",
        ("return {number: {name} for name, number in table.items()}",),
    ),
    Rule(
        "a list of tuples (name, number), sorted by number, largest first, with ties in alphabetical order of the names.",
        "return sorted(table.items(), key=lambda item: (-item[1], item[0]))",
        ("return sorted(table.items(), key=lambda item: (item[1], item[0]), reverse=True)", "return sorted(table.items())"),
    ),
    Rule("the sum of all numbers.", "return sum(table.values())", ("return sum(set(table.values()))", "return len(table)")),
    Rule(
        "the name with the largest number (in a tie, the first alphabetically), or None for an empty table.",
        "return min(table, key=lambda name: (-table[name], name)) if table else None",
        ("return max(table, key=lambda name: (table[name], name)) if table else None",),
    ),
)
ENDS_OF_RECORDS = (
    Rule("the list of records.", "return records"),
    Rule(
        "a dictionary from each town to the sorted list of the distinct names in its records.",
        "return {t: sorted({r['name'] for r in records if r['town'] == t}) for t in {r['town'] for r in records}}",
        ("return {r['town']: [o['name'] for o in records if o['town'] == r['town']] for r in records}",),
    ),
    Rule(
        "a dictionary from each name to its highest number of points.",
        "return {r['name']: max(o['points'] for o in records if o['name'] == r['name']) for r in records}",
        ("return {r['name']: r['points'] for r in records}",),
    ),
    Rule(
        "a dictionary from each tuple (town, name) to the number of its records.",
        "return {(r['town'], r['name']): sum((o['town'], o['name']) == (r['town'], r['name']) for o in records) for r in "
        "records}",
        (
            "return {(r['town'], r['name']): 1 for r in records}",
            "return {(r['name'], r['town']): sum((o['town'], o['name']) == (r['town'], r['name']) for o in "
            "records) for r in "
            "records}",
        ),
    ),
)
FAMILY = ProgramFamily(
    "dictionaries",
    FRAMES,
    typed("table", TABLE) + typed("records", RECORDS),
    typed("table", ENDS_OF_TABLE) + typed("records", ENDS_OF_RECORDS),
    names=("tally", "update", "book", "collect", "merge"),
)
