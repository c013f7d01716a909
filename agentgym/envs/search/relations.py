"""The language of generated worlds: relations, sentences that state them, and phrases that ask for them.

In a sentence, `{t}` is the topic of the document and `{x}` the other entity of the fact. Sentences in `stated` are for
the document of the subject, those in `reversed` for the document of the object. Each question phrase belongs to one
split, so `test` has forms that never occur in `train`.
"""

from dataclasses import dataclass

YEAR = "year"
WORKS = ("novel", "opera", "painting")
KINDS = ("person", "place", "organization", "event", *WORKS)
SHARES = {"person": 0.35, "place": 0.2, "organization": 0.15, "event": 0.1, "novel": 0.07, "opera": 0.06, "painting": 0.07}
PRONOUNS = {
    "person": ("She", "He"),
    "place": ("The town",),
    "organization": ("The organization",),
    "event": ("The event",),
    "novel": ("The novel",),
    "opera": ("The opera",),
    "painting": ("The painting",),
}
TRADES = ("writer", "composer", "painter", "engineer", "teacher", "merchant", "printer", "surveyor")


@dataclass(frozen=True)
class Relation:
    """Relation from entities of some kinds to entities of one kind, or to years."""

    name: str
    subjects: tuple[str, ...]
    object: str
    stated: tuple[str, ...]
    reversed: tuple[str, ...]
    train: tuple[str, ...]
    valid: tuple[str, ...]
    test: tuple[str, ...]

    def phrases(self, split: str) -> tuple[str, ...]:
        """Return the noun phrases that a split's questions use for the object of the relation."""
        return {"train": self.train, "valid": self.valid, "test": self.test}[split]


def _relation(
    name: str, subjects: str, kind: str, stated: list[str], inverse: list[str], train: list[str], valid: str, test: str
) -> Relation:
    return Relation(name, tuple(subjects.split()), kind, tuple(stated), tuple(inverse), tuple(train), (valid,), (test,))


