"""Parts shared by all sites: layout, style, log-in, notices, pagination, restoring the data, errors."""

import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, cast
from urllib.parse import urlencode

from flask import Flask, Response, current_app, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from jinja2 import ChoiceLoader, FileSystemLoader, StrictUndefined
from werkzeug.exceptions import HTTPException, NotFound
from werkzeug.wrappers import Response as AnyResponse

from agentgym.envs.web.formats import day, moment, money
from agentgym.envs.web.state import EpisodeState, Person

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse

HERE = Path(__file__).parent
P = ParamSpec("P")
LONGEST = 5000
"""Maximum characters of a form field."""


class Site(Flask):
    """Flask application of one site. Requests of an episode are served one at a time, each as a transaction."""

    def __init__(self, name: str, title: str, nav: Sequence[tuple[str, str]], notices: Mapping[str, str]) -> None:
        """Create the site.

        Args:
            name: name of the site, which is also the name of its folder and its database.
            title: name on the pages.
            nav: links in the header, (text, path).
            notices: messages shown for `?done=KEY` after a change.
        """
        super().__init__(f"{__package__}.{name}", static_folder=None)
        self.site, self.title, self.nav, self.notices = name, title, list(nav), dict(notices)
        shared, own = FileSystemLoader(HERE), FileSystemLoader(HERE / name / "templates")
        self.jinja_env.loader = ChoiceLoader([own, shared])
        self.jinja_env.undefined = StrictUndefined
        self.jinja_env.trim_blocks = self.jinja_env.lstrip_blocks = True
        for formatter in (day, moment, money):
            self.add_template_filter(formatter)
        self.add_template_global(to_page)
        self.context_processor(self._shared_names)
        self.register_error_handler(HTTPException, _error)
        self.register_error_handler(OverflowError, _too_large)
        for path, view, methods in _SHARED:
            self.add_url_rule(path, view.__name__, view, methods=methods)

    def __call__(self, environ: dict[str, Any], start_response: "StartResponse") -> list[bytes]:
        state: EpisodeState = environ["agentgym.episode"]
        with state.lock:
            database = state.db(self.site)
            body = list(self.wsgi_app(environ, start_response))
            database.commit()
        return body

    def handle_exception(self, e: Exception) -> Response:
        db().rollback()
        return super().handle_exception(e)

    def _shared_names(self) -> dict[str, object]:
        return {
            "site": self.site,
            "site_title": self.title,
            "nav": self.nav,
            "user": user(),
            "notice": self.notices.get(request.args.get("done", "")),
            "now": state().now,
        }


def state() -> EpisodeState:
    """Return the state of the request's episode."""
    return cast("EpisodeState", request.environ["agentgym.episode"])


def db() -> sqlite3.Connection:
    """Return the current site's database in the request's episode."""
    return state().db(cast("Site", current_app).site)


def user() -> Person | None:
    """Return the logged-in user, or None if nobody is logged in."""
    row = db().execute("SELECT username FROM session").fetchone()
    return next((person for person in state().setting.people if row is not None and person.username == row[0]), None)


def me() -> Person:
    """Return the logged-in user; only for views that require log-in."""
    person = user()
    assert person is not None
    return person


def needs_login(view: Callable[P, ResponseReturnValue]) -> Callable[P, ResponseReturnValue]:
    """Return a view that redirects to the log-in page unless a user is logged in."""

    @wraps(view)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> ResponseReturnValue:
        if user() is None:
            return redirect(url_for("login", next=request.full_path if request.method == "GET" else "/"))
        return view(*args, **kwargs)

    return guarded


def done(notice: str, endpoint: str, **values: Any) -> AnyResponse:
    """Redirect to the page of an endpoint, which shows the site's notice with the key `notice`."""
    return redirect(url_for(endpoint, done=notice, **values), 303)


def refused(template: str, errors: Sequence[str], /, **values: object) -> tuple[str, int]:
    """Return the page of a form with error messages, and the HTTP status 422."""
    return render_template(template, errors=list(errors), **values), 422


