"""Generated worlds: entities, facts about them, and documents that state the facts."""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from agentgym.core.seeding import generator
from agentgym.envs.search.names import Names
from agentgym.envs.search.relations import KINDS, NOISE, NOISE_OF_ALL, OF_KIND, PRONOUNS, RELATION, SHARES, TRADES, YEAR
from agentgym.retrieval.documents import Document
from agentgym.retrieval.memory import Corpus

FIRST_YEAR, LAST_YEAR = 1400, 1990
SMALLEST, STEP = 60, 90  # documents at difficulty 0, and the increase per difficulty


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact; `document` is the number of the only document that states it."""

    relation: str
    subject: str
    object: str
    document: int


class World:
    """A generated world, determined by number, split and difficulty: entities, facts, and one document per entity."""

    def __init__(self, number: int, split: str, difficulty: int) -> None:
        self.number, self.split, self.difficulty = number, split, difficulty
        rng = generator("search world", number, split, difficulty)
        self._rng_of_texts = generator("search texts", number, split, difficulty)
        count = SMALLEST + STEP * difficulty
        names = Names(rng, split, alike=1 - 0.7 * 0.8**difficulty)
        kinds = [kind for kind in KINDS for _ in range(max(2, round(count * SHARES[kind])))]
        entities = [(names.draw(kind), kind) for kind in kinds]
        order = rng.permutation(len(entities))
        self.entities: list[tuple[str, str]] = [
            entities[int(i)] for i in order
        ]  # the order of documents must not reveal kinds
        self.numbers = {name: i for i, (name, _) in enumerate(self.entities)}
        self.kinds = dict(self.entities)
        self._members = {kind: [name for name, k in self.entities if k == kind] for kind in KINDS}
        self.facts = self._draw_facts(rng, turned=min(0.1 + 0.1 * difficulty, 0.4))

    def _draw_facts(self, rng: np.random.Generator, turned: float) -> dict[tuple[str, str], Fact]:
        """Return all facts by (relation, subject).

        Of the facts whose object is an entity, a fraction `turned` is stated in the document of the object. All other
        facts are stated in the document of the subject.
        """
        facts: dict[tuple[str, str], Fact] = {}
        for name, kind in self.entities:
            for relation in OF_KIND[kind]:
                home = self.numbers[name]
                other = self._other(rng, relation.object, name)
                if relation.object != YEAR and rng.random() < turned:
                    home = self.numbers[other]
                facts[relation.name, name] = Fact(relation.name, name, other, home)
        return facts

    def _other(self, rng: np.random.Generator, kind: str, name: str) -> str:
        """Return a random year, or a random entity of this kind other than `name`."""
        if kind == YEAR:
            return str(FIRST_YEAR + int(rng.random() * (LAST_YEAR - FIRST_YEAR)))
        members = self._members[kind]
        position = int(rng.random() * len(members))
        return members[position] if members[position] != name else members[(position + 1) % len(members)]

    @cached_property
    def corpus(self) -> Corpus:
        """The documents and their search index."""
        rng = self._rng_of_texts
        lines: list[list[str]] = [[] for _ in self.entities]
        for fact in self.facts.values():
            relation, (topic, _) = RELATION[fact.relation], self.entities[fact.document]
            forms = relation.stated if topic == fact.subject else relation.reversed
            other = fact.object if topic == fact.subject else fact.subject
            lines[fact.document].append(forms[int(rng.random() * len(forms))].replace("{x}", other))
        return Corpus([Document(str(i), name, self._text(rng, i, lines[i])) for i, (name, _) in enumerate(self.entities)])

    def _text(self, rng: np.random.Generator, number: int, sentences: list[str]) -> str:
        name, kind = self.entities[number]
        noise = [NOISE[kind][int(i)] for i in rng.permutation(len(NOISE[kind]))[: 2 + int(rng.random() * 2)]]
        noise += [NOISE_OF_ALL[int(i)] for i in rng.permutation(len(NOISE_OF_ALL))[:2]]
        for other, form in noise:
            sentences.append(form.replace("{x}", self._other(rng, other, name)))
        what = TRADES[int(rng.random() * len(TRADES))] if kind == "person" else {"place": "town"}.get(kind, kind)
        article = "an" if what[0] in "aeiou" else "a"
        text = [f"{name} {'was' if kind == 'person' else 'is'} {article} {what}."]
        pronoun = PRONOUNS[kind][int(rng.random() * len(PRONOUNS[kind]))]
        for i in rng.permutation(len(sentences)):
            text.append(sentences[int(i)].replace("{t}", pronoun if rng.random() < 0.6 else name))
        return " ".join(text)


@lru_cache(maxsize=64)
def world(number: int, split: str, difficulty: int) -> World:
    """Return the world with this number, from a cache of recent worlds."""
    return World(number, split, difficulty)
