"""An online shop: search for a product, read its pages, choose options, buy (WebShop's engine in plain Python)."""

from agentgym.envs.shop.env import Shop, WebShop

__all__ = ["Shop", "WebShop"]
