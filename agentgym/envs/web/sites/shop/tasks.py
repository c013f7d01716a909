"""Task families of the shop."""

from agentgym.envs.web.family import TaskFamily
from agentgym.envs.web.sites.shop.changes import Buy, Cancel, ChangeAddress, ClearWishes, FillCart, OrderAgain, Review
from agentgym.envs.web.sites.shop.questions import Cheapest, OrderTotal, Reviewer, Spending

FAMILIES: tuple[TaskFamily, ...] = (
    OrderTotal(),
    Spending(),
    Cheapest(),
    Reviewer(),
    FillCart(),
    Buy(),
    Cancel(),
    Review(),
    ChangeAddress(),
    ClearWishes(),
    OrderAgain(),
)
