"""What the credit bench compares: environments with their warm starts, the arms, and the oracle between them.

Every setting is one where an exact credit might be better than GRPO's. Most are recipes of the package, played anew in
every step. In `lakes` 16 frozen lakes come again and again, and the policy is tested on these: what separates credits
there is how many episodes a policy takes to learn long ways by heart.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import agentgym
from agentgym.rollout.draw import Draw
from agentgym.trainers.credit.scores import punished
from agentgym.trainers.credit.state_td import factor_to_grpo
from agentgym.trainers.data.turn_rewards import turn_rewards
from agentgym.trainers.samplers.interface import TaskSource, Uniform


@dataclass(frozen=True)
class Setting:
    """An environment, an SFT warm start that all arms share, and what their runs have in common."""

    recipe: str
    warm: dict[str, Any] = field(default_factory=dict[str, Any])
    """What differs from the recipe, in the warm start and in the runs."""
    rl: dict[str, Any] = field(default_factory=dict[str, Any])
    split: str = "test"
    tasks: int = 400
    """Tasks of the split that the last policy plays, at temperature 1."""
    attempts: int = 1
    """How often it plays each of them."""


def _game(name: str, noise: float, **options: Any) -> dict[str, Any]:
    """Return what makes a recipe of Household one of another environment: a share `noise` of its demonstrations' actions is
    random, shown and not imitated."""
    return {
        **_POLICY, "env": f"rlvr/{name}-v0", "env_options": options, "valid_split": "valid", "test_split": "test",
        "sft_episodes": 6400, "sft_noise": noise, "sft_invalid": 0.0, "sft_forget": 0.0, "sft_masked": ("random",),
    }  # fmt: skip


RUNS = {
    "steps": 20, "clip_low": 0.3, "clip_high": 0.3, "lr_warmup": 4, "min_lr_ratio": 0.25, "temperature": 1.0,
    "select": "keep", "negative_advantage_weight": 0.5, "batch_tokens": 8192, "share_prefixes": True,
}  # fmt: skip
"""The last two save time and change how sums are rounded."""
_POLICY = {"policy_layers": 3, "policy_induction_heads": False, "sft_lr": 8e-3}
"""The policy of the recipe `household` when the settings were chosen."""
_HOUSEHOLD = {**_POLICY, "sft_episodes": 7200, "sft_noise": 0.06, "sft_invalid": 0.03, "sft_masked": ("invalid",)}
SETTINGS = {
    "household": Setting("household", _HOUSEHOLD, RUNS | {"tasks_per_step": 16, "group_size": 8}, "valid_unseen"),
    "household-small": Setting(
        "household", _HOUSEHOLD, RUNS | {"tasks_per_step": 2, "group_size": 8, "steps": 40}, "valid_seen"
    ),
    "household-easy": Setting("household-easy", {"sft_episodes": 12800, "sft_noise": 0.06}, RUNS, "valid_unseen"),
    "shop": Setting("shop", {}, RUNS),
    "sql": Setting("sql", {}, RUNS),
    "negotiation": Setting(
        "household", _game("Negotiation", 0.2), RUNS | {"tasks_per_step": 8, "group_size": 8}
    ),
    "lakes": Setting(
        "household", _game("FrozenLake", 0.3, difficulty=3, slip=0.0, horizon=30),
        RUNS | {
            "sampler": "first", "sampler_options": {"tasks": 16}, "tasks_per_step": 1, "group_size": 8, "steps": 48,
            "negative_advantage_weight": 1.0,
        },
        "train", 16, 25,
    ),
}  # fmt: skip


@agentgym.sampler("first")
class First(Uniform):
    """The first `tasks` tasks again and again: a policy can learn them by heart, and credit decides how fast."""

    def __init__(self, sources: Sequence[TaskSource], *, tasks: int = 16) -> None:
        super().__init__(sources)
        self.tasks = tasks

    def draw(self, step: int, number: int) -> list[Draw]:
        """Return the next tasks, which begin anew after the last one."""
        draws: list[Draw] = []
        for name in self._turns(number):
            self.places[name] %= self.tasks
            draws.append(self._next(name))
        return draws


@agentgym.credit("oracle", scope="batch", needs=("branches",))
def oracle(groups: Sequence[Any], *, run: Any = None, penalty: float = 0.0) -> list[list[Any]]:
    """Q - V by continuations from before and after each turn, at GRPO's spread: the upper end of what credit can be."""
    found: list[list[Any]] = []
    for group in groups:
        rows: list[Any] = []
        for episode in group:
            values = np.array([*(turn.extra["branches"] for turn in episode.turns), 0.0])
            rows.append(np.nan_to_num(turn_rewards(episode) + values[1:] - values[:-1]))
        found.append(rows)
    factor = factor_to_grpo(groups, found, run)
    return [
        [factor * row - penalty * punished(e.turns, "valid") for row, e in zip(rows, group, strict=True)]
        for rows, group in zip(found, groups, strict=True)
    ]


@dataclass(frozen=True)
class Arm:
    """A credit with its options."""

    credit: str
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    needs: dict[str, Any] = field(default_factory=dict[str, Any])
    branching: dict[str, Any] | None = None
    """Options of branching `turns`, whose branches are trained; None: no branches."""


SHELF = (
    "dr_grpo", "rloo", "reinforce_pp", "reinforce_pp_baseline", "ngrpo", "rl_zvp", "turn_mc", "rebn", "salt",
    "hgpo", "turn_gae", "bilevel_gae", "archer", "sweet", "spa",
)  # fmt: skip
"""Credits that are run with the options that they have by default."""
ARMS = {
    "grpo": Arm("grpo"),
    "gigpo": Arm("gigpo", {"anchor": "observation"}),
    "gigpo-state": Arm("gigpo", {"anchor": "state"}),
    "gigpo_reference": Arm("gigpo_reference"),
    **{name: Arm("sweet_head" if name == "sweet" else name) for name in SHELF},  # its name when it was measured
    "state_td": Arm("state_td"),
    "state_td-text": Arm("state_td", {"anchor": "observation"}),
    "state_td-undiscounted": Arm("state_td", {"gamma": 1.0}),
    "oracle": Arm("oracle", needs={"k": 16}),
    "oracle-8": Arm("oracle", needs={"k": 8}),
    "oracle-4": Arm("oracle", needs={"k": 4}),
    "branch-all": Arm("treerl", branching={"at": "all", "k": 2}),
    "branch-uncertain": Arm("treerl", branching={"at": "uncertain", "k": 2}),
    "branch-anchors": Arm("treerl", branching={"at": "anchors", "k": 2}),
    "branch-arpo": Arm("arpo", branching={"at": "uncertain", "k": 2}),
    "branch-aepo": Arm("aepo", branching={"at": "uncertain", "k": 2}),
    "branch-future": Arm("relative_future", branching={"at": "uncertain", "k": 2}),
    "branch-td": Arm("state_td", branching={"at": "uncertain", "k": 2}),
    "branch_td-alone": Arm("branch_td", needs={"k": 1, "at": "alone"}),
    "pav": Arm("pav", needs={"k": 4, "best_of": 2}),
}
