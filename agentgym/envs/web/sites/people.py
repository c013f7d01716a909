"""Helpers for people and dates, shared by tracker, calendar and mail."""

from datetime import date

from flask import redirect, request, url_for
from flask.typing import ResponseReturnValue

from agentgym.envs.web.sites.frame import state, user

OPEN_TO_ALL = ("login", "logout", "style", "favicon", "restore")
"""Endpoints that need no log-in."""


def ask_to_log_in() -> ResponseReturnValue | None:
    """Return a redirect to the log-in page; None if the user is logged in or the page needs no log-in."""
    if user() is None and request.endpoint not in OPEN_TO_ALL:
        return redirect(url_for("login", next=request.full_path if request.method == "GET" else "/"))
    return None


def full_name(username: str) -> str:
    """Return a user's full name; the user name itself if it is unknown; "none" for an empty user name."""
    return next((person.name for person in state().setting.people if person.username == username), username or "none")


def usernames_of(text: str) -> tuple[list[str], list[str]]:
    """Parse comma-separated full names or mail addresses; return distinct user names, and the unknown names."""
    known = {key.lower(): person.username for person in state().setting.people for key in (person.name, person.email)}
    words = [word.strip() for word in text.replace(";", ",").replace("\n", ",").split(",") if word.strip()]
    names = {known[word.lower()] for word in words if word.lower() in known}
    return sorted(names), [word for word in words if word.lower() not in known]


def is_date(text: str) -> bool:
    """Return whether a text is a date such as 2026-03-09."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
