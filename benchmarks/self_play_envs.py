"""Small environments of benchmarks/self_play.py: corpora of a few people for Search Self-play, and programs of one line.

`facts/Facts-v0` solves questions about people, `facts/FactsProposer-v0` proposes them, and `facts/FactsReader-v0` is the
check of a proposal: a question with the documents of its answer. `lines/Lines-v0` asks for the result of a program,
`lines/LinesProposer-v0` proposes such programs.
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, cast

import numpy as np

from agentgym.core.actions import spell
from agentgym.core.env import Task
from agentgym.core.seeding import generator
from agentgym.envs.code.proposer import Proposer
from agentgym.envs.code.puzzles import Puzzles, puzzle
from agentgym.envs.duels.kuhn import KuhnPoker
from agentgym.envs.duels.kuhn_rules import BET, DEALS, OPEN, PASS, payoff, words
from agentgym.envs.search.env import Search
from agentgym.envs.search.proposer import SearchProposer
from agentgym.registry import register
from agentgym.retrieval import Document, Retriever
from agentgym.retrieval.memory import Corpus

RELATIONS = {
    "lives in": ("Velm", "Orst", "Dake", "Punta", "Lirr", "Gosh", "Tarn", "Esk"),
    "keeps a": ("fox", "goat", "heron", "mole", "newt", "otter", "toad", "yak"),
    "plays the": ("flute", "harp", "drum", "lute", "horn", "viol", "gong", "oboe"),
}
"""Relations of the corpus, each with its values."""
_FIRST = ("Ar", "Be", "Cor", "Di", "El", "Fa", "Gi", "Hu", "Ir", "Jo", "Ka", "Lu")
_SECOND = ("dan", "lin", "mos", "nia", "rik", "sel", "tov", "wen", "bor", "cas", "fen", "gul", "hix", "jun", "kel", "pim")
NAMES = tuple(a + b for a, b in product(_FIRST, _SECOND))
"""People of the corpus: a document each."""


@lru_cache(maxsize=256)
def corpus_of(number: int) -> Corpus:
    """Return a user's corpus: a document about each of 12 people, whose values differ from corpus to corpus."""
    rng = generator("corpus", number)
    people = [NAMES[int(place)] for place in rng.permutation(len(NAMES))[:12]]
    documents: list[Document] = []
    for place, name in enumerate(people):
        values = [(relation, str(choices[int(rng.integers(len(choices)))])) for relation, choices in RELATIONS.items()]
        text = " ".join(f"{name} {relation} {value}." for relation, value in values)
        documents.append(Document(str(place), name, text))
    return Corpus(documents)


ASKS = {
    "lives in": "Where does {} live",
    "keeps a": "Which animal does {} keep",
    "plays the": "Which instrument does {} play",
}
"""Question about each relation."""


def facts_in(documents: Iterable[Document]) -> dict[tuple[str, str], str]:
    """Return the facts of documents: the value by question and person."""
    sentences = [(d.title, s.strip().removesuffix(".")) for d in documents for s in f"{d.text} ".split(". ") if s.strip()]
    facts = [(name, *sentence.removeprefix(f"{name} ").rsplit(" ", 1)) for name, sentence in sentences]
    return {(ASKS[relation].format(name), name): value for name, relation, value in facts}


