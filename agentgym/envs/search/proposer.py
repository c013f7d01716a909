"""Environment that proposes questions by searching: the proposer of Search Self-play.

Its id is `agentgym.envs.search.proposer:rlvr/SearchProposer-v0`; its proposals are tasks for `rlvr/Search-v0`.
"""

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from typing import cast

from agentgym.core.actions import spell, tool
from agentgym.core.declared import Declarations
from agentgym.core.env import Outcome, Task
from agentgym.core.seeding import generator
from agentgym.core.tasks import Data
from agentgym.envs.search.env import Search
from agentgym.registry import register
from agentgym.retrieval import Document
from agentgym.rewards.exact_match import normalise

LONGEST, NOISE = 300, 2
"""Maximum numbers of characters of a question and of distractor documents in its test."""
ACCEPTED = "The question is valid."


class SearchProposer(Search):
    """Search for a given answer, then propose a question that has it; a second kind of task tests a proposed question.

    With files (`data`, or `corpus` and `questions`), the answers are those of the file's questions, which are not
    shown. Give `rlvr/Search-v0` the same files, so that it solves the proposals over the same documents.

    A question is accepted if it is one line of at least 3 words and at most 300 characters, does not contain the
    answer, and a document found by the search contains the answer. The reward of a proposal is not decided here: a task
    sampler has the question answered from the proposer's documents and some distractors (the second kind of task, with
    `answer` as the only tool) and rewards the proposal by the success rate.
    """

    declared = Declarations(random_bound=0.0, expert_bound=0.3)

    def setup(self) -> None:
        super().setup()
        self.every_tool = dict(self.tools)

    def numbered(self, number: int, split: str | None = None, difficulty: int | None = None) -> Task:
        """Return the proposal task with this number; its answer is from a generated question or a file's question."""
        return _proposing(super().numbered(number, split, difficulty))

    def find(self, task_id: str) -> Task:
        """Return the proposal task with this id."""
        return _proposing(super().find(task_id))

    def begin(self, task: Task) -> str:
        self._offer(task)
        self.proposal = ""
        super().begin(task)
        if task.data["type"] == "check":
            texts = "\n\n".join(self._read(document) for document in self._answer_documents(task))
            return f"Question: {task.data['question']}\nAnswer it in a few words, by these documents alone:\n\n{texts}"
        size = self._documents.size
        count = "" if size is None else f"{size} "
        return (
            f"Answer: {task.data['answers'][0]}\nWrite a question that has this answer and no other, for somebody else who "
            f"can search the same {count}documents. It should need more than one search. Search and open "
            "documents first: a document that you have seen must hold the answer. Then propose the question in one line, "
            "without the answer in it. You can propose only once."
        )

    def load(self, payload: object) -> None:
        inner, self.proposal = cast("tuple[object, str]", payload)
        super().load(inner)
        self._offer(self.task)

    def _offer(self, task: Task) -> None:
        checks = task.data["type"] == "check"
        self.tools.clear()
        self.tools.update({k: v for k, v in self.every_tool.items() if (k == "answer") == checks})

    def _answer_documents(self, task: Task) -> list[Document]:
        known = [self._documents.find(id) for id in task.data["documents"]]
        return [document for document in known if document is not None]

    @tool
    def propose(self, question: str) -> Outcome:
        """Propose the question. This ends the episode."""
        text, [answer, *_] = " ".join(question.split()), self.task.data["answers"]
        self.proposal = text[:LONGEST]
        holds = [document for document in self._retrieved.values() if normalise(answer) in normalise(document.text)]
        problem = ""
        if not text.isprintable() or len(text) > LONGEST or len(text.split()) < 3:
            problem = f"it is not one line of 3 words to {LONGEST} characters"
        elif normalise(answer) in normalise(text):
            problem = "it holds the answer"
        elif not holds:
            problem = "no document that you have seen holds the answer"
        if problem:
            return self.lose(f"The question is not valid: {problem}.")
        data = {name: self.task.data[name] for name in ("answers", "world", "size", "hops") if name in self.task.data}
        seen = sorted(self._retrieved)
        return self.win(f"{ACCEPTED}\n{json.dumps({**data, 'question': text, 'evidence': [], 'documents': seen})}")

    @staticmethod
    def proposed(final_observation: str) -> Data | None:
        """Return the data of an episode's accepted question; None if the episode ended without one."""
        head, _, rest = final_observation.partition("\n")
        return json.loads(rest) if head == ACCEPTED else None

    @staticmethod
    def conditioned(task: Task, past: Sequence[Data]) -> Task:
        """Return the task unchanged: a proposal depends on the task's answer, not on past proposals."""
        return task

    def gate(self, data: Data) -> Task:
        """Return the task of answering a question from its proposer's documents and some distractors."""
        task = Task("Answer the question.", {**data, "type": "check"}, difficulty=int(data.get("size", 0)))
        documents = self._documents_of(task)
        rng = generator("noise", data["question"], data.get("world", ""))
        words = [str(word) for word in rng.permutation(data["question"].split())[:NOISE]]
        others = [
            hit.document.id
            for hits in documents.search(words, 5)
            for hit in hits
            if hit.document.id not in data["documents"]
        ]
        mixed = [str(id) for id in rng.permutation([*data["documents"], *sorted(set(others))[:NOISE]])]
        return dataclasses.replace(task, data={**task.data, "documents": mixed})

    def state(self) -> object:
        return super().state(), self.proposal

    def save(self) -> object:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().save(), self.proposal

    def oracle(self) -> Iterator[str]:
        if self.task.data["type"] == "check":
            yield spell("answer", self.task.data["answers"][0])
        yield from self.expert()

    def expert(self) -> Iterator[str]:
        """Search for the answer, then propose a sentence that contains it, with the answer replaced by a blank."""
        answer = self.task.data["answers"][0]
        while True:
            if self.task.data["type"] == "check":
                raise NotImplementedError("the expert proposes questions; to answer one from documents, use oracle()")
            sentences = [s for d in self._in_order() for s in self._seen(d)[1].split(". ") if answer in s]
            if sentences or self._queries:
                blank = sentences[0].replace(answer, "which one") if sentences else "nothing was found"
                yield spell("propose", " ".join(f"What is left out here: {blank}".split())[:LONGEST])
            yield spell("search", answer)

    def shortcuts(self) -> dict[str, Callable[[list[str]], str]]:
        return {}


def _proposing(task: Task) -> Task:
    """Return the task of proposing a question that has the same answer as this task's question."""
    return dataclasses.replace(task, instruction="Propose a question.", data={**task.data, "type": "propose"})


register("rlvr/SearchProposer-v0", SearchProposer, description="propose a question by searching, for another to answer")
