"""The oracle's plan as tokens, which a critic may read during training and the policy never sees."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agentgym.agents.policies import OracleAgent
from agentgym.agents.spec import AGENTS
from agentgym.core.env import TextEnv
from agentgym.core.tasks import Task
from agentgym.episodes.episode import Episode
from agentgym.errors import BadConfig
from agentgym.rollout.play import Job

if TYPE_CHECKING:
    from agentgym.trainers.config.train_config import TrainConfig

PLAN = "The task is solved by:\n"


def check_oracle(need: str, config: "TrainConfig", env: TextEnv, name: str) -> None:
    """Check that a need can read the plan of an environment's oracle.

    Raises:
        BadConfig: the environment has no oracle, or the agent brings its own environment.
    """
    plain: Any = env.unwrapped
    reason = ""
    if config.agent not in AGENTS:
        reason = f"agent {config.agent!r} brings its own environment"
    elif plain.oracle.__func__ is TextEnv.oracle:
        reason = f"{name} has no oracle, whose plan the critic reads"
    if reason:
        raise BadConfig(f"needs {need!r}: {reason}. Choose a credit that does not need it")


async def plans(episodes: Sequence[Episode], run: Any, most: int) -> list[list[int]]:
    """Return the tokens of the oracle's actions for each episode, limited to `most` tokens and to the room in the context.

    The list is empty for an episode whose task the oracle fails.
    """
    tasks: dict[tuple[str, str], Task] = {}
    for episode in episodes if most else ():
        tasks.setdefault((run.env_name(episode), episode.task_id), run.task(episode))
    jobs = [Job(task, 0, run.config.seed, f"oracle/{name}/{task.id}", name) for (name, _), task in tasks.items()]
    solved: list[Episode] = await run.rollouts.pool.collect(OracleAgent(), jobs)
    agents = run.rollouts.agents(run.config.temperature)
    tokens: dict[tuple[str, str], list[int]] = {}
    for place, episode in zip(tasks, solved, strict=True):
        text = PLAN + "\n".join(turn.action for turn in episode.turns) + "\n\n"
        tokens[place] = list(agents[place[0]].template.encoder.plain(text))[:most] if episode.success else []
    context = getattr(run.learner.engine, "context", None) or math.inf
    cut: list[list[int]] = []
    for episode in episodes:
        longest = max((len(turn.prompt_ids) + len(turn.output_ids) for turn in episode.turns), default=0)
        room = max(min(context - longest - 1, most), 0)
        cut.append(tokens.get((run.env_name(episode), episode.task_id), [])[: int(room)])
    return cut
