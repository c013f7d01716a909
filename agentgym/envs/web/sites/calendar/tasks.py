"""The calendar's task families."""

from agentgym.envs.web.family import Family

FAMILIES: tuple[Family, ...] = ()
