"""Tools of MCP servers inside an environment."""

from agentgym.mcp_tools.env import McpEnv

__all__ = ["McpEnv"]
