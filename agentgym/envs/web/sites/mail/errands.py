"""Task families over two sites: mail with calendar or tracker, and tracker with calendar."""

import re
import sqlite3
from datetime import date, timedelta

import numpy as np

from agentgym.envs.web.family import Ask, Made, NoSubject, TaskFamily, absent, change_data
from agentgym.envs.web.plan import Click, Fill, Goto, ImpossibleTask, Page, Plan, Select
from agentgym.envs.web.sites.calendar.data import CALENDARS, minutes
from agentgym.envs.web.sites.calendar.tasks import fill_event, insert_event, written_day
from agentgym.envs.web.sites.mail.chores import address_of, find_messages, open_message, reply, send, text_of
from agentgym.envs.web.sites.tracker.changes import draw_members, insert_issue
from agentgym.envs.web.sites.tracker.questions import TRACKER, names, open_issue
from agentgym.envs.web.sites.tracker.reviews import review
from agentgym.envs.web.state import EpisodeState
from agentgym.envs.web.words import PLACES, paragraph, pick

_MEETING = re.compile(r"meet on (\d+ \w+ \d{4}) from (\d\d:\d\d) to (\d\d:\d\d) in (Room \w+)\.")
_REQUEST = re.compile(r"merge request !(\d+) in ([\w-]+)\?")
_PROBLEM = re.compile(r"problem with ([\w-]+):\s(.+?)\. ?")
_BOOKING = re.compile(r"your room in (\w+) is booked for (\d+) nights? from (\d+ \w+ \d{4})\. Your booking code is (\w+)\.")


def parsed(pattern: re.Pattern[str], source: Page | str) -> tuple[str, ...]:
    """Return the groups that a pattern matches in a message; `source` is the message's page or text."""
    text = source if isinstance(source, str) else text_of(source)
    match = pattern.search(" ".join(text.split()))
    assert match is not None
    return match.groups()


def overlaps(first: tuple[str, str], second: tuple[str, str]) -> bool:
    """Return whether two periods (start, finish) overlap."""
    return minutes(first[0]) < minutes(second[1]) and minutes(second[0]) < minutes(first[1])


def unique(state: EpisodeState, start: str) -> list[sqlite3.Row]:
    """Return the messages whose subject starts with `start`, only from contacts who sent exactly one such message."""
    sql = (
        "SELECT message.*, contact.name FROM message JOIN contact ON email = sender WHERE subject LIKE ? ORDER BY message.id"
    )
    rows = state.rows("mail", sql, f"{start}%")
    senders = [row["sender"] for row in rows]
    return [row for row in rows if senders.count(row["sender"]) == 1]


def event_of(title: str, when: str, start: str, finish: str, **more: object) -> Ask:
    """Return the data of an event, by default in the Work calendar; `more` adds or replaces fields."""
    event: Ask = {
        "title": title,
        "calendar": "Work",
        "day": when,
        "start": start,
        "finish": finish,
        "place": "",
        "notes": "",
    }
    return {**event, "people": [], **more}


class AcceptMeeting(TaskFamily):
    """Answer a proposal for a meeting: add the meeting to the calendar and agree, or decline if the user is busy."""

    name = "mail-calendar-meeting"
    sites = ("mail", "calendar")

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        rows = unique(state, "Meeting about ")
        if possible and not rows:
            raise NoSubject
        sql = "SELECT sender FROM message WHERE subject LIKE 'Meeting about %'"
        asking = {row["sender"] for row in state.rows("mail", sql)}
        silent = [person.name for person in state.setting.others if person.email not in asking]
        name = pick(rng, rows)["name"] if possible else pick(rng, silent)
        yes, no = paragraph(rng, 1), paragraph(rng, 1)
        text = (
            f"{name} proposed a meeting to me by mail. If I have no event in my calendar at that time, put the "
            "meeting into my Work calendar with the mail's subject as its title, in the room that the mail names, invite "
            f'{name}, and reply to the mail with "{yes}" If I have one, only reply with "{no}"'
        )
        return text, change_data({"person": name, "yes": yes, "no": no})

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        sql = "SELECT * FROM message WHERE sender = ? AND subject LIKE 'Meeting about %'"
        row = state.rows("mail", sql, address_of(state, ask["person"]))[0]
        when, start, finish, room = parsed(_MEETING, row["body"])
        events = state.rows("calendar", "SELECT start, finish FROM event WHERE day = ?", written_day(when))
        busy = any(overlaps((start, finish), (event["start"], event["finish"])) for event in events)
        reply(state, row["subject"], ask["no"] if busy else ask["yes"])
        if not busy:
            event = event_of(row["subject"], written_day(when), start, finish, place=room, people=[ask["person"]])
            insert_event(state, event)

    def solve(self, ask: Ask) -> Plan:
        page = yield from find_messages("Meeting about the", ask["person"])
        subject = next((row["Subject"] for row in page.records("Subject")), None)
        if subject is None:
            raise ImpossibleTask
        page = yield Click("link", subject)
        when, start, finish, room = parsed(_MEETING, page)
        page = yield Goto(f"http://calendar.test/day/{written_day(when)}")
        busy = any(overlaps((start, finish), (row["Start"], row["End"])) for row in page.records("Title"))
        if not busy:
            yield from fill_event(event_of(subject, written_day(when), start, finish, place=room, people=[ask["person"]]))
        yield from open_message(subject)
        yield Click("link", "Reply")
        yield Fill("Message", ask["no"] if busy else ask["yes"])
        yield Click("button", "Send")


