"""Pages for writing: new messages, replies and forwards."""

import sqlite3

from flask import Blueprint, render_template, request
from flask.typing import ResponseReturnValue

from agentgym.envs.web.sites.frame import done, field, me, number, refused, state
from agentgym.envs.web.sites.mail.contacts import addresses_of, names_of
from agentgym.envs.web.sites.queries import maybe, run

KINDS = {"reply": "Re: ", "reply_all": "Re: ", "forward": "Fwd: "}
pages = Blueprint("compose", __name__)


@pages.route("/compose", methods=["GET", "POST"])
def compose() -> ResponseReturnValue:
    """Write a message; `?reply=ID`, `?reply_all=ID` or `?forward=ID` refers to an earlier message."""
    kind = next((kind for kind in KINDS if kind in request.args), "new")
    earlier = maybe("SELECT * FROM message WHERE id = ?", number(request.args.get(kind), 0, 10**9))
    kind = kind if earlier else "new"
    if request.method == "GET":
        values = {"to": first_recipients(kind, earlier), "subject": first_subject(kind, earlier), "body": ""}
        return render_template("compose.html", values=values, earlier=earlier, kind=kind, errors=[])
    values = {"to": field("to"), "subject": field("subject", 200), "body": field("body")}
    addresses, unknown = addresses_of(values["to"])
    errors = [f"To: {word} is neither an address nor the name of a contact." for word in unknown]
    if not addresses and not unknown:
        errors.append("To: enter at least one name or address.")
    if not values["subject"]:
        errors.append("Subject: enter a subject.")
    if errors:
        return refused("compose.html", errors, values=values, earlier=earlier, kind=kind)
    stored_kind = "reply" if kind == "reply_all" else kind
    write(me().email, addresses, values["subject"], values["body"], stored_kind, earlier["id"] if earlier else None)
    return done("sent", "lists.show_folder", name="Inbox")


def write(sender: str, addresses: list[str], subject: str, body: str, kind: str, refers: int | None) -> None:
    """Store a sent message and mark it as read; `refers` is the id of the message answered or forwarded, or None."""
    row = (sender, ", ".join(addresses), subject, body, state().now.isoformat(timespec="minutes"), kind, refers)
    query = (
        "INSERT INTO message (folder, sender, recipients, subject, body, sent, starred, kind, refers) "
        "VALUES ('Sent', ?, ?, ?, ?, ?, 0, ?, ?)"
    )
    run("INSERT INTO trace_opened VALUES (?)", run(query, *row))


def first_recipients(kind: str, earlier: sqlite3.Row | None) -> str:
    """Return the recipients that the form of a new message, reply or forward initially contains."""
    if earlier is None:
        return request.args.get("to", "")
    if kind == "forward":
        return ""
    others = [address for address in earlier["recipients"].split(", ") if address != me().email]
    own = earlier["sender"] == me().email
    return names_of(", ".join(others if own else [earlier["sender"], *(others if kind == "reply_all" else [])]))


def first_subject(kind: str, earlier: sqlite3.Row | None) -> str:
    """Return the subject that the form of a new message, reply or forward initially contains."""
    if earlier is None:
        return ""
    start = KINDS[kind]
    return earlier["subject"] if earlier["subject"].startswith(start) else f"{start}{earlier['subject']}"
