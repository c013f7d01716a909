"""Base class of web environments: hooks for subclasses, browser tools, and replay."""

import hashlib
import os
import weakref
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeVar

from agentgym.browser.browser import Kind, browser
from agentgym.browser.chromium import needed
from agentgym.browser.loop import loop
from agentgym.browser.observation import Element, elements, written
from agentgym.browser.server import READY, SITES, address, server
from agentgym.browser.session import Session
from agentgym.browser.tab import PageError
from agentgym.core.actions import tool
from agentgym.core.env import Outcome, TextEnv
from agentgym.core.json_value import JSON
from agentgym.core.outcome import Info
from agentgym.core.tasks import Task
from agentgym.core.verdicts import verdict
from agentgym.errors import Fault, Reason

T = TypeVar("T")
START_SECONDS = 90.0
"""Time limit in seconds for starting the browser and loading the first page."""


class CompletedAction(NamedTuple):
    """An action that was performed in the browser."""

    name: str
    arguments: tuple[object, ...]
    digest: str
    """Hash of the observation after the action."""


@dataclass
class _Live:
    """An episode currently open in the browser."""

    task_id: str
    state: Any
    session: Session
    seen: dict[str, Any]
    """The page as last read, in the format of `page.js`."""
    log: list[CompletedAction] = field(default_factory=list[CompletedAction])
    process: int = field(default_factory=os.getpid)
    """Process that owns the episode; a forked child leaves its parent's episodes alone."""