class ReviewByMail(TaskFamily):
    """Handle a mail that asks for a review: review the merge request in the tracker, and reply to the mail."""

    name = "mail-tracker-review"
    sites = ("mail", "tracker")

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        rows = unique(state, "Review of ")
        if possible and not rows:
            raise NoSubject
        asking = {row["sender"] for row in state.rows("mail", "SELECT sender FROM message WHERE subject LIKE 'Review of %'")}
        silent = [person.name for person in state.setting.others if person.email not in asking]
        name = pick(rng, rows)["name"] if possible else pick(rng, silent)
        comment, body = paragraph(rng, 1), paragraph(rng, 1 + difficulty)
        text = (
            f"{name} asked me by mail for a review of a merge request. Make me its reviewer in the tracker, request "
            f'changes, add the comment "{comment}" to it, and reply to the mail with "{body}"'
        )
        return text, change_data({"person": name, "comment": comment, "body": body, "me": state.me.name})

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        sql = "SELECT * FROM message WHERE sender = ? AND subject LIKE 'Review of %'"
        row = state.rows("mail", sql, address_of(state, ask["person"]))[0]
        number, slug = parsed(_REQUEST, row["body"])
        sql = "SELECT m.id FROM merge_request AS m JOIN project ON project.id = project_id WHERE slug = ? AND number = ?"
        request = state.one("tracker", sql, slug, int(number))
        state.change("tracker", "UPDATE merge_request SET reviewer = ? WHERE id = ?", state.me.username, request)
        review(state, request, "changes requested")
        sql = "INSERT INTO comment (merge_request_id, author, body, created) VALUES (?, ?, ?, ?)"
        state.change("tracker", sql, request, state.me.username, ask["comment"], state.now.isoformat(timespec="minutes"))
        reply(state, row["subject"], ask["body"])

    def solve(self, ask: Ask) -> Plan:
        page = yield from find_messages("my merge request", ask["person"])
        subject = next((row["Subject"] for row in page.records("Subject")), None)
        if subject is None:
            raise ImpossibleTask
        page = yield Click("link", subject)
        number, slug = parsed(_REQUEST, page)
        yield Goto(f"{TRACKER}/{slug}/merge_requests/{number}/edit")
        yield Select("Reviewer", ask["me"])
        yield Click("button", "Save merge request")
        yield Click("button", "Request changes")
        yield Fill("New comment", ask["comment"])
        yield Click("button", "Add comment")
        yield from open_message(subject)
        yield Click("link", "Reply")
        yield Fill("Message", ask["body"])
        yield Click("button", "Send")


class ProblemByMail(TaskFamily):
    """Handle a customer's problem report: open an issue in the tracker, and reply with the issue's number."""

    name = "mail-tracker-problem"
    sites = ("mail", "tracker")

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        rows = state.rows("mail", "SELECT * FROM message WHERE subject LIKE 'Trouble, %' ORDER BY id")
        row = pick(rng, rows)
        case = row["subject"].split()[-1]
        if not possible:
            case = absent([other["subject"].split()[-1] for other in rows], lambda: str(rng.integers(100, 999)))
        slug = parsed(_PROBLEM, row["body"])[0]
        person = pick(rng, draw_members(state, state.one("tracker", "SELECT id FROM project WHERE slug = ?", slug)))
        text = (
            f"A customer reported a problem by mail and calls it case {case}. Open an issue in the tracker, in "
            "the project that the mail names, with the line that says what happens (without the final period) as its title, "
            f"an empty description, no label, no milestone and no due date, and assign it to {person}. Reply to the "
            "mail with just the number of the issue."
        )
        return text, change_data({"case": case, "person": person})

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        subject = f"Trouble, our case {ask['case']}"
        row = state.rows("mail", "SELECT * FROM message WHERE subject = ?", subject)[0]
        slug, title = parsed(_PROBLEM, row["body"])
        issue: Ask = {"project": slug, "title": title, "body": "", "assignee": ask["person"], "labels": [], "due": ""}
        insert_issue(state, issue)
        number = state.one("tracker", "SELECT number FROM issue ORDER BY id DESC LIMIT 1")
        reply(state, subject, str(number))

    def solve(self, ask: Ask) -> Plan:
        subject = f"Trouble, our case {ask['case']}"
        page = yield from open_message(subject)
        slug, title = parsed(_PROBLEM, page)
        yield Goto(f"{TRACKER}/{slug}/issues/new")
        yield Fill("Title", title)
        yield Select("Assignee", ask["person"])
        page = yield Click("button", "Save issue")
        number = re.search(r"/issues/(\d+)", page.url)
        assert number is not None
        yield from open_message(subject)
        yield Click("link", "Reply")
        yield Fill("Message", number[1])
        yield Click("button", "Send")


