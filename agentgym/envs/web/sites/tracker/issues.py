"""Pages of a project's issues: filtered list, one issue with its comments, the form, closing."""

import sqlite3
from typing import TypedDict

from flask import Blueprint, render_template, request
from flask.typing import ResponseReturnValue

from agentgym.envs.web.sites.frame import done, field, me, refused, slice_of, state
from agentgym.envs.web.sites.people import is_date
from agentgym.envs.web.sites.queries import many, one, run
from agentgym.envs.web.sites.tracker.projects import ISSUES, filters, members_of, project_of

PAGE = 20
"""Rows per page of a list."""
SORTS = {
    "newest": ("Newest first", "issue.number DESC"),
    "oldest": ("Oldest first", "issue.number"),
    "due": ("Due date", "issue.due = '', issue.due, issue.number"),
    "comments": ("Most comments", "comments DESC, issue.number"),
    "title": ("Title", "issue.title, issue.number"),
}
pages = Blueprint("issues", __name__)


class Choices(TypedDict):
    """Possible values of an issue's fields."""

    people: list[tuple[str, str]]
    milestones: list[sqlite3.Row]
    labels: list[sqlite3.Row]


class IssueForm(TypedDict):
    """Values posted from an issue's form."""

    title: str
    body: str
    assignee: str
    milestone_id: str
    due: str
    label_ids: list[int]


def find(slug: str, number: int) -> sqlite3.Row:
    """Return an issue by project and number, or end the request with 404."""
    return one(f"{ISSUES} WHERE project.slug = ? AND issue.number = ?", slug, number)


@pages.get("/<slug>/issues")
def index(slug: str) -> ResponseReturnValue:
    """List the issues: open ones by default, filtered by label, assignee, author, milestone and words."""
    project, form = project_of(slug), request.args
    where, values = filters("issue", project, ("open", "closed"), ("assignee", "author"))
    if form.get("milestone"):
        where.append("coalesce(milestone.title, 'none') = ?")
        values.append(form["milestone"])
    if form.get("label"):
        where.append("issue.id IN (SELECT issue_id FROM issue_label JOIN label ON label.id = label_id WHERE label.name = ?)")
        values.append(form["label"])
    order = SORTS.get(form.get("sort", ""), SORTS["newest"])[1]
    issues_found = slice_of(f"{ISSUES} WHERE {' AND '.join(where)} ORDER BY {order}", values, PAGE)
    sorts = [(key, label) for key, (label, _) in SORTS.items()]
    return render_template("issues.html", project=project, found=issues_found, chosen=form, sorts=sorts, **options(project))


def options(project: sqlite3.Row) -> Choices:
    """Return the possible values of an issue's fields: people, milestones, labels."""
    names = {person.username: person.name for person in state().setting.people}
    people = sorted((names.get(username, username), username) for username in members_of(project))
    return {
        "people": [(username, name) for name, username in people],
        "milestones": many("SELECT * FROM milestone WHERE project_id = ? ORDER BY title", project["id"]),
        "labels": many("SELECT * FROM label WHERE project_id = ? ORDER BY name", project["id"]),
    }


@pages.get("/<slug>/issues/<int:number>")
def show(slug: str, number: int) -> ResponseReturnValue:
    """Show an issue and its comments."""
    issue = find(slug, number)
    comments = many("SELECT * FROM comment WHERE issue_id = ? ORDER BY id", issue["id"])
    return render_template("issue.html", project=project_of(slug), issue=issue, comments=comments, errors=[])


