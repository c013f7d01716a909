"""Task families of the mail site: finding facts, writing, replying, forwarding, tidying, contacts."""

import re
from collections.abc import Generator

import numpy as np

from agentgym.envs.web.family import Ask, Made, NoSubject, TaskFamily, absent, change_data, question
from agentgym.envs.web.formats import money
from agentgym.envs.web.plan import Answer, Click, Fill, Goto, ImpossibleTask, Page, Plan, Select, Step
from agentgym.envs.web.sites.mail.data import FOLDERS, phone
from agentgym.envs.web.state import EpisodeState, choose
from agentgym.envs.web.words import ADJECTIVES, FIRST_NAMES, LAST_NAMES, NOUNS, PLACES, paragraph, pick, sentence

MAIL = "http://mail.test"
_AMOUNT = re.compile(r"is (\$[\d,]+\.\d\d)\.")
_VERBS = {"Archive": "archive", "Delete": "move to the Trash", "Star": "give a star to"}
_CODE = re.compile(r"booking code is (\w+)\.")


def find_messages(phrase: str = "", sender: str = "", folder: str = "") -> Generator[Step, Page, Page]:
    """Search the mail, and return the first page of results; an empty argument does not filter."""
    yield Goto(f"{MAIL}/search")
    if phrase:
        yield Fill("Contains", phrase)
    if sender:
        yield Fill("From", sender)
    if folder:
        yield Select("Folder", folder)
    return (yield Click("button", "Find"))


def open_message(subject: str) -> Generator[Step, Page, Page]:
    """Find a message and open it.

    Raises:
        ImpossibleTask: there is no such message.
    """
    page = yield from find_messages(subject)
    if not page.has("link", subject):
        raise ImpossibleTask
    return (yield Click("link", subject))


def text_of(page: Page) -> str:
    """Return all text of a page."""
    return " ".join(node.name for node in page.root.walk())


def send(
    state: EpisodeState, people: list[str], subject: str, body: str, kind: str = "new", refers: int | None = None
) -> None:
    """Insert a sent message as the site would; `people` are mail addresses, `refers` an earlier message's id."""
    now = state.now.isoformat(timespec="minutes")
    sql = "INSERT INTO message VALUES (NULL, 'Sent', ?, ?, ?, ?, ?, 0, ?, ?)"
    state.change("mail", sql, state.me.email, ", ".join(sorted(people)), subject, body, now, kind, refers)


def reply(state: EpisodeState, subject: str, body: str) -> None:
    """Insert a reply to the first message with this subject, as the site would."""
    row = state.rows("mail", "SELECT * FROM message WHERE subject = ?", subject)[0]
    send(state, [row["sender"]], f"Re: {subject}", body, "reply", row["id"])


def address_of(state: EpisodeState, name: str) -> str:
    """Return the mail address of a contact."""
    return state.one("mail", "SELECT email FROM contact WHERE name = ?", name)


def nobody(rng: np.random.Generator, state: EpisodeState) -> str:
    """Return a full name that no person has."""
    known = [person.name for person in state.setting.people]
    return absent(known, lambda: f"{pick(rng, FIRST_NAMES)} {pick(rng, LAST_NAMES)}")


def _number(rng: np.random.Generator, digits: int) -> str:
    """Return a random number with `digits` digits."""
    lowest = int("1".ljust(digits, "0"))
    return str(int(rng.integers(lowest, 10 * lowest)))


def absent_subject(rng: np.random.Generator, state: EpisodeState, subject: str) -> str:
    """Return a subject that no message has but that is similar to `subject`."""
    known = {row["subject"] for row in state.rows("mail", "SELECT subject FROM message")}

    def another() -> str:
        if re.search(r"\d", subject):  # an invoice, a case, a review request: another number with as many digits
            return re.sub(r"\d+", lambda match: _number(rng, len(match[0])), subject)
        start = subject.rpartition(" ")[0]
        if start == "Your hotel in":
            return f"{start} {pick(rng, PLACES)}"
        return f"{start if start == 'Meeting about the' else pick(rng, ADJECTIVES).capitalize()} {pick(rng, NOUNS)}"

    return absent(known, another)


