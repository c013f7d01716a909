"""Task families of the wiki: facts several links away, and editing, restoring, creating and watching pages."""

from collections.abc import Generator

import numpy as np

from agentgym.envs.web import words
from agentgym.envs.web.family import Ask, Made, NoSubject, TaskFamily, absent, change_data, every_page, question
from agentgym.envs.web.plan import Answer, Click, Fill, Goto, ImpossibleTask, Page, Plan, Select, Step
from agentgym.envs.web.sites.wiki.data import CATEGORIES, town_name
from agentgym.envs.web.state import EpisodeState

WIKI = "http://wiki.test"
NUMBERS = ("Population", "Founded", "Mayor", "Postcode")


def facts_of(state: EpisodeState, title: str) -> dict[str, str]:
    """Return the facts of a page by name; links appear as the titles of their pages."""
    text: str = state.one("wiki", "SELECT facts FROM page WHERE title = ?", title)
    pairs = (line.partition(": ") for line in text.split("\n"))
    return {name: value.replace("[[", "").replace("]]", "") for name, _, value in pairs}


def titles_of(state: EpisodeState, category: str) -> list[str]:
    """Return the titles of a category's pages."""
    return [row["title"] for row in state.rows("wiki", "SELECT title FROM page WHERE category = ? ORDER BY id", category)]


def find_page(title: str) -> Generator[Step, Page, bool]:
    """Search for a page; return whether the results link to it."""
    yield Goto(f"{WIKI}/all")
    yield Fill("Contains", title)
    page = yield Click("button", "Apply filters")
    while not page.has("link", title):
        if not page.has("link", "Next page"):
            return False
        page = yield Click("link", "Next page")
    return True


def open_page(title: str) -> Generator[Step, Page, Page]:
    """Search for a page and open it.

    Raises:
        ImpossibleTask: there is no such page.
    """
    if not (yield from find_page(title)):
        raise ImpossibleTask
    return (yield Click("link", title))


def save(summary: str) -> Generator[Step, Page, Page]:
    """Enter the summary of an edit, and save the page."""
    yield Fill("Summary", summary)
    return (yield Click("button", "Save page"))


def write(state: EpisodeState, title: str, facts: str, body: str, summary: str) -> None:
    """Insert a new version of a page, written by the user, as the site would."""
    state.change("wiki", "UPDATE page SET facts = ?, body = ? WHERE title = ?", facts, body, title)
    sql = "INSERT INTO version SELECT NULL, id, ?, ?, ?, facts, body FROM page WHERE title = ?"
    state.change("wiki", sql, state.me.username, f"{state.now:%Y-%m-%d %H:%M}", summary, title)


