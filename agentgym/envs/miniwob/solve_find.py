"""Solvers of tasks that require finding an item first, such as a mail, a post, a result or a contact."""

import re

from agentgym.browser.observation import Element
from agentgym.envs.miniwob.page import Page, Solver, click, entered, nth


def _styles(e: Element) -> set[str]:
    return set(e.fact("class").split())


def _thread(page: Page, sender: str) -> list[Element]:
    """Return the elements of a sender's mail in the list of mails."""
    messages: list[Element] = []
    inside = False
    for e in page.elements:
        if "email-sender" in _styles(e):
            inside = e.name == sender
        if inside:
            messages.append(e)
    return messages


def email_delete(page: Page) -> str:
    return _in_thread(page, "trash")


def email_important(page: Page) -> str:
    return _in_thread(page, "star")


def _in_thread(page: Page, style: str) -> str:
    if not page.all(style="email-thread"):
        return _home(page)
    sender = page.match(r"email by (.+?) and ")[1]
    return click(next(e for e in _thread(page, sender) if style in _styles(e)))


def _home(page: Page) -> str:
    """Return the click that closes an open mail or the search."""
    return click(next(e for e in page.elements if e.fact("id").startswith("close-") or e.fact("id") == "search-cancel"))


def email(page: Page) -> str:
    if "trash" in page.goal:
        return email_delete(page)
    if "star" in page.goal:
        return email_important(page)
    return email_write(page)


def email_write(page: Page) -> str:
    """Return the next action for replying to or forwarding a mail: open it, choose, fill in the form, send."""
    kind = "reply" if "reply" in page.goal else "forward"
    sender = page.match(r"email by (.+?) and ")[1]
    text = page.quoted()[0] if kind == "reply" else page.match(r"forward that email to (.+)\.")[1]
    if page.has(f"send-{kind}"):
        field = next(e for e in page.all("textbox") if e.has("multiline") == (kind == "reply"))
        right = sender in (e.name for e in page.elements) or kind == "forward"
        return (entered(page, (field, text)) or click(page.known(f"send-{kind}"))) if right else _home(page)
    if page.all(style="email-thread") and page.has("open-search"):
        return click(next(e for e in _thread(page, sender) if "email-subject" in _styles(e)))
    opened = any("email-sender" in _styles(e) and e.name == sender for e in page.elements)
    buttons = page.all(None, kind.capitalize())
    return click(buttons[0]) if opened and buttons else _home(page)


def social_media(page: Page) -> str:
    """Return the click on a button of a user's post, or on the post's menu if the button is not displayed.

    Raises:
        LookupError: the page has no post of that user.
    """
    user, action = page.match(r"For the user (@\S+), click on the \"(.*)\" button").groups()
    style = {"Reply": "reply", "Retweet": "retweet", "Like": "like"}.get(action)
    author = ""
    for e in page.elements:
        if "username" in _styles(e):
            author = e.name
        elif author == user and (style in _styles(e) if style else e.name in (action, f"{action} {user}")):
            return click(e)
    for e in page.elements:
        if "username" in _styles(e):
            author = e.name
        elif author == user and "more" in _styles(e):
            return click(e)
    raise LookupError(f"no post by {user}")


def search_engine(page: Page) -> str:
    text, which = page.quoted()[0], nth(page.match(r"click the (\w+) search result")[1])
    pages = page.all("link", style="page-link")
    field = page.one("textbox")
    if field.fact("value") != text or not pages:
        return entered(page, (field, text)) or click(page.one("button", "Search"))
    active = next((int(m[1]) for t in page.texts if (m := re.search(r"page (\d)", t))), 1)
    results = page.all("link", style="search-title")
    page_number = which // 3 + 1
    current = _current(page) or active
    if current == page_number:
        return click(results[which % 3])
    return click(next(e for e in pages if e.name == str(page_number)))


def _current(page: Page) -> int | None:
    """Return the number of the current page of results (the item with the CSS class `active`); None if unknown."""
    for number, text in enumerate(page.texts):
        if "active" in text and "page-item" in text:
            match = re.search(r'"(\d+)"', text) or re.search(r'"(\d+)"', page.texts[number + 1])
            return int(match[1]) if match else None
    return None


def phone_book(page: Page) -> str:
    name, what = page.match(r"Find (.*) in the contact book and click on their (\w+)").groups()
    if page.one("heading").name == name:
        style = {"email": "email", "phone": "phone", "address": "address"}[what]
        return click(page.one(None, None, style))
    later = page.all("link", ">", "page-link")
    disabled = any("disabled" in t and "next" in t for t in page.texts)
    earlier = page.all("link", "<", "page-link")
    return click(later[0] if later and not disabled else earlier[0])


SOLVERS: dict[str, Solver] = {
    "email-inbox-delete": email_delete,
    "email-inbox-noscroll": email,
    "email-inbox-important": email_important,
    "email-inbox-star-reply": email,
    "email-inbox-reply": email_write,
    "email-inbox-forward": email_write,
    "email-inbox": email,
    "social-media": social_media,
    "search-engine": search_engine,
    "phone-book": phone_book,
}
