"""The expert: it notes valid facts about the people in questions, and answers from its notes or from all it has read."""

import re
from collections.abc import Callable, Sequence

from agentgym.core.actions import spell
from agentgym.envs.memory.facts import Statement, answer, counts, read, read_question, valid_after
from agentgym.envs.memory.generate import Session, spoken
from agentgym.envs.memory.ways import Way

_NOTE = re.compile(r"(\w+) (\w+) (?:(\w+)( heard)?(?: until (\d+))?|given up)")


def written(statement: Statement) -> str:
    """Return a statement as a note."""
    if statement.kind == "given up":
        return f"{statement.who} {statement.what} given up"
    heard = " heard" if statement.kind == "heard" else ""
    return f"{statement.who} {statement.what} {statement.value}{heard}" + (
        f" until {statement.day}" if statement.day else ""
    )


def read_note(text: str) -> Statement | None:
    """Return the statement in a note; None if the note does not have the form of `written`."""
    match = _NOTE.fullmatch(text)
    if match is None:
        return None
    if match[3] is None or text.endswith(" given up"):
        return Statement("given up", match[1], match[2])
    kind = "heard" if match[4] else "until" if match[5] else "own"
    return Statement(kind, match[1], match[2], match[3], int(match[5] or 0))


def action(sessions: Sequence[Session], watched: Sequence[str], noted: Sequence[str], found: str, *, notes: int) -> str:
    """Return the next action after reading `sessions`, given the people in questions (`watched`) and the notes (`noted`).

    `notes` is the maximum number of notes; if 0, answers come from the sessions. `found` is the last search's query.
    """
    session, place = sessions[-1], len(sessions) - 1
    if not notes:
        if not session["question"]:
            return spell("next")
        valid = valid_after(one for _, one in spoken(sessions, place))
        return spell("answer", answer(read_question(session["question"]["text"]), valid, session["day"]))
    statements = {number: note for number, text in enumerate(noted) if (note := read_note(text))}
    for line in session["lines"]:
        statement = read(line)
        if statement is None or statement.who not in watched:
            continue
        change = _noted(statement, statements, noted, notes)
        if change:
            return change
    if not session["question"]:
        return spell("next")
    question = read_question(session["question"]["text"])
    query = question.get("who") or question["value"]
    if found != query:
        return spell("search_notes", query)
    return spell("answer", answer(question, valid_after(statements.values()), session["day"]))


def _noted(statement: Statement, statements: dict[int, Statement], noted: Sequence[str], notes: int) -> str | None:
    """Return the next action (delete a note, or write one) that updates the notes for a statement.

    Return None if the notes are up to date, or full with no note to delete. `statements` are those read from `noted`, by
    index; `notes` is the maximum number of notes.
    """
    same = {number: note for number, note in statements.items() if (note.who, note.what) == (statement.who, statement.what)}
    text = written(statement)
    if text in noted or not counts(statement, next(iter(same.values()), None)):
        return None
    if same:
        return spell("delete_note", next(iter(same)) + 1)
    if len(noted) == notes:
        others = [number for number in range(len(noted)) if number not in statements]
        return spell("delete_note", others[0] + 1) if others else None
    return spell("note", text)


def shortcut(way: Way) -> Callable[[list[str]], str]:
    """Return a shortcut policy that answers questions by `way`, given all observations so far."""

    def policy(seen: list[str]) -> str:
        sessions = sessions_in(seen)
        place, question, day = len(sessions) - 1, sessions[-1]["question"], sessions[-1]["day"]
        if not question:
            return spell("next")
        return spell("answer", way(read_question(question["text"]), list(spoken(sessions, place)), place, day))

    return policy


def sessions_in(seen: Sequence[str]) -> list[Session]:
    """Return the sessions in a list of observations."""
    sessions: list[Session] = []
    for text in seen:
        match = re.search(r"Session \d+ of \d+, day (\d+)\n?(.*)", text, re.DOTALL)
        if match:
            lines = match[2].split("\n")
            questions = [line.removeprefix("Question: ") for line in lines if line.startswith("Question: ")]
            lines = [line for line in lines if line and not line.startswith("Question: ")]
            question = {"text": questions[0]} if questions else None
            sessions.append({"day": int(match[1]), "lines": lines, "question": question})
    return sessions
