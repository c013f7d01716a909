"""What the tracker, the calendar and the mail ask about people and dates."""

from datetime import date

from flask import redirect, request, url_for
from flask.typing import ResponseReturnValue

from agentgym.envs.web.sites.frame import state, user

OPEN_TO_ALL = ("login", "logout", "style", "favicon", "restore")
"""Pages for whoever is logged out."""


def ask_to_log_in() -> ResponseReturnValue | None:
    """Send whoever is logged out to the page for logging in."""
    if user() is None and request.endpoint not in OPEN_TO_ALL:
        return redirect(url_for("login", next=request.full_path if request.method == "GET" else "/"))
    return None


def full_name(username: str) -> str:
    """Return the name of a user; nobody's is "none"."""
    return next((person.name for person in state().setting.people if person.username == username), username or "none")


def usernames_of(text: str) -> tuple[list[str], list[str]]:
    """Read names or mail addresses, comma between them; return user names, each once, and what is unknown."""
    known = {key.lower(): person.username for person in state().setting.people for key in (person.name, person.email)}
    words = [word.strip() for word in text.replace(";", ",").replace("\n", ",").split(",") if word.strip()]
    names = {known[word.lower()] for word in words if word.lower() in known}
    return sorted(names), [word for word in words if word.lower() not in known]


def is_date(text: str) -> bool:
    """Say whether a text is a date such as 2026-03-09."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