class BrowserEnv(TextEnv):
    """A web environment: one browser context per episode, sites on loopback, and tools to use them.

    A subclass defines `start(task)`, `judge(answer)` and, optionally, `digest()` and `end(state)`. An action returns when
    the page has settled and `pause` milliseconds of page time have passed. A snapshot is the log of actions: restoring
    replays it and compares the observations.
    """

    blocking = True
    snapshot_kind = "replay"
    horizon = 30
    task_settings: ClassVar[tuple[str, ...]] = ("screenshots", "max_chars")
    settings: ClassVar[tuple[str, ...]] = task_settings
    screenshots: bool = False
    """Add the key `screenshot` to `info` at every step: the window as PNG bytes."""
    max_chars: int = 16_000
    """Maximum length of an observation in characters; only many lines above the elements (URL, tabs, notes) exceed it."""
    clock: str = "2026-03-02T09:00:00Z"
    """Start time of the page clock in every document."""
    pause: int = 1000
    """Milliseconds of page time that each action takes."""
    viewport: tuple[int, int] = (1280, 800)
    ready: str = READY
    """Host of the empty page that idle contexts show; `ready.HOST` if every episode begins on HOST."""
    seconds: float = 20.0
    """Time limit per action, in seconds; a page that has not settled by then ends its episode as a fault."""
    page_options: ClassVar[dict[str, object]] = {"every": False}
    """Options of `page.js`; `every` gives ids to all elements and shows drawings in full."""

    # Hooks of a subclass

    def start(self, task: Task) -> tuple[object, str]:
        """Return an episode's initial state, which sites get as `environ["agentgym.episode"]`, and its first URL."""
        raise NotImplementedError(f"{type(self).__name__} must define start(task)")

    def judge(self, answer: str | None) -> bool | None:
        """Judge the state after each action: True or False ends the episode, None continues it.

        `answer` is None except after the tool `answer`, which always ends the episode: a result of None counts as False.
        """
        raise NotImplementedError(f"{type(self).__name__} must define judge(answer)")

    def digest(self) -> object:
        """Return the part of the state that decides the future but is not visible in the page; by default None."""
        return None

    @staticmethod
    def end(state: object) -> None:
        """Free the state that `start` created; called when no request can reach the state any more."""

    async def prepare(self, session: Session) -> None:
        """Prepare the session after the first page has loaded but before page time passes; runs in the browser's loop."""

    def opening(self, task: Task) -> str:
        """Return the text that precedes the page in the first observation."""
        return task.instruction

    # Helpers for subclasses

    @property
    def site(self) -> object:
        """The running episode's state, created by `start`."""
        return self._alive().state

    def elements(self, role: str | None = None, name: str | None = None) -> list[Element]:
        """Return the current page's elements with an id, in order, even if cut from the observation.

        `role` and `name` restrict them to elements with exactly this role or name.
        """
        listed = elements(self.seen)
        return [e for e in listed if role in (None, e.role) and (name is None or e.name == name)]

    def peek(self, expression: str) -> JSON:
        """Return the value of a JavaScript expression in the current page; for oracles and judges."""
        live = self._alive()
        return self._ask(live, live.session.tab.main(expression))

    # Tools

    @tool
    def click(self, id: int) -> Outcome:
        """Click the element with this number, as shown in brackets."""
        return self.do("click", id)

    @tool
    def fill(self, id: int, text: str) -> Outcome:
        """Replace the text of a field; empty text clears it."""
        return self.do("fill", id, text)

    @tool
    def select(self, id: int, option: str) -> Outcome:
        """Choose an option of a list, by its text."""
        return self.do("select", id, option)

    @tool
    def press(self, key: str) -> Outcome:
        """Press a key in the focused element: Enter, Tab, ArrowDown, a letter, Control+a."""
        return self.do("press", key)

    @tool
    def scroll(self, direction: str, id: int = 0) -> Outcome:
        """Scroll the page up, down, left or right; with an id, the part of the page that element is in."""
        step = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}.get(direction.strip().lower())
        if step is None:
            return self.refused(f"direction is {direction[:40]!r}; expected up, down, left or right")
        return self.do("scroll", *step, id)

    @tool
    def goto(self, path: str) -> Outcome:
        """Load a path of this site such as /cart, or an address such as http://shop.test/cart."""
        url = address(path, self.seen["url"], self.hosts())
        if url is None or len(url) > 2000:
            hosts = ", ".join(sorted(f"http://{host}/" for host in self.hosts()))
            return self.refused(f"{path[:80]!r} leads nowhere. There is: {hosts}")
        return self.do("navigate", url)

    @tool
    def back(self) -> Outcome:
        """Go back to the page before this one."""
        return self.do("back")

    @tool
    def tab(self, n: int) -> Outcome:
        """Switch to the tab with this number, counted from 1."""
        return self.do("turn_to", n)

    @tool
    def answer(self, text: str) -> Outcome:
        """Give the final answer, which ends the episode."""
        done = verdict(self.judge(text), f"judge of {type(self).__name__}")
        return self.win("Right.") if done else self.lose("Wrong.")

    def hosts(self) -> list[str]:
        """Return the hosts `goto` may open; by default all mounted hosts."""
        return list(SITES)

    # Implementation

    def requires(self) -> None:
        """Raise MissingExtra if the browser, its driver or the page server is missing."""
        super().requires()
        needed(f"rlvr/{type(self).__name__}-v0")

    def setup(self) -> None:
        """Prepare resources shared by all episodes; an override must call this method.

        Raises:
            BadConfig: an option needs data that is not there, or its data cannot be read.
        """
        self._open_episodes: list[_Live] = []  # the running episode while it is open in the browser
        weakref.finalize(self, _drop, self._open_episodes, self.end).atexit = False

    def begin(self, task: Task) -> str:
        self.log: tuple[CompletedAction, ...] = ()
        live = self._alive()  # reuse it if the same task is already at its start
        self._look(live)
        return self.opening(task) + "\n\n" + self.text

    def do(self, name: str, *arguments: object) -> Outcome:
        """Run the action `Session.NAME(*arguments)` and return its outcome."""
        live = self._alive()
        error = self._carry_out(live, name, arguments)
        self._look(live, error)
        if error:
            return Outcome(self.text, valid=False, error=error)
        done = verdict(self.judge(None), f"judge of {type(self).__name__}")
        if done is None:
            return Outcome(self.text)
        return self.win(self.text) if done else self.lose(self.text)

    def refused(self, error: str) -> Outcome:
        """Return the outcome of an action that was rejected before it reached the browser."""
        return Outcome(written(self.seen | {"notes": []}, self.max_chars, error), valid=False, error=error)

    def malformed(self, error: str) -> Outcome:
        return self.refused(error)

    def _carry_out(self, live: _Live, name: str, arguments: tuple[object, ...]) -> str | None:
        """Run an action and log it; return the error text if it failed, else None.

        An action that failed without changing the page is not logged.
        """
        error, before = None, live.seen
        try:
            self._ask(live, getattr(live.session, name)(*arguments))
        except PageError as problem:
            live.session.notes = []
            error = str(problem)[:600]
        self.seen = live.seen = self._ask(live, live.session.look())
        if error and {**self.seen, "notes": []} == {**before, "notes": []}:
            return error  # not logged, because it never happened
        done = CompletedAction(name, arguments, _hash(self.seen, error))
        live.log.append(done)
        self.log = (*self.log, done)
        return error

    def _look(self, live: _Live, error: str | None = None) -> None:
        """Set the observation text and the state key from the page as last read."""
        self.seen = live.seen
        self.text = written(self.seen, self.max_chars, error)
        self.key = self._key()

    def _key(self) -> str:
        seen = {k: v for k, v in self.seen.items() if k != "notes"}
        return _hash(self.task.id, self.digest(), seen)

    def state_key(self) -> str | None:
        return self.key

    def more_info(self) -> dict[str, object]:
        return {"screenshot": self.screenshot()} if self.screenshots else {}

    def screenshot(self) -> bytes:
        """Return an image of the window, as PNG bytes."""
        live = self._alive()
        return self._ask(live, live.session.screenshot())

    def _ask(self, live: _Live, work: Coroutine[object, object, T]) -> T:
        return loop().run(live.session.safely(work), self.seconds)

    def _alive(self) -> _Live:
        """Return this episode as it is open in the browser; if it is not open, open and replay it first."""
        live = self._open_episodes[0] if self._open_episodes else None
        here = self.task.id, self.log[: len(live.log)] if live else (), os.getpid()
        if live is None or (live.task_id, tuple(live.log), live.process) != here:
            live = self._open()
        if len(live.log) < len(self.log):
            self._replay(live)
        return live

    def _replay(self, live: _Live) -> None:
        whole, seen = self.log, self.seen
        self.log = whole[: len(live.log)]
        try:
            for done in whole[len(live.log) :]:
                self._carry_out(live, done.name, done.arguments)
                if not self.log or self.log[-1].digest != done.digest:
                    what = f"{done.name}{done.arguments!r:.100}"
                    raise Fault(f"the episode could not be brought back: {what} showed something else", reason=Reason.CRASH)
        finally:
            self.log, self.seen = whole, seen

    def _open(self) -> _Live:
        """Open the episode's first page, in a new browser if the current one has crashed.

        The previous episode is closed only after that, because one browser thread both opens and closes pages.

        Raises:
            Fault: the browser crashes again, or fails for another reason than a crash.
        """
        try:
            live = self._stand()
        except Fault as fault:
            if fault.reason != "crash":
                raise
            live = self._stand()
        finally:
            self._drop()
        self._open_episodes.append(live)
        return live

    def _stand(self) -> _Live:
        state, url = self.start(self.task)
        try:
            session = loop().run(self._session(), START_SECONDS)
        except BaseException:
            self.end(state)
            raise
        server().open(session.context.token, state)
        live = _Live(self.task.id, state, session, {})
        try:
            live.seen = loop().run(session.safely(self._first(session, url)), START_SECONDS)
        except PageError as error:  # meant for the agent, but none of its actions led here
            _drop([live], self.end)
            raise Fault(f"the first page, {url[:200]}, cannot be loaded: {error}", reason=Reason.CRASH) from error
        except BaseException:
            _drop([live], self.end)
            raise
        return live

    @property
    def _kind(self) -> Kind:
        return Kind(self.clock, *self.viewport, self.ready)

    async def _session(self) -> Session:
        session = browser()
        return Session(session, await session.take(self._kind), self.page_options, self.pause)

    async def _first(self, session: Session, url: str) -> dict[str, object]:
        await session.begin(url)
        await self.prepare(session)
        await session.rest()
        seen = await session.look()  # a look also numbers the elements, which actions refer to
        session.browser.refill(self._kind)  # after the episode has loaded, so that it is not slowed down
        return seen

    def _drop(self) -> None:
        _drop(self._open_episodes, self.end)

    def break_off(self, fault: Fault) -> tuple[str, float, bool, bool, Info]:
        self._drop()
        return super().break_off(fault)

    def close(self) -> None:
        """Close the episode in the browser; the next step opens it again."""
        self._drop()


def _drop(open_episodes: list[_Live], end: Callable[[object], None]) -> None:
    """Close the episodes in the browser that this process owns, and call `end` with each one's state."""
    while open_episodes:
        live = open_episodes.pop()
        if live.process != os.getpid():
            continue
        server().close(live.session.context.token)
        loop().spawn(_leave(live.session))
        end(live.state)


async def _leave(session: Session) -> None:
    session.browser.give_back(session.context)


def _hash(*parts: object) -> str:
    return hashlib.blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
