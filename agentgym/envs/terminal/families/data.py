"""Task families about tables and settings: CSV, JSON, INI."""

import configparser
import csv
import io
import json

from agentgym.envs.terminal.scenario import Checks, Final, Rng, Scenario, family, pick, sample, shuffled
from agentgym.envs.terminal.tree import Entry, file
from agentgym.envs.terminal.words import CITIES, PEOPLE, SERVICES, SURNAMES, names, number, numbered, path

STATES = ("paid", "unpaid", "refunded", "open")


def _bills(fill: Rng, level: int, least: int) -> list[dict[str, str]]:
    """Return the rows of a table of bills.

    At least one paid bill with an amount of `least` or more has a customer with a comma in the name.
    """
    cities = sample(fill, CITIES, 4 + min(level, 8))
    bills = [(f"{least * 10}.50", "paid")]
    for place in range(14 + 10 * level):
        amount = least - 40 + 15 * place % 97 if place % 3 else least * (1 + place % 4)
        bills.append((f"{amount}.{number(fill, 0, 99):02}", STATES[place % 2] if place < 8 else pick(fill, STATES)))
    rows: list[dict[str, str]] = []
    for place, (amount, state) in enumerate(shuffled(fill, bills)):  # neither id nor name reveals what is due
        first, last = pick(fill, PEOPLE), pick(fill, SURNAMES)
        name = pick(fill, (first, f"{last}, {first}", f'{last}, "{first}"'))
        row = {"id": str(99 + place), "customer": name, "city": pick(fill, cities), "amount": amount, "status": state}
        rows.append(row)
    if not any("," in row["customer"] for row in rows if row["status"] == "paid" and float(row["amount"]) >= least):
        next(row for row in rows if row["amount"] == bills[0][0])["customer"] = 'Novak, "Nina"'
    return shuffled(fill, rows)


def _sums(rows: list[dict[str, str]]) -> tuple[list[list[str]], str, str]:
    """Return the sums by city as a table, the instruction for it, and the code that writes it."""
    cents_of: dict[str, int] = {}
    for row in rows:
        cents_of[row["city"]] = cents_of.get(row["city"], 0) + round(100 * float(row["amount"]))
    order = sorted(cents_of.items(), key=lambda item: (-item[1], item[0]))
    expected = [["city", "total"], *([city, f"{total / 100:.2f}"] for city, total in order)]
    instruction = (
        "with the columns `city,total`: for each city that has any of them, the sum of their amounts with two decimals; "
        "the largest sum first, ties by city name"
    )
    body = (
        "sums = {}\nfor r in rows:\n    sums[r['city']] = sums.get(r['city'], 0) + round(100 * float(r['amount']))\n"
        "w.writerow(['city', 'total'])\n"
        "for city, cents in sorted(sums.items(), key=lambda p: (-p[1], p[0])):\n"
        "    w.writerow([city, f'{cents / 100:.2f}'])"
    )
    return expected, instruction, body


def _by_amount(rows: list[dict[str, str]]) -> tuple[list[list[str]], str, str]:
    """Return the rows sorted by amount as a table, the instruction for it, and the code that writes it."""
    ordered = sorted(rows, key=lambda row: (-float(row["amount"]), int(row["id"])))
    expected = [["id", "customer", "amount"], *([row["id"], row["customer"], row["amount"]] for row in ordered)]
    instruction = "with the columns `id,customer,amount`, the largest amount first, ties by id"
    body = (
        "w.writerow(['id', 'customer', 'amount'])\n"
        "for r in sorted(rows, key=lambda r: (-float(r['amount']), int(r['id']))):\n"
        "    w.writerow([r['id'], r['customer'], r['amount']])"
    )
    return expected, instruction, body


