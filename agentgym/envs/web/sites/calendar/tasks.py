"""Task families of the calendar: finding, creating, moving and deleting events, and replying to invitations."""

import sqlite3
from collections.abc import Generator
from datetime import date, timedelta

import numpy as np

from agentgym.envs.web.family import Ask, Made, NoSubject, TaskFamily, absent, change_data, every_page, question
from agentgym.envs.web.formats import day
from agentgym.envs.web.plan import Answer, Click, Fill, Goto, ImpossibleTask, Page, Plan, Select, Step
from agentgym.envs.web.sites.calendar.data import CALENDARS, ROOMS, clock, event_titles, minutes
from agentgym.envs.web.state import EpisodeState, choose
from agentgym.envs.web.words import FIRST_NAMES, LAST_NAMES, paragraph, pick

CALENDAR = "http://calendar.test"
FILTER = Click("button", "Filter")
REPLIES = {"Accept": "accepted", "Decline": "declined", "Tentative": "tentative"}


def open_event(title: str) -> Generator[Step, Page, Page]:
    """Find an event and open it.

    Raises:
        ImpossibleTask: there is no such event.
    """
    yield Goto(f"{CALENDAR}/list")
    yield Fill("Title or place", title)
    yield Select("Time", "all")
    page = yield FILTER
    if not page.has("link", title):
        raise ImpossibleTask
    return (yield Click("link", title))


def fill_event(event: Ask) -> Generator[Step, Page, Page]:
    """Create an event through the form.

    `event` has title, calendar, day, start, finish, place, notes and people (full names).
    """
    yield Goto(f"{CALENDAR}/events/new?day={event['day']}")
    yield Fill("Title", event["title"])
    yield Select("Calendar", event["calendar"])
    for label, key in (("Start", "start"), ("End", "finish"), ("Place", "place"), ("Notes", "notes")):
        if event[key]:
            yield Fill(label, event[key])
    if event["people"]:
        yield Fill("Attendees", ", ".join(event["people"]))
    return (yield Click("button", "Save event"))


def insert_event(state: EpisodeState, event: Ask) -> None:
    """Insert a new event of the user into the database, as the site would."""
    keys = ("title", "day", "start", "finish", "place", "notes")
    row = (event["calendar"], state.me.username, *(event[key] for key in keys))
    state.change("calendar", "INSERT INTO event VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)", *row)
    for name in event["people"]:
        username = name.lower().replace(" ", ".")
        state.change("calendar", "INSERT INTO attendee VALUES ((SELECT max(id) FROM event), ?, 'no reply')", username)


def coming(state: EpisodeState, where: str = "1", *values: object) -> list[sqlite3.Row]:
    """Return the events on or after the episode's date that meet the SQL condition `where`, in chronological order.

    `values` are the parameters of the condition.
    """
    sql = f"SELECT * FROM event WHERE day >= ? AND {where} ORDER BY day, start, id"
    return state.rows("calendar", sql, f"{state.now:%Y-%m-%d}", *values)


def absent_title(rng: np.random.Generator, state: EpisodeState) -> str:
    """Return a title that no event has."""
    known = {row["title"] for row in state.rows("calendar", "SELECT title FROM event")}
    return next(title for title in event_titles(rng, state.size) if title not in known)


def written_day(text: str) -> str:
    """Return the date in a text such as "Monday, 5 March 2026", as 2026-03-05."""
    number, month, year = text.split(", ")[-1].split()
    months = [f"{date(2000, month, 1):%B}" for month in range(1, 13)]
    return date(int(year), months.index(month) + 1, int(number)).isoformat()


class NextWith(TaskFamily):
    """Find the date of the next event, after today, that a person organizes or is invited to."""

    name = "calendar-next"
    sites = ("calendar",)
    always_possible = True

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        person, tomorrow = pick(rng, state.setting.others), (state.now + timedelta(days=1)).date()
        sql = "(organiser = ? OR id IN (SELECT event_id FROM attendee WHERE username = ?)) AND day >= ?"
        rows = coming(state, sql, person.username, person.username, tomorrow.isoformat())
        if not rows:
            raise NoSubject
        text = f"After today, on what day is the next event in my calendar that {person.name} organises or is invited to? "
        ask = {"person": person.name, "today": f"{state.now:%Y-%m-%d}"}
        return text + "Answer with the date.", question(ask, day(rows[0]["day"]))

    def solve(self, ask: Ask) -> Plan:
        yield Goto(f"{CALENDAR}/list")
        yield Select("With", ask["person"])
        rows = yield from every_page((yield FILTER), "Title")
        later = [row["Date"] for row in rows if written_day(row["Date"]) > ask["today"]]
        yield Answer(later[0].split(", ")[1])


