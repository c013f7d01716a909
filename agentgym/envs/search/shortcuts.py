"""Shortcut policies that do not follow the question; the environment declares their success rates."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from agentgym.core.actions import spell

_NAME = re.compile(r"(?:The )?[A-Z]\w+(?: (?:of )?[A-Z]\w+)*|\b[12]\d{3}\b")
_TITLE = re.compile(r'^Doc \d+\(Title: "(.*?)"', re.MULTILINE)


def shortcuts() -> Mapping[str, Callable[[list[str]], str]]:
    """Return the shortcut policies by name; each maps all observations so far to an action."""
    return {
        "closed_book": closed_book,
        "question_only": question_only,
        "most_retrieved": most_retrieved,
        "first_document": first_document,
    }


def closed_book(observations: list[str]) -> str:
    """Answer from the question alone: a middle year if it asks for one, else the name in it."""
    question = _question(observations)
    return spell("answer", "1695" if "year" in question else next(iter(_names(question)), "yes"))


def question_only(observations: list[str]) -> str:
    """Search for the question and answer the most frequent name (or year) in the results."""
    if len(observations) == 1:
        return spell("search", _question(observations))
    return spell("answer", _most_frequent(_question(observations), _names(observations[-1])))


def most_retrieved(observations: list[str]) -> str:
    """Search for the question, for its first two names and for its other words, and answer the most frequent title."""
    question = _question(observations)
    queries = [question, *_names(question)[:2], " ".join(w for w in question.split() if w.islower())]
    if len(observations) <= len(queries):
        return spell("search", queries[len(observations) - 1])
    return spell("answer", _most_frequent(question, [t for text in observations[1:] for t in _TITLE.findall(text)]))


def first_document(observations: list[str]) -> str:
    """Search for the question, open the first document, and answer its most frequent name or, if asked for, year."""
    question = _question(observations)
    if len(observations) == 1:
        return spell("search", question)
    if len(observations) == 2:
        return spell("open", next(iter(_TITLE.findall(observations[-1])), "1"))
    return spell("answer", _most_frequent(question, _names(observations[-1])))


def _question(observations: list[str]) -> str:
    return observations[0].split("\n", 1)[0].removeprefix("Question: ")


def _names(text: str) -> list[str]:
    return [name for name in _NAME.findall(text) if name not in _ORDINARY]


_ORDINARY = ("Doc", "Title", "She", "He", "The", "Who", "What", "Name", "Which", "Tell", "Question")  # not names


def _most_frequent(question: str, names: Sequence[str]) -> str:
    """Return the most frequent name that is not in the question; "yes" if there is none.

    The name is a year if and only if the question asks for a year.
    """
    candidates = [name for name in names if name not in question and name.isdigit() == ("year" in question)]
    return Counter(candidates).most_common(1)[0][0] if candidates else "yes"
