"""Repositories with a bug and the tests that reveal it: the format, the embedded tasks and the maker."""

from agentgym.envs.swe.tasks.instance import Edit as Edit
from agentgym.envs.swe.tasks.instance import Instance as Instance
from agentgym.envs.swe.tasks.instance import Repository as Repository
from agentgym.envs.swe.tasks.lines import EMBEDDED as EMBEDDED
from agentgym.envs.swe.tasks.lines import read as read
from agentgym.envs.swe.tasks.lines import write as write