RELATIONS = (
    _relation(
        "birthplace", "person", "place",
        ["{t} was born in {x}.", "{t} first saw the light of day in {x}."],
        ["{t} was the birthplace of {x}.", "{t} counts {x} among those born there."],
        ["the birthplace of {x}", "the town where {x} was born"],
        "the native town of {x}", "the town {x} was a native of",
    ),
    _relation(
        "deathplace", "person", "place",
        ["{t} died in {x}.", "{t} lies buried in {x}."],
        ["{t} is where {x} died.", "{t} has the grave of {x}."],
        ["the town where {x} died", "the place of death of {x}"],
        "the town in which {x} lies buried", "the last home of {x}",
    ),
    _relation(
        "teacher", "person", "person",
        ["{t} was taught by {x}.", "{t} learned as a pupil of {x}."],
        ["{t} was the teacher of {x}.", "{t} took {x} as a pupil."],
        ["the teacher of {x}", "the person who taught {x}"],
        "the one {x} was a pupil of", "the master under whom {x} learned",
    ),
    _relation(
        "employer", "person", "organization",
        ["{t} worked for {x} for many years.", "{t} was employed by {x}."],
        ["{t} had {x} on its staff.", "{t} was the employer of {x}."],
        ["the employer of {x}", "the organization that {x} worked for"],
        "the body that had {x} on its staff", "the house in whose service {x} was",
    ),
    _relation(
        "birth year", "person", YEAR,
        ["{t} was born in {x}.", "{t} came into the world in {x}."],
        [],
        ["the year of birth of {x}", "the year in which {x} was born"],
        "the birth year of {x}", "the year {x} came into the world",
    ),
    _relation(
        "author", "novel", "person",
        ["{t} was written by {x}.", "{t} came from the pen of {x}."],
        ["{t} wrote {x}.", "{t} is the author of {x}."],
        ["the author of {x}", "the person who wrote {x}"],
        "the writer behind {x}", "the one whose pen {x} came from",
    ),
    _relation(
        "composer", "opera", "person",
        ["{t} was composed by {x}.", "{t} has music by {x}."],
        ["{t} composed {x}.", "{t} set {x} to music."],
        ["the composer of {x}", "the person who composed {x}"],
        "the musician behind {x}", "the one who set {x} to music",
    ),
    _relation(
        "painter", "painting", "person",
        ["{t} was painted by {x}.", "{t} is from the brush of {x}."],
        ["{t} painted {x}.", "{t} is known as the painter of {x}."],
        ["the painter of {x}", "the person who painted {x}"],
        "the artist behind {x}", "the one whose brush {x} came from",
    ),
    _relation(
        "dedicatee", "novel opera", "person",
        ["{t} is dedicated to {x}.", "{t} is inscribed to {x}."],
        ["{t} is the person to whom {x} is dedicated.", "{t} received the dedication of {x}."],
        ["the dedicatee of {x}", "the person {x} is dedicated to"],
        "the one to whom {x} is inscribed", "the one honored by the dedication of {x}",
    ),
    _relation(
        "setting", "novel", "place",
        ["{t} is set in {x}.", "{t} tells of life in {x}."],
        ["{t} is the setting of {x}.", "{t} is where the story of {x} happens."],
        ["the setting of {x}", "the town where {x} is set"],
        "the scene of the story of {x}", "the town that {x} tells of",
    ),
    _relation(
        "owner", "painting", "organization",
        ["{t} belongs to {x}.", "{t} hangs in the rooms of {x}."],
        ["{t} owns {x}.", "{t} keeps {x} in its rooms."],
        ["the owner of {x}", "the organization that owns {x}"],
        "the present keeper of {x}", "the body in whose rooms {x} hangs",
    ),
    _relation(
        "premiere", "opera", "event",
        ["{t} was first performed at {x}.", "{t} had its premiere at {x}."],
        ["{t} saw the first performance of {x}.", "{t} opened with the premiere of {x}."],
        ["the event that saw the premiere of {x}", "the event where {x} was first performed"],
        "the occasion of the first night of {x}", "the gathering that opened with {x}",
    ),
    _relation(
        "completion year", "novel opera painting", YEAR,
        ["{t} was finished in {x}.", "{t} dates from {x}."],
        [],
        ["the year in which {x} was finished", "the year of {x}"],
        "the completion year of {x}", "the year {x} dates from",
    ),
    _relation(
        "founder", "place organization", "person",
        ["{t} was founded by {x}.", "{t} was established by {x}."],
        ["{t} founded {x}.", "{t} was the founder of {x}."],
        ["the founder of {x}", "the person who founded {x}"],
        "the one who established {x}", "the one {x} owes its existence to",
    ),
    _relation(
        "largest employer", "place", "organization",
        ["{t} has {x} as its largest employer.", "{t} lives chiefly on {x}, its largest employer."],
        ["{t} is the largest employer of {x}.", "{t} gives work to most people of {x}."],
        ["the largest employer of {x}", "the organization that employs most people in {x}"],
        "the chief provider of work in {x}", "the body most people of {x} work for",
    ),
    _relation(
        "founding year", "place organization", YEAR,
        ["{t} was founded in {x}.", "{t} goes back to {x}."],
        [],
        ["the year in which {x} was founded", "the founding year of {x}"],
        "the year {x} goes back to", "the year of establishment of {x}",
    ),
    _relation(
        "headquarters", "organization", "place",
        ["{t} has its headquarters in {x}.", "{t} is run from {x}."],
        ["{t} houses the headquarters of {x}.", "{t} is the seat of {x}."],
        ["the headquarters town of {x}", "the town where {x} has its headquarters"],
        "the seat of {x}", "the town {x} is run from",
    ),
    _relation(
        "director", "organization", "person",
        ["{t} was led by {x}.", "{t} had {x} as its director."],
        ["{t} was director of {x}.", "{t} led {x}."],
        ["the director of {x}", "the person who led {x}"],
        "the head of {x}", "the one in charge of {x}",
    ),
    _relation(
        "location", "event", "place",
        ["{t} is held in {x}.", "{t} takes place every summer in {x}."],
        ["{t} hosts {x}.", "{t} is the home of {x}."],
        ["the town that hosts {x}", "the town where {x} is held"],
        "the venue of {x}", "the town {x} fills with guests",
    ),
    _relation(
        "winner", "event", "person",
        ["{t} was won by {x}.", "{t} gave its first prize to {x}."],
        ["{t} took first prize at {x}.", "{t} was the winner of {x}."],
        ["the winner of {x}", "the person who won {x}"],
        "the champion of {x}", "the one who took first prize at {x}",
    ),
    _relation(
        "organizer", "event", "organization",
        ["{t} is organized by {x}.", "{t} is put on by {x}."],
        ["{t} organizes {x}.", "{t} puts on {x}."],
        ["the organizer of {x}", "the organization that organizes {x}"],
        "the body responsible for {x}", "the one that puts on {x}",
    ),
    _relation(
        "first year", "event", YEAR,
        ["{t} was first held in {x}.", "{t} began in {x}."],
        [],
        ["the first year of {x}", "the year in which {x} was first held"],
        "the opening year of {x}", "the year {x} began",
    ),
)  # fmt: skip

