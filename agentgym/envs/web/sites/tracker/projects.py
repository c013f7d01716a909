"""Pages that list and show projects, and lookups for all pages of a project."""

import sqlite3
from collections.abc import Sequence

from flask import Blueprint, render_template, request
from flask.typing import ResponseReturnValue

from agentgym.envs.web.sites.frame import like, slice_of
from agentgym.envs.web.sites.queries import many, one

LIST = """
SELECT project.*, (SELECT COUNT(*) FROM issue WHERE project_id = project.id AND state = 'open') AS open_issues,
    (SELECT COUNT(*) FROM merge_request WHERE project_id = project.id AND state = 'open') AS open_requests
FROM project"""
ISSUES = """
SELECT issue.*, project.slug, milestone.title AS milestone,
    (SELECT group_concat(name, ', ') FROM (SELECT label.name FROM issue_label JOIN label ON label.id = label_id
        WHERE issue_id = issue.id ORDER BY label.name)) AS labels,
    (SELECT COUNT(*) FROM comment WHERE issue_id = issue.id) AS comments
FROM issue JOIN project ON project.id = issue.project_id LEFT JOIN milestone ON milestone.id = issue.milestone_id"""
PROJECTS = 15
"""Projects per page in the list view."""
pages = Blueprint("projects", __name__)


def project_of(slug: str) -> sqlite3.Row:
    """Return a project by its slug, or end the request with 404."""
    return one("SELECT * FROM project WHERE slug = ?", slug)


def members_of(project: sqlite3.Row) -> list[str]:
    """Return the user names of a project's members."""
    return [row[0] for row in many("SELECT username FROM member WHERE project_id = ? ORDER BY username", project["id"])]


def filters(
    table: str, project: sqlite3.Row, states: Sequence[str], people: Sequence[str]
) -> tuple[list[str], list[object]]:
    """Return the SQL conditions, and their values, for the filter form above a project's list.

    The form filters by status (`open` by default; a value not in `states` means any), by words, and by person. `table`
    is the table's name or alias in the query, and `people` are the table's columns with user names.
    """
    form = request.args
    where, values = [f"{table}.project_id = ?"], list[object]([project["id"]])
    status = form.get("status", "open")
    if status in states:
        where.append(f"{table}.state = '{status}'")
    for key in people:
        if form.get(key):
            where.append(f"{table}.{key} = ?")
            values.append("" if form[key] == "none" else form[key])
    if form.get("q"):
        where.append(f"({table}.title LIKE ? ESCAPE '\\' OR {table}.body LIKE ? ESCAPE '\\')")
        values += [like(form["q"].strip())] * 2
    return where, values


@pages.get("/projects")
def index() -> ResponseReturnValue:
    """List the projects, optionally filtered by a phrase."""
    phrase = request.args.get("q", "").strip()
    query = f"{LIST} WHERE slug LIKE ? ESCAPE '\\' OR description LIKE ? ESCAPE '\\' ORDER BY slug"
    return render_template("projects.html", found=slice_of(query, [like(phrase)] * 2, PROJECTS), phrase=phrase)


@pages.get("/<slug>")
def overview(slug: str) -> ResponseReturnValue:
    """Show the project's description, its numbers of open issues and merge requests, and its newest issues."""
    project = one(f"{LIST} WHERE slug = ?", slug)
    newest = many(f"{ISSUES} WHERE project.id = ? ORDER BY issue.number DESC LIMIT 5", project["id"])
    return render_template("project.html", project=project, newest=newest)
