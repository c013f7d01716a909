"""Task families that change issues, labels, milestones and members of the tracker."""

from datetime import timedelta

import numpy as np

from agentgym.envs.web.family import Ask, Made, TaskFamily, absent, change_data, every_page
from agentgym.envs.web.formats import day
from agentgym.envs.web.plan import Click, Fill, Goto, ImpossibleTask, Plan, Select
from agentgym.envs.web.sites.tracker.data import ROLES
from agentgym.envs.web.sites.tracker.questions import (
    FILTER,
    TRACKER,
    absent_title,
    draw_project,
    foreign_label,
    labels_of,
    list_labels,
    names,
    open_issue,
    username,
)
from agentgym.envs.web.sites.tracker.words import LABELS
from agentgym.envs.web.state import EpisodeState, choose
from agentgym.envs.web.words import FIRST_NAMES, LAST_NAMES, paragraph, pick, sentence

_PROJECT = "(SELECT id FROM project WHERE slug = ?)"


def draw_members(state: EpisodeState, project: int) -> list[str]:
    """Return the full names of a project's members."""
    rows = state.rows("tracker", "SELECT username FROM member WHERE project_id = ? ORDER BY username", project)
    return [names(state)[row["username"]] for row in rows]


def spoken(titles: list[str]) -> str:
    """Return titles as a phrase."""
    return ", ".join(f'"{title}"' for title in titles)


def draw_titles(rng: np.random.Generator, state: EpisodeState, project: int, count: int, possible: bool) -> list[str]:
    """Draw titles of a project's open issues; if not `possible`, one of the titles belongs to no issue."""
    sql = "SELECT title FROM issue WHERE project_id = ? AND state = 'open' ORDER BY id"
    titles = [row["title"] for row in choose(rng, state.rows("tracker", sql, project), count)]
    if not possible:
        titles[int(rng.integers(len(titles)))] = absent_title(rng, state)
    return titles


def label_id(state: EpisodeState, ask: Ask) -> int:
    """Return the id of the task's label."""
    sql = f"SELECT id FROM label WHERE name = ? AND project_id = {_PROJECT}"
    return state.one("tracker", sql, ask["label"], ask["project"])


def insert_issue(state: EpisodeState, ask: Ask) -> None:
    """Insert a new issue as the site would."""
    now = state.now.isoformat(timespec="minutes")
    state.change(
        "tracker",
        "INSERT INTO issue (project_id, number, title, body, state, author, assignee, milestone_id, due, created) "
        "SELECT id, (SELECT max(number) + 1 FROM issue WHERE project_id = project.id), ?, ?, 'open', ?, ?, NULL, ?, ? "
        "FROM project WHERE slug = ?",
        *(ask["title"], ask["body"], state.me.username, username(ask["assignee"]), ask["due"], now, ask["project"]),
    )
    for label in ask["labels"]:
        state.change(
            "tracker",
            "INSERT INTO issue_label SELECT (SELECT max(id) FROM issue), label.id FROM label "
            f"WHERE name = ? AND project_id = {_PROJECT}",
            *(label, ask["project"]),
        )


