"""The task families; importing this module fills `scenario.FAMILIES` in a fixed order."""

from agentgym.envs.terminal.families import archives, data, files, git, scripts, source, system, text

__all__ = ["archives", "data", "files", "git", "scripts", "source", "system", "text"]