@pages.route("/<slug>/issues/new", methods=["GET", "POST"], defaults={"number": None})
@pages.route("/<slug>/issues/<int:number>/edit", methods=["GET", "POST"])
def edit(slug: str, number: int | None) -> ResponseReturnValue:
    """Create an issue if `number` is None, else change an issue."""
    project = project_of(slug)
    issue = None if number is None else find(slug, number)
    choices = options(project)
    context: dict[str, object] = {"project": project, "issue": issue, **choices}
    if request.method == "GET":
        return render_template("issue_form.html", values=form_values(issue), errors=[], **context)
    values = posted_values()
    errors = problems(values, choices)
    if errors:
        return refused("issue_form.html", errors, values=values, **context)
    if issue is None:
        number = one("SELECT coalesce(max(number), 0) + 1 FROM issue WHERE project_id = ?", project["id"])[0]
        written = run(
            "INSERT INTO issue (project_id, number, title, body, state, author, assignee, milestone_id, due, created) "
            "VALUES (?, ?, '', '', 'open', ?, '', NULL, '', ?)",
            *(project["id"], number, me().username, state().now.isoformat(timespec="minutes")),
        )
    else:
        written = issue["id"]
    milestone = int(values["milestone_id"]) if values["milestone_id"] else None
    changed = (values["title"], values["body"], values["assignee"], milestone, values["due"])
    run("UPDATE issue SET title = ?, body = ?, assignee = ?, milestone_id = ?, due = ? WHERE id = ?", *changed, written)
    run("DELETE FROM issue_label WHERE issue_id = ?", written)
    for label in values["label_ids"]:
        run("INSERT INTO issue_label VALUES (?, ?)", written, label)
    return done("saved" if issue else "issue", "issues.show", slug=slug, number=number)


def form_values(issue: sqlite3.Row | None) -> dict[str, object]:
    """Return the initial values of the issue form; without an issue, those of a new issue."""
    if issue is None:
        return {"title": "", "body": "", "assignee": "", "milestone_id": "", "due": "", "label_ids": []}
    label_ids = [row[0] for row in many("SELECT label_id FROM issue_label WHERE issue_id = ?", issue["id"])]
    return {**dict(issue), "milestone_id": issue["milestone_id"] or "", "label_ids": label_ids}


def posted_values() -> IssueForm:
    """Return the values posted from the form."""
    ticked = {int(text) for text in request.form.getlist("label") if text.isascii() and text.isdecimal() and len(text) < 10}
    return {
        "title": field("title"),
        "body": field("body"),
        "assignee": field("assignee"),
        "milestone_id": field("milestone_id"),
        "due": field("due"),
        "label_ids": sorted(ticked),
    }


def problems(values: IssueForm, choices: Choices) -> list[str]:
    """Return error messages about the posted values."""
    problems_found: list[str] = []
    if not values["title"] or len(values["title"]) > 200:
        problems_found.append("Title: enter a title of at most 200 characters.")
    if values["assignee"] not in ["", *(username for username, _ in choices["people"])]:
        problems_found.append("Assignee: choose a member of the project.")
    if values["milestone_id"] not in ["", *(str(row["id"]) for row in choices["milestones"])]:
        problems_found.append("Milestone: choose one of the list.")
    if values["due"] and not is_date(values["due"]):
        problems_found.append(f"Due date: {values['due']} is not a date such as 2026-03-31.")
    if not set(values["label_ids"]) <= {row["id"] for row in choices["labels"]}:
        problems_found.append("Labels: choose labels of the project.")
    return problems_found


@pages.post("/<slug>/issues/<int:number>/<any(close, reopen):verb>")
def turn(slug: str, number: int, verb: str) -> ResponseReturnValue:
    """Close or reopen an issue."""
    run("UPDATE issue SET state = ? WHERE id = ?", "closed" if verb == "close" else "open", find(slug, number)["id"])
    return done("closed" if verb == "close" else "reopened", "issues.show", slug=slug, number=number)


@pages.post("/<slug>/issues/<int:number>/comments")
def comment(slug: str, number: int) -> ResponseReturnValue:
    """Add a comment to an issue."""
    issue, body = find(slug, number), field("body")
    if not body:
        comments = many("SELECT * FROM comment WHERE issue_id = ? ORDER BY id", issue["id"])
        context: dict[str, object] = {"project": project_of(slug), "issue": issue, "comments": comments}
        return refused("issue.html", ["Comment: write something first."], **context)
    now = state().now.isoformat(timespec="minutes")
    run("INSERT INTO comment (issue_id, author, body, created) VALUES (?, ?, ?, ?)", issue["id"], me().username, body, now)
    return done("comment", "issues.show", slug=slug, number=number)


@pages.post("/<slug>/issues/<int:number>/comments/<int:comment_id>/delete")
def uncomment(slug: str, number: int, comment_id: int) -> ResponseReturnValue:
    """Delete the user's own comment."""
    query = "SELECT id FROM comment WHERE id = ? AND issue_id = ? AND author = ?"
    one(query, comment_id, find(slug, number)["id"], me().username)
    run("DELETE FROM comment WHERE id = ?", comment_id)
    return done("uncomment", "issues.show", slug=slug, number=number)
