"""Task families about reviewing and merging the tracker's merge requests."""

import sqlite3

import numpy as np

from agentgym.envs.web.family import Ask, Made, NoSubject, TaskFamily, change_data
from agentgym.envs.web.plan import Click, Fill, ImpossibleTask, Plan
from agentgym.envs.web.sites.tracker.questions import open_request
from agentgym.envs.web.state import EpisodeState
from agentgym.envs.web.words import paragraph, pick

REQUESTS = """
SELECT m.*, slug, (SELECT COUNT(*) FROM review WHERE merge_request_id = m.id AND verdict = 'approved') AS approvals,
    (SELECT COUNT(*) FROM review WHERE merge_request_id = m.id AND verdict <> 'approved') AS objections,
    (SELECT COUNT(*) FROM change WHERE merge_request_id = m.id AND instr(diff, char(10) || '+    print(')) AS debugging
FROM merge_request AS m JOIN project ON project.id = m.project_id
WHERE m.state = 'open' AND (SELECT COUNT(*) FROM merge_request AS other
    WHERE other.project_id = m.project_id AND other.title = m.title) = 1 ORDER BY m.id"""


def id_of(state: EpisodeState, ask: Ask) -> int:
    """Return the id of the task's merge request."""
    sql = "SELECT m.id FROM merge_request AS m JOIN project ON project.id = m.project_id WHERE slug = ? AND m.title = ?"
    return state.one("tracker", sql, ask["project"], ask["title"])


def review(state: EpisodeState, request: int, verdict: str) -> None:
    """Insert or replace the user's review of a merge request."""
    state.change("tracker", "INSERT OR REPLACE INTO review VALUES (?, ?, ?)", request, state.me.username, verdict)


class Merge(TaskFamily):
    """Merge a merge request, which may be blocked or need an approval first."""

    name = "tracker-merge"
    sites = ("tracker",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        rows = state.rows("tracker", REQUESTS)

        def can_be(row: sqlite3.Row) -> bool:
            approved = row["approvals"] or row["author"] != state.me.username
            return row["pipeline"] == "passed" and not row["objections"] and bool(approved)

        rows = [row for row in rows if can_be(row) == possible]
        if not rows:
            raise NoSubject
        row = pick(rng, rows)
        ask = {"project": row["slug"], "title": row["title"]}
        text = (
            f'Merge the merge request "{row["title"]}" of the project {row["slug"]} in the tracker. If nobody has approved '
            "it yet, approve it yourself first; if somebody has, add no review of your own."
        )
        return text, change_data(ask)

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        request = id_of(state, ask)
        if not state.one("tracker", "SELECT COUNT(*) FROM review WHERE merge_request_id = ?", request):
            review(state, request, "approved")
        state.change("tracker", "UPDATE merge_request SET state = 'merged' WHERE id = ?", request)

    def solve(self, ask: Ask) -> Plan:
        page = yield from open_request(ask["project"], ask["title"])
        blocked = page.says("pipeline failed") or page.says("requested changes")
        if not page.has("button", "Merge") and (blocked or not page.has("button", "Approve")):
            raise ImpossibleTask
        if not page.has("button", "Merge"):
            yield Click("button", "Approve")
        yield Click("button", "Merge")


class Review(TaskFamily):
    """Approve a merge request, or request changes if the diff contains debugging output."""

    name = "tracker-review"
    sites = ("tracker",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        rows = state.rows("tracker", REQUESTS)
        wants_debugging = bool(rng.random() < 0.5)
        fits = [row for row in rows if (row["author"] != state.me.username) == possible]
        if not fits:
            raise NoSubject
        row = pick(rng, [row for row in fits if (row["debugging"] > 0) == wants_debugging] or fits)
        comment = paragraph(rng, 1 + difficulty)
        text = (
            f'Review the merge request "{row["title"]}" of the project {row["slug"]} in the tracker. If any of its files '
            f'gains a line that prints debugging output, request changes and add the comment "{comment}"; if none does, '
            "approve it without a comment."
        )
        ask = {"project": row["slug"], "title": row["title"], "comment": comment}
        return text, change_data(ask)

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        request = id_of(state, ask)
        sql = "SELECT COUNT(*) FROM change WHERE merge_request_id = ? AND instr(diff, char(10) || '+    print(')"
        if not state.one("tracker", sql, request):
            review(state, request, "approved")
            return
        review(state, request, "changes requested")
        sql = "INSERT INTO comment (merge_request_id, author, body, created) VALUES (?, ?, ?, ?)"
        state.change("tracker", sql, request, state.me.username, ask["comment"], state.now.isoformat(timespec="minutes"))

    def solve(self, ask: Ask) -> Plan:
        page = yield from open_request(ask["project"], ask["title"])
        if not page.has("button", "Approve"):
            raise ImpossibleTask
        page = yield Click("link", "Changes")
        prints = any(node.name.startswith("+") and "print(" in node.name for node in page.root.walk())
        yield Click("link", "Back to the merge request")
        if prints:
            yield Fill("New comment", ask["comment"])
            yield Click("button", "Add comment")
        yield Click("button", "Request changes" if prints else "Approve")
