"""Environments whose tools come from MCP servers."""

from agentgym.mcp_tools.env import McpEnv

__all__ = ["McpEnv"]
