"""Schemas of generated databases in a compact notation, and its parser.

Each line is a table: its name, then its columns, separated by semicolons; an indented line continues it. Every table has a
key `id`. A column is `name {a, b, c}` (a category), `name 1..90` (integers), `name 1.00..90.00` (reals with two decimals),
`name date`, `name person|title|place` (names, some of them similar), or `name -> table` (a reference, stored as `name_id`).
`?` after its name makes a column nullable.
"""

import re
from dataclasses import dataclass, field
from functools import cached_property

FIRST_DATE, LAST_DATE = "2019-01-01", "2023-12-31"

TEXTS = {
    "library": """
        authors: name person; country {Norway, Chile, Japan, Kenya, Italy, Canada}; born 1900..1990
        books: title title; author -> authors; genre {crime, poetry, travel, science, history, romance};
            year 1950..2023; pages 80..120; price 5.00..30.00; rating? 1..10
        members: name person; town {Ashford, Millbrook, Eastleigh, Norwood}; joined date
        loans: book -> books; member -> members; taken date; returned? date; fine? 1..20
    """,
    "shop": """
        customers: name person; city {Lyon, Porto, Ghent, Turin, Graz}; tier {gold, silver, bronze}; since date
        products: title title; category {kitchen, garden, office, sport, toys}; price 2.00..60.00; stock 0..40;
            weight? 1..30
        orders: customer -> customers; placed date; shipped? date; status {open, paid, sent, lost}; total 10..90
        items: order -> orders; product -> products; quantity 1..9; discount? 5..25
    """,
    "school": """
        teachers: name person; subject {maths, music, biology, latin, drawing}; salary 30..60; hired date
        courses: title title; teacher -> teachers; room {north, south, east, west}; seats 10..35; credits 1..6
        students: name person; year 1..5; town {Ashford, Millbrook, Eastleigh, Norwood}; born date
        grades: student -> students; course -> courses; score? 0..20; given date
    """,
    "clinic": """
        doctors: name person; field {surgery, eyes, heart, skin}; experience 1..35; fee 40..90
        patients: name person; blood {A, B, AB, O}; born date; height? 150..195
        visits: patient -> patients; doctor -> doctors; held date; minutes 5..60; cost 20..120;
            result {healed, stable, worse, unclear}
        drugs: visit -> visits; title title; dose 1..12; form {pill, drops, cream}
    """,
    "airline": """
        airports: name place; country {Norway, Chile, Japan, Kenya, Italy, Canada}; runways 1..6; altitude 0..900
        planes: title title; maker {Falken, Orbis, Tern, Halcyon}; seats 40..90; built 1990..2022; retired? date
        flights: origin -> airports; plane -> planes; departed date; delay? 0..45; passengers 20..80;
            status {landed, cancelled, diverted}
        tickets: flight -> flights; holder person; class {first, business, economy}; price 50..120
    """,
    "music": """
        artists: name person; country {Norway, Chile, Japan, Kenya, Italy, Canada}; founded 1950..2020;
            label? {Arc, Blue, Cobalt, Dune}
        albums: title title; artist -> artists; genre {jazz, folk, metal, opera, techno}; released date; score 1..20
        tracks: title title; album -> albums; seconds 90..140; plays 0..99; live {yes, no}
        concerts: artist -> artists; city {Lyon, Porto, Ghent, Turin, Graz}; held date; visitors? 50..99
    """,
    "farm": """
        fields: name place; soil {clay, sand, loam, peat}; area 2..40; slope? 1..15
        crops: title title; kind {grain, fruit, root, herb}; days 40..90; price 1.00..12.00
        plantings: field -> fields; crop -> crops; sown date; picked? date; yield 5..60; grade {good, fair, poor}
        workers: name person; field -> fields; wage 10..30; role {driver, picker, guard}; joined date
    """,
    "company": """
        offices: name place; region {north, south, east, west}; floors 1..12; opened date
        employees: name person; office -> offices; chief? -> employees;
            role {clerk, analyst, driver, guard, lawyer}; salary 30..60; hired date; bonus? 1..15
        projects: title title; lead -> employees; budget 20..99; status {open, paused, done}; started date
        tasks: project -> projects; employee -> employees; hours 1..40; due date; done? date
    """,
    "league": """
        clubs: name place; country {Norway, Chile, Japan, Kenya, Italy, Canada}; founded 1880..1990; capacity 20..60
        players: name person; club -> clubs; position {keeper, back, middle, forward}; age 17..38;
            value 1.00..40.00; injury? date
        matches: club -> clubs; played date; goals 0..6; against 0..6; place {home, away}; crowd? 10..60
        cards: match -> matches; player -> players; colour {yellow, red}; minute 1..90
    """,
    "observatory": """
        telescopes: name place; type {radio, optical, infrared}; mirror 1..30; opened 1950..2020
        stars: title title; telescope -> telescopes; class {dwarf, giant, pulsar, binary}; distance 4..60;
            mass 0.10..20.00; age? 1..13
        nights: telescope -> telescopes; held date; hours 2..12; weather {clear, cloudy, windy}
        images: star -> stars; night -> nights; exposure 5..90; filter {red, green, blue}; noise? 1..20
    """,
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column: `kind` is category, integer, real, date, person, title, place or reference."""

    name: str
    kind: str
    nullable: bool = False
    values: tuple[str, ...] = ()
    low: float = 0
    high: float = 0
    target: str = ""

    @property
    def stored(self) -> str:
        """Name of the column in the database."""
        return f"{self.name}_id" if self.kind == "reference" else self.name

    @property
    def counts(self) -> bool:
        """True for numbers, which can be added and averaged."""
        return self.kind in ("integer", "real")

    @property
    def names(self) -> bool:
        """True for names of persons, titles and places."""
        return self.kind in ("person", "title", "place")


@dataclass(frozen=True)
class Table:
    """A table with a key `id` and further columns."""

    name: str
    columns: tuple[Column, ...]

    @cached_property
    def by_name(self) -> dict[str, Column]:
        """Columns by name; names of references lack the suffix `_id` of the database."""
        return {column.name: column for column in self.columns}

    def alone(self) -> "Table":
        """Return the table without its references."""
        return Table(self.name, tuple(column for column in self.columns if column.kind != "reference"))


@dataclass(frozen=True)
class Schema:
    """Tables, in an order such that references point to the same or an earlier table."""

    name: str
    tables: tuple[Table, ...]
    by_name: dict[str, Table] = field(compare=False)


def create(table: Table) -> str:
    """Return the CREATE TABLE statement for a table."""
    types = {"integer": "INTEGER", "real": "REAL", "reference": "INTEGER"}
    lines = ["id INTEGER PRIMARY KEY"]
    for column in table.columns:
        line = f"{column.stored} {types.get(column.kind, 'TEXT')}{'' if column.nullable else ' NOT NULL'}"
        lines.append(line + (f" REFERENCES {column.target}(id)" if column.target else ""))
    return f"CREATE TABLE {table.name} (\n  " + ",\n  ".join(lines) + "\n)"


_COLUMN = re.compile(r"(\w+)(\?)? (.+)")


def read_schema(name: str, text: str) -> Schema:
    """Parse a schema in the compact notation of this module."""
    tables: list[Table] = []
    for line in re.split(r"\n(?=\s+\w+: )", text.strip("\n")):
        table, _, rest = " ".join(line.split()).partition(": ")
        tables.append(Table(table, tuple(_column(part.strip()) for part in rest.split(";"))))
    return Schema(name, tuple(tables), {table.name: table for table in tables})


def _column(text: str) -> Column:
    match = _COLUMN.fullmatch(text)
    assert match is not None, text
    name, nullable, what = match[1], bool(match[2]), match[3]
    if what.startswith("{"):
        return Column(name, "category", nullable, tuple(value.strip() for value in what[1:-1].split(",")))
    if what.startswith("-> "):
        return Column(name, "reference", nullable, target=what[3:])
    if ".." in what:
        low, _, high = what.partition("..")
        return Column(name, "real" if "." in low else "integer", nullable, low=float(low), high=float(high))
    return Column(name, what, nullable)


SCHEMAS = {name: read_schema(name, text) for name, text in TEXTS.items()}
