"""One page of an episode: its events, its content, and waiting until it has settled."""

import asyncio
import json
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.errors import Fault, Reason

JsonObject = dict[str, Any]

if TYPE_CHECKING:
    from playwright.async_api import Page

SLICE = 100  # ms of page time between two checks of the network, while timers fire
STREAMS = {"EventSource", "WebSocket", "Ping"}  # requests that never finish or that nobody waits for


class PageError(Exception):
    """An action failed in the page; the message is a sentence for the agent."""


@cache
def script() -> str:
    """Return the source of `page.js`, the script that reads pages."""
    return (Path(__file__).parent / "page.js").read_text(encoding="utf-8")


class Tab:
    """A page with its own debugging session, whose messages arrive in order."""

    def __init__(self, page: "Page") -> None:
        self.page = page
        self.cdp: Any = None
        self.frame = ""
        self.env: int | None = None
        self.requests: set[str] = set()
        self.loading: set[str] = set()
        self.leaving = 0.0  # deadline for a requested navigation to begin
        self.going = False  # a new document is loading, so calls to this one are pointless
        self.popups = 0
        self.crashed = False
        self.stirred = asyncio.Event()
        self.on_crash = lambda: None

    async def attach(self) -> None:
        """Start listening to the page's events."""
        self.page.on("crash", self._crash)
        self.cdp = await self.page.context.new_cdp_session(self.page)
        listeners = {
            "Network.requestWillBeSent": self._request,
            "Network.loadingFinished": self._answered,
            "Network.loadingFailed": self._answered,
            "Network.webSocketCreated": self._request,  # our server refuses the socket, which closes it
            "Network.webSocketClosed": self._answered,
            "Page.frameStartedLoading": self._load,
            "Page.frameStoppedLoading": self._loaded,
            "Page.frameDetached": self._loaded,
            "Page.frameRequestedNavigation": self._leave,
            "Page.frameNavigated": self._arrive,
            "Page.windowOpen": self._popup,
        }
        for name, listener in listeners.items():
            self.cdp.on(name, listener)
        await self.cdp.send("Page.enable")
        await self.cdp.send("Network.enable", {"maxTotalBufferSize": 0, "maxResourceBufferSize": 0})
        self.frame = (await self.cdp.send("Page.getFrameTree"))["frameTree"]["frame"]["id"]

    def _crash(self, *_: object) -> None:
        self.crashed = True
        self.stirred.set()
        self.on_crash()

    def _request(self, event: JsonObject) -> None:
        if event.get("type") not in STREAMS:
            self.requests.add(event["requestId"])

    def _answered(self, event: dict[str, object]) -> None:
        self.requests.discard(event["requestId"])
        self.stirred.set()

    def _load(self, event: JsonObject) -> None:
        self.loading.add(event["frameId"])
        self.going |= event["frameId"] == self.frame
        self.leaving = 0.0

    def _loaded(self, event: JsonObject) -> None:
        self.loading.discard(event["frameId"])
        self.going &= event["frameId"] != self.frame
        self.stirred.set()

    def _leave(self, event: dict[str, object]) -> None:
        if event.get("disposition", "currentTab") == "currentTab":
            self.leaving = time.monotonic() + 2.0

    def _arrive(self, event: JsonObject) -> None:
        self.leaving = 0.0
        if event["frame"]["id"] == self.frame:
            self.env, self.going = None, False
            self.requests.clear()
        self.stirred.set()

    def _popup(self, _: dict[str, object]) -> None:
        self.popups += 1

    # Calls into the page

    async def call(self, function: str, *arguments: object) -> Any:
        """Call a function of `page.js` and return its result.

        Raises:
            Fault: the page crashed or cannot be read.
            PageError: the function threw an error with a sentence for the agent.
        """
        spoken = f"agent.{function}({', '.join(json.dumps(argument) for argument in arguments)})"
        for attempt in range(3):
            try:
                if self.env is None:
                    await self._enter()
                return await self._evaluate(spoken, self.env)
            except PageError:
                raise
            except Exception as error:  # Playwright's errors have no codes; the document was replaced between two calls
                if self.crashed:
                    raise Fault("the page's process crashed", reason=Reason.CRASH) from error
                self.env = None
                if attempt == 2:
                    raise Fault(f"the page cannot be read: {str(error)[:200]}", reason=Reason.CRASH) from error
                await asyncio.sleep(0.005)
        return None

    async def _enter(self) -> None:
        context = await self.cdp.send(
            "Page.createIsolatedWorld", {"frameId": self.frame, "worldName": "agentgym", "grantUniveralAccess": True}
        )
        env = context["executionContextId"]
        await self._evaluate(f"globalThis.agent = ({script()})(); 0", env)
        self.env = env

    async def _evaluate(self, expression: str, env: int | None = None) -> Any:
        where = {} if env is None else {"contextId": env}
        answer = await self.cdp.send(
            "Runtime.evaluate", {"expression": expression, "returnByValue": True, "awaitPromise": True, **where}
        )
        thrown = answer.get("exceptionDetails")
        if thrown is None:
            return answer["result"].get("value")
        value = thrown.get("exception", {}).get("value")
        if isinstance(value, str):
            raise PageError(value)
        raise RuntimeError(thrown.get("exception", {}).get("description") or thrown["text"])

    async def main(self, expression: str) -> Any:
        """Evaluate a JavaScript expression in the page's main world; None if it fails or the document is replaced meanwhile.

        Raises:
            Fault: the page crashed.
        """
        try:
            return await self._evaluate(expression)
        except Exception as error:
            if self.crashed:
                raise Fault("the page's process crashed", reason=Reason.CRASH) from error
            return None

    # Settling

    @property
    def busy(self) -> bool:
        """True while a request, a load or a requested navigation is pending."""
        return bool(self.requests or self.loading or self.leaving > time.monotonic())

    async def calm(self) -> None:
        """Wait until no request or load is pending and a frame was drawn without a change to the document.

        Raises:
            Fault: the page crashed or closed itself.
        """
        while True:
            if not self.going:
                await self.call("quiet")
            if self.crashed or self.page.is_closed():
                raise Fault("the page's process crashed" if self.crashed else "the page closed itself", reason=Reason.CRASH)
            if not self.busy:
                return
            self.stirred.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.stirred.wait(), 0.05)

    async def settle(self, milliseconds: int) -> None:
        """Let the page settle, advance page time by `milliseconds`, and let it settle again if a timer fired."""
        await self.calm()
        left, fired = milliseconds, False
        while left > 0:
            piece, due = await self.main(RUN.replace("LEFT", str(left))) or (left, False)
            left, fired = left - piece, fired or due
            if self.busy:
                await self.calm()
        if fired:
            await self.calm()


RUN = """(async () => {
  const all = (view) => {
    let found = view.__pwClock ? [view.__pwClock.controller] : [];
    for (let i = 0; i < view.length && i < 50; i++) try { found = found.concat(all(view[i])); } catch {}
    return found;
  };
  const left = LEFT, clocks = all(window);
  const due = Math.min(Infinity, ...clocks.map((clock) => (clock._firstTimer()?.callAt ?? Infinity) - clock._now.ticks));
  const piece = due > left ? left : Math.min(left, Math.max(SLICE, Math.ceil(due)));
  for (const clock of clocks) try { await clock.runFor(piece); } catch {}
  return [piece, due <= left];
})()""".replace("SLICE", str(SLICE))
"""JavaScript that advances Playwright's clock in all frames, to the next timer, by at least SLICE and at most LEFT ms.

Returns [milliseconds advanced, true if a timer was due]; LEFT below SLICE wins.
"""