@family("csv")
def table(ask: Rng, fill: Rng, level: int) -> Scenario:
    """Create a task: filter and sort a table with quoted fields and select columns; from level 1 on, sum by group."""
    source, out = f"{numbered(ask)}.csv", f"{numbered(ask, 'report')}.csv"
    least, grouped = 10 * number(ask, 5, 20), level >= 1
    rows = _bills(fill, level, least)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    selected = [row for row in rows if row["status"] == "paid" and float(row["amount"]) >= least]
    expected, instruction, body = _sums(selected) if grouped else _by_amount(selected)

    def check(final: Final) -> Checks:
        try:
            rows = list(csv.reader(io.StringIO(final.text(out) or "")))
        except csv.Error:  # a field above the library's size limit
            rows = None
        yield f"{out} holds the right rows in the right order", rows == expected

    def program(condition: str, change: str = "") -> str:
        return (
            f"python3 - <<'END'\nimport csv\nrows = [r for r in csv.DictReader(open('{source}')) if {condition}]\n"
            f"w = csv.writer(open('{out}', 'w', newline=''), lineterminator='\\n')\n{change}{body}\nEND"
        )

    right = f"r['status'] == 'paid' and float(r['amount']) >= {least}"
    return Scenario(
        f"From the table `{source}`, take the rows whose status is `paid` and whose amount is {least} or more, and write "
        f"`{out}`, a CSV file with a header, {instruction}. Quote fields where CSV needs it.",
        {source: file(text.getvalue())},
        (program(right),),
        {
            "unpaid holds paid": (
                program(right.replace("==", "in").replace("r['status'] in 'paid'", "'paid' in r['status']")),
            ),
            "every comma parts": (
                f"awk -F, 'NR == 1 || ($5 == \"paid\" && $4 >= {least})' {source} | cut -d, -f1,2,4 > {out}",
            ),
            "all amounts": (program("r['status'] == 'paid'"),),
        },
        check,
        look=(f"head -5 {source}; wc -l {source}",),
        show=(f"cat {out}",),
        changes=(out,),
        answers=("\n".join(",".join(row) for row in expected),),
    )


@family("json")
def settings_json(ask: Rng, fill: Rng, level: int) -> Scenario:
    """Create a task: change values in JSON files by a rule; the same key also occurs in places that must not change."""
    top, port, owner = numbered(ask), number(ask, 20, 90) * 100 + 1, pick(ask, PEOPLE).lower()
    tree, expected = dict[str, Entry](), dict[str, object]()
    stems = names(fill, 5 + 3 * level)
    for place, name in enumerate(stems):
        enabled: object = (True, False, "false")[place % 3] if level else place % 2 == 0
        server: dict[str, object] = {"host": f"{name}.example", "port": 8000 + place}
        value: dict[str, object] = {
            "name": pick(fill, SERVICES),
            "enabled": enabled,
            "server": server,
            "metrics": {"port": 9000 + place, "labels": sample(fill, CITIES, 2)},
            "note": "café „übung“",
        }
        if level >= 1 and place % 2:
            server["fallback"] = {"host": "spare", "port": 7000 + place}
        where = f"{top}/{path(fill, place % 2 * min(level, 4))}{name}.json"
        tree[where] = file(json.dumps(value, indent=2, ensure_ascii=bool(place % 2)) + "\n")
        if enabled is True:
            value = {**value, "server": {**server, "port": port}, "owner": owner}
        expected[where] = value
    tree[f"{top}/{numbered(fill)}.json.bak"] = file('{"enabled": true, "server": {"port": 1}}\n')

    def check(final: Final) -> Checks:
        for where, value in expected.items():
            try:
                right = _same(json.loads(final.text(where) or ""), value)
            except (ValueError, RecursionError):
                right = False
            yield f"{where} holds the right values", right

    def program(condition: str, change: str) -> str:
        return (
            f"python3 - <<'END'\nimport json, pathlib\nfor path in sorted(pathlib.Path('{top}').rglob('*.json')):\n"
            f"    value = json.loads(path.read_text())\n    if {condition}:\n{change}"
            "        path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + '\\n')\nEND"
        )

    change = f"        value['server']['port'] = {port}\n        value['owner'] = '{owner}'\n"
    return Scenario(
        f"In each `.json` file in `{top}` and below whose `enabled` is `true` (the JSON value, not a "
        "text), set the `port` of "
        f"`server` to {port} and add the key `owner` at the top with the text `{owner}`. Change nothing else.",
        tree,
        (program("value['enabled'] is True", change),),
        {
            "every port": (
                f"grep -rl '\"enabled\": true' {top} --include='*.json' | while read -r f; do "
                f'sed -i \'s/"port": [0-9]*/"port": {port}/; s/^{{/{{\\n  "owner": "{owner}",/\' "$f"; done',
            ),
            "every file": (program("True", change),),
            "the port as a text": (program("value['enabled'] is True", change.replace(f"= {port}", f"= '{port}'")),),
        },
        check,
        look=(f"find {top} -type f | sort", f"find {top} -name '*.json' | sort | head -1 | xargs cat"),
        show=(f"grep -rn '\"owner\"' {top} | sort",),
        changes=[name for name in tree if name.endswith(".json")],
    )


