"""Pages of a project's labels."""

from flask import Blueprint, render_template, request
from flask.typing import ResponseReturnValue

from agentgym.envs.web.sites.frame import done, field, refused
from agentgym.envs.web.sites.queries import many, maybe, one, run
from agentgym.envs.web.sites.tracker.projects import project_of

pages = Blueprint("labels", __name__)


@pages.get("/<slug>/labels")
def index(slug: str) -> ResponseReturnValue:
    """List the labels, each with the number of open issues that have it."""
    project = project_of(slug)
    labels = many(
        "SELECT label.*, (SELECT COUNT(*) FROM issue_label JOIN issue ON issue.id = issue_id "
        "WHERE label_id = label.id AND issue.state = 'open') AS open_issues FROM label WHERE project_id = ? ORDER BY name",
        project["id"],
    )
    return render_template("labels.html", project=project, labels=labels)


@pages.route("/<slug>/labels/new", methods=["GET", "POST"], defaults={"label_id": None})
@pages.route("/<slug>/labels/<int:label_id>/edit", methods=["GET", "POST"])
def edit(slug: str, label_id: int | None) -> ResponseReturnValue:
    """Create a label if `label_id` is None, else change a label."""
    project = project_of(slug)
    label = None
    if label_id is not None:
        label = one("SELECT * FROM label WHERE id = ? AND project_id = ?", label_id, project["id"])
    context: dict[str, object] = {"project": project, "label": label}
    if request.method == "GET":
        values = dict(label) if label else {"name": "", "description": ""}
        return render_template("label_form.html", values=values, errors=[], **context)
    name, description = field("name", 60), field("description", 200)
    other = maybe("SELECT id FROM label WHERE project_id = ? AND name = ? AND id IS NOT ?", project["id"], name, label_id)
    if not name or other:
        wrong = "Name: enter a name." if not name else f"Name: there is a label {name} already."
        return refused("label_form.html", [wrong], values={"name": name, "description": description}, **context)
    if label:
        run("UPDATE label SET name = ?, description = ? WHERE id = ?", name, description, label_id)
    else:
        run("INSERT INTO label (project_id, name, description) VALUES (?, ?, ?)", project["id"], name, description)
    return done("label", "labels.index", slug=slug)


@pages.post("/<slug>/labels/<int:label_id>/delete")
def delete(slug: str, label_id: int) -> ResponseReturnValue:
    """Delete a label, and remove it from its issues."""
    one("SELECT id FROM label WHERE id = ? AND project_id = ?", label_id, project_of(slug)["id"])
    run("DELETE FROM issue_label WHERE label_id = ?", label_id)
    run("DELETE FROM label WHERE id = ?", label_id)
    return done("unlabel", "labels.index", slug=slug)
