"""Pages of a project's merge requests: list, changes, review, merging."""

import sqlite3

from flask import Blueprint, render_template, request
from flask.typing import ResponseReturnValue

from agentgym.envs.web.sites.frame import done, field, me, refused, slice_of, state
from agentgym.envs.web.sites.queries import many, one, run
from agentgym.envs.web.sites.tracker.issues import PAGE, options
from agentgym.envs.web.sites.tracker.projects import filters, project_of

LIST = """
SELECT m.*, project.slug,
    (SELECT COUNT(*) FROM review WHERE merge_request_id = m.id AND verdict = 'approved') AS approvals,
    (SELECT COUNT(*) FROM review WHERE merge_request_id = m.id AND verdict = 'changes requested') AS objections
FROM merge_request AS m JOIN project ON project.id = m.project_id"""
SORTS = {"newest": ("Newest first", "m.number DESC"), "oldest": ("Oldest first", "m.number"), "title": ("Title", "m.title")}
VERDICTS = {"approve": "approved", "object": "changes requested"}
pages = Blueprint("merge_requests", __name__)


def find(slug: str, number: int) -> sqlite3.Row:
    """Return a merge request by project and number, or end the request with 404."""
    return one(f"{LIST} WHERE project.slug = ? AND m.number = ?", slug, number)


@pages.get("/<slug>/merge_requests")
def index(slug: str) -> ResponseReturnValue:
    """List the merge requests: open ones by default, filtered by author, reviewer and words."""
    project, form = project_of(slug), request.args
    where, values = filters("m", project, ("open", "merged", "closed"), ("author", "reviewer"))
    order = SORTS.get(form.get("sort", ""), SORTS["newest"])[1]
    requests = slice_of(f"{LIST} WHERE {' AND '.join(where)} ORDER BY {order}", values, PAGE)
    sorts = [(key, label) for key, (label, _) in SORTS.items()]
    people = options(project)["people"]
    return render_template("merge_requests.html", project=project, found=requests, chosen=form, sorts=sorts, people=people)


def page_of(slug: str, request_row: sqlite3.Row) -> dict[str, object]:
    """Return the template values of a merge request's page."""
    return {
        "project": project_of(slug),
        "row": request_row,
        "mine": me().username,
        "reviews": many("SELECT * FROM review WHERE merge_request_id = ? ORDER BY username", request_row["id"]),
        "files": many("SELECT path FROM change WHERE merge_request_id = ? ORDER BY id", request_row["id"]),
        "comments": many("SELECT * FROM comment WHERE merge_request_id = ? ORDER BY id", request_row["id"]),
        "obstacle": obstacle(request_row),
    }


def obstacle(request_row: sqlite3.Row) -> str:
    """Return the reason why a merge request cannot be merged; "" if it can."""
    if request_row["state"] != "open":
        return f"This merge request is {request_row['state']}."
    if request_row["pipeline"] != "passed":
        return "Merging is blocked: the pipeline failed."
    if request_row["objections"]:
        return "Merging is blocked: a reviewer requested changes."
    if not request_row["approvals"]:
        return "Merging is blocked: at least one approval is needed."
    return ""


@pages.get("/<slug>/merge_requests/<int:number>")
def show(slug: str, number: int) -> ResponseReturnValue:
    """Show a merge request, its reviews and comments."""
    return render_template("merge_request.html", errors=[], **page_of(slug, find(slug, number)))


@pages.get("/<slug>/merge_requests/<int:number>/changes")
def changes(slug: str, number: int) -> ResponseReturnValue:
    """Show a merge request's changes to files, line by line."""
    request_row = find(slug, number)
    files = many("SELECT * FROM change WHERE merge_request_id = ? ORDER BY id", request_row["id"])
    return render_template("changes.html", project=project_of(slug), row=request_row, files=files)


