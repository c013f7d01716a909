"""Task families that ask about the tracker, and the steps shared by all its families."""

import re
from collections import Counter
from collections.abc import Callable, Generator
from itertools import product

import numpy as np

from agentgym.envs.web.family import Ask, Made, NoSubject, TaskFamily, absent, every_page, ordinal, question
from agentgym.envs.web.plan import Answer, Click, Fill, Goto, ImpossibleTask, Page, Plan, Select, Step
from agentgym.envs.web.sites.tracker.data import unused_titles
from agentgym.envs.web.sites.tracker.words import FIRST, LABELS, SECOND, SETTINGS
from agentgym.envs.web.state import EpisodeState
from agentgym.envs.web.words import FIRST_NAMES, LAST_NAMES, pick

TRACKER = "http://tracker.test"
CONTAINS, FILTER = "Contains", Click("button", "Filter")


def open_issue(project: str, title: str) -> Generator[Step, Page, Page]:
    """Search a project for an issue in any state, and go to its page; raise ImpossibleTask if there is none."""
    return (yield from _open(f"{TRACKER}/{project}/issues", title))


def open_request(project: str, title: str) -> Generator[Step, Page, Page]:
    """Search a project for a merge request in any state, and go to its page; raise ImpossibleTask if there is none."""
    return (yield from _open(f"{TRACKER}/{project}/merge_requests", title))


def _open(url: str, title: str) -> Generator[Step, Page, Page]:
    yield Goto(url)
    yield Fill(CONTAINS, title)
    yield Select("Status", "all")
    page = yield FILTER
    if not page.has("link", title):
        raise ImpossibleTask
    return (yield Click("link", title))


def username(name: str) -> str:
    """Return the user name of the person with this full name."""
    return name.lower().replace(" ", ".")


def names(state: EpisodeState) -> dict[str, str]:
    """Return a dict from user name to full name."""
    return {person.username: person.name for person in state.setting.people}


def draw_project(rng: np.random.Generator, state: EpisodeState) -> tuple[int, str]:
    """Draw a project; return its id and slug."""
    row = pick(rng, state.rows("tracker", "SELECT id, slug FROM project ORDER BY id"))
    return row["id"], row["slug"]


def labels_of(state: EpisodeState, project: int) -> list[str]:
    """Return the names of a project's labels."""
    return [row["name"] for row in state.rows("tracker", "SELECT name FROM label WHERE project_id = ? ORDER BY id", project)]


def foreign_label(rng: np.random.Generator, state: EpisodeState, project: int) -> str:
    """Return a label that a project does not have."""
    known = labels_of(state, project)
    return pick(rng, [name for name in LABELS if name not in known])


def list_labels(project: str, label: str) -> Plan:
    """Open a project's list of labels.

    Raises:
        ImpossibleTask: the project does not have the label.
    """
    page = yield Goto(f"{TRACKER}/{project}/labels")
    if all(row["Label"] != label for row in page.records("Label")):
        raise ImpossibleTask


def nobody(rng: np.random.Generator, state: EpisodeState) -> str:
    """Return a full name that no person has."""
    known = [person.name for person in state.setting.people]
    return absent(known, lambda: f"{pick(rng, FIRST_NAMES)} {pick(rng, LAST_NAMES)}")


def absent_title(rng: np.random.Generator, state: EpisodeState) -> str:
    """Return an issue title that no issue in the tracker has."""
    known = [row["title"] for row in state.rows("tracker", "SELECT title FROM issue")]
    return absent(known, lambda: unused_titles(rng, 1)[0])


_TELLS = {"label": 'have the label "{}"', "assignee": "are assigned to {}", "author": "were opened by {}"}
_EVERYTHING = ("all", "", "", "")  # the same for every project, so not a question


