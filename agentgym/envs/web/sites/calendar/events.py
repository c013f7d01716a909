"""Pages of single events: show, create, change, move, delete, reply to an invitation."""

import re
import sqlite3

from flask import Blueprint, render_template, request
from flask.typing import ResponseReturnValue

from agentgym.envs.web.sites.calendar.data import CALENDARS, clock, minutes
from agentgym.envs.web.sites.frame import done, field, me, refused, state
from agentgym.envs.web.sites.people import is_date, usernames_of
from agentgym.envs.web.sites.queries import many, one, run

FIELDS = ("title", "calendar", "day", "start", "finish", "place", "notes", "attendees")
pages = Blueprint("events", __name__)


def find(event_id: int) -> sqlite3.Row:
    """Return an event by id, or end the request with 404."""
    return one("SELECT * FROM event WHERE id = ?", event_id)


def is_time(text: str) -> bool:
    """Return whether a text is a time of day such as 09:30."""
    return re.fullmatch(r"([01][0-9]|2[0-3]):[0-5][0-9]", text) is not None


@pages.get("/events/<int:event_id>")
def show(event_id: int) -> ResponseReturnValue:
    """Show an event."""
    return page(find(event_id), [])


def page(event: sqlite3.Row, errors: list[str]) -> ResponseReturnValue:
    """Return an event's page, with the error messages of the current request."""
    attendees = many("SELECT * FROM attendee WHERE event_id = ? ORDER BY username", event["id"])
    context: dict[str, object] = {
        "event": event,
        "attendees": attendees,
        "own": event["organiser"] == me().username,
        "reply": next((row["reply"] for row in attendees if row["username"] == me().username), ""),
    }
    return refused("event.html", errors, **context) if errors else render_template("event.html", errors=[], **context)


@pages.route("/events/new", methods=["GET", "POST"], defaults={"event_id": None})
@pages.route("/events/<int:event_id>/edit", methods=["GET", "POST"])
def edit(event_id: int | None) -> ResponseReturnValue:
    """Create an event if `event_id` is None, else change one of the user's own events."""
    event = None if event_id is None else find(event_id)
    if event is not None and event["organiser"] != me().username:
        return page(event, ["Only the organiser can change this event."])
    context: dict[str, object] = {"event": event, "calendars": [(name, name) for name in CALENDARS]}
    if request.method == "GET":
        return render_template("event_form.html", values=form_values(event), errors=[], **context)
    values = {name: field(name) for name in FIELDS}
    people, unknown = usernames_of(values["attendees"])
    errors = problems(values, unknown)
    if errors:
        return refused("event_form.html", errors, values=values, **context)
    stored = tuple(values[name] for name in FIELDS[:-1])
    if event is None:
        names = "organiser, title, calendar, day, start, finish, place, notes"
        query = f"INSERT INTO event ({names}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        written = run(query, me().username, *stored)
    else:
        written = event["id"]
        query = "UPDATE event SET title = ?, calendar = ?, day = ?, start = ?, finish = ?, place = ?, notes = ? WHERE id = ?"
        run(query, *stored, written)
    replies = {row["username"]: row["reply"] for row in many("SELECT * FROM attendee WHERE event_id = ?", written)}
    run("DELETE FROM attendee WHERE event_id = ?", written)
    for username in people:
        run("INSERT INTO attendee VALUES (?, ?, ?)", written, username, replies.get(username, "no reply"))
    return done("saved" if event else "made", "events.show", event_id=written)


def form_values(event: sqlite3.Row | None) -> dict[str, object]:
    """Return the initial values of the event form; without an event, those of a new event."""
    if event is None:
        day = request.args.get("day", "")
        initial_day = day if is_date(day) else state().now.date().isoformat()
        return {**dict.fromkeys(FIELDS, ""), "calendar": "Work", "day": initial_day}
    names = {person.username: person.name for person in state().setting.people}
    rows = many("SELECT username FROM attendee WHERE event_id = ? ORDER BY username", event["id"])
    return {**dict(event), "attendees": ", ".join(str(names.get(row[0], row[0])) for row in rows)}


def problems(values: dict[str, str], unknown: list[str]) -> list[str]:
    """Return error messages about the posted values; `unknown` lists attendees that match no contact."""
    problems_found: list[str] = []
    if not values["title"] or len(values["title"]) > 200:
        problems_found.append("Title: enter a title of at most 200 characters.")
    if values["calendar"] not in CALENDARS:
        problems_found.append("Calendar: choose one of the list.")
    if not is_date(values["day"]):
        problems_found.append(f"Date: {values['day'] or 'nothing'} is not a date such as 2026-03-31.")
    for key, name in (("start", "Start"), ("finish", "End")):
        if not is_time(values[key]):
            problems_found.append(f"{name}: {values[key] or 'nothing'} is not a time such as 09:30.")
    if is_time(values["start"]) and is_time(values["finish"]) and values["finish"] <= values["start"]:
        problems_found.append("End: the event must end after it starts.")
    problems_found += [f"Attendees: {name} is neither a name nor an address in your contacts." for name in unknown]
    return problems_found


@pages.route("/events/<int:event_id>/move", methods=["GET", "POST"])
def move(event_id: int) -> ResponseReturnValue:
    """Move one of the user's own events to another day and start time; the duration stays the same."""
    event = find(event_id)
    if event["organiser"] != me().username:
        return page(event, ["Only the organiser can move this event."])
    if request.method == "GET":
        return render_template("move.html", event=event, values=dict(event), errors=[])
    values = {"day": field("day"), "start": field("start")}
    errors: list[str] = []
    if not is_date(values["day"]):
        errors.append(f"Date: {values['day'] or 'nothing'} is not a date such as 2026-03-31.")
    if not is_time(values["start"]):
        errors.append(f"Start: {values['start'] or 'nothing'} is not a time such as 09:30.")
    length = minutes(event["finish"]) - minutes(event["start"])
    if not errors and minutes(values["start"]) + length >= 24 * 60:
        errors.append("Start: the event would not end on that day.")
    if errors:
        return refused("move.html", errors, event=event, values=values)
    finish = clock(minutes(values["start"]) + length)
    run("UPDATE event SET day = ?, start = ?, finish = ? WHERE id = ?", *values.values(), finish, event_id)
    return done("moved", "events.show", event_id=event_id)


@pages.route("/events/<int:event_id>/delete", methods=["GET", "POST"])
def delete(event_id: int) -> ResponseReturnValue:
    """Delete one of the user's own events after a confirmation."""
    event = find(event_id)
    if event["organiser"] != me().username:
        return page(event, ["Only the organiser can delete this event."])
    if request.method == "GET":
        return render_template("delete.html", event=event)
    run("DELETE FROM attendee WHERE event_id = ?", event_id)
    run("DELETE FROM event WHERE id = ?", event_id)
    return done("deleted", "views.show_day", day=event["day"])


@pages.post("/events/<int:event_id>/reply/<any(accepted, tentative, declined):reply>")
def reply(event_id: int, reply: str) -> ResponseReturnValue:
    """Reply to an invitation."""
    one("SELECT * FROM attendee WHERE event_id = ? AND username = ?", event_id, me().username)
    run("UPDATE attendee SET reply = ? WHERE event_id = ? AND username = ?", reply, event_id, me().username)
    return done("replied", "events.show", event_id=event_id)
