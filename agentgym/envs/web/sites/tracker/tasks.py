"""Task families of the tracker."""

from agentgym.envs.web.family import TaskFamily
from agentgym.envs.web.sites.tracker.changes import (
    CloseIssue,
    CloseLabelled,
    CreateIssue,
    GiveRoles,
    PlanMilestone,
    ReplaceLabel,
    Triage,
)
from agentgym.envs.web.sites.tracker.questions import Assignee, Busiest, CountIssues, NewValue
from agentgym.envs.web.sites.tracker.reviews import Merge, Review

FAMILIES: tuple[TaskFamily, ...] = (
    CountIssues(),
    Assignee(),
    Busiest(),
    NewValue(),
    CreateIssue(),
    Triage(),
    CloseIssue(),
    CloseLabelled(),
    PlanMilestone(),
    GiveRoles(),
    ReplaceLabel(),
    Merge(),
    Review(),
)