class MailFact(TaskFamily):
    """Find a fact in a message: the code of a booking, or the amount of an invoice."""

    name = "mail-fact"
    sites = ("mail",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        hotel = bool(rng.random() < 0.5)
        start = "Your hotel in " if hotel else "Invoice "
        rows = state.rows("mail", "SELECT subject, body FROM message WHERE subject LIKE ? || '%' ORDER BY id", start)
        row = pick(rng, rows)
        known, thing = [other["subject"].removeprefix(start) for other in rows], row["subject"].removeprefix(start)
        if not possible:
            thing = absent(known, lambda: pick(rng, PLACES) if hotel else str(rng.integers(1000, 9999)))
        text = (
            f"What is the booking code of my hotel in {thing}? It is in my mail. Answer with the code."
            if hotel
            else f"What is the amount of the invoice {thing} in my mail? Answer with the amount."
        )
        match = (_CODE if hotel else _AMOUNT).search(row["body"])
        assert match is not None
        return text, question({"subject": f"{start}{thing}"}, match[1])

    def solve(self, ask: Ask) -> Plan:
        page = yield from open_message(ask["subject"])
        match = (_CODE if ask["subject"].startswith("Your") else _AMOUNT).search(text_of(page))
        if match is None:
            raise ImpossibleTask
        yield Answer(match[1])


class InvoiceSum(TaskFamily):
    """Find the sum of several invoices."""

    name = "mail-invoices"
    sites = ("mail",)
    always_possible = True

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        rows = state.rows("mail", "SELECT subject, body FROM message WHERE subject LIKE 'Invoice %' ORDER BY id")
        invoices = choose(rng, rows, 2 + difficulty)
        numbers = sorted(row["subject"].removeprefix("Invoice ") for row in invoices)
        total = sum(cents_of(row["body"]) for row in invoices)
        text = f"What is the total of the invoices {', '.join(numbers)} in my mail? Answer with the amount."
        return text, question({"numbers": numbers}, money(total))

    def solve(self, ask: Ask) -> Plan:
        total = 0
        for number in ask["numbers"]:
            page = yield from open_message(f"Invoice {number}")
            total += cents_of(text_of(page))
        yield Answer(money(total))


def cents_of(text: str) -> int:
    """Return the amount in an invoice's text, in cents."""
    amount = _AMOUNT.search(text)
    assert amount is not None
    return round(float(amount[1].replace("$", "").replace(",", "")) * 100)


class WriteMail(TaskFamily):
    """Write a message to contacts."""

    name = "mail-write"
    sites = ("mail",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        names = [row["name"] for row in state.rows("mail", "SELECT name FROM contact ORDER BY id")]
        people = choose(rng, names, 1 + difficulty)
        if not possible:
            people[int(rng.integers(len(people)))] = nobody(rng, state)
        subject, body = sentence(rng).removesuffix("."), paragraph(rng, 1 + difficulty)
        text = f'Write one mail to {", ".join(people)} with the subject "{subject}" and the text "{body}"'
        return text, change_data({"people": people, "subject": subject, "body": body})

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        send(state, [address_of(state, name) for name in ask["people"]], ask["subject"], ask["body"])

    def solve(self, ask: Ask) -> Plan:
        yield Goto(f"{MAIL}/compose")
        yield Fill("To", ", ".join(ask["people"]))
        yield Fill("Subject", ask["subject"])
        yield Fill("Message", ask["body"])
        page = yield Click("button", "Send")
        if page.has("button", "Send"):
            raise ImpossibleTask


class AnswerMail(TaskFamily):
    """Reply to a message, or forward it."""

    name = "mail-answer"
    sites = ("mail",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        sql = "SELECT subject, sender FROM message WHERE folder = 'Inbox' ORDER BY id"
        row = pick(rng, state.rows("mail", sql))
        subject = row["subject"] if possible else absent_subject(rng, state, row["subject"])
        body, to = paragraph(rng, 1 + difficulty), ""
        if rng.random() < 0.5:
            others = [person.name for person in state.setting.others if person.email != row["sender"]]
            to = ", ".join(sorted(choose(rng, others, 1 + difficulty // 2)))
        text = f'Forward the mail "{subject}" to {to}' if to else f'Reply to the mail "{subject}"'
        text = f'{text} with the text "{body}" and keep the suggested subject.'
        return text, change_data({"subject": subject, "body": body, "to": to})

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        if not ask["to"]:
            reply(state, ask["subject"], ask["body"])
            return
        number = state.one("mail", "SELECT id FROM message WHERE subject = ?", ask["subject"])
        people = [address_of(state, name) for name in ask["to"].split(", ")]
        send(state, people, f"Fwd: {ask['subject']}", ask["body"], "forward", number)

    def solve(self, ask: Ask) -> Plan:
        yield from open_message(ask["subject"])
        yield Click("link", "Forward" if ask["to"] else "Reply")
        if ask["to"]:
            yield Fill("To", ask["to"])
        yield Fill("Message", ask["body"])
        yield Click("button", "Send")


class Tidy(TaskFamily):
    """Archive, delete or star all messages in the inbox from one or more people."""

    name = "mail-tidy"
    sites = ("mail",)
    always_possible = True

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        rows = state.rows(
            "mail",
            "SELECT DISTINCT contact.name FROM message JOIN contact ON email = sender WHERE folder = 'Inbox' "
            "AND NOT starred ORDER BY name",
        )
        if not rows:
            raise NoSubject
        senders = sorted(row["name"] for row in choose(rng, rows, 1 + difficulty))
        verb = pick(rng, list(_VERBS))
        text = f"In my mail, {_VERBS[verb]} all messages in the Inbox from {', '.join(senders)}."
        return text, change_data({"senders": senders, "verb": verb})

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        change = {"Archive": "folder = 'Archive'", "Delete": "folder = 'Trash'", "Star": "starred = 1"}[ask["verb"]]
        for name in ask["senders"]:
            sql = f"UPDATE message SET {change} WHERE folder = 'Inbox' AND sender = ?"
            state.change("mail", sql, address_of(state, name))

    def solve(self, ask: Ask) -> Plan:
        for name in ask["senders"]:
            page = yield from find_messages(sender=name, folder="Inbox")
            while True:
                ticks = [node.name for node in page.root.all("checkbox") if node.name.startswith("Select ")]
                ahead = page.has("link", "Next page")
                for tick in ticks:
                    yield Click("checkbox", tick)
                if ticks:
                    yield Click("button", ask["verb"])
                if not ahead:
                    break
                page = yield from find_messages(sender=name, folder="Inbox")
                if ask["verb"] == "Star":  # starred messages stay in the list
                    page = yield Click("link", "Next page")


class FileAway(TaskFamily):
    """Create a folder and move messages into it."""

    name = "mail-file"
    sites = ("mail",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        known = [row["name"] for row in state.rows("mail", "SELECT name FROM folder")]
        rows = state.rows("mail", "SELECT subject FROM message WHERE folder = 'Inbox' ORDER BY id")
        subjects = [row["subject"] for row in choose(rng, rows, 1 + difficulty)]
        if not possible:
            place = int(rng.integers(len(subjects)))
            subjects[place] = absent_subject(rng, state, subjects[place])
        folder = absent(known, lambda: pick(rng, FOLDERS))
        phrase = ", ".join(f'"{subject}"' for subject in subjects)
        text = f"Make a folder {folder} in my mail and move these messages into it: {phrase}."
        return text, change_data({"folder": folder, "subjects": subjects})

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        state.change("mail", "INSERT INTO folder (name) VALUES (?)", ask["folder"])
        for subject in ask["subjects"]:
            state.change("mail", "UPDATE message SET folder = ? WHERE subject = ?", ask["folder"], subject)

    def solve(self, ask: Ask) -> Plan:
        for subject in ask["subjects"]:
            page = yield from find_messages(subject)
            if not page.has("link", subject):
                raise ImpossibleTask
        yield Goto(f"{MAIL}/folders")
        yield Fill("Name", ask["folder"])
        yield Click("button", "Make folder")
        for subject in ask["subjects"]:
            yield from open_message(subject)
            yield Select("Move to", ask["folder"])
            yield Click("button", "Move")


class UpdateContact(TaskFamily):
    """Change the telephone numbers of contacts."""

    name = "mail-contact"
    sites = ("mail",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        names = [row["name"] for row in state.rows("mail", "SELECT name FROM contact ORDER BY id")]
        people = choose(rng, names, 1 + difficulty // 2)
        if not possible:
            people[int(rng.integers(len(people)))] = nobody(rng, state)
        numbers = {name: phone(rng) for name in people}
        phrase = ", ".join(f"{name}: {number}" for name, number in numbers.items())
        text = f"Update the contacts in my mail with these new phone numbers: {phrase}."
        return text, change_data({"numbers": numbers})

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        for name, number in ask["numbers"].items():
            state.change("mail", "UPDATE contact SET phone = ? WHERE name = ?", number, name)

    def solve(self, ask: Ask) -> Plan:
        for last in (False, True):
            for name, number in ask["numbers"].items():
                yield Goto(f"{MAIL}/contacts")
                yield Fill("Name or address", name)
                page = yield Click("button", "Filter")
                if not page.has("link", name):
                    raise ImpossibleTask
                if last:
                    yield Click("link", name)
                    yield Click("link", "Edit contact")
                    yield Fill("Phone", number)
                    yield Click("button", "Save contact")
