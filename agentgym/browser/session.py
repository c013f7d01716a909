"""An episode in the browser: its tabs, notes about dialogs, and the actions of an agent."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from agentgym.browser.browser import Browser, Context
from agentgym.browser.tab import PageError, Tab
from agentgym.errors import Fault, Reason

if TYPE_CHECKING:
    from playwright.async_api import Dialog, Page

T = TypeVar("T")
MOST_TABS = 8
MOST_NOTES = 5
NOTE = 300  # characters shown of a dialog's text


class Session:
    """The pages of one episode; every method runs in the browser's event loop."""

    def __init__(self, browser: Browser, context: Context, options: dict[str, object], pause: int) -> None:
        self.browser, self.context, self.options, self.pause = browser, context, options, pause
        self.tabs: list[Tab] = []
        self.current = 0
        self.notes: list[str] = []
        self.opened = 0  # pages reported by the browser
        self.crash = asyncio.Event()

    async def begin(self, url: str) -> None:
        """Load the first page without advancing page time, and start to watch for new tabs, dialogs and downloads."""
        handle = self.context.handle
        handle.on("page", self._page)
        handle.on("dialog", self._dialog)
        self.context.tab.page.on("download", self._download)
        self.tabs.append(self.context.tab)
        self.tab.on_crash = self.crash.set
        pause, self.pause = self.pause, 0
        await self.navigate(url)
        self.pause = pause
        await self.tab.cdp.send("Page.resetNavigationHistory")

    @property
    def tab(self) -> Tab:
        """The current tab."""
        return self.tabs[self.current]

    async def _attach(self, page: "Page") -> Tab:
        tab = Tab(page)
        tab.on_crash = self.crash.set
        await tab.attach()
        self.tabs.append(tab)
        return tab

    def _page(self, page: "Page") -> None:
        self.opened += 1
        page.on("download", self._download)
        if self.opened + 1 > MOST_TABS:
            self.note(f"The browser refused to open more than {MOST_TABS} tabs.")
            self.browser.later(page.close())

    async def _dialog(self, dialog: "Dialog") -> None:
        if dialog.type != "beforeunload":
            answer = {"alert": "it was closed", "confirm": "OK was chosen", "prompt": "its default was taken"}[dialog.type]
            self.note(f"The page showed a dialog ({dialog.type}): {' '.join(dialog.message.split())[:NOTE]!r}; {answer}.")
        try:
            await dialog.accept(dialog.default_value if dialog.type == "prompt" else None)
        except Exception:  # the page closed together with its dialog
            return

    def _download(self, download: object) -> None:
        self.note("The page offered a file; downloads are refused.")

    def note(self, text: str) -> None:
        """Store a note for the next observation, unless it repeats another note or there are MOST_NOTES already."""
        if len(self.notes) < MOST_NOTES and text not in self.notes:
            self.notes.append(text)

    async def safely(self, work: Coroutine[object, object, T]) -> T:
        """Return the result of a coroutine; fail at once if a page's process crashes, since a crashed page never answers.

        Raises:
            Fault: a page's process crashed, or Playwright raised an error that no action turned into a PageError.
        """
        from playwright.async_api import Error

        task, crash = asyncio.ensure_future(work), asyncio.ensure_future(self.crash.wait())
        try:
            await asyncio.wait({task, crash}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise Fault("the page's process crashed", reason=Reason.CRASH)
            return task.result()
        except Error as error:
            raise Fault(f"the browser does not answer: {str(error)[:200]}", reason=Reason.CRASH) from error
        finally:
            task.cancel()
            crash.cancel()

    # Settling

    async def act(self, work: Callable[[], Awaitable[object]]) -> None:
        """Clear the notes, run an action, let the pages settle, and switch to a tab that the action opened."""
        self.notes = []
        await self._guarded(work())
        await self.rest()

    async def rest(self) -> None:
        """Let the current tab settle, then each tab that opened in the meantime."""
        await self._drop_closed()
        await self._settle()
        for _ in range(MOST_TABS):
            if not await self._new_tabs():
                break
            await self._settle()
        await self._drop_closed()

    async def _settle(self) -> None:
        """Let the current tab settle; if it closes in the meantime, let the new current tab settle instead.

        Raises:
            Fault: the page crashed, or it does not settle while open.
        """
        while True:
            tab = self.tab
            try:
                await tab.settle(self.pause)
            except Fault:
                if tab.crashed or not tab.page.is_closed():
                    raise
            if not tab.page.is_closed():
                return
            await self._drop_closed()

    async def _new_tabs(self) -> bool:
        """Switch to the newest tab that opened since the last call; return True if there is one."""
        expected = sum(tab.popups for tab in self.tabs)
        for _ in range(100):  # the request for a tab and the tab itself are reported on different channels
            if self.opened >= expected:
                break
            await asyncio.sleep(0.01)
        known = {id(tab.page) for tab in self.tabs}
        fresh = [page for page in self.context.handle.pages if id(page) not in known and not page.is_closed()]
        for page in fresh[: MOST_TABS - len(self.tabs)]:
            try:
                await self._attach(page)
            except Exception:  # closed immediately
                continue
            self.current = len(self.tabs) - 1
        return bool(fresh) and len(self.tabs) > len(known)

    async def _drop_closed(self) -> None:
        if all(tab.page.is_closed() for tab in self.tabs):
            raise Fault("the page closed itself, or the browser died", reason=Reason.CRASH)
        current = self.tab
        self.tabs = [tab for tab in self.tabs if not tab.page.is_closed()]
        self.current = self.tabs.index(current) if current in self.tabs else len(self.tabs) - 1

    async def _guarded(self, work: Awaitable[object]) -> object:
        from playwright.async_api import Error

        try:
            return await work
        except Error as error:
            if not self.context.browser.is_connected():
                raise Fault("the browser died", reason=Reason.CRASH) from error
            if self.tab.crashed:
                raise Fault("the page's process crashed", reason=Reason.CRASH) from error
            if self.tab.page.is_closed():
                return None  # the page closed itself
            raise PageError(str(error).split("\n")[0].removeprefix("Keyboard.press: ")[:300]) from error

    # Actions

    async def navigate(self, url: str) -> None:
        """Load a URL."""

        async def work() -> None:
            answer = await self.tab.cdp.send("Page.navigate", {"url": url})
            if answer.get("errorText") and answer["errorText"] != "net::ERR_ABORTED":
                raise PageError(f"the page cannot be loaded ({answer['errorText']})")

        await self.act(work)

    async def back(self) -> None:
        """Go to the previous page.

        Raises:
            PageError: this tab has no previous page.
        """
        history = await self.tab.cdp.send("Page.getNavigationHistory")
        at = history["currentIndex"]
        if at == 0 or not history["entries"][at - 1]["url"].startswith("http"):
            raise PageError("there is no page before this one in this tab")
        entry = history["entries"][at - 1]["id"]
        await self.act(lambda: self.tab.cdp.send("Page.navigateToHistoryEntry", {"entryId": entry}))

    async def click(self, id: int, count: int = 1) -> None:
        """Click an element `count` times with the mouse."""
        point = await self.tab.call("locate", id)
        await self.act(lambda: self.tab.page.mouse.click(point["x"], point["y"], click_count=count))

    async def hover(self, id: int) -> None:
        """Move the mouse over an element."""
        point = await self.tab.call("locate", id)
        await self.act(lambda: self.tab.page.mouse.move(point["x"], point["y"]))

    async def drag(self, id: int, to: int) -> None:
        """Drag one element onto another."""
        start, end = await self.tab.call("locate", id), await self.tab.call("locate", to, True)
        start = await self.tab.call("locate", id)  # locating the other element may have scrolled
        await self.drag_points(start["x"], start["y"], end["x"], end["y"])

    async def drag_points(self, x: float, y: float, to_x: float, to_y: float) -> None:
        """Drag from one point of the window to another."""
        mouse = self.tab.page.mouse

        async def work() -> None:
            await mouse.move(x, y)
            await mouse.down()
            await mouse.move(to_x, to_y, steps=5)
            await mouse.up()

        await self.act(work)

    async def click_point(self, x: float, y: float) -> None:
        """Click a point of the window."""
        await self.act(lambda: self.tab.page.mouse.click(x, y))

    async def fill(self, id: int, text: str) -> None:
        """Replace the text of a field."""
        typed = await self.tab.call("fill", id, text)

        async def work() -> None:
            if typed and text:
                await self.tab.page.keyboard.insert_text(text)
            elif typed:
                await self.tab.page.keyboard.press("Delete")

        await self.act(work)

    async def select(self, id: int, option: str) -> None:
        """Choose an option of a list."""
        await self.act(lambda: self.tab.call("select", id, option))

    async def press(self, key: str) -> None:
        """Press a key, optionally with modifiers: `Control+a`."""
        await self.act(lambda: self.tab.page.keyboard.press(key))

    async def type(self, text: str) -> None:
        """Type into the focused element, key by key."""
        await self.act(lambda: self.tab.page.keyboard.type(text))

    async def wait(self) -> None:
        """Let `pause` milliseconds of page time pass."""

        async def nothing() -> None:
            return

        await self.act(nothing)

    async def scroll(self, x: int, y: int, id: int) -> None:
        """Scroll the window (`id` 0), or the element's scrollable ancestor, by most of its size.

        `x` and `y` are the direction, each -1, 0 or 1. If nothing scrolls, add a note.
        """
        moved: list[bool] = []

        async def work() -> None:
            moved.append(await self.tab.call("scroll", x, y, id))

        await self.act(work)
        if not moved[0]:
            self.note("Nothing scrolled: this is the end.")

    async def turn_to(self, number: int) -> None:
        """Switch to tab `number`, counted from 1.

        Raises:
            PageError: there is no tab with this number.
        """
        if not 1 <= number <= len(self.tabs):
            raise PageError(
                f"there is no tab {number}; there {'is 1 tab' if len(self.tabs) == 1 else f'are {len(self.tabs)} tabs'}"
            )
        self.current = number - 1
        await self.act(self.tab.page.bring_to_front)

    # Observing

    async def look(self) -> dict[str, Any]:
        """Return the current page as `page.js` reports it, with additional keys.

        `tabs` has [URL, title] of each tab, `current` is the index of the current tab from 0, `notes` are the notes of the
        last action, and `history` has the history of each tab.

        Raises:
            Fault: the process of another tab's page crashed.
        """
        seen, *histories = await asyncio.gather(self.tab.call("observe", self.options), *map(self._history, self.tabs))
        for tab in self.tabs:
            if tab is not self.tab and tab.crashed:
                raise Fault("the process of a page crashed", reason=Reason.CRASH)
        here = [seen["url"], seen["title"]]
        seen["tabs"] = [here if tab is self.tab else [tab.page.url, await self._title(tab)] for tab in self.tabs]
        return seen | {"current": self.current, "notes": self.notes, "history": histories}

    async def _title(self, tab: Tab) -> str:
        return " ".join(str(await tab.main("document.title") or "").split())[:200]

    async def screenshot(self) -> bytes:
        """Return an image of the window, as PNG bytes."""
        return await self.tab.page.screenshot(type="png", animations="disabled", caret="hide", scale="css")

    async def _history(self, tab: Tab) -> list[object]:
        """Return [index of the current entry from 0, URLs of all entries] of the tab's history."""
        history = await tab.cdp.send("Page.getNavigationHistory")
        return [history["currentIndex"], [entry["url"] for entry in history["entries"]]]
