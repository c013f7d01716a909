"""A real browser for web environments: Chromium, a loopback server for the sites, and a base class of environments."""

from agentgym.browser.chromium import chromium
from agentgym.browser.env import BrowserEnv
from agentgym.browser.server import mount

__all__ = ["BrowserEnv", "chromium", "mount"]
