"""Parsing of a game's objective."""

import re

_TAKE = re.compile(r"\b(?:take|retrieve|recover|pick[ -]up|lift) the (.+?)(?: from the | that's in the | in the |$)")
_PUT = re.compile(
    r"\b(?:put|place|sit|rest|insert|deposit) the (.+?) (on|in|into|inside) the (.+?)(?: (?:in|within|inside) the .*)?$"
)
_OPEN = re.compile(r"\bopen the (.+?)(?: (?:in|within|inside) the .*)?$")
_AJAR = re.compile(r"\bthat the (.+?)(?: (?:in|within|inside) the .*)? is (?:opened|open|wide open|ajar)$")
_UNLOCK = re.compile(r"\b(?:unlock|that) the (.+?)(?: (?:in|within|inside) the .*?)?(?: is unlocked)?(?: with the (.+))?$")
_INTO_LOCK = re.compile(r"\binsert the (.+?) into the (.+?)(?: (?:in|within|inside) the .*)?'s lock\b")
_GO = re.compile(r"\b(north|south|east|west)$|\bthrough the (north|south|east|west) ")
_BRIEF = re.compile(r"only missing an? grilled (.+)$")


def steps_of(objective: str) -> list[tuple[str, str, str]]:
    """Return an objective's steps as (verb, object or direction, second object).

    The verbs are `go`, `take`, `find`, `open`, `unlock` (with), `put` (on) and `insert` (into). The second object is
    empty if the step has none.
    """
    steps = list[tuple[str, str, str]]()
    for sentence in re.split(r"[.!?]\s*", objective):
        before, _, clause = sentence.rpartition(", ")
        if match := _GO.search(clause):
            steps.append(("go", match[1] or match[2], ""))
        elif match := _INTO_LOCK.search(clause):
            steps.append(("unlock", match[2], match[1]))
        elif "unlock" in clause and (match := _UNLOCK.search(clause)):
            key = match[2] or before.partition("with the ")[2]
            steps.append(("unlock", match[1], key))
        elif match := _AJAR.search(clause) or _OPEN.search(clause):
            steps.append(("open", match[1], ""))
        elif match := _PUT.search(clause):
            steps.append(("put" if match[2] == "on" else "insert", match[1], match[3]))
        elif match := _TAKE.search(clause):
            steps.append(("take", match[1], ""))
        elif match := _BRIEF.search(clause):
            steps += [("find", match[1], ""), ("put", match[1], "stove")]
    return steps