class Facts(Search):
    """Search for the person of a question, then answer."""

    def _documents_of(self, task: Task) -> Retriever:
        return corpus_of(task.data["world"])

    def _question(self, number: int, rng: np.random.Generator, difficulty: int) -> Task:
        document = corpus_of(number).documents[int(rng.integers(12))]
        facts = facts_in([document])
        (question, _), fact = list(facts.items())[int(rng.integers(len(facts)))]
        data = {
            "question": question, "answers": [fact], "evidence": [document.id], "world": number, "size": 0, "hops": 1,
        }  # fmt: skip
        return Task(question, data, difficulty=difficulty)

    def expert(self) -> Iterator[str]:
        """Search for the name in the question, and read the answer in the results."""
        while True:
            question = self.task.data["question"]
            facts = {asks: fact for (asks, _), fact in facts_in(self._results).items()}
            name = next((word for word in question.split() if word in NAMES), question)
            yield spell("answer", facts[question]) if question in facts else spell("search", name)

    def mistake(self, rng: np.random.Generator) -> str:
        """Return an answer with a value of the question's relation drawn at random."""
        asks = self.task.data["question"].split()[:2]
        relation = next(relation for relation, form in ASKS.items() if form.split()[:2] == asks)
        return spell("answer", RELATIONS[relation][int(rng.integers(len(RELATIONS[relation])))])


class FactsProposer(SearchProposer):
    """Propose a question about such a corpus."""

    _documents_of = Facts._documents_of
    _question = Facts._question

    def expert(self) -> Iterator[str]:
        """Search for the answer, then ask about a person of whom it is true."""
        answer = self.task.data["answers"][0]
        while True:
            questions = [asks for (asks, _), fact in facts_in(self._in_order()).items() if fact == answer]
            yield spell("propose", questions[0]) if questions else spell("search", answer)


class FactsReader(FactsProposer):
    """Answer a question from the documents of its proposer: the check of Search Self-play."""

    def numbered(self, number: int, split: str | None = None, difficulty: int | None = None) -> Task:
        """Return the check of a question."""
        task = Search.numbered(self, number, split, difficulty)
        gate = self.gate({**task.data, "documents": list(task.data["evidence"])})
        return dataclasses.replace(gate, id=task.id, split=task.split)

    def find(self, task_id: str) -> Task:
        """Return the check with this id."""
        split, _, number = task_id.split("/")
        return self.numbered(int(number), split)

    def expert(self) -> Iterator[str]:
        """Answer, as the documents say."""
        yield spell("answer", self.task.data["answers"][0])


OPERATIONS: dict[str, Callable[[list[int]], object]] = {
    "x[0]": lambda x: x[0], "x[1]": lambda x: x[1], "x[2]": lambda x: x[2], "max(x)": max, "min(x)": min,
    "x[1:]": lambda x: x[1:], "x[:2]": lambda x: x[:2], "x[::-1]": lambda x: x[::-1],
}  # fmt: skip
"""Expressions of one-line programs over a list x of three digits."""
LINE = re.compile(r"def f\(x\):\n    return (.+)")


@lru_cache(maxsize=8192)
def held_out(operation: str, values: tuple[int, ...]) -> bool:
    """Return True if a puzzle belongs to `test`: about every third one of the 5832."""
    return int(generator("held out", operation, *values).integers(3)) == 0


def drawn(rng: np.random.Generator, test: bool) -> tuple[str, list[int]]:
    """Return the operation and the list of a puzzle, of `test` or not."""
    while True:
        operation = list(OPERATIONS)[int(rng.integers(len(OPERATIONS)))]
        values = rng.integers(1, 10, 3).tolist()
        if held_out(operation, tuple(values)) == test:
            return operation, values


def written(operation: str, values: list[int]) -> str:
    """Return a puzzle in the form of a proposal."""
    return f"{program(operation)}\nf({values})"


def program(operation: str) -> str:
    """Return a program of one line."""
    return f"def f(x):\n    return {operation}"


class Lines(Puzzles):
    """Say what a program of one line returns for a list of three digits."""

    def numbered(self, number: int, split: str | None = None, difficulty: int | None = None) -> Task:
        """Return the puzzle with this number."""
        split = self._split_for(number, split)
        operation, values = drawn(generator("Lines", split, number), split == "test")
        data = puzzle("deduction", program(operation), "f", [[values]], [OPERATIONS[operation](values)])
        return Task("Solve the puzzle.", data, f"{split}/0/{number}", split, 0)

    def split_key(self, task: Task) -> object:
        """Return the program and its argument."""
        return task.data["program"], str(task.data["inputs"])

    def expert(self) -> Iterator[str]:
        """Give the result."""
        yield from self.oracle()

    def mistake(self, rng: np.random.Generator) -> str:
        """Return an answer with the result of an operation drawn at random."""
        operation = list(OPERATIONS.values())[int(rng.integers(len(OPERATIONS)))]
        return spell("answer", str(operation(self.task.data["inputs"][0][0])))


