"""The real OpenEnv client against served environments, run by `./dev test-openenv`."""

import os

PYTHON = os.environ.get("AGENTGYM_OPENENV", "")
"""A Python with `openenv` installed, in an environment of its own."""
collect_ignore_glob = [] if PYTHON else ["test_*.py"]
