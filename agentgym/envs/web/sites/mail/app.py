"""Mail pages: folders and search. Pages of messages, contacts and folder settings are in other modules."""

from flask import Blueprint, redirect, render_template, request
from flask.typing import ResponseReturnValue

from agentgym.envs.web.sites.frame import Site, like, slice_of
from agentgym.envs.web.sites.mail import compose, contacts, folders, messages
from agentgym.envs.web.sites.mail.folders import all_folders
from agentgym.envs.web.sites.people import ask_to_log_in

NAV = (
    ("Compose", "/compose"),
    ("Inbox", "/folder/Inbox"),
    ("Starred", "/starred"),
    ("Sent", "/folder/Sent"),
    ("Archive", "/folder/Archive"),
    ("Trash", "/folder/Trash"),
    ("Folders", "/folders"),
    ("Contacts", "/contacts"),
)
NOTICES = {
    "sent": "The message was sent.",
    "changed": "Done.",
    "nothing": "No message was selected.",
    "folder": "The folder was saved.",
    "unfolder": "The folder was deleted; its messages are in the Archive.",
    "contact": "The contact was saved.",
    "uncontact": "The contact was deleted.",
}
PAGE = 20
"""Messages per page of a list."""
pages = Blueprint("lists", __name__)


def site() -> Site:
    """Create the Flask application of the mail site."""
    mail = Site("mail", "Mail", NAV, NOTICES)
    mail.add_template_filter(contacts.name_of, "name")
    mail.add_template_filter(contacts.names_of, "names")
    mail.before_request(ask_to_log_in)
    for part in (pages, messages.pages, compose.pages, contacts.pages, folders.pages):
        mail.register_blueprint(part)
    return mail


@pages.get("/")
def home() -> ResponseReturnValue:
    """Redirect to the inbox."""
    return redirect("/folder/Inbox")


@pages.get("/folder/<name>")
def show_folder(name: str) -> ResponseReturnValue:
    """List the messages of a folder, newest first."""
    if name not in all_folders():
        return render_template("error.html", code=404, name="Not Found", description=f"There is no folder {name}."), 404
    messages_found = slice_of(f"{messages.LIST} WHERE folder = ? ORDER BY sent DESC, id DESC", [name], PAGE)
    return render_template("folder.html", title=name, found=messages_found, folders=all_folders())


@pages.get("/starred")
def starred() -> ResponseReturnValue:
    """List the starred messages of all folders except Trash."""
    query = f"{messages.LIST} WHERE starred AND folder <> 'Trash' ORDER BY sent DESC, id DESC"
    return render_template("folder.html", title="Starred", found=slice_of(query, [], PAGE), folders=all_folders())


@pages.get("/search")
def search() -> ResponseReturnValue:
    """List messages of all folders, filtered by words, sender, folder and read state."""
    form = request.args
    where = ["(subject LIKE ? ESCAPE '\\' OR body LIKE ? ESCAPE '\\')"]
    values = [like(form.get("q", "").strip())] * 2
    if form.get("from", "").strip():
        where.append("(sender LIKE ? ESCAPE '\\' OR sender IN (SELECT email FROM contact WHERE name LIKE ? ESCAPE '\\'))")
        values += [like(form["from"].strip())] * 2
    if form.get("folder"):
        where.append("folder = ?")
        values.append(form["folder"])
    if form.get("unread"):
        where.append("NOT opened")
    query = f"SELECT * FROM ({messages.LIST}) WHERE {' AND '.join(where)} ORDER BY sent DESC, id DESC"
    messages_found = slice_of(query, values, PAGE)
    return render_template("search.html", found=messages_found, chosen=form, folders=all_folders())


app = site()