class FirstFree(TaskFamily):
    """Find the start of the first free period of a given length on a given day, between 08:00 and 20:00."""

    name = "calendar-free"
    sites = ("calendar",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        dates = [(state.now + timedelta(days=ahead)).date().isoformat() for ahead in range(-20, 20)]
        sql = "SELECT start, finish FROM event WHERE day = ?"
        events = {at: [(row["start"], row["finish"]) for row in state.rows("calendar", sql, at)] for at in dates}
        # The time is drawn first, uniformly: first gaps tend to be early, so uniformly drawn days would make early times
        # likely answers. And some event begins at that time, too, or the list of ends alone would reveal it.
        begins = {row["start"] for row in state.rows("calendar", "SELECT DISTINCT start FROM event")}
        dates_of: dict[str, dict[int, list[str]]] = {}
        full: dict[int, list[str]] = {}
        for length in range(60, 11 * 60, 60):
            frees = {at: first_gap(events[at], length) for at in dates}
            full[length] = [at for at, free in frees.items() if not free]
            for at, free in frees.items() if full[length] else ():  # otherwise the length reveals that it is possible
                if free in begins - {"08:00"}:  # eight o'clock is too easy a guess
                    dates_of.setdefault(free, {}).setdefault(length, []).append(at)
        if not dates_of:
            raise NoSubject
        free = pick(rng, sorted(dates_of))
        length = pick(rng, sorted(dates_of[free]))
        on = pick(rng, dates_of[free][length] if possible else full[length])
        text = (
            f"In my calendar, when does the first free period of {length // 60} hour{'s' * (length > 60)} on {day(on)} "
            "begin, between 08:00 and 20:00? Answer with the time."
        )
        return text, question({"day": on, "length": length}, free)

    def solve(self, ask: Ask) -> Plan:
        page = yield Goto(f"{CALENDAR}/day/{ask['day']}")
        events = [(row["Start"], row["End"]) for row in page.records("Title")]
        free = first_gap(events, ask["length"])
        if not free:
            raise ImpossibleTask
        yield Answer(free)


def first_gap(events: list[tuple[str, str]], length: int, start: int = 8 * 60, finish: int = 20 * 60) -> str:
    """Return the start of a day's first period of at least `length` minutes without events; "" if there is none.

    `events` are pairs of times such as 09:30. `start` and `finish` limit the search, in minutes from midnight.
    """
    at = start
    for first, last in sorted((minutes(first), minutes(last)) for first, last in events):
        if first - at >= length:
            break
        at = max(at, last)
    return clock(at) if finish - at >= length else ""


class CreateEvent(TaskFamily):
    """Create an event with attendees."""

    name = "calendar-create"
    sites = ("calendar",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        start = 30 * int(rng.integers(14, 40))
        people = [person.name for person in choose(rng, list(state.setting.others), 1 + difficulty)]
        if not possible:
            everybody = [person.name for person in state.setting.people]
            people[0] = absent(everybody, lambda: f"{pick(rng, FIRST_NAMES)} {pick(rng, LAST_NAMES)}")
        event: Ask = {
            "title": absent_title(rng, state),
            "calendar": pick(rng, CALENDARS),
            "day": (state.now + timedelta(days=int(rng.integers(1, 90)))).date().isoformat(),
            "start": clock(start),
            "finish": clock(start + 30 * int(rng.integers(1, 7))),
            "place": pick(rng, ROOMS),
            "notes": paragraph(rng, difficulty) if difficulty else "",
            "people": sorted(people),
        }
        text = (
            f'Put the event "{event["title"]}" into my {event["calendar"]} calendar: on {day(event["day"])} from '
            f"{event['start']} to {event['finish']}, in {event['place']}. Invite {', '.join(event['people'])}."
        )
        return text + (f' Notes: "{event["notes"]}"' if event["notes"] else ""), change_data(event)

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        insert_event(state, ask)

    def solve(self, ask: Ask) -> Plan:
        page = yield from fill_event(ask)
        if page.has("button", "Save event"):
            raise ImpossibleTask


class MoveEvent(TaskFamily):
    """Move some of the user's own events to other days and times; impossible if somebody else organizes one."""

    name = "calendar-move"
    sites = ("calendar",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        own, foreign = (coming(state, f"organiser {sign} ?", state.me.username) for sign in ("=", "<>"))
        rows = choose(rng, own, 1 + difficulty // 2)
        if not rows or not foreign:
            raise NoSubject
        if not possible:
            rows[int(rng.integers(len(rows)))] = pick(rng, foreign)
        moves: dict[str, tuple[str, str]] = {}
        for row in rows:
            days, start = int(rng.integers(1, 40)), 30 * int(rng.integers(12, 40))
            moves[row["title"]] = (state.now + timedelta(days=days)).date().isoformat(), clock(start)
        phrase = "; ".join(f'"{title}" to {day(when)} at {start}' for title, (when, start) in moves.items())
        return f"In my calendar, move these events without changing how long they last: {phrase}.", change_data(
            {"moves": moves}
        )

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        for title, (when, start) in ask["moves"].items():
            row = state.rows("calendar", "SELECT * FROM event WHERE title = ?", title)[0]
            finish = clock(minutes(start) + minutes(row["finish"]) - minutes(row["start"]))
            sql = "UPDATE event SET day = ?, start = ?, finish = ? WHERE id = ?"
            state.change("calendar", sql, when, start, finish, row["id"])

    def solve(self, ask: Ask) -> Plan:
        for title in ask["moves"]:
            page = yield from open_event(title)
            if not page.has("link", "Move event"):
                raise ImpossibleTask
        for title, (when, start) in ask["moves"].items():
            yield from open_event(title)
            yield Click("link", "Move event")
            yield Fill("Date", when)
            yield Fill("Start", start)
            yield Click("button", "Move")


class DeleteEvents(TaskFamily):
    """Delete the upcoming events that the user organizes and a given person is invited to."""

    name = "calendar-delete"
    sites = ("calendar",)
    always_possible = True

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        sql = "organiser = ? AND id IN (SELECT event_id FROM attendee WHERE username = ?)"
        fits = [person for person in state.setting.others if coming(state, sql, state.me.username, person.username)]
        if not fits:
            raise NoSubject
        person = pick(rng, fits)
        text = (
            f"In my calendar, delete all events from today on that I organise and that {person.name} is invited to. "
            "Leave all other events."
        )
        return text, change_data({"person": person.name, "me": state.me.name})

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        username = ask["person"].lower().replace(" ", ".")
        sql = "organiser = ? AND id IN (SELECT event_id FROM attendee WHERE username = ?)"
        for row in coming(state, sql, state.me.username, username):
            state.change("calendar", "DELETE FROM event WHERE id = ?", row["id"])
            state.change("calendar", "DELETE FROM attendee WHERE event_id = ?", row["id"])

    def solve(self, ask: Ask) -> Plan:
        yield Goto(f"{CALENDAR}/list")
        yield Select("With", ask["person"])
        rows = yield from every_page((yield FILTER), "Title")
        for row in rows:
            if row["Organiser"] == ask["me"]:
                yield from open_event(row["Title"])
                yield Click("link", "Delete event")
                yield Click("button", "Delete for good")


class ReplyToInvitations(TaskFamily):
    """Reply to invitations to given events."""

    name = "calendar-reply"
    sites = ("calendar",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        rows = choose(rng, coming(state, "organiser <> ?", state.me.username), 1 + difficulty)
        if not rows:
            raise NoSubject
        sql, replies = "SELECT reply FROM attendee WHERE event_id = ? AND username = ?", dict[str, str]()
        for row in rows:
            now = state.one("calendar", sql, row["id"], state.me.username)
            replies[row["title"]] = pick(rng, [key for key, stored in REPLIES.items() if stored != now])
        if not possible:
            replies.pop(rows[0]["title"])
            replies[absent_title(rng, state)] = pick(rng, list(REPLIES))
        phrase = "; ".join(f'"{title}": {reply.lower()}' for title, reply in sorted(replies.items()))
        return f"Reply to these invitations in my calendar: {phrase}.", change_data({"replies": replies})

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        for title, reply in ask["replies"].items():
            sql = "UPDATE attendee SET reply = ? WHERE username = ? AND event_id = (SELECT id FROM event WHERE title = ?)"
            state.change("calendar", sql, REPLIES[reply], state.me.username, title)

    def solve(self, ask: Ask) -> Plan:
        for title in ask["replies"]:
            yield from open_event(title)
        for title, reply in ask["replies"].items():
            yield from open_event(title)
            yield Click("button", reply)


class InviteToAll(TaskFamily):
    """Invite a person to some of the user's own events."""

    name = "calendar-invite"
    sites = ("calendar",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        rows = coming(state, "organiser = ? AND calendar = 'Work'", state.me.username)
        titles = [row["title"] for row in choose(rng, rows, 1 + difficulty)]
        if not titles:
            raise NoSubject
        invited = {
            row[0]
            for title in titles
            for row in state.rows(
                "calendar", "SELECT username FROM attendee WHERE event_id = (SELECT id FROM event WHERE title = ?)", title
            )
        }
        person = pick(
            rng,
            [candidate for candidate in state.setting.others if candidate.username not in invited] or state.setting.others,
        )
        if not possible:
            titles[int(rng.integers(len(titles)))] = absent_title(rng, state)
        phrase = ", ".join(f'"{title}"' for title in titles)
        text = f"In my calendar, invite {person.name} to these events, in addition to the people already invited: {phrase}."
        return text, change_data({"person": person.name, "titles": titles})

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        username = ask["person"].lower().replace(" ", ".")
        for title in ask["titles"]:
            sql = "INSERT OR IGNORE INTO attendee SELECT id, ?, 'no reply' FROM event WHERE title = ?"
            state.change("calendar", sql, username, title)

    def solve(self, ask: Ask) -> Plan:
        for title in ask["titles"]:
            yield from open_event(title)
        for title in ask["titles"]:
            page = yield from open_event(title)
            people = [row["Name"] for row in page.records("Reply")]
            yield Click("link", "Edit event")
            yield Fill("Attendees", ", ".join([*people, ask["person"]]))
            yield Click("button", "Save event")


FAMILIES: tuple[TaskFamily, ...] = (
    NextWith(),
    FirstFree(),
    CreateEvent(),
    MoveEvent(),
    DeleteEvents(),
    ReplyToInvitations(),
    InviteToAll(),
)