class CreateIssue(TaskFamily):
    """Open an issue with labels, assignee and due date."""

    name = "tracker-create"
    sites = ("tracker",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        project, slug = draw_project(rng, state)
        known = labels_of(state, project)
        labels = choose(rng, known, min(len(known), 1 + difficulty // 2))
        if not possible:
            labels[int(rng.integers(len(labels)))] = foreign_label(rng, state, project)
        due = state.now.date() + timedelta(days=int(rng.integers(3, 50)))
        ask = {
            "project": slug,
            "title": absent_title(rng, state),
            "body": paragraph(rng, 1 + difficulty),
            "assignee": pick(rng, draw_members(state, project)),
            "labels": labels,
            "due": due.isoformat(),
        }
        text = (
            f'Open an issue in the project {slug} in the tracker with the title "{ask["title"]}" and the description '
            f'"{ask["body"]}". Assign it to {ask["assignee"]}, give it the label{"s" * (len(labels) > 1)} {spoken(labels)} '
            f"and the due date {day(due)}. Do not set a milestone."
        )
        return text, change_data(ask)

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        insert_issue(state, ask)

    def solve(self, ask: Ask) -> Plan:
        page = yield Goto(f"{TRACKER}/{ask['project']}/issues/new")
        if not all(page.has("checkbox", label) for label in ask["labels"]):
            raise ImpossibleTask
        yield Fill("Title", ask["title"])
        yield Fill("Description", ask["body"])
        yield Select("Assignee", ask["assignee"])
        yield Fill("Due date", ask["due"])
        for label in ask["labels"]:
            yield Click("checkbox", label)
        yield Click("button", "Save issue")


class Triage(TaskFamily):
    """Give issues an assignee and a milestone."""

    name = "tracker-triage"
    sites = ("tracker",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        project, slug = draw_project(rng, state)
        titles = draw_titles(rng, state, project, 1 + difficulty, possible)
        sql = "SELECT title FROM milestone WHERE project_id = ? AND state = 'open' ORDER BY id"
        milestone = pick(rng, state.rows("tracker", sql, project))["title"]
        now = state.one("tracker", "SELECT assignee FROM issue WHERE title = ?", titles[0])
        person = pick(rng, [name for name in draw_members(state, project) if username(name) != now])
        text = f"In the tracker, assign these issues of the project {slug} to {person} and put them into the milestone "
        ask = {"project": slug, "titles": titles, "person": person, "milestone": milestone}
        return f"{text}{milestone}: {spoken(titles)}.", change_data(ask)

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        sql = f"SELECT id FROM milestone WHERE title = ? AND project_id = {_PROJECT}"
        milestone = state.one("tracker", sql, ask["milestone"], ask["project"])
        for title in ask["titles"]:
            sql = "UPDATE issue SET assignee = ?, milestone_id = ? WHERE title = ?"
            state.change("tracker", sql, username(ask["person"]), milestone, title)

    def solve(self, ask: Ask) -> Plan:
        for title in ask["titles"]:
            yield from open_issue(ask["project"], title)
        for title in ask["titles"]:
            yield from open_issue(ask["project"], title)
            yield Click("link", "Edit issue")
            yield Select("Assignee", ask["person"])
            yield Select("Milestone", ask["milestone"])
            yield Click("button", "Save issue")


class CloseIssue(TaskFamily):
    """Close an issue and add a given comment to it."""

    name = "tracker-close"
    sites = ("tracker",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        project, slug = draw_project(rng, state)
        title = draw_titles(rng, state, project, 1, possible)[0]
        comment = paragraph(rng, 1 + difficulty)
        text = f'Close the issue "{title}" of the project {slug} in the tracker, and add the comment "{comment}" to it.'
        return text, change_data({"project": slug, "title": title, "comment": comment})

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        state.change("tracker", "UPDATE issue SET state = 'closed' WHERE title = ?", ask["title"])
        sql = "INSERT INTO comment (issue_id, author, body, created) SELECT id, ?, ?, ? FROM issue WHERE title = ?"
        now = state.now.isoformat(timespec="minutes")
        state.change("tracker", sql, state.me.username, ask["comment"], now, ask["title"])

    def solve(self, ask: Ask) -> Plan:
        yield from open_issue(ask["project"], ask["title"])
        yield Fill("New comment", ask["comment"])
        yield Click("button", "Add comment")
        yield Click("button", "Close issue")


class CloseLabelled(TaskFamily):
    """Close all open issues with a label."""

    name = "tracker-close-labelled"
    sites = ("tracker",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        project, slug = draw_project(rng, state)
        rows = state.rows(
            "tracker",
            "SELECT DISTINCT name FROM label JOIN issue_label ON label_id = label.id JOIN issue ON issue.id = issue_id "
            "WHERE label.project_id = ? AND issue.state = 'open' ORDER BY name",
            project,
        )
        label = pick(rng, rows)["name"] if possible else foreign_label(rng, state, project)
        text = f'Close every open issue of the project {slug} in the tracker that has the label "{label}".'
        return text, change_data({"project": slug, "label": label})

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        sql = "UPDATE issue SET state = 'closed' WHERE id IN (SELECT issue_id FROM issue_label WHERE label_id = ?)"
        state.change("tracker", sql, label_id(state, ask))

    def solve(self, ask: Ask) -> Plan:
        yield from list_labels(ask["project"], ask["label"])
        yield Goto(f"{TRACKER}/{ask['project']}/issues")
        yield Select("Label", ask["label"])
        rows = yield from every_page((yield FILTER), "Title")
        for row in rows:
            yield Goto(f"{TRACKER}/{ask['project']}/issues/{row['Number'].removeprefix('#')}")
            yield Click("button", "Close issue")


class PlanMilestone(TaskFamily):
    """Create a milestone and add issues to it."""

    name = "tracker-milestone"
    sites = ("tracker",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        project, slug = draw_project(rng, state)
        titles = draw_titles(rng, state, project, 1 + difficulty // 2, possible)
        due = state.now.date() + timedelta(days=int(rng.integers(20, 200)))
        milestone = f"{int(rng.integers(10, 30))}.{int(rng.integers(10))}"
        text = (
            f"Create a milestone {milestone} due on {day(due)} in the project {slug} in the tracker, and put these "
            f"issues into it: {spoken(titles)}."
        )
        ask = {"project": slug, "milestone": milestone, "due": due.isoformat(), "titles": titles}
        return text, change_data(ask)

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        sql = "INSERT INTO milestone (project_id, title, due, state) SELECT id, ?, ?, 'open' FROM project WHERE slug = ?"
        state.change("tracker", sql, ask["milestone"], ask["due"], ask["project"])
        for title in ask["titles"]:
            sql = "UPDATE issue SET milestone_id = (SELECT max(id) FROM milestone) WHERE title = ?"
            state.change("tracker", sql, title)

    def solve(self, ask: Ask) -> Plan:
        for title in ask["titles"]:
            yield from open_issue(ask["project"], title)
        yield Goto(f"{TRACKER}/{ask['project']}/milestones/new")
        yield Fill("Title", ask["milestone"])
        yield Fill("Due date", ask["due"])
        yield Click("button", "Save milestone")
        for title in ask["titles"]:
            yield from open_issue(ask["project"], title)
            yield Click("link", "Edit issue")
            yield Select("Milestone", ask["milestone"])
            yield Click("button", "Save issue")


class GiveRoles(TaskFamily):
    """Invite people to a project, or change their roles."""

    name = "tracker-roles"
    sites = ("tracker",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        project, slug = draw_project(rng, state)
        sql = "SELECT username, role FROM member WHERE project_id = ?"
        known = {row["username"]: row["role"] for row in state.rows("tracker", sql, project)}
        people = choose(rng, list(state.setting.others), min(1 + difficulty, len(state.setting.others)))
        roles = {person.name: pick(rng, [role for role in ROLES if role != known.get(person.username)]) for person in people}
        if not possible:
            everybody = [person.name for person in state.setting.people]
            roles.pop(people[0].name)
            roles[absent(everybody, lambda: f"{pick(rng, FIRST_NAMES)} {pick(rng, LAST_NAMES)}")] = pick(rng, ROLES)
        phrase = ", ".join(f"{name} as {role}" for name, role in sorted(roles.items()))
        text = f"In the tracker, make sure that the project {slug} has these members with these roles: {phrase}."
        return text, change_data({"project": slug, "roles": roles})

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        for name, role in ask["roles"].items():
            sql = f"INSERT OR REPLACE INTO member VALUES ({_PROJECT}, ?, ?)"
            state.change("tracker", sql, ask["project"], username(name), role)

    def solve(self, ask: Ask) -> Plan:
        page = yield Goto(f"{TRACKER}/people")
        if not all(page.has("link", name) for name in ask["roles"]):
            raise ImpossibleTask
        for name, role in ask["roles"].items():
            page = yield Goto(f"{TRACKER}/{ask['project']}/members")
            inside = page.has("link", name)
            if inside:
                yield Click("link", "Change membership", row=name)
            else:
                yield Select("Person", name)
            yield Select("Role", role)
            yield Click("button", "Save role" if inside else "Invite")


class ReplaceLabel(TaskFamily):
    """Rename a label, or delete one."""

    name = "tracker-labels"
    sites = ("tracker",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        project, slug = draw_project(rng, state)
        label = pick(rng, labels_of(state, project)) if possible else foreign_label(rng, state, project)
        to = "" if rng.random() < 0.3 else absent(list(LABELS), lambda: sentence(rng).split()[-1].strip("."))
        text = f'In the tracker, rename the label "{label}" of the project {slug} to "{to}".'
        if not to:
            text = f'In the tracker, delete the label "{label}" from the project {slug}.'
        return text, change_data({"project": slug, "label": label, "to": to})

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        label = label_id(state, ask)
        if ask["to"]:
            state.change("tracker", "UPDATE label SET name = ? WHERE id = ?", ask["to"], label)
            return
        state.change("tracker", "DELETE FROM label WHERE id = ?", label)
        state.change("tracker", "DELETE FROM issue_label WHERE label_id = ?", label)

    def solve(self, ask: Ask) -> Plan:
        yield from list_labels(ask["project"], ask["label"])
        if ask["to"]:
            yield Click("link", "Edit label", row=ask["label"])
            yield Fill("Name", ask["to"])
            yield Click("button", "Save label")
        else:
            yield Click("button", "Delete label", row=ask["label"])
