"""A taskset package of verifiers, as a user of it writes one."""

from agentgym.integrations.verifiers import *  # noqa: F403