def _same(left: object, right: object) -> bool:
    """Return True if two JSON values are equal, including their types."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


Setting = tuple[str, str, str]
"""Section, key and value."""


def _ini(fill: Rng, sections: list[str], keys: list[str]) -> str:
    """Return an INI file with a value for every key in every section, and with comments that may look like settings."""
    lines = ["; made by hand"]
    for section in shuffled(fill, sections):
        lines += ["", f"[{section}]", f"# {numbered(fill)} asked for this"]
        for key in shuffled(fill, keys):
            lines.append(f"{key} = {number(fill, 1000, 9999)}")
            if fill.random() < 0.3:
                lines.append(f"#{key} = {number(fill, 1, 9)}")
    return "\n".join(lines) + "\n"


def _ini_program(source: str, orders: list[Setting], fresh: Setting) -> str:
    """Return the command that changes the settings `orders` in an INI file and adds the setting `fresh`."""
    edits = "".join(f"    ('{section}', '{key}'): '{value}',\n" for section, key, value in orders)
    return (
        f"python3 - <<'END'\nedits = {{\n{edits}}}\nsection, lines = '', []\n"
        f"for line in open('{source}').read().split('\\n'):\n"
        "    if line.startswith('['):\n        section = line.strip('[]')\n"
        "    key = line.partition('=')[0].strip()\n"
        "    if (section, key) in edits:\n        line = f'{key} = {edits[section, key]}'\n"
        "    lines.append(line)\n"
        f"    if line == '[{fresh[0]}]':\n        lines.append('{fresh[1]} = {fresh[2]}')\n"
        f"open('{source}', 'w').write('\\n'.join(lines))\nEND"
    )


@family("ini")
def settings_ini(ask: Rng, fill: Rng, level: int) -> Scenario:
    """Create a task: change settings in some sections of an INI file, but not comments or equal keys in other sections."""
    source = f"{numbered(ask)}.ini"
    sections = sample(ask, SERVICES, 4 + min(level, 6))
    keys = ["host", "port", "timeout", "retries", "mode", "region"][: 4 + min(level, 2)]
    orders: list[Setting] = []
    for place in range(1 + min(level + 1, 4)):
        orders.append((sections[place], pick(ask, keys[1:]), str(number(ask, 100, 999))))
    fresh = (sections[0], f"{numbered(ask, 'limit')}", str(number(ask, 1, 9)))
    text = _ini(fill, sections, keys)
    expected = _sections(text)
    for section, key, value in (*orders, fresh):
        expected[section][key] = value
    comments = [line for line in text.splitlines() if line[:1] in ("#", ";")]

    def check(final: Final) -> Checks:
        after = final.text(source) or ""
        yield "the sections hold the right settings", _sections(after) == expected
        yield "the comments are still there", [line for line in after.splitlines() if line[:1] in ("#", ";")] == comments

    edits = "; ".join(f"`{key}` of `[{section}]` to {value}" for section, key, value in orders)
    program = _ini_program(source, orders, fresh)
    everywhere = "; ".join(f"sed -i 's/^{key} = .*/{key} = {value}/' {source}" for _, key, value in orders)
    library = "; ".join(f"c['{section}']['{key}'] = '{value}'" for section, key, value in (*orders, fresh))
    return Scenario(
        f"In `{source}` set {edits}. Add to `[{fresh[0]}]` the new setting `{fresh[1]}` with the value {fresh[2]}. Settings "
        "are written `key = value`. All other settings, in all sections, and all comment lines stay as they are.",
        {source: file(text)},
        (program,),
        {
            "in every section": (everywhere, f"sed -i 's/^\\[{fresh[0]}\\]/&\\n{fresh[1]} = {fresh[2]}/' {source}"),
            "the new one at the end": (
                program.replace(f"line == '[{fresh[0]}]'", "False"),
                f"echo '{fresh[1]} = {fresh[2]}' >> {source}",
                f"printf '[extra]\\nx = 1\\n' >> {source}",
            ),
            "without the comments": (
                f"python3 -c \"import configparser; c = configparser.ConfigParser(); c.read('{source}'); {library}; "
                f"c.write(open('{source}', 'w'))\"",
            ),
        },
        check,
        look=(f"cat {source}",),
        show=(f"cat {source}",),
        changes=(source,),
    )


LONGEST, WIDEST = 100_000, 1000
"""Maximum characters of a settings file and of a line in it; the parser's time is quadratic in a line's length."""


def _sections(text: str) -> dict[str, dict[str, str]]:
    if len(text) > LONGEST or any(len(line) > WIDEST for line in text.split("\n")):
        return {}
    parser = configparser.ConfigParser(interpolation=None, default_section="\0")
    try:
        parser.read_string(text)
    except configparser.Error:
        return {}
    return {name: dict(parser[name]) for name in parser.sections()}
