"""A real browser for environments of pages: Chromium, a loopback server for their sites, and the environment they all
are."""

from agentgym.browser.chromium import chromium
from agentgym.browser.env import BrowserEnv
from agentgym.browser.server import mount

__all__ = ["BrowserEnv", "chromium", "mount"]
