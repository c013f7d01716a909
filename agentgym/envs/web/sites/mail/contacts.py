"""Pages of contacts, the people the user writes to."""

import re
import sqlite3

from flask import Blueprint, render_template, request
from flask.typing import ResponseReturnValue

from agentgym.envs.web.sites.frame import done, field, like, refused, slice_of, state
from agentgym.envs.web.sites.queries import many, maybe, one, run

FIELDS = ("name", "email", "phone", "company")
PAGE = 20
"""Contacts per page in the list view."""
pages = Blueprint("contacts", __name__)


def name_of(email: str) -> str:
    """Return the name for a mail address; the address itself if it is unknown."""
    if email == state().me.email:
        return state().me.name
    name = maybe("SELECT name FROM contact WHERE email = ?", email)
    return name["name"] if name else email


def names_of(emails: str) -> str:
    """Return the comma-separated names for comma-separated mail addresses."""
    return ", ".join(name_of(email) for email in emails.split(", "))


def addresses_of(text: str) -> tuple[list[str], list[str]]:
    """Parse comma-separated names or addresses; return distinct addresses, and the unknown names."""
    known = {row["name"].lower(): row["email"] for row in many("SELECT name, email FROM contact")}
    known[state().me.name.lower()] = state().me.email
    words = [word.strip() for word in text.replace(";", ",").split(",") if word.strip()]
    addresses = {word: known.get(word.lower(), word.lower() if is_address(word) else "") for word in words}
    return sorted({email for email in addresses.values() if email}), [word for word, email in addresses.items() if not email]


def is_address(text: str) -> bool:
    """Return whether a text looks like a mail address."""
    return re.fullmatch(r"[\w.+-]+@[\w-]+(\.[\w-]+)+", text, re.ASCII) is not None


@pages.get("/contacts")
def index() -> ResponseReturnValue:
    """List the contacts, optionally filtered by a phrase."""
    phrase = request.args.get("q", "").strip()
    query = "SELECT * FROM contact WHERE name LIKE ? ESCAPE '\\' OR email LIKE ? ESCAPE '\\' ORDER BY name, id"
    return render_template("contacts.html", found=slice_of(query, [like(phrase)] * 2, PAGE), phrase=phrase)


@pages.get("/contacts/<int:contact_id>")
def show(contact_id: int) -> ResponseReturnValue:
    """Show a contact."""
    return render_template("contact.html", contact=one("SELECT * FROM contact WHERE id = ?", contact_id))


@pages.route("/contacts/new", methods=["GET", "POST"], defaults={"contact_id": None})
@pages.route("/contacts/<int:contact_id>/edit", methods=["GET", "POST"])
def edit(contact_id: int | None) -> ResponseReturnValue:
    """Create a contact if `contact_id` is None, else change a contact."""
    contact: sqlite3.Row | None = None
    if contact_id is not None:
        contact = one("SELECT * FROM contact WHERE id = ?", contact_id)
    if request.method == "GET":
        values = dict(contact) if contact else {**dict.fromkeys(FIELDS, ""), "email": request.args.get("email", "")}
        return render_template("contact_form.html", contact=contact, values=values, errors=[])
    values = {name: field(name, 120) for name in FIELDS}
    values["email"] = values["email"].lower()
    errors: list[str] = []
    if not values["name"] or "," in values["name"]:
        errors.append("Name: enter a name without a comma.")
    if not is_address(values["email"]):
        errors.append(f"Address: {values['email'] or 'nothing'} is not a mail address.")
    elif maybe("SELECT id FROM contact WHERE email = ? AND id IS NOT ?", values["email"], contact_id):
        errors.append(f"Address: there is a contact with {values['email']} already.")
    if errors:
        return refused("contact_form.html", errors, contact=contact, values=values)
    if contact is None:
        contact_id = run("INSERT INTO contact (name, email, phone, company) VALUES (?, ?, ?, ?)", *values.values())
    else:
        run("UPDATE contact SET name = ?, email = ?, phone = ?, company = ? WHERE id = ?", *values.values(), contact_id)
    return done("contact", "contacts.show", contact_id=contact_id)


@pages.post("/contacts/<int:contact_id>/delete")
def delete(contact_id: int) -> ResponseReturnValue:
    """Delete a contact."""
    one("SELECT id FROM contact WHERE id = ?", contact_id)
    run("DELETE FROM contact WHERE id = ?", contact_id)
    return done("uncontact", "contacts.index")
