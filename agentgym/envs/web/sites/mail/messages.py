"""Pages of messages: show a message, and act on one or several messages."""

import sqlite3

from flask import Blueprint, render_template, request
from flask.typing import ResponseReturnValue

from agentgym.envs.web.sites.frame import done, field, me, refused
from agentgym.envs.web.sites.mail.folders import all_folders
from agentgym.envs.web.sites.queries import many, maybe, one, run

LIST = "SELECT *, id IN (SELECT message_id FROM trace_opened) AS opened FROM message"
pages = Blueprint("messages", __name__)


def find(message_id: int) -> sqlite3.Row:
    """Return a message by id, or end the request with 404."""
    return one(f"{LIST} WHERE id = ?", message_id)


@pages.get("/message/<int:message_id>")
def show(message_id: int) -> ResponseReturnValue:
    """Show a message and mark it as read."""
    message = find(message_id)
    run("INSERT OR IGNORE INTO trace_opened VALUES (?)", message_id)
    earlier = maybe("SELECT * FROM message WHERE id = ?", message["refers"])
    context: dict[str, object] = {"message": message, "earlier": earlier, "folders": all_folders(), "mine": me().email}
    return render_template("message.html", errors=[], **context)


@pages.post("/message/<int:message_id>/<any(star, unstar, unread, archive, delete, move):verb>")
def act(message_id: int, verb: str) -> ResponseReturnValue:
    """Apply an action to a message."""
    message, target = find(message_id), field("folder")
    if verb == "move" and target not in all_folders():
        context: dict[str, object] = {"message": message, "earlier": None, "folders": all_folders(), "mine": me().email}
        return refused("message.html", ["Folder: choose one of the list."], **context)
    gone = carry_out(message, verb, target)
    if gone or verb == "unread":
        return done("changed", "lists.show_folder", name=message["folder"])
    return done("changed", "messages.show", message_id=message_id)


def carry_out(message: sqlite3.Row, verb: str, target: str) -> bool:
    """Apply an action to a message; `target` is the folder for the action `move`.

    Return True if the message was deleted for good, as `delete` does in Trash.
    """
    number: int = message["id"]
    if verb == "delete" and message["folder"] == "Trash":
        run("DELETE FROM message WHERE id = ?", number)
        run("DELETE FROM trace_opened WHERE message_id = ?", number)
        return True
    if verb in ("star", "unstar"):
        run("UPDATE message SET starred = ? WHERE id = ?", int(verb == "star"), number)
    elif verb == "unread":
        run("DELETE FROM trace_opened WHERE message_id = ?", number)
    elif verb == "read":
        run("INSERT OR IGNORE INTO trace_opened VALUES (?)", number)
    else:
        folder = {"archive": "Archive", "delete": "Trash", "move": target}[verb]
        run("UPDATE message SET folder = ? WHERE id = ?", folder, number)
    return False


@pages.post("/messages")
def act_on_many() -> ResponseReturnValue:
    """Apply an action to the selected messages of a list."""
    verb, target, back = field("verb"), field("folder"), field("back")
    verbs = ("star", "unstar", "read", "unread", "archive", "delete", "move")
    ticked = {text for text in request.form.getlist("message") if text.isascii() and text.isdecimal()}
    selected = [row for row in many(LIST) if str(row["id"]) in ticked]
    if verb not in verbs or (verb == "move" and target not in all_folders()) or not selected:
        return return_to(back, "nothing")
    for message in selected:
        carry_out(message, verb, target)
    return return_to(back, "changed")


def return_to(back: str, notice: str) -> ResponseReturnValue:
    """Redirect to the list named `back`: Starred or a folder; the inbox if there is no such folder."""
    if back == "Starred":
        return done(notice, "lists.starred")
    return done(notice, "lists.show_folder", name=back if back in all_folders() else "Inbox")
