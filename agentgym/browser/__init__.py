"""A real browser for worlds of pages: Chromium, a loopback server for their sites, and the world they all are."""

from agentgym.browser.chromium import chromium
from agentgym.browser.server import mount
from agentgym.browser.world import BrowserEnv

__all__ = ["BrowserEnv", "chromium", "mount"]
