"""Wordings of generated houses: the generations of ALFWorld's files, their variants, and paraphrased answers."""

from dataclasses import replace

from agentgym.core.seeding import derive
from agentgym.envs.household.text import HELP, NEW, OLD, Dialect

WORDINGS = ("new", "old", "variants", "paraphrased", "held_out")
"""`new` and `old` are ALFWorld 0.4 and 0.2, `variants` mixes their parts, the other two paraphrase the answers."""

_PHRASES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "You are in the middle of a room. Looking quickly around you": (
        ("You are in a room. Around you", "You stand in the middle of a room. Looking around"),
        ("You have entered a room. On a first look",),
    ),
    "You arrive at ": (("You walk to ", "You are now at ", "You go over to "), ("You reach ", "You stop at ")),
    "You pick up the ": (("You take the ", "You now hold the "), ("You grab the ", "You lift the ")),
    "You open the ": (("You pull open the ",), ("You have opened the ",)),
    "You close the ": (("You shut the ",), ("You have closed the ",)),
    "You turn on the ": (("You switch on the ",), ("You have turned on the ",)),
    " is closed.": ((" is shut.",), (" is not open.",)),
    ", you see ": ((", there is ", ", you find "), (", you notice ",)),
    " using the ": ((" with the ",), (" in the ",)),
}
"""Engine text -> its paraphrases for training, and its paraphrases for tests only."""


def draw_wording(wordings: tuple[str, ...], task_id: str) -> str:
    """Return the wording of a task, chosen by a hash of its id."""
    return wordings[derive("wording", task_id) % len(wordings)]


def wording_of(dialect: Dialect) -> str:
    """Return the wording of a dialect, ignoring its answer to `help`: `new`, `old`, or `variants` for all others."""
    alike = [name for name, known in (("new", NEW), ("old", OLD)) if replace(dialect, help=known.help) == known]
    return alike[0] if alike else "variants"


def draw_dialect(wordings: tuple[str, ...], task_id: str) -> Dialect:
    """Return the dialect of a task, chosen by a hash of its id.

    The command for putting an object down and the naming of locations vary together, so that the first arrival reveals
    the command.
    """
    wording = draw_wording(wordings, task_id)
    if wording in ("new", "old"):
        return NEW if wording == "new" else OLD
    dialect = (NEW, OLD)[derive("generation", task_id) % 2]
    dialect = replace(
        dialect,
        help=(HELP if dialect is NEW else None) if derive("help", task_id) % 2 else None,
        examine_visible=bool(derive("examine", task_id) % 2),
    )
    if wording == "variants":
        return dialect
    column = int(wording == "held_out")
    phrases: list[tuple[str, str]] = []
    for genuine, paraphrases in _PHRASES.items():
        options = paraphrases[column] if column else (genuine, *paraphrases[column])
        phrases.append((genuine, options[derive("phrase", genuine, task_id) % len(options)]))
    return replace(dialect, phrases=tuple(phrases))
