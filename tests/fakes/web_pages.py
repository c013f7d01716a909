"""A browser of text over Flask's test clients: enough to follow plans without Chromium, with Chromium's roles and names."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urlencode, urljoin, urlsplit

from werkzeug.test import Client

from agentgym.core.seeding import generator
from agentgym.envs.web.plan import Answer, Fill, Goto, Node, Page, Select, Step, target
from agentgym.envs.web.sites import apps
from agentgym.envs.web.state import EpisodeState

VOID = {"input", "br", "hr", "img", "link", "meta"}
ROLES = {
    **dict.fromkeys(("h1", "h2", "h3", "h4"), "heading"),
    "a": "link",
    "button": "button",
    "textarea": "textbox",
    "select": "combobox",
    "option": "option",
    "table": "table",
    "tr": "row",
    "td": "cell",
    "ul": "list",
    "ol": "list",
    "li": "listitem",
    "article": "article",
    "nav": "navigation",
    "p": "paragraph",
    "main": "main",
    "header": "banner",
    "footer": "contentinfo",
}
INPUTS = {"text": "textbox", "password": "textbox", "search": "searchbox", "checkbox": "checkbox", "number": "spinbutton",
          "submit": "button", "radio": "radio", "date": "Date", "email": "textbox"}  # fmt: skip
NAMED = {"heading", "link", "button", "cell", "columnheader", "rowheader", "option", "paragraph", "listitem"}


@dataclass
class Element:
    tag: str
    attrs: dict = field(default_factory=dict)
    children: list = field(default_factory=list)
    parent: "Element | None" = None
    number: int = 0

    def walk(self):
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child.walk()

    @property
    def text(self):
        parts = [child if isinstance(child, str) else child.text for child in self.children]
        return " ".join("".join(parts if self.tag not in ("tr",) else " ".join(parts)).split())

    def above(self, tag):
        at = self.parent
        while at is not None and at.tag != tag:
            at = at.parent
        return at


class Parser(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.top = self.at = Element("#document")

    def handle_starttag(self, tag, attrs):
        if tag in ("li", "tr", "td", "th", "option", "p") and self.at.tag == tag:
            self.at = self.at.parent
        child = Element(tag, {key: value or "" for key, value in attrs}, [], self.at)
        self.at.children.append(child)
        if tag not in VOID:
            self.at = child

    def handle_endtag(self, tag):
        at = self.at
        while at is not None and at.tag != tag:
            at = at.parent
        assert at is not None or tag in VOID, f"</{tag}> closes nothing"
        if at is not None:
            assert at is self.at, f"</{tag}> closes <{self.at.tag}>"
            self.at = at.parent

    def handle_data(self, data):
        self.at.children.append(data)


class TextBrowser:
    """One page at a time over the sites of an episode; `act` carries out a step of a plan."""

    def __init__(self, state: EpisodeState):
        self.state, self.answer, self.steps = state, None, 0
        self.clients = {host: Client(app) for host, app in apps().items()}
        self.url, self.top, self.status, self.html = "about:blank", Element("#document"), 200, ""

    def request(self, method, url, fields=()):
        for _ in range(5):
            parts = urlsplit(url)
            path = parts.path + ("?" + parts.query if parts.query else "")
            response = self.clients[parts.netloc].open(
                path or "/",
                base_url=f"http://{parts.netloc}",
                method=method,
                data=urlencode(list(fields)) if method == "POST" else None,
                content_type="application/x-www-form-urlencoded" if method == "POST" else None,
                environ_overrides={"agentgym.episode": self.state},
            )
            if response.status_code not in (301, 302, 303):
                break
            method, fields, url = "GET", (), urljoin(url, response.headers["Location"])
        self.url, self.status, self.html = url, response.status_code, response.get_data(as_text=True)
        assert self.status < 500, f"{method} {url}: {self.status}"
        parser = Parser()
        parser.feed(self.html)
        self.top = parser.top
        return self.page()

    def page(self) -> Page:
        self.elements = list(self.top.walk())
        for number, element in enumerate(self.elements):
            element.number = number
        self.labels = {e.attrs["for"]: e.text for e in reversed(self.elements) if e.tag == "label" and "for" in e.attrs}
        body = next((e for e in self.elements if e.tag == "body"), self.top)
        return Page(self.url, Node("page", children=tuple(self._nodes(body))))

    def _nodes(self, element):
        for child in element.children:
            if isinstance(child, str):
                if child.strip():
                    yield Node("text", " ".join(child.split()))
                continue
            role = self._role(child)
            if child.attrs.get("type") == "hidden" or role == "none":
                continue
            below = tuple(self._nodes(child))
            if role is None:
                yield from below
                continue
            number = str(child.number) if role in (*INPUTS.values(), "link", "button", "combobox") else ""
            yield Node(role, self._name(child, role), number, self._value(child), below)

    def _role(self, e):
        if e.tag == "input":
            return INPUTS.get(e.attrs.get("type", "text"), "none")
        if e.tag == "th":
            return e.attrs.get("role", "columnheader")
        if e.tag == "label":
            return "none"
        return e.attrs.get("role") or ROLES.get(e.tag)

    def _name(self, e, role):
        if "aria-label" in e.attrs:
            return e.attrs["aria-label"]
        if role in NAMED and (role in ("link", "button") or not any(isinstance(c, Element) for c in e.children)):
            return e.text
        if e.tag in ("input", "textarea", "select"):
            return self.labels.get(e.attrs.get("id") or None) or e.attrs.get("title", "")
        return ""

    def _value(self, e):
        if e.tag == "textarea":
            return "".join(child for child in e.children if isinstance(child, str)).removeprefix("\n")
        if e.tag == "select":
            chosen = [o for o in e.walk() if o.tag == "option" and "selected" in o.attrs] or [
                o for o in e.walk() if o.tag == "option"
            ]
            return chosen[0].text if chosen else ""
        if e.tag == "input" and e.attrs.get("type") in ("checkbox", "radio"):
            return "checked" if "checked" in e.attrs else ""
        return e.attrs.get("value", "")

    def act(self, step: Step) -> Page:
        self.steps += 1
        assert self.answer is None, "a step after the answer"
        if isinstance(step, Goto):
            return self.request("GET", step.url)
        if isinstance(step, Answer):
            self.answer = step.text
            return self.page()
        element = self.elements[int(target(step, self.page()).id)]
        if isinstance(step, Fill):
            if element.tag == "textarea":
                element.children = [step.text]
            else:
                element.attrs["value"] = step.text
            return self.page()
        if isinstance(step, Select):
            options = [one for one in element.walk() if one.tag == "option"]
            wanted = next(one for one in options if one.text == step.option)
            for one in options:
                one.attrs.pop("selected", None)
            wanted.attrs["selected"] = ""
            return self.page()
        return self._clicked(element)

    def _clicked(self, element):
        if element.tag == "a":
            return self.request("GET", urljoin(self.url, element.attrs["href"]))
        if element.attrs.get("type") == "checkbox":
            if element.attrs.pop("checked", None) is None:
                element.attrs["checked"] = ""
            return self.page()
        form = element.above("form")
        fields = []
        for e in form.walk():
            if "name" not in e.attrs or (e.tag == "button" and e is not element):
                continue
            if e.tag == "select":
                chosen = [o for o in e.walk() if o.tag == "option" and "selected" in o.attrs] or [
                    o for o in e.walk() if o.tag == "option"
                ]
                fields.append((e.attrs["name"], chosen[0].attrs.get("value", chosen[0].text)))
            elif e.attrs.get("type") in ("checkbox", "radio"):
                if "checked" in e.attrs:
                    fields.append((e.attrs["name"], e.attrs.get("value", "on")))
            elif e.tag in ("input", "textarea", "button"):
                value = self._value(e) if e.tag != "button" else e.attrs.get("value", "")
                fields.append((e.attrs["name"], value.replace("\n", "\r\n")))
        url = urljoin(self.url, form.attrs.get("action") or self.url)
        if form.attrs.get("method", "get").lower() == "post":
            return self.request("POST", url, fields)
        return self.request("GET", url.partition("?")[0] + "?" + urlencode(fields))


def made(family, seed, difficulty=0):
    """Return the episode's state, the instruction and the data of a task; a seed gives all families the same sites."""
    instruction, data = family.draw(generator("test", seed, difficulty), difficulty)
    return EpisodeState(data["seed"], difficulty), instruction, data


def solved(family, seed, difficulty=0):
    """Follow a family's plan; return the browser, the instruction and the data."""
    state, instruction, data = made(family, seed, difficulty)
    browser = TextBrowser(state)
    plan = family.plan(data["ask"])
    step = next(plan)
    while True:
        page = browser.act(step)
        if browser.answer is not None:
            return browser, instruction, data
        step = plan.send(page)
