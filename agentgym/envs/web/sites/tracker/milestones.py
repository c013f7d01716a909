"""Pages of a project's milestones."""

from flask import Blueprint, render_template, request
from flask.typing import ResponseReturnValue

from agentgym.envs.web.sites.frame import done, field, refused
from agentgym.envs.web.sites.people import is_date
from agentgym.envs.web.sites.queries import many, maybe, one, run
from agentgym.envs.web.sites.tracker.projects import project_of

pages = Blueprint("milestones", __name__)


@pages.get("/<slug>/milestones")
def index(slug: str) -> ResponseReturnValue:
    """List the milestones with their dates and progress."""
    project = project_of(slug)
    milestones = many(
        "SELECT *, (SELECT COUNT(*) FROM issue WHERE milestone_id = milestone.id AND state = 'open') AS open_issues, "
        "(SELECT COUNT(*) FROM issue WHERE milestone_id = milestone.id AND state = 'closed') AS closed_issues "
        "FROM milestone WHERE project_id = ? ORDER BY due, title",
        project["id"],
    )
    return render_template("milestones.html", project=project, milestones=milestones)


@pages.route("/<slug>/milestones/new", methods=["GET", "POST"], defaults={"milestone_id": None})
@pages.route("/<slug>/milestones/<int:milestone_id>/edit", methods=["GET", "POST"])
def edit(slug: str, milestone_id: int | None) -> ResponseReturnValue:
    """Create a milestone if `milestone_id` is None, else change a milestone."""
    project = project_of(slug)
    milestone = None
    if milestone_id is not None:
        milestone = one("SELECT * FROM milestone WHERE id = ? AND project_id = ?", milestone_id, project["id"])
    context: dict[str, object] = {"project": project, "milestone": milestone}
    if request.method == "GET":
        values = dict(milestone) if milestone else {"title": "", "due": ""}
        return render_template("milestone_form.html", values=values, errors=[], **context)
    title, due = field("title", 60), field("due", 10)
    query = "SELECT id FROM milestone WHERE project_id = ? AND title = ? AND id IS NOT ?"
    errors: list[str] = []
    if not title:
        errors.append("Title: enter a title.")
    elif maybe(query, project["id"], title, milestone_id):
        errors.append(f"Title: there is a milestone {title} already.")
    if due and not is_date(due):
        errors.append(f"Due date: {due} is not a date such as 2026-03-31.")
    if errors:
        return refused("milestone_form.html", errors, values={"title": title, "due": due}, **context)
    if milestone:
        run("UPDATE milestone SET title = ?, due = ? WHERE id = ?", title, due, milestone_id)
    else:
        run("INSERT INTO milestone (project_id, title, due, state) VALUES (?, ?, ?, 'open')", project["id"], title, due)
    return done("milestone", "milestones.index", slug=slug)


@pages.post("/<slug>/milestones/<int:milestone_id>/<any(close, reopen):verb>")
def turn(slug: str, milestone_id: int, verb: str) -> ResponseReturnValue:
    """Close or reopen a milestone."""
    one("SELECT id FROM milestone WHERE id = ? AND project_id = ?", milestone_id, project_of(slug)["id"])
    run("UPDATE milestone SET state = ? WHERE id = ?", "closed" if verb == "close" else "open", milestone_id)
    return done("closed" if verb == "close" else "reopened", "milestones.index", slug=slug)