def field(name: str, most: int = LONGEST) -> str:
    r"""Return a posted form field, stripped, with line ends as \n, no control characters, at most `most` long."""
    text = request.form.get(name, "").replace("\r\n", "\n").replace("\r", "\n")
    text = re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", "", text)
    return text.encode("utf-8", "ignore").decode().strip()[:most]


def number(text: str | None, least: int, most: int) -> int | None:
    """Parse a non-negative integer; return None if the text is None, not such an integer, or out of range."""
    if text is None or not re.fullmatch(r"\s*\d{1,9}\s*", text, re.ASCII) or not least <= int(text) <= most:
        return None
    return int(text)


@dataclass(frozen=True)
class Slice:
    """One page of a long list: the page's rows, the page's number from 1, and the total numbers of pages and rows."""

    rows: list[sqlite3.Row]
    number: int
    pages: int
    total: int


def slice_of(sql: str, values: Sequence[object] = (), size: int = 10) -> Slice:
    """Return one page of a query's rows, `size` rows long; `?page=` selects it, clamped to the valid range."""
    total = int(db().execute(f"SELECT count(*) FROM ({sql})", values).fetchone()[0])
    pages = max(1, -(-total // size))
    at = min(number(request.args.get("page"), 1, 10**9) or 1, pages)
    rows = db().execute(f"{sql} LIMIT ? OFFSET ?", (*values, size, (at - 1) * size)).fetchall()
    return Slice(rows, at, pages, total)


def to_page(at: int) -> str:
    """Return the URL of page number `at` of the current list."""
    return f"{request.path}?{urlencode({**request.args.to_dict(), 'page': at})}"


def like(text: str) -> str:
    r"""Return a LIKE pattern (with ESCAPE '\') that finds a text anywhere; the text is cut to LONGEST characters."""
    escaped = text[:LONGEST].replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def login() -> ResponseReturnValue:
    """Show the log-in form; on POST, check the password, log the user in, and redirect to the path `next`."""
    target = request.values.get("next", "/")
    target = target if re.fullmatch(r"/(?![/\\])[^\s\\]*", target) else "/"  # never redirect to another host
    if request.method == "GET":
        return render_template("login.html", errors=[], username="", next=target)
    username, password = field("username"), field("password")
    known_person = next((person for person in state().setting.people if person.username == username.lower()), None)
    if known_person is None or known_person.password != password:
        return refused("login.html", ["User name or password is wrong."], username=username, next=target)
    db().execute("DELETE FROM session")
    db().execute("INSERT INTO session VALUES (?)", (known_person.username,))
    return redirect(target, 303)


def logout() -> AnyResponse:
    """Log out."""
    db().execute("DELETE FROM session")
    return redirect(url_for("login"), 303)


def restore() -> ResponseReturnValue:
    """Show the page with the restore button; on POST, restore all sites to their initial state."""
    if request.method == "POST":
        state().restore()
        return redirect(url_for("restore", restored=1), 303)
    return render_template("restore.html", restored="restored" in request.args)


def style() -> Response:
    """Serve the common style sheet."""
    return Response((HERE / "style.css").read_text(encoding="utf-8"), mimetype="text/css")


def favicon() -> tuple[str, int]:
    """Return an empty response, since the sites have no icon."""
    return "", 204


def _error(error: HTTPException) -> ResponseReturnValue:
    if error.code is None or error.code < 400:
        return error
    return render_template("error.html", code=error.code, name=error.name, description=error.description or ""), error.code


def _too_large(error: Exception) -> ResponseReturnValue:
    """Return 404 for a URL with a number that exceeds SQLite's integers."""
    return _error(NotFound())


_SHARED: tuple[tuple[str, Callable[..., ResponseReturnValue], list[str]], ...] = (
    ("/login", login, ["GET", "POST"]),
    ("/logout", logout, ["POST"]),
    ("/restore", restore, ["GET", "POST"]),
    ("/style.css", style, ["GET"]),
    ("/favicon.ico", favicon, ["GET"]),
)
