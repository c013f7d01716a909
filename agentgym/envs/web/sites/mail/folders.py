"""Pages of the user's own folders."""

from flask import Blueprint, render_template, request
from flask.typing import ResponseReturnValue

from agentgym.envs.web.sites.frame import done, field, refused
from agentgym.envs.web.sites.mail.data import SYSTEM
from agentgym.envs.web.sites.queries import many, one, run

pages = Blueprint("folders", __name__)


def all_folders() -> list[str]:
    """Return the names of all folders, the user's own last."""
    return [*SYSTEM, *(row["name"] for row in many("SELECT name FROM folder ORDER BY name"))]


@pages.route("/folders", methods=["GET", "POST"])
def index() -> ResponseReturnValue:
    """List all folders, or create a folder."""
    counts = {row[0]: row[1] for row in many("SELECT folder, COUNT(*) FROM message GROUP BY folder")}
    own = many("SELECT * FROM folder ORDER BY name")
    context: dict[str, object] = {"system": SYSTEM, "own": own, "counts": counts}
    if request.method == "GET":
        return render_template("folders.html", errors=[], name="", **context)
    name = field("name", 60)
    wrong = problem(name, None)
    if wrong:
        return refused("folders.html", [wrong], name=name, **context)
    run("INSERT INTO folder (name) VALUES (?)", name)
    return done("folder", "folders.index")


def problem(name: str, folder_id: int | None) -> str:
    """Return the error in a folder's name; "" if the name is valid."""
    existing = [row["name"].lower() for row in many("SELECT name FROM folder WHERE id IS NOT ?", folder_id)]
    if not name or "/" in name or name in (".", ".."):
        return "Name: enter a name without a slash."
    if name.lower() in [*existing, *(system_folder.lower() for system_folder in SYSTEM), "starred"]:
        return f"Name: there is a folder {name} already."
    return ""


@pages.route("/folders/<int:folder_id>", methods=["GET", "POST"])
def edit(folder_id: int) -> ResponseReturnValue:
    """Rename a folder, or delete it and move its messages to Archive."""
    folder = one("SELECT * FROM folder WHERE id = ?", folder_id)
    if request.method == "GET":
        return render_template("folder_form.html", folder=folder, name=folder["name"], errors=[])
    if "delete" in request.form:
        run("UPDATE message SET folder = 'Archive' WHERE folder = ?", folder["name"])
        run("DELETE FROM folder WHERE id = ?", folder_id)
        return done("unfolder", "folders.index")
    name = field("name", 60)
    wrong = problem(name, folder_id)
    if wrong:
        return refused("folder_form.html", [wrong], folder=folder, name=name)
    run("UPDATE message SET folder = ? WHERE folder = ?", name, folder["name"])
    run("UPDATE folder SET name = ? WHERE id = ?", name, folder_id)
    return done("folder", "folders.index")
