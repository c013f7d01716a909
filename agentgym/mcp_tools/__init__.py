"""Tools of MCP servers inside an environment."""

from agentgym.mcp_tools.env import McpEnv as McpEnv
