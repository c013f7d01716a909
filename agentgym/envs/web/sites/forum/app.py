"""Pages of the forum."""

import sqlite3

from flask import abort, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from agentgym.envs.web.sites.frame import Site, db, done, field, like, me, needs_login, refused, slice_of, state, user

NOTICES = {
    "posted": "Your topic is posted.",
    "edited": "Your change is saved.",
    "deleted": "It is deleted.",
    "commented": "Your comment is posted.",
    "voted": "Your vote is counted.",
    "unvoted": "Your vote is taken back.",
    "subscribed": "You are subscribed to the board.",
    "unsubscribed": "You are no longer subscribed to the board.",
    "profile": "Your profile is saved.",
}
NAV = (("Boards", "/"), ("Members", "/members"), ("My profile", "/me"), ("Settings", "/settings"))
SORTS = {
    "new": ("Newest", "at DESC, id DESC"),
    "old": ("Oldest", "at, id"),
    "votes": ("Most votes", "score DESC, id"),
    "comments": ("Most comments", "comments DESC, id"),
}
TOPICS = """SELECT topic.*, board.slug, board.name AS board_name, votes + (topic.id IN (SELECT topic FROM vote)) AS score,
    (SELECT count(*) FROM comment WHERE topic = topic.id) AS comments FROM topic JOIN board ON board.id = board"""
app = Site("forum", "Common Room", NAV, NOTICES)


@app.context_processor
def names() -> dict[str, object]:
    """Return the variables of all templates: `names`, a dict from user name to full name."""
    return {"names": {person.username: person.name for person in state().setting.people}}


def _board(slug: str) -> sqlite3.Row:
    return db().execute("SELECT * FROM board WHERE slug = ?", (slug,)).fetchone() or abort(404, "There is no such board.")


def _topic(id: int) -> sqlite3.Row:
    topic = db().execute(f"{TOPICS} WHERE topic.id = ?", (id,)).fetchone()
    return topic or abort(404, "There is no such topic.")


def _own(row: sqlite3.Row) -> sqlite3.Row:
    if row["username"] != me().username:
        abort(403, "Only its author may change it.")
    return row


def _comment(id: int) -> sqlite3.Row:
    comment_row = db().execute("SELECT * FROM comment WHERE id = ?", (id,)).fetchone()
    return comment_row or abort(404, "There is no such comment.")


@app.get("/")
def home() -> str:
    """List the boards."""
    sql = """SELECT *, (SELECT count(*) FROM topic WHERE board = board.id) AS topics,
        id IN (SELECT board FROM subscription) AS subscribed FROM board ORDER BY name"""
    return render_template("home.html", boards=db().execute(sql).fetchall())


@app.post("/b/<slug>/subscribe")
@needs_login
def subscribe(slug: str) -> ResponseReturnValue:
    """Subscribe to a board, or cancel the subscription."""
    board_row = _board(slug)
    if field("subscribe") == "no":
        db().execute("DELETE FROM subscription WHERE board = ?", (board_row["id"],))
        return done("unsubscribed", "home")
    db().execute("INSERT OR IGNORE INTO subscription VALUES (?)", (board_row["id"],))
    return done("subscribed", "home")


@app.get("/b/<slug>")
def board(slug: str) -> str:
    """List the topics of a board."""
    board_row, sort = _board(slug), request.args.get("sort", "new")
    order = SORTS.get(sort, SORTS["new"])[1]
    rows = slice_of(f"{TOPICS} WHERE board = ? ORDER BY {order}", (board_row["id"],))
    sorts = [(key, label) for key, (label, _) in SORTS.items()]
    return render_template("board.html", board=board_row, found=rows, sort=sort, sorts=sorts)


@app.get("/search")
def search() -> str:
    """Find topics by words in title or text."""
    sql, values = f"{TOPICS} WHERE 1", list[str]()
    for word in request.args.get("q", "").split()[:12]:
        sql += " AND (title LIKE ? ESCAPE '\\' OR body LIKE ? ESCAPE '\\')"
        values += [like(word)] * 2
    return render_template("search.html", found=slice_of(f"{sql} ORDER BY at DESC, topic.id DESC", values))


@app.route("/b/<slug>/new", methods=["GET", "POST"])
@needs_login
def post(slug: str) -> ResponseReturnValue:
    """Start a topic."""
    board_row, values = _board(slug), {"title": field("title", 200), "body": field("body")}
    context = {"board": board_row, "heading": f"New topic in {board_row['name']}", "values": values}
    if request.method == "GET":
        return render_template("topic_form.html", errors=[], **context)
    errors = _missing(values)
    if errors:
        return refused("topic_form.html", errors, **context)
    sql = "INSERT INTO topic VALUES (NULL, ?, ?, ?, ?, ?, 0, 0)"
    row = (board_row["id"], values["title"], values["body"], me().username, f"{state().now:%Y-%m-%d %H:%M}")
    return done("posted", "topic", id=db().execute(sql, row).lastrowid)


def _missing(values: dict[str, str]) -> list[str]:
    labels = {"title": "Title", "body": "Text"}
    return [f"{labels[name]} must not be empty." for name, value in values.items() if not value]


@app.get("/t/<int:id>")
def topic(id: int) -> str:
    """Show a topic and its comments."""
    return render_template("topic.html", errors=[], body="", **_topic_context(id))


