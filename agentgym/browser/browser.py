"""One browser per process, and contexts for episodes made ahead of need."""

import asyncio
import atexit
import os
import secrets
from collections import defaultdict, deque
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentgym.browser.chromium import arguments, needed
from agentgym.browser.loop import loop
from agentgym.browser.process import PerProcess
from agentgym.browser.server import HEADER, READY, server
from agentgym.browser.tab import Tab
from agentgym.errors import Fault, Reason

if TYPE_CHECKING:
    from playwright import async_api as playwright

START_SECONDS = 60.0
AHEAD = 2
"""Contexts that wait for an episode, of each kind that was asked for."""


@dataclass(frozen=True)
class Kind:
    """What contexts differ in."""

    clock: str
    """The moment at which every document begins, ISO 8601, UTC."""
    width: int
    height: int
    ready: str = READY
    """The host on which it waits: one of an episode's own site spares the browser a new process."""


@dataclass
class Context:
    """A context with its first page, used by one episode and closed after it."""

    handle: "playwright.BrowserContext"
    tab: Tab
    browser: "playwright.Browser"
    token: str
    """What its requests carry, so that the server knows whose they are."""


class Browser:
    """Chromium, started when first needed, and again after it died: then only the episodes that were in it end."""

    def __init__(self) -> None:
        self.path = needed("An environment of pages")
        self.playwright: playwright.Playwright | None = None
        self.handle: playwright.Browser | None = None
        self.starting = asyncio.Lock()
        self.ready: dict[Kind, deque[Context]] = defaultdict(deque)
        self.making: dict[Kind, int] = defaultdict(int)
        self.tasks: set[asyncio.Task[object]] = set()
        self.closed = False

    async def running(self) -> "playwright.Browser":
        """Return the browser, alive."""
        async with self.starting:
            if self.handle is None or not self.handle.is_connected():
                self.ready.clear()
                await self._start()
            assert self.handle is not None
            return self.handle

    async def _start(self) -> None:
        from playwright.async_api import Error, async_playwright

        try:
            if self.playwright is None:
                self.playwright = await async_playwright().start()
            proxy = f"http://127.0.0.1:{server().port}"
            self.handle = await self.playwright.chromium.launch(
                executable_path=self.path,
                headless=True,
                args=arguments(proxy),
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
                timeout=1000 * START_SECONDS,
            )
        except Error as error:
            raise Fault(f"{self.path} does not start: {str(error)[:600]}", reason=Reason.CRASH) from error

    async def take(self, kind: Kind) -> Context:
        """Return a context that nobody used."""
        while self.ready[kind]:
            context = self.ready[kind].popleft()
            if context.browser.is_connected() and not context.tab.page.is_closed():
                return context
        return await self._make(kind)

    def refill(self, kind: Kind) -> None:
        """Make contexts ahead, in the background."""
        while len(self.ready[kind]) + self.making[kind] < AHEAD and not self.closed:
            self.making[kind] += 1
            self.later(self._add(kind))

    async def _add(self, kind: Kind) -> None:
        try:
            self.ready[kind].append(await self._make(kind))
        except Exception:  # whoever needs one next makes it itself, and sees why it cannot be made
            return
        finally:
            self.making[kind] -= 1

    async def _make(self, kind: Kind) -> Context:
        from playwright.async_api import Error

        browser, token = await self.running(), secrets.token_hex(16)
        try:
            handle = await browser.new_context(
                viewport={"width": kind.width, "height": kind.height},
                service_workers="block",
                accept_downloads=False,
                locale="en-US",
                timezone_id="UTC",
                color_scheme="light",
                reduced_motion="reduce",
                extra_http_headers={HEADER: token},
            )
            try:
                return Context(handle, await self._wait_on(handle, kind), browser, token)
            except BaseException:
                self.later(self._close(handle))
                raise
        except Error as error:
            raise Fault(f"the browser makes no context: {str(error)[:300]}", reason=Reason.CRASH) from error

    async def _wait_on(self, handle: "playwright.BrowserContext", kind: Kind) -> Tab:
        """Return the first page of a new context, once the page on which it waits stands."""
        await handle.clock.install(time=kind.clock)
        await handle.clock.pause_at(kind.clock)
        tab = Tab(await handle.new_page())
        await tab.attach()
        await tab.cdp.send("Page.navigate", {"url": f"http://{kind.ready}/"})
        await tab.calm()
        return tab

    def give_back(self, context: Context) -> None:
        """End a context in the background; nothing of it is used again."""
        self.later(self._close(context.handle))

    async def _close(self, handle: "playwright.BrowserContext") -> None:
        try:
            async with asyncio.timeout(20):
                await handle.close()
        except Exception:  # it is gone already, or hangs with its browser
            return

    def later(self, coroutine: Coroutine[object, object, object]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def stop(self) -> None:
        """End everything."""
        self.closed = True
        for task in list(self.tasks):
            task.cancel()
        if self.handle is not None:
            await self.handle.close()
        if self.playwright is not None:
            await self.playwright.stop()


def _new() -> Browser:
    browser_holder = Browser()
    atexit.register(_stop, browser_holder, os.getpid())
    return browser_holder


browser = PerProcess(_new)
"""Returns the browser of this process; MissingExtra where there is none to be had."""


def _stop(browser: Browser, process: int) -> None:
    if os.getpid() != process:
        return
    try:
        loop().run(browser.stop(), 10)
    except Exception:  # the driver ends its browser when our end of its pipe closes
        return
