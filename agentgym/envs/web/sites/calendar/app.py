"""Calendar pages: month, week, day, and a searchable list. Pages of single events are in `events.py`."""

import calendar
import sqlite3
from datetime import date, timedelta

from flask import Blueprint, abort, redirect, render_template, request
from flask.typing import ResponseReturnValue

from agentgym.envs.web.sites.calendar import events
from agentgym.envs.web.sites.calendar.data import CALENDARS
from agentgym.envs.web.sites.frame import Site, like, slice_of, state
from agentgym.envs.web.sites.people import ask_to_log_in, full_name
from agentgym.envs.web.sites.queries import many

NAV = (("Month", "/month"), ("Week", "/week"), ("Day", "/day"), ("List", "/list"), ("New event", "/events/new"))
NOTICES = {
    "made": "The event was created.",
    "saved": "The event was saved.",
    "moved": "The event was moved.",
    "deleted": "The event was deleted.",
    "replied": "Your reply was saved.",
}
PAGE = 20
"""Events per page in the list view."""
pages = Blueprint("views", __name__)


def site() -> Site:
    """Create the Flask application of the calendar."""
    calendar = Site("calendar", "Calendar", NAV, NOTICES)
    calendar.add_template_filter(full_name, "who")
    calendar.add_template_filter(weekday)
    calendar.before_request(ask_to_log_in)
    calendar.register_blueprint(pages)
    calendar.register_blueprint(events.pages)
    return calendar


def weekday(day: date | str) -> str:
    """Return the weekday of a date, such as Monday."""
    return f"{date.fromisoformat(day) if isinstance(day, str) else day:%A}"


def day_of(text: str) -> date:
    """Parse a date in the years 1901 to 2199 from a URL, or end the request with 404."""
    try:
        parsed = date.fromisoformat(text)
    except ValueError:
        abort(404)
    return parsed if parsed.isoformat() == text and 1900 < parsed.year < 2200 else abort(404)


def events_between(first: date, last: date) -> dict[str, list[sqlite3.Row]]:
    """Return the events of each day between two dates, inclusive."""
    days: dict[str, list[sqlite3.Row]] = {
        (first + timedelta(days=number)).isoformat(): [] for number in range((last - first).days + 1)
    }
    query = "SELECT * FROM event WHERE day BETWEEN ? AND ? ORDER BY day, start, id"
    for event in many(query, first.isoformat(), last.isoformat()):
        days[event["day"]].append(event)
    return days


@pages.get("/")
def home() -> ResponseReturnValue:
    """Redirect to the month of the episode's date."""
    return redirect("/month")


@pages.get("/month", defaults={"month": None})
@pages.get("/month/<month>")
def show_month(month: str | None) -> ResponseReturnValue:
    """Show a month as a table of weeks; None: the month of the episode's date."""
    first = day_of(f"{month}-01") if month else state().now.date().replace(day=1)
    weeks = calendar.Calendar().monthdatescalendar(first.year, first.month)
    return render_template(
        "month.html",
        first=first,
        weeks=weeks,
        days=events_between(weeks[0][0], weeks[-1][-1]),
        before=(first - timedelta(days=1)).replace(day=1),
        after=(first + timedelta(days=31)).replace(day=1),
        today=state().now.date(),
    )


@pages.get("/week", defaults={"day": None})
@pages.get("/week/<day>")
def show_week(day: str | None) -> ResponseReturnValue:
    """Show the week that contains a day, from Monday to Sunday; None: the episode's date."""
    selected_day = day_of(day) if day else state().now.date()
    monday = selected_day - timedelta(days=selected_day.weekday())
    days = events_between(monday, monday + timedelta(days=6))
    return render_template(
        "week.html", days=days, monday=monday, before=monday - timedelta(days=7), after=monday + timedelta(days=7)
    )


@pages.get("/day", defaults={"day": None})
@pages.get("/day/<day>")
def show_day(day: str | None) -> ResponseReturnValue:
    """Show the events of a day; None: the episode's date."""
    selected_day = day_of(day) if day else state().now.date()
    before, after = selected_day - timedelta(days=1), selected_day + timedelta(days=1)
    return render_template(
        "day.html",
        day=selected_day,
        events=events_between(selected_day, selected_day)[selected_day.isoformat()],
        before=before,
        after=after,
    )


@pages.get("/list")
def search() -> ResponseReturnValue:
    """List events, filtered by a phrase in title or place, by person, calendar and time (default: today and later)."""
    form = request.args
    where, values = ["(title LIKE ? ESCAPE '\\' OR place LIKE ? ESCAPE '\\')"], [like(form.get("q", "").strip())] * 2
    if form.get("with"):
        where.append("(organiser = ? OR id IN (SELECT event_id FROM attendee WHERE username = ?))")
        values += [form["with"]] * 2
    if form.get("calendar"):
        where.append("calendar = ?")
        values.append(form["calendar"])
    times = {"coming": "day >= ?", "past": "day < ?"}
    when = form.get("when", "coming")
    if when in times:
        where.append(times[when])
        values.append(state().now.date().isoformat())
    events = slice_of(f"SELECT * FROM event WHERE {' AND '.join(where)} ORDER BY day, start, id", values, PAGE)
    people = sorted((person.name, person.username) for person in state().setting.others)
    choices: dict[str, object] = {
        "people": [("", "anybody"), *((username, name) for name, username in people)],
        "calendars": [("", "any"), *((name, name) for name in CALENDARS)],
        "times": [("coming", "today and later"), ("past", "past"), ("all", "all")],
    }
    return render_template("list.html", found=events, chosen=form, when=when, **choices)


app = site()
