"""Where Chromium is, and how it is started."""

import importlib.util
import os
import shutil
from functools import cache
from pathlib import Path

from agentgym.errors import MissingExtra, how_to_install

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""Programs in order: the shell is the same engine without the windows of a browser, and quicker for it."""
ADVICE = "Debian: apt install chromium-headless-shell, or chromium. Elsewhere: playwright install chromium."

FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-domain-reliability",
    "--dns-prefetch-disable",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",  # no name is ever asked for
    "--proxy-bypass-list=<-loopback>",  # not even loopback is reached past our server
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-site-isolation-trials",  # a page and its frames in one process: one script sees all of them
    "--renderer-process-limit=256",  # episodes do not share a process
    "--js-flags=--max-old-space-size=512",  # MiB: a page that grows without end dies alone
    "--mute-audio",
)
FEATURES_OFF = (
    "IsolateOrigins,site-per-process,WebRtcHideLocalIpsWithMdns,Prerender2,BackForwardCache,"
    # pages of the address bar that nobody sees: a process of their own for each context, awake at each navigation
    "WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup,WebUIContentsPreload,InitialWebUI,WebUIReloadButton"
)


def chromium() -> str | None:
    """Return the browser that is used: $AGENTGYM_CHROMIUM, the system's, Playwright's own, or None."""
    given = os.environ.get("AGENTGYM_CHROMIUM", "")
    path_found = next((path for name in (given, *NAMES) if name and (path := shutil.which(name))), None)
    return path_found or _own()


def needed(env: str) -> str:
    """Return the path of the browser; MissingExtra says who needs one and how to get it."""
    if not importlib.util.find_spec("playwright") or not importlib.util.find_spec("waitress"):
        raise MissingExtra(f"{env} needs a browser's driver and a server: {how_to_install('web')}")
    path = chromium()
    if path is None:
        raise MissingExtra(
            f"{env} needs a Chromium and found none (looked for: $AGENTGYM_CHROMIUM, {', '.join(NAMES)}, Playwright's).\n"
            f"       {ADVICE}"
        )
    return path


def arguments(proxy: str) -> list[str]:
    """Return the command line; Chromium's own sandbox stays on where it can work: not for root."""
    root = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    return [*FLAGS, f"--disable-features={FEATURES_OFF}", f"--proxy-server={proxy}", *root]


@cache
def _own() -> str | None:
    """Return where Playwright's own browser lies, if it was downloaded; asked once, for it starts a program."""
    if not importlib.util.find_spec("playwright"):
        return None
    from playwright.sync_api import Error, sync_playwright

    try:
        with sync_playwright() as playwright:
            path = playwright.chromium.executable_path
    except (Error, OSError):
        return None
    return next(
        (
            str(candidate)
            for candidate in (*_shells(Path(path)), path)
            if os.access(candidate, os.X_OK) and Path(candidate).is_file()
        ),
        None,
    )


def _shells(browser: Path) -> list[Path]:
    """Return the headless shells that Playwright keeps beside its browser, `…/chromium-REVISION/FOLDER/chrome`."""
    folder = next((parent for parent in browser.parents if parent.name.startswith("chromium-")), None)
    return sorted(folder.parent.glob(f"chromium_headless_shell{folder.name[8:]}/*/*headless*shell*")) if folder else []
