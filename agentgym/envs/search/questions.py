"""Questions about generated worlds: chains of facts, their wording in each split, and a parser."""

from dataclasses import dataclass

import numpy as np

from agentgym.envs.search.generate import World
from agentgym.envs.search.relations import KINDS, OF_KIND, RELATION, RELATIONS, YEAR
from agentgym.errors import BadConfig
from agentgym.rewards.exact_match import normalise

WRAPPERS = {
    "train": ("{what} is {phrase}?", "Name {phrase}."),
    "valid": ("Which {kind} is {phrase}?",),
    "test": ("Tell me {what} {phrase} was.",),
}


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its answer and, in order, the numbers of the documents that lead to the answer."""

    text: str
    answer: str
    evidence: tuple[int, ...]
    start: str
    relations: tuple[str, ...]


def draw_question(world: World, rng: np.random.Generator, hops: int) -> Question:
    """Draw a question with this number of hops, worded in the forms of the world's split.

    The entities and documents on the way to the answer are distinct, and the answer shares no word with the question.

    Raises:
        BadConfig: no such question was found.
    """
    for _ in range(10_000):
        start = world.entities[int(rng.random() * len(world.entities))][0]
        chain = _walk(world, rng, start, hops)
        if chain is None:
            continue
        relations, answer, evidence = chain
        text = _phrase(world, rng, start, relations)
        if not set(normalise(answer).split()) & set(normalise(text).split()):
            return Question(text, answer, evidence, start, relations)
    raise BadConfig(
        f"a world of {len(world.entities)} documents has no question of {hops} hops in 10000 draws; "
        "lower hops or raise the difficulty"
    )


def _walk(
    world: World, rng: np.random.Generator, start: str, hops: int
) -> tuple[tuple[str, ...], str, tuple[int, ...]] | None:
    """Return relations, last entity and documents of a random walk; None if it revisits an entity or a document."""
    here, relations, evidence, seen = start, list[str](), list[int](), {start}
    for hop in range(hops):
        choices = [r for r in OF_KIND[world.kinds[here]] if hop == hops - 1 or r.object != YEAR]
        relation = choices[int(rng.random() * len(choices))]
        fact = world.facts[relation.name, here]
        if fact.object in seen or fact.document in evidence:
            return None
        here = fact.object
        seen.add(here)
        relations.append(relation.name)
        evidence.append(fact.document)
    return tuple(relations), here, tuple(evidence)


def _phrase(world: World, rng: np.random.Generator, start: str, relations: tuple[str, ...]) -> str:
    phrase = start
    for name in relations:
        forms = RELATION[name].phrases(world.split)
        phrase = forms[int(rng.random() * len(forms))].replace("{x}", phrase)
    kind = RELATION[relations[-1]].object
    wrappers = WRAPPERS[world.split]
    wrapper = wrappers[int(rng.random() * len(wrappers))]
    values = {"{what}": "Who" if kind == "person" else "What", "{kind}": kind, "{phrase}": phrase}
    if not wrapper.startswith("{"):
        values["{what}"] = values["{what}"].lower()
    for slot, value in values.items():
        wrapper = wrapper.replace(slot, value)
    return wrapper


_WHICH = tuple(f"Which {kind} is " for kind in (*KINDS, YEAR))
_OPENINGS = ("Who is ", "What is ", "Name ", "Tell me who ", "Tell me what ", *_WHICH)
_CLOSINGS = (" was.", "?", ".")


def parse_question(text: str) -> tuple[str, tuple[str, ...]] | None:
    """Parse a question into the name to start from and the relations to follow; return None for an unknown form."""
    for opening in _OPENINGS:
        for closing in _CLOSINGS:
            if text.startswith(opening) and text.endswith(closing):
                phrase = _parse_phrase(text[len(opening) : len(text) - len(closing)])
                if phrase is not None:
                    return phrase
    return None


_FORMS = tuple(
    (relation.name, *phrase.split("{x}"))
    for relation in RELATIONS
    for phrase in (*relation.train, *relation.valid, *relation.test)
)


def _parse_phrase(phrase: str) -> tuple[str, tuple[str, ...]] | None:
    if phrase[:1].isupper():
        return phrase, ()
    for name, before, after in _FORMS:
        if phrase.startswith(before) and phrase.endswith(after) and len(phrase) > len(before) + len(after):
            inner = _parse_phrase(phrase[len(before) : len(phrase) - len(after)])
            if inner is not None:
                return inner[0], (*inner[1], name)
    return None