class DueDate(TaskFamily):
    """Add an issue's due date to the calendar, as an event with the issue's assignee."""

    name = "tracker-calendar-due"
    sites = ("tracker", "calendar")

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        sql = (
            "SELECT title, slug FROM issue JOIN project ON project.id = project_id WHERE assignee NOT IN ('', ?) "
            f"AND due {'<>' if possible else '='} '' ORDER BY issue.id"
        )
        rows, calendar = state.rows("tracker", sql, state.me.username), pick(rng, CALENDARS)
        if not rows:
            raise NoSubject
        row = pick(rng, rows)
        notes = paragraph(rng, difficulty) if difficulty else ""
        text = (
            f'Put the due date of the issue "{row["title"]}" of the project {row["slug"]} in the tracker into my {calendar} '
            "calendar: an event with the issue's title, from 09:00 to 09:30 on that day, with no place. Invite the person "
            f'the issue is assigned to. {f"""Notes: "{notes}" """ if notes else "Leave the notes empty."}'
        )
        ask = {"project": row["slug"], "title": row["title"], "calendar": calendar, "notes": notes}
        return text.strip(), change_data(ask)

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        row = state.rows("tracker", "SELECT due, assignee FROM issue WHERE title = ?", ask["title"])[0]
        people = [names(state)[row["assignee"]]]
        more = {"people": people, "calendar": ask["calendar"], "notes": ask["notes"]}
        insert_event(state, event_of(ask["title"], row["due"], "09:00", "09:30", **more))

    def solve(self, ask: Ask) -> Plan:
        page = yield from open_issue(ask["project"], ask["title"])
        if page.fact("Due date") == "none":
            raise ImpossibleTask
        more = {"people": [page.fact("Assignee")], "calendar": ask["calendar"], "notes": ask["notes"]}
        yield from fill_event(event_of(ask["title"], written_day(page.fact("Due date")), "09:00", "09:30", **more))


class Trip(TaskFamily):
    """Add a booking from the mail to the calendar, on the day of arrival or departure, and forward the mail."""

    name = "mail-calendar-trip"
    sites = ("mail", "calendar")

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        rows = state.rows("mail", "SELECT * FROM message WHERE subject LIKE 'Your hotel in %' ORDER BY id")
        town = pick(rng, rows)["subject"].removeprefix("Your hotel in ")
        if not possible:
            town = absent([row["subject"].removeprefix("Your hotel in ") for row in rows], lambda: pick(rng, PLACES))
        leaving, person = bool(rng.random() < 0.5), pick(rng, state.setting.others).name
        when, start, finish = ("leave", "10:00", "11:00") if leaving else ("arrive", "15:00", "16:00")
        body = paragraph(rng, 1 + difficulty)
        text = (
            f"My hotel in {town} is booked; the booking is in my mail. Put an event with the title Hotel into my Travel "
            f"calendar on the day that I {when}, from {start} to {finish}, with {town} as the place, just the booking code "
            f'as the notes, and no attendees. Then forward the mail to {person} with the text "{body}", keeping the '
            "suggested subject."
        )
        ask = {"town": town, "leaving": leaving, "start": start, "finish": finish, "person": person, "body": body}
        return text, change_data(ask)

    def event(self, ask: Ask, source: Page | str) -> Ask:
        """Return the calendar event for a booking; `source` is the page or the text of its message."""
        town, nights, arrival, code = parsed(_BOOKING, source)
        when = date.fromisoformat(written_day(arrival)) + timedelta(days=int(nights) if ask["leaving"] else 0)
        return event_of("Hotel", when.isoformat(), ask["start"], ask["finish"], place=town, notes=code, calendar="Travel")

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        row = state.rows("mail", "SELECT * FROM message WHERE subject = ?", f"Your hotel in {ask['town']}")[0]
        insert_event(state, self.event(ask, row["body"]))
        send(state, [address_of(state, ask["person"])], f"Fwd: {row['subject']}", ask["body"], "forward", row["id"])

    def solve(self, ask: Ask) -> Plan:
        subject = f"Your hotel in {ask['town']}"
        page = yield from open_message(subject)
        yield from fill_event(self.event(ask, page))
        yield from open_message(subject)
        yield Click("link", "Forward")
        yield Fill("To", ask["person"])
        yield Fill("Message", ask["body"])
        yield Click("button", "Send")