RELATION = {relation.name: relation for relation in RELATIONS}
OF_KIND = {kind: tuple(relation for relation in RELATIONS if kind in relation.subjects) for kind in KINDS}

NOISE: dict[str, tuple[tuple[str, str], ...]] = {
    # by kind of the topic: kind of the other, and a distractor sentence
    "person": (
        ("place", "{t} once spent a winter in {x}."),
        ("place", "{t} often traveled to {x}."),
        ("person", "{t} quarreled with {x}."),
        ("person", "{t} wrote many letters to {x}."),
        ("organization", "{t} turned down a post at {x}."),
        ("novel", "{t} spoke ill of {x}."),
        ("event", "{t} never missed {x}."),
    ),
    "place": (
        ("place", "{t} is often confused with {x}."),
        ("place", "{t} lies two days on foot from {x}."),
        ("person", "{t} was twice visited by {x}."),
        ("organization", "{t} refused a loan from {x}."),
        ("event", "{t} asked in vain for {x}."),
    ),
    "organization": (
        ("person", "{t} once turned away {x}."),
        ("person", "{t} published the letters of {x}."),
        ("place", "{t} closed its rooms in {x}."),
        ("organization", "{t} is an old rival of {x}."),
        ("painting", "{t} failed to buy {x}."),
    ),
    "event": (
        ("place", "{t} was nearly moved to {x}."),
        ("person", "{t} was opened by a speech of {x}."),
        ("organization", "{t} was criticized by {x}."),
        ("opera", "{t} refused to show {x}."),
    ),
    "novel": (
        ("person", "{t} was harshly reviewed by {x}."),
        ("person", "{t} was long believed to be by {x}."),
        ("place", "{t} was forbidden in {x}."),
        ("painting", "{t} mentions {x}."),
    ),
    "opera": (
        ("person", "{t} was a failure according to {x}."),
        ("person", "{t} was long believed to be by {x}."),
        ("place", "{t} was hissed in {x}."),
        ("organization", "{t} was rejected by {x}."),
    ),
    "painting": (
        ("person", "{t} was copied by {x}."),
        ("person", "{t} was long believed to be by {x}."),
        ("place", "{t} was once stolen in {x}."),
        ("organization", "{t} was lent to {x}."),
    ),
}
NOISE_OF_ALL = (
    (YEAR, "{t} was much talked about in {x}."),
    (YEAR, "{t} was all but forgotten by {x}."),
    (YEAR, "{t} is first mentioned in a letter of {x}."),
)
