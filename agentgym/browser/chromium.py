"""Find and start Chromium."""

import importlib.util
import os
import shutil
from functools import cache
from pathlib import Path

from agentgym.errors import MissingExtra, how_to_install

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""Program names in order of preference: the headless shell is the same engine without windows, and faster."""
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
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",  # no DNS lookups
    "--proxy-bypass-list=<-loopback>",  # loopback goes through our server, too
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-site-isolation-trials",  # one process for a page and its frames, so one script reads all of them
    "--renderer-process-limit=256",  # episodes do not share a process
    "--js-flags=--max-old-space-size=512",  # MiB: a page that grows without bound crashes alone
    "--mute-audio",
)
FEATURES_OFF = (
    "IsolateOrigins,site-per-process,WebRtcHideLocalIpsWithMdns,Prerender2,BackForwardCache,"
    # hidden pages of the address bar: each context would run a process for them, active on every navigation
    "WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup,WebUIContentsPreload,InitialWebUI,WebUIReloadButton"
)


def chromium() -> str | None:
    """Return the path of the first browser found: $AGENTGYM_CHROMIUM, the system's, Playwright's; None if there is none."""
    configured = os.environ.get("AGENTGYM_CHROMIUM", "")
    path_found = next((path for name in (configured, *NAMES) if name and (path := shutil.which(name))), None)
    return path_found or _own()


def needed(env: str) -> str:
    """Return the path of the browser; `env` names the environment in the error message.

    Raises:
        MissingExtra: the `web` extra or a Chromium is missing; the message says how to install it.
    """
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
    """Return Chromium's command-line arguments; its sandbox is off only for root, where it cannot work."""
    root = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    return [*FLAGS, f"--disable-features={FEATURES_OFF}", f"--proxy-server={proxy}", *root]


@cache
def _own() -> str | None:
    """Return the path of Playwright's browser; None if it is missing. Cached, because the lookup starts a program."""
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
    """Return the headless shells that Playwright keeps next to its browser, `…/chromium-REVISION/FOLDER/chrome`."""
    folder = next((parent for parent in browser.parents if parent.name.startswith("chromium-")), None)
    return sorted(folder.parent.glob(f"chromium_headless_shell{folder.name[8:]}/*/*headless*shell*")) if folder else []
