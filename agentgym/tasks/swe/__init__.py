"""Repositories with a bug and the tests that show it: the format, the embedded tasks and the maker."""

from agentgym.tasks.swe.instance import Edit as Edit
from agentgym.tasks.swe.instance import Instance as Instance
from agentgym.tasks.swe.instance import Repository as Repository
from agentgym.tasks.swe.lines import EMBEDDED as EMBEDDED
from agentgym.tasks.swe.lines import read as read
from agentgym.tasks.swe.lines import write as write
