"""Tasks: what there is to do, how it is drawn, and which split it belongs to."""

from agentgym.tasks.spaces import Task as Task
from agentgym.tasks.spaces import TaskSpace as TaskSpace
