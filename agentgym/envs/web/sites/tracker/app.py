"""Tracker pages: the user's open work, people and search."""

from flask import Blueprint, abort, render_template, request
from flask.typing import ResponseReturnValue

from agentgym.envs.web.sites.frame import Site, like, me, slice_of, state
from agentgym.envs.web.sites.people import ask_to_log_in, full_name
from agentgym.envs.web.sites.queries import many
from agentgym.envs.web.sites.tracker import issues, labels, members, merge_requests, milestones, projects

NOTICES = {
    "issue": "The issue was created.",
    "saved": "The changes were saved.",
    "closed": "Closed.",
    "reopened": "Open again.",
    "comment": "The comment was added.",
    "uncomment": "The comment was deleted.",
    "merged": "The merge request was merged.",
    "review": "The review was saved.",
    "label": "The label was saved.",
    "unlabel": "The label was deleted.",
    "milestone": "The milestone was saved.",
    "member": "The list of members was changed.",
}
NAV = (("Projects", "/projects"), ("My issues", "/my/issues"), ("My reviews", "/my/reviews"), ("People", "/people"))
pages = Blueprint("desk", __name__)


def site() -> Site:
    """Create the Flask application of the tracker."""
    tracker = Site("tracker", "Tracker", NAV, NOTICES)
    tracker.add_template_filter(full_name, "who")
    tracker.before_request(ask_to_log_in)
    for part in (pages, issues.pages, merge_requests.pages, labels.pages, milestones.pages, members.pages, projects.pages):
        tracker.register_blueprint(part)
    return tracker


@pages.get("/")
def home() -> ResponseReturnValue:
    """Show the user's open issues, reviews and merge requests, up to ten of each."""
    name = me().username
    return render_template(
        "home.html",
        assigned=many(
            f"{projects.ISSUES} WHERE issue.state = 'open' AND issue.assignee = ? ORDER BY issue.id LIMIT 10", name
        ),
        reviews=many(f"{merge_requests.LIST} WHERE m.state = 'open' AND m.reviewer = ? ORDER BY m.id LIMIT 10", name),
        own=many(f"{merge_requests.LIST} WHERE m.state = 'open' AND m.author = ? ORDER BY m.id LIMIT 10", name),
    )


@pages.get("/my/issues")
def my_issues() -> ResponseReturnValue:
    """List all open issues assigned to the user."""
    query = f"{projects.ISSUES} WHERE issue.state = 'open' AND issue.assignee = ? ORDER BY project.slug, issue.number DESC"
    return render_template("my_issues.html", found=slice_of(query, [me().username], issues.PAGE))


@pages.get("/my/reviews")
def my_reviews() -> ResponseReturnValue:
    """List all open merge requests with the user as reviewer."""
    query = f"{merge_requests.LIST} WHERE m.state = 'open' AND m.reviewer = ? ORDER BY project.slug, m.number DESC"
    return render_template("my_reviews.html", found=slice_of(query, [me().username], issues.PAGE))


@pages.get("/people")
def people() -> ResponseReturnValue:
    """List all people."""
    return render_template("people.html", people=sorted(state().setting.people, key=lambda person: person.name))


@pages.get("/people/<username>")
def person(username: str) -> ResponseReturnValue:
    """Show a person's project roles and open issues."""
    profile = next((candidate for candidate in state().setting.people if candidate.username == username), None) or abort(404)
    roles = many(
        "SELECT project.slug, member.role FROM member JOIN project ON project.id = member.project_id "
        "WHERE member.username = ? ORDER BY project.slug",
        username,
    )
    query = f"{projects.ISSUES} WHERE issue.state = 'open' AND issue.assignee = ? ORDER BY project.slug, issue.number DESC"
    return render_template("person.html", person=profile, roles=roles, found=slice_of(query, [username], issues.PAGE))


@pages.get("/search")
def search() -> ResponseReturnValue:
    """List issues or merge requests of all projects with a phrase in title or description."""
    phrase, kind = request.args.get("q", "").strip(), request.args.get("in", "issues")
    values = [like(phrase)] * 2
    if kind == "merge_requests":
        query = f"{merge_requests.LIST} WHERE m.title LIKE ? ESCAPE '\\' OR m.body LIKE ? ESCAPE '\\' ORDER BY m.id DESC"
    else:
        kind = "issues"
        query = (
            f"{projects.ISSUES} WHERE issue.title LIKE ? ESCAPE '\\' OR issue.body LIKE ? ESCAPE '\\' ORDER BY issue.id DESC"
        )
    return render_template("search.html", found=slice_of(query, values, issues.PAGE), phrase=phrase, kind=kind)


app = site()
