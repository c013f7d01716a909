"""Pages of the wiki site."""

import re
import sqlite3

from flask import abort, render_template, request, url_for
from flask.typing import ResponseReturnValue
from markupsafe import Markup, escape

from agentgym.envs.web.sites.frame import Site, db, done, field, like, me, needs_login, refused, slice_of, state
from agentgym.envs.web.sites.wiki.data import CATEGORIES, slug

NOTICES = {
    "created": "The page is created.",
    "saved": "The page is saved.",
    "restored": "The older version is restored.",
    "watched": "The page is on your watch list.",
    "unwatched": "The page is no longer on your watch list.",
}
NAV = (("Start", "/"), ("All pages", "/all"), ("New page", "/new"), ("Watch list", "/watchlist"))
SORTS = {"title": ("Title", "title"), "new": ("Latest change", "at DESC, title"), "old": ("Oldest change", "at, title")}
PAGES = """SELECT page.*, (SELECT max(at) FROM version WHERE version.page = page.id) AS at,
    (SELECT count(*) FROM version WHERE version.page = page.id) AS versions FROM page"""
_LINK = re.compile(r"\[\[([^\[\]\n]{1,100})\]\]")
app = Site("wiki", "Open Almanac", NAV, NOTICES)


@app.template_filter("wiki")
def linked(text: str) -> Markup:
    """Return a text as HTML: [[links]] become links, everything else is escaped."""
    pieces = _LINK.split(text)
    rendered = [
        Markup('<a href="{}">{}</a>').format(url_for("page", name=slug(piece)), piece) if at % 2 else escape(piece)
        for at, piece in enumerate(pieces)
    ]
    return Markup("").join(rendered)


@app.context_processor
def names() -> dict[str, dict[str, str]]:
    """Return the variables of all templates: `names`, a dict from user name to full name."""
    return {"names": {person.username: person.name for person in state().setting.people}}


def pairs(facts: str) -> list[tuple[str, str]]:
    """Parse the facts of a page, one `Name: value` per line, into pairs."""
    split = [line.partition(":") for line in facts.split("\n") if line.strip()]
    return [(name.strip(), value.strip()) for name, _, value in split]


def _page(name: str) -> sqlite3.Row:
    rows = db().execute("SELECT * FROM page ORDER BY id").fetchall()
    return next((row for row in rows if slug(row["title"]) == name), None) or abort(404, "There is no such page yet.")


@app.get("/")
def home() -> str:
    """Show the categories and the latest changes."""
    counts = db().execute("SELECT category, count(*) AS n FROM page GROUP BY category ORDER BY category").fetchall()
    sql = "SELECT version.*, title FROM version JOIN page ON page.id = page ORDER BY at DESC, version.id DESC LIMIT 8"
    return render_template("home.html", counts=counts, changes=db().execute(sql).fetchall(), slug=slug)


@app.get("/all")
def everything() -> str:
    """List all pages, filtered by category and words."""
    filters = {key: request.args.get(key, "") for key in ("q", "category", "sort")}
    sql, values = f"{PAGES} WHERE 1", list[str]()
    if filters["category"]:
        sql += " AND category = ?"
        values.append(filters["category"])
    for word in filters["q"].split()[:8]:
        sql += " AND (title LIKE ? ESCAPE '\\' OR body LIKE ? ESCAPE '\\' OR facts LIKE ? ESCAPE '\\')"
        values += [like(word)] * 3
    sql += f" ORDER BY {SORTS.get(filters['sort'], SORTS['title'])[1]}"
    return render_template(
        "all.html",
        found=slice_of(sql, values, 15),
        filters=filters,
        categories=[("", "All categories"), *((name, name) for name in CATEGORIES)],
        sorts=[(key, label) for key, (label, _) in SORTS.items()],
        slug=slug,
    )


@app.get("/wiki/<name>")
def page(name: str) -> str:
    """Show a page."""
    page_row = _page(name)
    watched = db().execute("SELECT 1 FROM watch WHERE page = ?", (page_row["id"],)).fetchone() is not None
    last = db().execute("SELECT * FROM version WHERE page = ? ORDER BY id DESC", (page_row["id"],)).fetchone()
    return render_template("page.html", page=page_row, facts=pairs(page_row["facts"]), name=name, watched=watched, last=last)


@app.get("/wiki/<name>/links")
def links(name: str) -> str:
    """List the pages that link to a page."""
    page_row = _page(name)
    rows = db().execute("SELECT * FROM page ORDER BY title").fetchall()
    here = [row for row in rows if any(slug(to) == name for to in _LINK.findall(f"{row['facts']}\n{row['body']}"))]
    return render_template("links.html", page=page_row, name=name, rows=here, slug=slug)


