"""Parser of generated documents into facts, and the expert's choice of the next action."""

from collections.abc import Iterable, Iterator, Sequence

from agentgym.core.actions import spell
from agentgym.envs.search.questions import parse_question
from agentgym.envs.search.relations import PRONOUNS, RELATION, RELATIONS, TRADES, YEAR

_FORMS = tuple(
    (relation, turned, *form.removeprefix("{t}").split("{x}"))
    for relation in RELATIONS
    for turned, forms in ((False, relation.stated), (True, relation.reversed))
    for form in forms
)
_COMMON = ("a", "by", "for", "has", "in", "is", "its", "of", "on", "that", "the", "those", "to", "was", "where", "whom")
_PRONOUNS = tuple(pronoun for pronouns in PRONOUNS.values() for pronoun in pronouns)


def read(title: str, text: str) -> Iterator[tuple[str, str, str]]:
    """Yield (relation, subject, object) for each sentence that states a fact; skip a truncated last sentence."""
    for sentence in text.split(". "):
        whole = sentence if sentence.endswith(".") else f"{sentence}."
        topic = next((t for t in (title, *_PRONOUNS) if whole.startswith(f"{t} ")), None)
        if topic is None or (not sentence.endswith(".") and text.endswith(sentence)):
            continue
        rest = whole[len(topic) :]
        for relation, turned, before, after in _FORMS:
            if rest.startswith(before) and rest.endswith(after):
                other = rest[len(before) : len(rest) - len(after)]
                if other.isdigit() if relation.object == YEAR else other[:1].isupper():
                    yield (relation.name, other, title) if turned else (relation.name, title, other)


def kind_of(text: str) -> str:
    """Return the kind of entity that a document is about, from its first sentence."""
    what = text.split(".", 1)[0].rsplit(" ", 1)[-1]
    return {"town": "place", **dict.fromkeys(TRADES, "person")}.get(what, what)


def next_action(
    question: str,
    shown_documents: Iterable[tuple[str, str]],
    opened: set[str],
    results: Sequence[tuple[str, str]],
    past_queries: Sequence[str],
) -> str:
    """Return a careful reader's next action.

    `shown_documents` and `results` are (title, text shown) of all documents so far and of the last search; `opened` has
    the titles of documents read in full. The reader follows the question fact by fact: it searches for the current
    name, opens its document, then other documents that could state the fact. If these fail, it searches again, in the
    words of such documents.
    """
    parsed = parse_question(question)
    if parsed is None:
        return spell("search", question)
    facts = {(relation, subject): value for title, text in shown_documents for relation, subject, value in read(title, text)}
    here, relations = parsed
    for name in relations:
        if (name, here) not in facts:
            return _look_up(name, here, opened, results, past_queries)
        here = facts[name, here]
    return spell("answer", here)


def _look_up(name: str, subject: str, opened: set[str], results: Sequence[tuple[str, str]], past: Sequence[str]) -> str:
    relation = RELATION[name]
    kind = {"person": " ".join(TRADES), "place": "town"}.get(relation.object, relation.object)
    phrases = [form.removeprefix("{t}").replace("{x}", " ").strip(" .").split() for form in relation.reversed]
    telling = [" ".join(word for word in form if word not in _COMMON) for form in phrases]
    every, pronouns = " ".join(telling), " ".join(PRONOUNS.get(relation.object, ()))
    queries = [f"{subject} {name}"]
    if telling:  # the object's document may state it: the name twice, all verbs, and the kind of the topic
        queries += [f"{subject} {subject} {every} {pronouns}", f"{subject} {kind}"]
        queries += [f"{subject} {subject} {every} {kind}", f"{subject} {telling[0]} {pronouns}"]
    queries += [f"{subject} {form} {kind}" for form in telling]
    queries += [f"{subject} {' '.join(form)}" for form in phrases]
    if any(query in past for query in queries):
        if subject not in opened:
            return spell("open", subject)
        for title, text in results:
            if title not in opened and kind_of(text) == relation.object:
                return spell("open", title)
    for query in queries:
        if query not in past:
            return spell("search", query)
    return spell("answer", subject)  # nothing left to try