class Fact(TaskFamily):
    """Find a fact about a town, or about its twin town, the twin town's twin town, and so on."""

    name = "wiki-fact"
    sites = ("wiki",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        towns, fact = titles_of(state, "Towns"), words.pick(rng, NUMBERS)
        hops = int(rng.integers(0, 2 + difficulty))
        start = words.pick(rng, towns) if possible else absent(towns, lambda: town_name(rng))
        at = start
        for _ in range(hops if possible else 0):
            at = facts_of(state, at)["Twin town"]
        phrase = "the twin town of " * hops + start
        text = f'What does the wiki give as "{fact}" for {phrase}? Answer with just that.'
        answer = facts_of(state, at)[fact] if possible else ""
        return text, question({"town": start, "hops": hops, "fact": fact}, answer)

    def solve(self, ask: Ask) -> Plan:
        page = yield from open_page(ask["town"])
        for _ in range(ask["hops"]):
            page = yield Click("link", page.fact("Twin town"))
        yield Answer(page.fact(ask["fact"]))


class Largest(TaskFamily):
    """Find the largest, smallest, oldest or youngest town in the region of a town."""

    name = "wiki-region"
    sites = ("wiki",)
    always_possible = True

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        start, most = words.pick(rng, titles_of(state, "Towns")), bool(rng.random() < 0.5)
        region = facts_of(state, start)["Region"]
        fact = words.pick(rng, NUMBERS[:2])
        values = {town: int(facts_of(state, town)[fact]) for town in facts_of(state, region)["Towns"].split(", ")}
        best = (max if most else min)(values.values())
        answers = [town for town, value in values.items() if value == best]
        if len(answers) > 1 or answers == [start]:
            raise NoSubject
        what = {
            ("Population", True): "has the largest population",
            ("Population", False): "has the smallest population",
            ("Founded", True): "was founded last",
            ("Founded", False): "was founded first",
        }[fact, most]
        text = f"According to the wiki, which town in the region of {start} {what}? Answer with its name."
        return text, question({"town": start, "fact": fact, "most": most}, answers[0])

    def solve(self, ask: Ask) -> Plan:
        page = yield from open_page(ask["town"])
        page = yield Click("link", page.fact("Region"))
        region, values = page.url, dict[str, int]()
        row = next(row for row in page.root.all("row") if row.children[0].text == "Towns")
        for link in row.all("link"):
            yield Goto(region)
            page = yield Click("link", link.name)
            values[link.name] = int(page.fact(ask["fact"]))
        yield Answer((max if ask["most"] else min)(values, key=lambda town: values[town]))


class Editor(TaskFamily):
    """Find the author of a change to a page, given the change's summary."""

    name = "wiki-editor"
    sites = ("wiki",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        names = {person.username: person.name for person in state.setting.people}
        sql = """SELECT title, summary, username FROM version JOIN page ON page.id = page
            GROUP BY page, summary HAVING count(*) = 1 AND summary <> 'New page' ORDER BY version.id"""
        rows = state.rows("wiki", sql)
        row = words.pick(rng, rows)
        summary = row["summary"]
        if not possible:
            sql = "SELECT summary FROM version JOIN page ON page.id = page WHERE title = ?"
            own = [version_row["summary"] for version_row in state.rows("wiki", sql, row["title"])]
            others = sorted({version_row["summary"] for version_row in rows} - set(own))
            summary = words.pick(rng, others)
        text = f'Who changed the page {row["title"]} of the wiki with the summary "{summary}"? Answer with the full name.'
        return text, question({"page": row["title"], "summary": summary}, names[row["username"]])

    def solve(self, ask: Ask) -> Plan:
        yield from open_page(ask["page"])
        page = yield Click("link", "History")
        rows = yield from every_page(page, "Version")
        editor = next((row["Editor"] for row in rows if row["Summary"] == ask["summary"]), None)
        if editor is None:
            raise ImpossibleTask
        yield Answer(editor)


class EditFact(TaskFamily):
    """Change facts of a page."""

    name = "wiki-edit"
    sites = ("wiki",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        towns = titles_of(state, "Towns")
        town = words.pick(rng, towns) if possible else absent(towns, lambda: town_name(rng))
        news = {
            "Population": str(int(rng.integers(1000, 90_000))),
            "Founded": str(int(rng.integers(900, 1900))),
            "Mayor": f"{words.pick(rng, words.FIRST_NAMES)} {words.pick(rng, words.LAST_NAMES)}",
            "Postcode": f"{int(rng.integers(10000, 100000))}",
        }
        names = [NUMBERS[int(i)] for i in rng.permutation(4)[: min(1 + difficulty, 4)]]
        change = {name: news[name] for name in sorted(names)}
        phrase = " and ".join(f"{name} to {value}" for name, value in change.items())
        summary = words.sentence(rng).removesuffix(".")
        text = f'On the page {town} of the wiki, change {phrase}, in one edit with the summary "{summary}".'
        return text, change_data({"page": town, "change": change, "summary": summary})

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        row = state.rows("wiki", "SELECT facts, body FROM page WHERE title = ?", ask["page"])[0]
        write(state, ask["page"], changed(row["facts"], ask["change"]), row["body"], ask["summary"])

    def solve(self, ask: Ask) -> Plan:
        page = yield from open_page(ask["page"])
        page = yield Click("link", "Edit page")
        field = page.find("textbox", "Facts")
        assert field is not None
        yield Fill("Facts", changed(field.value, ask["change"]))
        yield from save(ask["summary"])


def changed(facts: str, change: dict[str, str]) -> str:
    """Return facts, one `Name: value` per line, with the new values that `change` has by name."""
    lines = [line.partition(":") for line in facts.split("\n")]
    return "\n".join(f"{name}: {change.get(name, value.strip())}" for name, _, value in lines)


class Append(TaskFamily):
    """Add sentences to the end of a page's text."""

    name = "wiki-append"
    sites = ("wiki",)
    always_possible = True

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        title = words.pick(rng, titles_of(state, words.pick(rng, CATEGORIES)))
        ask = {"page": title, "more": words.paragraph(rng, 1 + difficulty), "summary": words.sentence(rng).removesuffix(".")}
        text = (
            f'Add this at the end of the text of the page {title} in the wiki, after a space: "{ask["more"]}" '
            f'Use the summary "{ask["summary"]}".'
        )
        return text, change_data(ask)

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        row = state.rows("wiki", "SELECT facts, body FROM page WHERE title = ?", ask["page"])[0]
        write(state, ask["page"], row["facts"], f"{row['body']} {ask['more']}", ask["summary"])

    def solve(self, ask: Ask) -> Plan:
        yield from open_page(ask["page"])
        page = yield Click("link", "Edit page")
        field = page.find("textbox", "Text")
        assert field is not None
        yield Fill("Text", f"{field.value} {ask['more']}")
        yield from save(ask["summary"])


class Revert(TaskFamily):
    """Restore the version of a page from just before a person's change."""

    name = "wiki-revert"
    sites = ("wiki",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        names = {person.username: person.name for person in state.setting.people}
        sql = """SELECT title, (SELECT username FROM version WHERE page = page.id ORDER BY id DESC LIMIT 1) AS editor
            FROM page WHERE (SELECT count(*) FROM version WHERE page = page.id) > 1 ORDER BY page.id"""
        row = words.pick(rng, state.rows("wiki", sql))
        editor = names[row["editor"]]
        if not possible:
            sql = "SELECT username FROM version JOIN page ON page.id = page WHERE title = ?"
            own = [names[version_row["username"]] for version_row in state.rows("wiki", sql, row["title"])]
            editor = absent(own, lambda: words.pick(rng, state.setting.others).name)
        text = (
            f"{editor} has vandalized the page {row['title']} of the wiki. Restore the version that was there just before "
            f"{editor}'s change."
        )
        return text, change_data({"page": row["title"], "editor": editor})

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        names = {person.username: person.name for person in state.setting.people}
        sql = "SELECT version.* FROM version JOIN page ON page.id = page WHERE title = ? ORDER BY version.id DESC"
        old = state.rows("wiki", sql, ask["page"])[1]
        write(state, ask["page"], old["facts"], old["body"], f"Restored the version of {names[old['username']]}")

    def solve(self, ask: Ask) -> Plan:
        yield from open_page(ask["page"])
        page = yield Click("link", "History")
        rows = page.records("Version")
        place = next((at for at, row in enumerate(rows) if row["Editor"] == ask["editor"]), None)
        if place is None or place + 1 == len(rows):
            raise ImpossibleTask
        yield Click("link", rows[place + 1]["Version"])
        yield Click("button", "Restore this version")


class Create(TaskFamily):
    """Create a page; impossible if the page exists already."""

    name = "wiki-create"
    sites = ("wiki",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        towns = titles_of(state, "Towns")
        title = absent(towns, lambda: town_name(rng)) if possible else words.pick(rng, towns)
        facts = {"Population": str(int(rng.integers(1000, 90_000))), "Founded": str(int(rng.integers(900, 1900)))}
        ask = {"title": title, "facts": facts, "body": words.paragraph(rng, 1 + difficulty)}
        pairs = " and ".join(f"{name} {value}" for name, value in facts.items())
        text = (
            f'Create a page {title} in the category Towns of the wiki, with the facts {pairs} (in this order) and the text "'
            f'{ask["body"]}"'
        )
        return text, change_data(ask)

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        state.change("wiki", "INSERT INTO page VALUES (NULL, ?, 'Towns', '', '')", ask["title"])
        write(state, ask["title"], _lines(ask["facts"]), ask["body"], "New page")

    def solve(self, ask: Ask) -> Plan:
        if (yield from find_page(ask["title"])):
            raise ImpossibleTask
        yield Goto(f"{WIKI}/new")
        yield Fill("Title", ask["title"])
        yield Select("Category", "Towns")
        yield Fill("Facts", _lines(ask["facts"]))
        yield Fill("Text", ask["body"])
        yield Click("button", "Create page")


def _lines(facts: dict[str, str]) -> str:
    return "\n".join(f"{name}: {value}" for name, value in facts.items())


class Watch(TaskFamily):
    """Add every page that links to a given page to the watch list."""

    name = "wiki-watch"
    sites = ("wiki",)
    always_possible = True

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        title = words.pick(rng, titles_of(state, words.pick(rng, ("Towns", "Towns", "Rivers", "Regions"))))
        if not self._pages(state, title):
            raise NoSubject
        return f"Put every page of the wiki that links to the page {title} on my watch list.", change_data({"page": title})

    def _pages(self, state: EpisodeState, title: str) -> list[int]:
        """Return the ids of the unwatched pages that link to the page with this title."""
        sql = "SELECT id FROM page WHERE instr(facts, ?) AND id NOT IN (SELECT page FROM watch)"
        return [row["id"] for row in state.rows("wiki", sql, f"[[{title}]]")]

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        for id in self._pages(state, ask["page"]):
            state.change("wiki", "INSERT INTO watch VALUES (?)", id)

    def solve(self, ask: Ask) -> Plan:
        yield from open_page(ask["page"])
        page = yield Click("link", "What links here")
        here = page.url
        for row in page.records("Page"):
            yield Goto(here)
            page = yield Click("link", row["Page"])
            if page.has("button", "Watch this page"):
                yield Click("button", "Watch this page")


FAMILIES: tuple[TaskFamily, ...] = (
    Fact(),
    Largest(),
    Editor(),
    EditFact(),
    Append(),
    Revert(),
    Create(),
    Watch(),
)
