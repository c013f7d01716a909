"""Online shop environment: search, read product pages, choose options, buy (WebShop's engine in plain Python)."""

from agentgym.envs.shop.env import Shop, WebShop

__all__ = ["Shop", "WebShop"]