def _facts_wrong(facts: str) -> list[str]:
    lines = [line for line in facts.split("\n") if line.strip()]
    return [
        f'Facts: the line "{line[:60]}" is not of the form "Name: value".'
        for line in lines
        if not re.match(r"[^:]+:.*\S", line)
    ]


def _write(id: int, facts: str, body: str, summary: str) -> None:
    db().execute("UPDATE page SET facts = ?, body = ? WHERE id = ?", (facts, body, id))
    values = (id, me().username, f"{state().now:%Y-%m-%d %H:%M}", summary, facts, body)
    db().execute("INSERT INTO version VALUES (NULL, ?, ?, ?, ?, ?, ?)", values)


@app.route("/wiki/<name>/edit", methods=["GET", "POST"])
@needs_login
def edit(name: str) -> ResponseReturnValue:
    """Change a page."""
    page_row = _page(name)
    if request.method == "GET":
        values = {"facts": page_row["facts"], "body": page_row["body"], "summary": ""}
        return render_template("edit.html", page=page_row, name=name, errors=[], values=values)
    values = {"facts": field("facts"), "body": field("body"), "summary": field("summary", 200)}
    errors = _facts_wrong(values["facts"])
    errors += [f"{label} must not be empty." for key, label in (("body", "Text"), ("summary", "Summary")) if not values[key]]
    if errors:
        return refused("edit.html", errors, page=page_row, name=name, values=values)
    _write(page_row["id"], values["facts"], values["body"], values["summary"])
    return done("saved", "page", name=name)


@app.route("/new", methods=["GET", "POST"])
@needs_login
def new() -> ResponseReturnValue:
    """Create a page."""
    keys = ("title", "category", "facts", "body")
    values = {key: field(key, 100 if key == "title" else 5000) for key in keys}
    context = {"categories": [("", "Choose"), *((name, name) for name in CATEGORIES)], "values": values}
    if request.method == "GET":
        return render_template("new.html", errors=[], **context)
    errors = [f"{label} must not be empty." for key, label in (("title", "Title"), ("body", "Text")) if not values[key]]
    errors += [] if values["category"] in CATEGORIES else ["Choose a category."]
    errors += _facts_wrong(values["facts"])
    titles = [slug(row["title"]) for row in db().execute("SELECT title FROM page")]
    if slug(values["title"]) in titles:
        errors.append("There is a page with this title already.")
    if errors:
        return refused("new.html", errors, **context)
    row = (values["title"], values["category"], values["facts"], values["body"])
    id = db().execute("INSERT INTO page VALUES (NULL, ?, ?, ?, ?)", row).lastrowid
    _write(id or 0, values["facts"], values["body"], "New page")
    return done("created", "page", name=slug(values["title"]))


@app.get("/wiki/<name>/history")
def history(name: str) -> str:
    """List the versions of a page, the latest first."""
    page_row = _page(name)
    rows = slice_of("SELECT * FROM version WHERE page = ? ORDER BY id DESC", (page_row["id"],), 15)
    return render_template("history.html", page=page_row, name=name, found=rows)


def _version(id: int) -> sqlite3.Row:
    sql = "SELECT version.*, title FROM version JOIN page ON page.id = page WHERE version.id = ?"
    return db().execute(sql, (id,)).fetchone() or abort(404, "There is no such version.")


@app.get("/version/<int:id>")
def version(id: int) -> str:
    """Show one version of a page."""
    version_row = _version(id)
    return render_template(
        "version.html", version=version_row, facts=pairs(version_row["facts"]), name=slug(version_row["title"])
    )


@app.post("/version/<int:id>/restore")
@needs_login
def take_back(id: int) -> ResponseReturnValue:
    """Restore an older version of a page, as a new version."""
    version_row = _version(id)
    _write(
        version_row["page"],
        version_row["facts"],
        version_row["body"],
        f"Restored the version of {names()['names'][version_row['username']]}",
    )
    return done("restored", "page", name=slug(version_row["title"]))


@app.post("/wiki/<name>/watch")
@needs_login
def watch(name: str) -> ResponseReturnValue:
    """Add a page to the watch list, or remove it."""
    page_row = _page(name)
    if field("watch") == "no":
        db().execute("DELETE FROM watch WHERE page = ?", (page_row["id"],))
        return done("unwatched", "watchlist") if field("from") == "list" else done("unwatched", "page", name=name)
    db().execute("INSERT OR IGNORE INTO watch VALUES (?)", (page_row["id"],))
    return done("watched", "page", name=name)


@app.get("/watchlist")
@needs_login
def watchlist() -> str:
    """Show the watch list."""
    rows = db().execute("SELECT page.* FROM watch JOIN page ON page.id = watch.page ORDER BY title").fetchall()
    return render_template("watchlist.html", rows=rows, slug=slug)