class LinesProposer(Proposer):
    """Propose a program of one line, with one or two others as examples.

    The programs of `OPERATIONS` are computed here; any other program runs in two sandboxes. A puzzle of `test` is refused.
    """

    def numbered(self, number: int, split: str | None = None, difficulty: int | None = None) -> Task:
        """Return the proposal task with this number."""
        split = self._split_for(number, split)
        rng = generator("LinesProposer", split, number)
        examples = [written(*drawn(rng, False)) for _ in range(int(rng.integers(1, 3)))]
        return Task("Propose a puzzle.", {"type": "deduction", "examples": examples}, f"{split}/0/{number}", split, 0)

    def _results(self, body: str, inputs: Sequence[object]) -> list[object]:
        """Return the results of the calls.

        Raises:
            ValueError: the puzzle belongs to `test`, or a program of another form fails.
        """
        line, values = LINE.fullmatch(body), next(iter(cast("list[Any]", inputs[0])), None)
        digits = isinstance(values, list) and len(values) == 3 and all(type(v) is int and 0 <= v < 100 for v in values)
        if line is None or line[1] not in OPERATIONS or not digits or len(cast("list[Any]", inputs[0])) != 1:
            return super()._results(body, inputs)
        if held_out(line[1], tuple(values)):
            raise ValueError("it belongs to the tests")
        return [OPERATIONS[line[1]](values)]

    def expert(self) -> Iterator[str]:
        """Propose another program of that form."""
        yield spell("propose", written(*drawn(generator("proposal", self.task.id), False)))

    oracle = expert


BETS = {"J": 0.4, "Q": 0.5, "K": 0.6}
"""Probability of a bet or call in demonstrations of Kuhn poker: nearly random, but cards matter."""


class Dealt(KuhnPoker):
    """Kuhn poker whose demonstrations are nearly random moves, and whose measures are the strategy itself."""

    def expert(self) -> Iterator[str]:
        """Bet or call with the probability in `BETS`."""
        while True:
            rng = generator("random moves", self.task.id, self.hand, self.history)
            yield words(self.history)[int(rng.random() < BETS[self.deal[self.seat]])]

    def exploited(self, chances: Mapping[str, Sequence[float]]) -> dict[str, float]:
        """Return the probability of a bet or call in each situation."""
        return {name: bet for name, (_, bet) in chances.items()}


def hands_won(strategy: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Return the exact share of single hands that a strategy wins against another one, over deals and both seats."""

    def won(seats: tuple[Mapping[str, float], ...], mine: int, deal: str, history: str) -> float:
        if history not in OPEN:
            return float((payoff(deal, history) > 0) == (mine == 0))
        seat = len(history) % 2
        bet = seats[seat][deal[seat] + history]
        return sum(
            chance * won(seats, mine, deal, history + move) for move, chance in ((PASS, 1 - bet), (BET, bet)) if chance
        )

    both = ((strategy, other), 0), ((other, strategy), 1)
    return sum(won(seats, mine, deal, "") for seats, mine in both for deal in DEALS) / (2 * len(DEALS))


for _id, _kind in (
    ("kuhn/Dealt-v0", Dealt),
    ("facts/Facts-v0", Facts),
    ("facts/FactsProposer-v0", FactsProposer),
    ("facts/FactsReader-v0", FactsReader),
    ("lines/Lines-v0", Lines),
    ("lines/LinesProposer-v0", LinesProposer),
):
    register(_id, _kind, description="for benchmarks/self_play.py")
