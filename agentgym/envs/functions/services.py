"""The services, with their kinds of records and the records' fields."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Field:
    """A field of a record; `values` lists the choices, `low` and `high` are inclusive limits of a random number."""

    name: str
    kind: str
    """`day`, `time`, `choice` or `number`."""
    values: tuple[str, ...] = ()
    low: int = 1
    high: int = 99
    settable: bool = True

    def draw(self, rng: np.random.Generator) -> str | int:
        """Return a random value of the field."""
        if self.kind == "choice":
            return self.values[int(rng.integers(len(self.values)))]
        if self.kind == "day":
            return f"2026-{int(rng.integers(1, 13)):02}-{int(rng.integers(1, 29)):02}"
        if self.kind == "time":
            return f"{int(rng.integers(8, 19)):02}:{int(rng.integers(4)) * 15:02}"
        return int(rng.integers(self.low, self.high + 1))


@dataclass(frozen=True)
class Service:
    """A service with one kind of record; a record's title is a word of `first` and a word of `second`."""

    name: str
    noun: str
    prefix: str
    first: tuple[str, ...]
    second: tuple[str, ...]
    fields: tuple[Field, ...]

    @property
    def plural(self) -> str:
        """Plural of the record's noun."""
        return f"{self.noun[:-1]}ies" if self.noun.endswith("y") else f"{self.noun}s"

    @property
    def by_name(self) -> dict[str, Field]:
        """The service's fields by name."""
        return {field.name: field for field in self.fields}

    @property
    def settable(self) -> list[str]:
        """Names of the fields that functions can change."""
        return [field.name for field in self.fields if field.settable]

    @property
    def choices(self) -> list[str]:
        """Names of the fields with a fixed set of values; records can be listed by these fields."""
        return [field.name for field in self.fields if field.kind == "choice"]


def _choice(name: str, values: str) -> Field:
    return Field(name, "choice", tuple(values.split()))


def _service(name: str, noun: str, prefix: str, first: str, second: str, *fields: Field) -> Service:
    return Service(name, noun, prefix, tuple(first.split()), tuple(second.split()), fields)


_DAY, _TIME = Field("day", "day"), Field("time", "time")
SERVICES: dict[str, Service] = {
    service.name: service
    for service in (
        _service(
            *("calendar", "event", "E", "Budget Design Spring Team Safety Roadmap Hiring Launch"),
            "review lunch planning workshop call demo retreat briefing",
            *(_DAY, _TIME, _choice("room", "Oak Elm Pine Maple Cedar")),
        ),
        _service(
            *("support", "ticket", "T", "Login Printer Export Payment Search Upload Password Screen"),
            "failure delay question crash warning outage mismatch request",
            *(_choice("priority", "low normal high urgent"), _choice("team", "network billing desktop web")),
            Field("hours", "number", low=1, high=40),
        ),
        _service(
            *("bank", "account", "A", "Household Holiday Savings Business Garden Studio Family Tax"),
            "fund account reserve pool budget deposit purse wallet",
            *(Field("limit", "number", low=100, high=5000), _choice("alerts", "off daily weekly monthly")),
            Field("balance", "number", low=100, high=9000, settable=False),
        ),
        _service(
            *("billing", "invoice", "I", "Paper Power Water Rent Cleaning Catering Courier Phone"),
            "bill renewal delivery fee supply service contract charge",
            *(Field("due", "day"), _choice("category", "office travel energy food")),
            Field("amount", "number", low=10, high=900, settable=False),
        ),
        _service(
            *("home", "device", "D", "Hall Kitchen Attic Cellar Porch Nursery Garage Library"),
            "heater lamp fan camera blind speaker sensor lock",
            *(_choice("mode", "off eco comfort boost"), Field("level", "number", low=1, high=40)),
            _choice("zone", "north south east west"),
        ),
        _service(
            *("drive", "file", "F", "Quarterly Draft Signed Annual Merged Shared Client Vendor"),
            "report agreement summary forecast minutes survey ledger brochure",
            *(_choice("folder", "inbox archive legal finance"), _choice("access", "private team public")),
            Field("size", "number", low=1, high=900, settable=False),
        ),
        _service(
            *("travel", "trip", "J", "Summer Winter Client Family Research Museum Alpine Coastal"),
            "visit tour crossing escape transfer excursion stay return",
            *(_DAY, _choice("city", "Oslo Lyon Porto Turin Ghent"), _choice("cabin", "economy premium business")),
        ),
        _service(
            *("store", "order", "O", "Oak Steel Linen Glass Copper Walnut Marble Wool"),
            "table shelf chair bowl vase frame stool rug",
            *(_choice("carrier", "post rail road air"), Field("quantity", "number", low=1, high=60)),
            _choice("wrap", "plain paper ribbon box"),
        ),
        _service(
            *("contacts", "contact", "C", "Ada Ben Carla Femi Hugo Ines Mina Yusuf"),
            "Berger Castillo Fofana Hoang Jensen Moreau Okafor Silva",
            *(_choice("group", "friends work family club"), _choice("language", "English French Spanish German")),
            Field("extension", "number", low=100, high=999),
        ),
        _service(
            *("warehouse", "item", "W", "Red Blue Green Black White Amber Grey Violet"),
            "bolt hinge valve cable filter gasket bearing switch",
            *(_choice("shelf", "A1 B2 C3 D4 E5"), Field("stock", "number", low=1, high=500)),
            _choice("supplier", "Norden Sudera Ostana Westal"),
        ),
        _service(
            *("plans", "subscription", "S", "Music News Backup Map Chess Fitness Weather Cooking"),
            "plus basic club pass bundle channel lite circle",
            *(_choice("tier", "free silver gold"), Field("seats", "number", low=1, high=50), Field("renewal", "day")),
        ),
        _service(
            *("school", "course", "K", "Evening Advanced Basic Online Weekend Intensive Junior Open"),
            "drawing pottery algebra welding singing coding writing sailing",
            *(_DAY, _choice("hall", "Curie Gauss Noether Turing"), Field("places", "number", low=5, high=90)),
        ),
    )
}
