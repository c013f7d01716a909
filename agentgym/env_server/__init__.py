"""Serve environments to other programs: sessions over HTTP, WebSocket (OpenEnv's protocol) and MCP."""

from agentgym.env_server.app import App as App
from agentgym.env_server.sessions import Limits as Limits
from agentgym.env_server.sessions import Sessions as Sessions
