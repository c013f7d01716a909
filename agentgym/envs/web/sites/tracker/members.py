"""Pages of a project's members and their roles."""

from flask import Blueprint, render_template, request
from flask.typing import ResponseReturnValue

from agentgym.envs.web.sites.frame import done, field, me, refused, state
from agentgym.envs.web.sites.queries import many, one, run
from agentgym.envs.web.sites.tracker.data import ROLES
from agentgym.envs.web.sites.tracker.projects import members_of, project_of

pages = Blueprint("members", __name__)


@pages.route("/<slug>/members", methods=["GET", "POST"])
def index(slug: str) -> ResponseReturnValue:
    """List the members, or invite a person."""
    project = project_of(slug)
    inside = members_of(project)
    others = sorted((person.name, person.username) for person in state().setting.people if person.username not in inside)
    context: dict[str, object] = {
        "project": project,
        "members": many("SELECT * FROM member WHERE project_id = ? ORDER BY username", project["id"]),
        "others": [("", "Choose a person"), *((username, name) for name, username in others)],
        "roles": [(role, role) for role in ROLES],
    }
    if request.method == "GET":
        return render_template("members.html", errors=[], **context)
    username, role = field("username"), field("role")
    if username not in [name for _, name in others]:
        return refused("members.html", ["Person: choose who is invited."], **context)
    if role not in ROLES:
        return refused("members.html", ["Role: choose one of the list."], **context)
    run("INSERT INTO member VALUES (?, ?, ?)", project["id"], username, role)
    return done("member", "members.index", slug=slug)


@pages.route("/<slug>/members/<username>", methods=["GET", "POST"])
def edit(slug: str, username: str) -> ResponseReturnValue:
    """Change a member's role, or remove the member; the user's own membership cannot be changed."""
    project = project_of(slug)
    member = one("SELECT * FROM member WHERE project_id = ? AND username = ?", project["id"], username)
    context: dict[str, object] = {"project": project, "member": member, "roles": [(role, role) for role in ROLES]}
    if request.method == "GET":
        return render_template("member_form.html", errors=[], **context)
    if username == me().username:
        return refused("member_form.html", ["Your own membership cannot be changed here."], **context)
    if "remove" in request.form:
        run("DELETE FROM member WHERE project_id = ? AND username = ?", project["id"], username)
    elif field("role") in ROLES:
        run("UPDATE member SET role = ? WHERE project_id = ? AND username = ?", field("role"), project["id"], username)
    else:
        return refused("member_form.html", ["Role: choose one of the list."], **context)
    return done("member", "members.index", slug=slug)
