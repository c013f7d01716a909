"""Environments for programs elsewhere: sessions over HTTP, WebSocket (OpenEnv's wire) and MCP."""

from agentgym.env_server.app import App as App
from agentgym.env_server.sessions import Limits as Limits
from agentgym.env_server.sessions import Sessions as Sessions
