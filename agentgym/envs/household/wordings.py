"""Wordings of generated houses: the generations of ALFWorld's files, their variants, and paraphrased answers."""

import re
from dataclasses import replace

import numpy as np

from agentgym.core.seeding import derive, generator
from agentgym.envs.household.text import HELP, NEW, OLD, Dialect

WORDINGS = ("new", "old", "variants", "paraphrased", "held_out", "invented")
"""`new` and `old` are ALFWorld 0.4 and 0.2, `variants` mixes their parts, the next two paraphrase the answers, and
`invented` replaces their phrases with random words."""

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


def _words(column: int) -> set[str]:
    """Return the words of the training paraphrases with the engine's own (0), or of those for tests (1), in lower case."""
    texts = [text for phrases in _PHRASES.values() for text in phrases[column]]
    return set(re.findall(r"[a-z]+", " ".join(texts if column else [*texts, *_PHRASES]).lower()))


_HELD_OUT = frozenset(_words(1) - _words(0))
_COMMON = (
    "after again all almost already as away before behind beside bring by can come does down draw each every far "
    "for from gently get hand has he here inside it its just keep leave left long make may more near next of off "
    "once one onto or out part push quiet rest right same set show side slowly so some still such that them then "
    "they this through time top under until very wait was way we well what where which while who will within yet"
)
_FILLERS = (*sorted(_words(0) - {"a"}), *_COMMON.split())
"""Real words of invented phrases: those of training phrases, and others that are in no held-out phrase."""
_MARKS = (",", ":", ";", "!", " -", "...")
_ONSETS = (*"bcdfghjklmnpqrstvwyz", "", "bl", "br", "ch", "cl", "cr", "dr", "fl", "gr", "pl", "sh", "sl", "st", "th", "tr")
_VOWELS = (*"aeiou", "ai", "ea", "ee", "io", "oa", "oo", "ou")
_CODAS = ("", "", "", *"bdgklmnprst", "ck", "ed", "ing", "ll", "nd", "ng", "nt", "rn", "ss", "st")


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
    if wording == "invented":
        return replace(dialect, phrases=tuple((genuine, _invent(genuine, task_id)) for genuine in _PHRASES))
    column = int(wording == "held_out")
    phrases: list[tuple[str, str]] = []
    for genuine, paraphrases in _PHRASES.items():
        options = paraphrases[column] if column else (genuine, *paraphrases[column])
        phrases.append((genuine, options[derive("phrase", genuine, task_id) % len(options)]))
    return replace(dialect, phrases=tuple(phrases))


def _invent(genuine: str, task_id: str) -> str:
    """Return random words, half of them pseudo-words, in place of an engine text, with its punctuation and capitals."""
    rng = generator("invented", genuine, task_id)
    while True:
        text = ". ".join(_invent_clause(rng, clause) for clause in genuine.split(". "))
        if text not in _PHRASES[genuine][1]:
            return text


def _invent_clause(rng: np.random.Generator, clause: str) -> str:
    """Return one to six words, some with a mark of their own, in the place of a clause."""
    words: list[str] = []
    length = int(rng.integers(1, 6))
    while len(words) < length:
        word = _FILLERS[int(rng.integers(len(_FILLERS)))] if rng.random() < 0.5 else _pseudo_word(rng)
        if word != "a" and word not in _HELD_OUT:  # `a` begins the items of a list
            words.append(word)
    if clause.rstrip().endswith(" the") and rng.random() < 0.5:
        words.append("the")
    if rng.random() < 0.3:
        words[int(rng.integers(len(words)))] += _MARKS[int(rng.integers(len(_MARKS)))]
    text = " ".join(words)
    inner = clause.strip(" ,.")
    before, after = clause.split(inner)
    return before + (text[0].upper() + text[1:] if inner[0].isupper() else text) + after


def _pseudo_word(rng: np.random.Generator) -> str:
    syllables = 1 + int(rng.integers(2))
    parts = (part[int(rng.integers(len(part)))] for _ in range(syllables) for part in (_ONSETS, _VOWELS, _CODAS))
    return "".join(parts)
