"""Words for names, logs and tables."""

from agentgym.envs.terminal.scenario import Rng, pick


def _words(text: str) -> list[str]:
    return text.split()


THINGS = _words(
    "anchor basket candle drawer engine fabric garden hammer island jacket kettle ladder magnet needle orchard pencil "
    "quarry ribbon saddle timber umbrella valley window yellow zipper bridge copper dragon feather glacier harbor"
)
PLACES = _words("attic barn cellar depot east field garage hall inner kitchen lobby market north office porch quay")
SERVICES = _words("auth billing cache catalog gateway inventory mailer orders payments queue reports search sessions")
PEOPLE = _words(
    "Ada Ben Cleo Dora Emil Fay Gus Hana Ivo June Karl Lena Milo Nora Otto Pia Quinn Rosa Sven Tess Ugo Vera Walt Yara"
)
SURNAMES = _words("Adler Brandt Castro Dietz Evans Fuchs Graham Haas Ito Jensen Kovacs Lang Moreau Novak Olsen Petit")
CITIES = _words("Aarhus Basel Cadiz Dover Essen Florence Ghent Haifa Izmir Jena Kyoto Lyon Malmo Nantes Oslo Porto")
VERBS = _words("accepted closed delayed dropped finished loaded opened queued received retried sent started stored")


def numbered(rng: Rng, word: str | None = None) -> str:
    """Return a word with a number appended, so that names do not run out."""
    return f"{word or pick(rng, THINGS)}{int(rng.integers(10, 1000))}"


def names(rng: Rng, count: int, existing: tuple[str, ...] = ()) -> list[str]:
    """Return `count` distinct numbered words that are not in `existing`."""
    distinct: dict[str, None] = {}
    while len(distinct) < count:
        name = numbered(rng)
        if name not in existing:
            distinct[name] = None
    return list(distinct)


def sentence(rng: Rng, words: int = 6) -> str:
    """Return a line of random words."""
    return " ".join(pick(rng, (*THINGS, *VERBS)) for _ in range(words))


def lines(rng: Rng, count: int) -> str:
    """Return `count` lines of words."""
    return "".join(f"{sentence(rng)}\n" for _ in range(count))


def number(rng: Rng, least: int, most: int) -> int:
    """Return an integer between `least` and `most`, inclusive."""
    return int(rng.integers(least, most + 1))


def path(rng: Rng, depth: int) -> str:
    """Return a path of `depth` folders (at most eight) with a trailing slash; empty for depth 0."""
    return "".join(f"{pick(rng, PLACES)}/" for _ in range(min(depth, 8)))
