"""The Search environment in Search-R1's format: tags in the model's text, and documents appended to it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

from agentgym.core.env import Outcome, Task
from agentgym.envs.search import shortcuts
from agentgym.envs.search.env import Search
from agentgym.envs.search.reader import next_action
from agentgym.rewards.exact_match import exact_match, normalise

_CLOSERS = ("</search>", "</answer>")
INVALID = (
    "\nMy previous action is invalid. If I want to search, I should put the query between <search> and </search>. If I want "
    "to give the final answer, I should put the answer between <answer> and </answer>. Let me try again.\n"
)


class SearchR1(Search):
    """Answer questions with a search engine, in the tags and texts of Search-R1 (Jin et al. 2025, arXiv 2503.09516).

    Questions and documents are those of `Search`: generated worlds (by default of difficulty 0), `data`, or `corpus`
    and `questions`. An action is the model's text up to the first `</search>` or, without one, up to the first
    `</answer>`. The environment executes the first block with either tag. A search shows the best `top_k` documents in
    full. The last turn (`horizon`) executes no search, so there are at most `horizon - 1` searches.

    Reward: 1 if the last `<answer>` block in the model's text equals a gold answer after SQuAD's normalization, else 0.
    The measures are those of `Search`; `f1` and `format` refer to that block.

    Ceiling: `question_only` searches for the question and answers the most frequent name in the results; see `Search`.
    """

    horizon = 5
    difficulty = 0
    feedback = "genuine"
    normal = staticmethod(normalise)
    task_settings: ClassVar[tuple[str, ...]] = ("strict", "ignore", "hops", "worlds", "top_k")
    caller_settings: ClassVar[tuple[str, ...]] = ("data", "corpus", "questions", "retriever")
    settings: ClassVar[tuple[str, ...]] = (*caller_settings, *task_settings)
    declared = replace(Search.declared, expert_bound=0.8, ceilings={"question_only": 0.15})

    def setup(self) -> None:
        super().setup()
        self.tools = {}  # tags are not tool calls: any text may surround them

    def begin(self, task: Task) -> str:
        super().begin(task)
        question = task.data["question"].strip()
        return question if question.endswith("?") else f"{question}?"

    def act(self, action: str) -> Outcome:
        closer = next((closer for closer in _CLOSERS if closer in action), None)
        reply = action if closer is None else action.partition(closer)[0] + closer
        answers, searches = _blocks(reply, "answer"), _blocks(reply, "search")
        if answers:
            self._answer = answers[-1][1].strip()
        block, last = min([*answers[:1], *searches[:1]], default=None), self.turn >= self.limit
        right = self._answer is not None and exact_match(self._answer, self.task.data["answers"], normal=self.normal) == 1.0
        if block and block in answers[:1]:
            return self.win("") if right else self.lose("")
        information = None if block is None else _information("" if last else self._found(block[1].strip()))
        if last and right:  # for example in a search: the text is what is scored
            return self.win(information or INVALID)
        return self.invalid(INVALID) if information is None else Outcome(information)

    def malformed(self, error: str) -> Outcome:
        """Answer a malformed action in the same way as a reply without tags."""
        return self.invalid(INVALID, error)

    def _found(self, query: str) -> str:
        """Search, and return the documents found, in Search-R1's format: first line verbatim, then the rest."""
        documents = self._find(query)
        return "".join(
            f"Doc {rank}(Title: {document.heading}) {document.text}\n" for rank, document in enumerate(documents, 1)
        )

    # Policies

    def oracle(self) -> Iterator[str]:
        yield f"<answer>{self.task.data['answers'][0]}</answer>"

    def expert(self) -> Iterator[str]:
        """Follow the question fact by fact, using only documents shown; available only in generated worlds."""
        if self.library is not None:
            raise NotImplementedError("the expert reads generated documents only; for files use oracle()")
        while True:
            documents = [(document.title, document.text) for document in self._in_order()]
            titles = {title for title, _ in documents}
            results = [(document.title, document.text) for document in self._results]
            yield _tagged(next_action(self.task.data["question"], documents, titles, results, self._queries))

    def shortcuts(self) -> Mapping[str, Callable[[list[str]], str]]:
        policies = {"closed_book": shortcuts.closed_book, "question_only": shortcuts.question_only}
        return {name: lambda seen, shortcut=shortcut: _tagged(shortcut(seen)) for name, shortcut in policies.items()}


def _blocks(reply: str, tag: str) -> list[tuple[int, str]]:
    """Return the position and text of each block of a tag: from an opening tag to the next closing tag."""
    blocks, at = list[tuple[int, str]](), 0
    while (start := reply.find(f"<{tag}>", at)) >= 0 and (end := reply.find(f"</{tag}>", start)) >= 0:
        blocks.append((start, reply[start + len(tag) + 2 : end]))
        at = end + len(tag) + 3
    return blocks


def _information(documents: str) -> str:
    return f"\n\n<information>{documents.strip()}</information>\n\n"


def _tagged(call: str) -> str:
    """Convert a call such as `search[…]` to a tagged block; `open[TITLE]` becomes a search for the title."""
    name, _, body = call.partition("[")
    tag = "answer" if name == "answer" else "search"
    return f"<{tag}>{body.removesuffix(']')}</{tag}>"