@pages.route("/<slug>/merge_requests/<int:number>/edit", methods=["GET", "POST"])
def edit(slug: str, number: int) -> ResponseReturnValue:
    """Change title, description, assignee and reviewer of a merge request."""
    project, request_row = project_of(slug), find(slug, number)
    people = options(project)["people"]
    context: dict[str, object] = {"project": project, "row": request_row, "people": people}
    if request.method == "GET":
        return render_template("merge_request_form.html", values=dict(request_row), errors=[], **context)
    values = {name: field(name) for name in ("title", "body", "assignee", "reviewer")}
    names, errors = ["", *(username for username, _ in people)], list[str]()
    if not values["title"] or len(values["title"]) > 200:
        errors.append("Title: enter a title of at most 200 characters.")
    for key in ("assignee", "reviewer"):
        if values[key] not in names:
            errors.append(f"{key.capitalize()}: choose a member of the project.")
    if values["reviewer"] and values["reviewer"] == request_row["author"]:
        errors.append("Reviewer: the author cannot review.")
    if errors:
        return refused("merge_request_form.html", errors, values=values, **context)
    query = "UPDATE merge_request SET title = ?, body = ?, assignee = ?, reviewer = ? WHERE id = ?"
    run(query, *values.values(), request_row["id"])
    return done("saved", "merge_requests.show", slug=slug, number=number)


@pages.post("/<slug>/merge_requests/<int:number>/<any(close, reopen, merge):verb>")
def turn(slug: str, number: int, verb: str) -> ResponseReturnValue:
    """Close, reopen or merge a merge request."""
    request_row = find(slug, number)
    allowed = {
        "close": request_row["state"] == "open",
        "reopen": request_row["state"] == "closed",
        "merge": not obstacle(request_row),
    }
    if not allowed[verb]:
        return refused(
            "merge_request.html", [obstacle(request_row) or "This merge request is open."], **page_of(slug, request_row)
        )
    after = {"close": "closed", "reopen": "open", "merge": "merged"}[verb]
    run("UPDATE merge_request SET state = ? WHERE id = ?", after, request_row["id"])
    notice = {"close": "closed", "reopen": "reopened", "merge": "merged"}[verb]
    return done(notice, "merge_requests.show", slug=slug, number=number)


@pages.post("/<slug>/merge_requests/<int:number>/review/<any(approve, object, withdraw):verb>")
def review(slug: str, number: int, verb: str) -> ResponseReturnValue:
    """Approve a merge request, request changes, or withdraw the user's review."""
    request_row, name = find(slug, number), me().username
    if request_row["state"] != "open" or request_row["author"] == name:
        wrong = "Your own merge request is reviewed by others." if request_row["author"] == name else obstacle(request_row)
        return refused("merge_request.html", [wrong], **page_of(slug, request_row))
    run("DELETE FROM review WHERE merge_request_id = ? AND username = ?", request_row["id"], name)
    if verb != "withdraw":
        run("INSERT INTO review VALUES (?, ?, ?)", request_row["id"], name, VERDICTS[verb])
    return done("review", "merge_requests.show", slug=slug, number=number)


@pages.post("/<slug>/merge_requests/<int:number>/comments")
def comment(slug: str, number: int) -> ResponseReturnValue:
    """Add a comment to a merge request."""
    request_row, body = find(slug, number), field("body")
    if not body:
        return refused("merge_request.html", ["Comment: write something first."], **page_of(slug, request_row))
    now = state().now.isoformat(timespec="minutes")
    query = "INSERT INTO comment (merge_request_id, author, body, created) VALUES (?, ?, ?, ?)"
    run(query, request_row["id"], me().username, body, now)
    return done("comment", "merge_requests.show", slug=slug, number=number)


@pages.post("/<slug>/merge_requests/<int:number>/comments/<int:comment_id>/delete")
def uncomment(slug: str, number: int, comment_id: int) -> ResponseReturnValue:
    """Delete the user's own comment."""
    query = "SELECT id FROM comment WHERE id = ? AND merge_request_id = ? AND author = ?"
    one(query, comment_id, find(slug, number)["id"], me().username)
    run("DELETE FROM comment WHERE id = ?", comment_id)
    return done("uncomment", "merge_requests.show", slug=slug, number=number)
