"""Next step of a plan, given the actions and pages so far; shared by oracle and expert."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from agentgym.envs.web.plan import Answer, Click, Fill, Goto, Lost, Page, Plan, Step, page_of, target

RESTORE = "http://shop.test/restore"
RESTORE_BUTTON = "Restore all sites"

Done = tuple[object, ...]
"""A browser action: name and arguments."""


class PageStep(NamedTuple):
    """A page as lines, and the action taken on it."""

    url: str
    lines: tuple[tuple[int, str], ...]
    done: Done = ()

    def page(self) -> Page:
        """Return the page, parsed from its lines."""
        return _parsed(self.url, self.lines)


@lru_cache(maxsize=256)  # a plan looks at every page of the trail again at each step
def _parsed(url: str, lines: tuple[tuple[int, str], ...]) -> Page:
    return page_of(url, lines)


def resolved(step: Step, page: Page) -> Done:
    """Return the browser action for a step on this page; raise Lost if the page lacks the step's target."""
    if isinstance(step, Goto):
        return ("navigate", step.url)
    if isinstance(step, Answer):
        return ("answer", step.text)
    id = int(target(step, page).id)
    if isinstance(step, Click):
        return ("click", id)
    return ("fill", id, step.text) if isinstance(step, Fill) else ("select", id, step.option)


def next_action(plan: Callable[[], Plan], trail: Sequence[PageStep], now: PageStep) -> Done:
    """Return the plan's next action on the current page.

    If the latest actions follow the plan, the plan continues. Otherwise, the plan restarts from the current page if the
    sites are surely in their initial state. If buttons or keys may have changed the sites, the returned action is
    instead a step toward restoring them.
    """
    pages = [step.page() for step in (*trail, now)]
    begins: list[int] = []
    clean = True
    for place, step in enumerate(trail):
        if clean:
            begins.append(place)
        if _changes(step.done, pages[place]):
            clean = _restores(step.done, pages[place])
    for begin in begins:
        action = _next_from(plan, trail, pages, begin)
        if action is not None:
            return action
    if clean:
        action = _next_from(plan, trail, pages, len(trail))
        assert action is not None
        return action
    button = pages[-1].find("button", RESTORE_BUTTON)
    return ("click", int(button.id)) if button else ("navigate", RESTORE)


def _next_from(plan: Callable[[], Plan], trail: Sequence[PageStep], pages: Sequence[Page], begin: int) -> Done | None:
    """Return the plan's next action if every action of the trail from index `begin` on follows the plan, else None."""
    steps = plan()
    step = next(steps)
    for place in range(begin, len(trail)):
        try:
            if resolved(step, pages[place]) != trail[place].done:
                return None
            step = steps.send(pages[place + 1])
        except (Lost, StopIteration):
            return None
    return resolved(step, pages[-1])


def _named(done: Done, page: Page) -> tuple[str, str]:
    target = next((node for node in page.root.walk() if node.id and node.id == str(done[1])), None)
    return (target.role, target.name) if target else ("", "")


def _changes(done: Done, page: Page) -> bool:
    """Return whether an action may have changed the sites' data."""
    return done[0] == "press" or (done[0] == "click" and _named(done, page)[0] not in ("link", "checkbox"))


def _restores(done: Done, page: Page) -> bool:
    return done[0] == "click" and _named(done, page) == ("button", RESTORE_BUTTON)