def _topic_context(id: int) -> dict[str, object]:
    comments = slice_of("SELECT * FROM comment WHERE topic = ? ORDER BY at, id", (id,), 20)
    voted = db().execute("SELECT 1 FROM vote WHERE topic = ?", (id,)).fetchone() is not None
    return {"topic": _topic(id), "found": comments, "voted": voted}


@app.post("/t/<int:id>/vote")
@needs_login
def vote(id: int) -> ResponseReturnValue:
    """Vote for a topic, or withdraw the vote."""
    _topic(id)
    if field("vote") == "no":
        db().execute("DELETE FROM vote WHERE topic = ?", (id,))
        return done("unvoted", "topic", id=id)
    db().execute("INSERT OR IGNORE INTO vote VALUES (?)", (id,))
    return done("voted", "topic", id=id)


@app.post("/t/<int:id>/comment")
@needs_login
def comment(id: int) -> ResponseReturnValue:
    """Comment on a topic."""
    topic, body = _topic(id), field("body")
    errors = ["This topic is locked."] if topic["locked"] else [] if body else ["Comment must not be empty."]
    if errors:
        return refused("topic.html", errors, body=body, **_topic_context(id))
    values = (id, me().username, body, f"{state().now:%Y-%m-%d %H:%M}")
    db().execute("INSERT INTO comment VALUES (NULL, ?, ?, ?, ?)", values)
    return done("commented", "topic", id=id)


@app.route("/t/<int:id>/edit", methods=["GET", "POST"])
@needs_login
def edit_topic(id: int) -> ResponseReturnValue:
    """Change the user's own topic."""
    topic = _own(_topic(id))
    values = {"title": field("title", 200), "body": field("body")}
    context = {"board": {"slug": topic["slug"], "name": topic["board_name"]}, "heading": "Edit topic"}
    if request.method == "GET":
        values = {"title": topic["title"], "body": topic["body"]}
        return render_template("topic_form.html", errors=[], values=values, **context)
    errors = _missing(values)
    if errors:
        return refused("topic_form.html", errors, values=values, **context)
    db().execute("UPDATE topic SET title = ?, body = ? WHERE id = ?", (values["title"], values["body"], id))
    return done("edited", "topic", id=id)


@app.post("/t/<int:id>/delete")
@needs_login
def delete_topic(id: int) -> ResponseReturnValue:
    """Delete the user's own topic with its comments and votes."""
    topic = _own(_topic(id))
    for table in ("comment", "vote"):
        db().execute(f"DELETE FROM {table} WHERE topic = ?", (id,))
    db().execute("DELETE FROM topic WHERE id = ?", (id,))
    return done("deleted", "board", slug=topic["slug"])


@app.route("/c/<int:id>/edit", methods=["GET", "POST"])
@needs_login
def edit_comment(id: int) -> ResponseReturnValue:
    """Change the user's own comment."""
    comment_row = _own(_comment(id))
    if request.method == "GET":
        return render_template("comment_form.html", errors=[], body=comment_row["body"], topic=comment_row["topic"])
    body = field("body")
    if not body:
        return refused("comment_form.html", ["Comment must not be empty."], body=body, topic=comment_row["topic"])
    db().execute("UPDATE comment SET body = ? WHERE id = ?", (body, id))
    return done("edited", "topic", id=comment_row["topic"])


@app.post("/c/<int:id>/delete")
@needs_login
def delete_comment(id: int) -> ResponseReturnValue:
    """Delete the user's own comment."""
    comment_row = _own(_comment(id))
    db().execute("DELETE FROM comment WHERE id = ?", (id,))
    return done("deleted", "topic", id=comment_row["topic"])


@app.get("/members")
def members() -> str:
    """List all members."""
    sql = """SELECT username, place,
        (SELECT count(*) FROM topic WHERE topic.username = profile.username) AS topics,
        (SELECT count(*) FROM comment WHERE comment.username = profile.username) AS comments
        FROM profile ORDER BY username"""
    return render_template("members.html", found=slice_of(sql, size=25))


@app.get("/u/<username>")
def member(username: str) -> str:
    """Show someone's profile and topics."""
    profile = db().execute("SELECT * FROM profile WHERE username = ?", (username,)).fetchone()
    if profile is None:
        abort(404, "There is no such member.")
    rows = slice_of(f"{TOPICS} WHERE username = ? ORDER BY at DESC, topic.id DESC", (username,))
    return render_template("member.html", profile=profile, found=rows)


@app.get("/me")
def own_profile() -> ResponseReturnValue:
    """Redirect to the user's own profile, or to the log-in page if nobody is logged in."""
    person = user()
    return redirect(url_for("member", username=person.username) if person else url_for("login"))


@app.route("/settings", methods=["GET", "POST"])
@needs_login
def settings() -> ResponseReturnValue:
    """Change the user's own profile."""
    profile = db().execute("SELECT * FROM profile WHERE username = ?", (me().username,)).fetchone()
    if request.method == "GET":
        return render_template("settings.html", errors=[], values=profile)
    values = {"place": field("place", 100), "about": field("about", 1000)}
    if not values["place"]:
        return refused("settings.html", ["Place must not be empty."], values=values)
    db().execute("UPDATE profile SET place = ?, about = ? WHERE username = ?", (*values.values(), me().username))
    return done("profile", "settings")