class CountIssues(TaskFamily):
    """Count the issues of a project with a given status, label, assignee and author."""

    name = "tracker-count"
    sites = ("tracker",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        project, slug = draw_project(rng, state)
        counts = self._counts(state, project, 1 + difficulty)
        target = pick(rng, sorted(set(counts.values())))  # drawn first, since most combinations have one or two
        status, label, assignee, author = pick(rng, sorted(key for key, count in counts.items() if count == target))
        ask = {"project": slug, "status": status, "label": label, "assignee": assignee, "author": author}
        if not possible:
            self._spoil(rng, state, project, ask)
        parts = ["are open or closed" if status == "all" else f"are {status}"]
        parts += [
            template.format("nobody" if ask[key] == "none" else ask[key]) for key, template in _TELLS.items() if ask[key]
        ]
        text = (
            f"How many issues of the project {ask['project']} in the tracker {' and '.join(parts)}? Answer with the number."
        )
        return text, question(ask, target)

    def _spoil(self, rng: np.random.Generator, state: EpisodeState, project: int, ask: Ask) -> None:
        """Replace a random name in `ask` (project, label, assignee or author) by a name that matches nothing."""
        slugs = [row["slug"] for row in state.rows("tracker", "SELECT slug FROM project")]
        names: dict[str, Callable[[], str]] = {
            "project": lambda: absent(slugs, lambda: f"{pick(rng, FIRST)}-{pick(rng, SECOND)}"),
            "label": lambda: foreign_label(rng, state, project),
            "assignee": lambda: nobody(rng, state),
            "author": lambda: nobody(rng, state),
        }
        key = pick(rng, [key for key in names if ask[key] not in ("", "none")])
        ask[key] = names[key]()

    def _counts(self, state: EpisodeState, project: int, most: int) -> Counter[tuple[str, str, str, str]]:
        """Count a project's issues by (status, label, assignee, author).

        `all` stands for any status, "" for any label, assignee or author, and "none" for no assignee. A combination may
        name at most `most` of label, assignee and author. The number of all issues is left out.
        """
        people, labels = names(state), dict[int, list[str]]()
        sql = "SELECT issue_id, name FROM issue_label JOIN label ON label.id = label_id WHERE project_id = ?"
        for row in state.rows("tracker", sql, project):
            labels.setdefault(row["issue_id"], []).append(row["name"])
        counts: Counter[tuple[str, str, str, str]] = Counter()
        for row in state.rows("tracker", "SELECT id, state, assignee, author FROM issue WHERE project_id = ?", project):
            kinds = product(
                (row["state"], "all"),
                ("", *labels.get(row["id"], [])),
                ("", people.get(row["assignee"], "none")),
                ("", people[row["author"]]),
            )
            counts.update(kind for kind in kinds if kind != _EVERYTHING and sum(map(bool, kind[1:])) <= most)
        return counts

    def solve(self, ask: Ask) -> Plan:
        if ask["label"]:
            yield from list_labels(ask["project"], ask["label"])
        people = {ask["assignee"], ask["author"]} - {"", "none"}
        if people:
            page = yield Goto(f"{TRACKER}/people")
            if not all(page.has("link", name) for name in people):
                raise ImpossibleTask
        page = yield Goto(f"{TRACKER}/{ask['project']}/issues")
        if not page.has("button", "Filter"):
            raise ImpossibleTask
        yield Select("Status", ask["status"])
        for key in _TELLS:
            if ask[key]:
                yield Select(key.capitalize(), ask[key])
        rows = yield from every_page((yield FILTER), "Title")
        yield Answer(str(len(rows)))


class Assignee(TaskFamily):
    """Find the assignee or the author of an issue."""

    name = "tracker-assignee"
    sites = ("tracker",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        rows = state.rows(
            "tracker",
            "SELECT title, slug, assignee, author FROM issue JOIN project ON project.id = project_id "
            "WHERE assignee <> '' AND assignee <> author ORDER BY issue.id",
        )
        row = pick(rng, rows)
        title = row["title"] if possible else absent_title(rng, state)
        kinds = (("who is", " assigned to", "assignee"), ("who opened", "", "author"))
        asks, ends, key = kinds[int(rng.integers(2))]
        text = f'In the tracker, {asks} the issue "{title}" of the project {row["slug"]}{ends}? Answer with the full name.'
        ask = {"project": row["slug"], "title": title, "fact": key.capitalize()}
        return text, question(ask, names(state)[row[key]])

    def solve(self, ask: Ask) -> Plan:
        page = yield from open_issue(ask["project"], ask["title"])
        yield Answer(page.fact(ask["fact"]))


class Busiest(TaskFamily):
    """Find the person with the most (or the second most, and so on) open issues of a project."""

    name = "tracker-busiest"
    sites = ("tracker",)
    always_possible = True

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        project, slug = draw_project(rng, state)
        query = "SELECT assignee FROM issue WHERE project_id = ? AND state = 'open' AND assignee <> ''"
        people = names(state)
        order = ranked(Counter(people[row["assignee"]] for row in state.rows("tracker", query, project)))
        if not order:
            raise NoSubject
        place = 1 + int(rng.integers(0, min(1 + difficulty, len(order))))
        text = (
            f"Who has the {ordinal(place)}most open issues assigned to them in the project {slug} in the tracker? Break "
            "ties by full name, in alphabetical order. Answer with the full name."
        )
        return text, question({"project": slug, "place": place}, order[place - 1])

    def solve(self, ask: Ask) -> Plan:
        page = yield Goto(f"{TRACKER}/{ask['project']}/issues")
        rows = yield from every_page(page, "Title")
        order = ranked(Counter(row["Assignee"] for row in rows if row["Assignee"] != "none"))
        yield Answer(order[int(ask["place"]) - 1])


def ranked(counts: Counter[str]) -> list[str]:
    """Return the names by descending count, ties in alphabetical order."""
    return sorted(counts, key=lambda name: (-counts[name], name))


class NewValue(TaskFamily):
    """Find the value that a merge request's diff gives to a setting."""

    name = "tracker-diff"
    sites = ("tracker",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        rows = state.rows(
            "tracker",
            "SELECT m.title, slug, path, diff FROM change JOIN merge_request AS m ON m.id = merge_request_id JOIN project "
            "ON project.id = m.project_id WHERE (SELECT COUNT(*) FROM merge_request AS other WHERE other.project_id = "
            "m.project_id AND other.title = m.title) = 1 ORDER BY change.id",
        )
        row = pick(rng, rows)
        setting, value = next(
            line[1:].split(" = ") for line in row["diff"].split("\n") if line.startswith("+") and " = " in line
        )
        if not possible:
            number = re.search(r"(_\d+)?$", setting)
            assert number is not None
            diffs = " ".join(
                other["diff"] for other in rows if (other["title"], other["slug"]) == (row["title"], row["slug"])
            )
            known = re.findall(r"[A-Z_]+(?:_\d+)?(?= = )", diffs)
            setting = absent(known, lambda: pick(rng, SETTINGS).upper().replace(" ", "_") + number[0])
        text = (
            f'What value does the merge request "{row["title"]}" of the project {row["slug"]} in the tracker give to '
            f"{setting} in {row['path']}? Answer with the value."
        )
        ask = {"project": row["slug"], "title": row["title"], "setting": setting, "path": row["path"]}
        return text, question(ask, value)

    def solve(self, ask: Ask) -> Plan:
        yield from open_request(ask["project"], ask["title"])
        page = yield Click("link", "Changes")
        start = f"+{ask['setting']} = "
        for article in page.root.all("article"):
            lines = [node.text for node in article.walk()]
            if ask["path"] in lines and any(line.startswith(start) for line in lines):
                yield Answer(next(line for line in lines if line.startswith(start)).removeprefix(start))
        raise ImpossibleTask
