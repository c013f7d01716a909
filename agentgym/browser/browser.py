"""One browser per process, with contexts created ahead of the episodes that use them."""

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
"""Number of idle contexts that are created ahead for each kind of context in use."""


@dataclass(frozen=True)
class Kind:
    """A kind of browser context: the options that all contexts of this kind share."""

    clock: str
    """Start time of the clock in every document, ISO 8601, UTC."""
    width: int
    height: int
    ready: str = READY
    """Host of the page that an idle context shows; a host of the episode's own site saves a new renderer process."""


@dataclass
class Context:
    """A browser context with its first page, used by one episode and then closed."""

    handle: "playwright.BrowserContext"
    tab: Tab
    browser: "playwright.Browser"
    token: str
    """Token that every request carries; it identifies the episode to the server."""


class Browser:
    """Chromium, started on first use and restarted after a crash; a crash ends only the episodes that were open in it."""

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
        """Return the connected browser; start it first if needed."""
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
        """Return an unused context of this kind, created now if none is idle."""
        while self.ready[kind]:
            context = self.ready[kind].popleft()
            if context.browser.is_connected() and not context.tab.page.is_closed():
                return context
        return await self._make(kind)

    def refill(self, kind: Kind) -> None:
        """Create idle contexts of this kind in the background, up to AHEAD."""
        while len(self.ready[kind]) + self.making[kind] < AHEAD and not self.closed:
            self.making[kind] += 1
            self.later(self._add(kind))

    async def _add(self, kind: Kind) -> None:
        try:
            self.ready[kind].append(await self._make(kind))
        except Exception:  # the next episode creates its own context and reports the error
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
        """Load the idle page in a new context and return its tab."""
        await handle.clock.install(time=kind.clock)
        await handle.clock.pause_at(kind.clock)
        tab = Tab(await handle.new_page())
        await tab.attach()
        await tab.cdp.send("Page.navigate", {"url": f"http://{kind.ready}/"})
        await tab.calm()
        return tab

    def give_back(self, context: Context) -> None:
        """Close a context in the background; it is never reused."""
        self.later(self._close(context.handle))

    async def _close(self, handle: "playwright.BrowserContext") -> None:
        try:
            async with asyncio.timeout(20):
                await handle.close()
        except Exception:  # already closed, or its browser hangs
            return

    def later(self, coroutine: Coroutine[object, object, object]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def stop(self) -> None:
        """Close all contexts, the browser and its driver."""
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
"""Returns this process's browser; raises MissingExtra if none is available."""


def _stop(browser: Browser, process: int) -> None:
    if os.getpid() != process:
        return
    try:
        loop().run(browser.stop(), 10)
    except Exception:  # the driver closes its browser when our end of the pipe closes
        return
