"""The need `preference`: advantages of turns by a critic that sees the task's solution (SWEET-RL)."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from agentgym.agents.policies import OracleAgent
from agentgym.agents.spec import AGENTS
from agentgym.core.env import TextEnv
from agentgym.core.seeding import derive, generator
from agentgym.core.tasks import Task
from agentgym.episodes.episode import Episode, Group
from agentgym.errors import BadConfig
from agentgym.rollout.play import Job
from agentgym.trainers.needs.interface import needs
from agentgym.trainers.seam import Within

if TYPE_CHECKING:
    from agentgym.trainers.config.train_config import TrainConfig

PLAN = "The task is solved by:\n"


def _check(config: "TrainConfig", env: TextEnv, name: str) -> None:
    plain: Any = env.unwrapped
    reason = ""
    if config.agent not in AGENTS:
        reason = f"agent {config.agent!r} plays in an environment of its own"
    elif plain.oracle.__func__ is TextEnv.oracle:
        reason = f"{name} has no oracle, whose plan the critic reads"
    if reason:
        raise BadConfig(f"needs 'preference': {reason}. Choose a credit that does not need it")


@needs("preference", check=_check, embeds=True)
async def preference(
    groups: Sequence[Group],
    *,
    run: Any,
    step: int = 0,
    state: dict[str, Any],
    beta: Annotated[float, Within(0, 1000)] = 1.0,
    lr: Annotated[float, Within(0, 1)] = 1e-3,
    hidden: Annotated[int, Within(0, 100_000)] = 64,
    updates: Annotated[int, Within(1, 1_000_000)] = 50,
    batch: Annotated[int, Within(1, 1_000_000)] = 32,
    capacity: Annotated[int, Within(1, 1_000_000)] = 64,
    plan_tokens: Annotated[int, Within(0, 1_000_000)] = 256,
) -> dict[str, float]:
    """Compute A(s, a, c) of each turn, where c is known only to the trainer: the oracle's plan (SWEET-RL, arXiv 2503.15478).

    The critic takes `updates` steps of Adam on -log sigmoid(beta (sum_t A(better) - sum_t A(worse))) over `batch` pairs of
    episodes at one task with different rewards, drawn from the newest `capacity` groups; then it scores the step's turns.
    The actions with which the oracle solves the task, at most `plan_tokens`, are prepended to the episode in a separate
    forward pass without gradient; hidden states at the end of each turn's prompt and of its reply are the inputs of the
    critic (`hidden` units). The plan is in no prompt for sampling or training, and only these states are kept of it. nan
    in turns without tokens. All processes hold the same critic and pairs, also in the checkpoint. Logged:
    `preference_loss`, and per process `preference_pairs`.
    Part: in the paper A is the mean log-ratio of a language model trained for it, and turns are then trained by DPO on pairs
    of replies to one history. Here A is a head on the policy's own states, which the paper found to generalise worse.
    """
    from agentgym.trainers.learners.embedding import turn_states
    from agentgym.trainers.needs.turn_critics.preference import PreferenceCritic, ScoredTurns, packed, pairs

    episodes = [episode for group in groups for episode in group]
    plans = await _plans(episodes, run, plan_tokens)
    by_episode = turn_states(episodes, run.learner.embed, plans)
    seen: dict[int, ScoredTurns] = {}
    for episode, states in zip(episodes, by_episode, strict=True):
        for turn in episode.turns:
            turn.extra["preference"] = math.nan
        if any(turn is not None for turn in states):
            seen[id(episode)] = packed(float(episode.reward), [turn for turn in states if turn is not None])
    own = [[seen[id(episode)] for episode in group if id(episode) in seen] for group in groups]
    state["groups"] = recent = [*state.get("groups", []), *run.gather(own)][-capacity:]
    known = pairs(recent)
    width = next((len(np.frombuffer(e[2], np.float32)) // (2 * e[1]) for group in recent for e in group), 0)
    if not width:
        return {}
    critic = PreferenceCritic(width, hidden, lr=lr, beta=beta, seed=derive("preference", run.config.seed))
    if "critic" in state:
        critic.load(state["critic"])
    rng = generator("preference", run.config.seed, step)
    draws: list[list[int]] = [rng.integers(0, len(known), batch).tolist() for _ in range(updates if known else 0)]
    losses = [critic.update([known[place] for place in drawn]) for drawn in draws]
    state["critic"] = run.gather([critic.saved()])[0]  # another kind of CPU may round differently
    critic.load(state["critic"])
    for episode, states in zip(episodes, by_episode, strict=True):
        turns = [turn for turn, of in zip(episode.turns, states, strict=True) if of is not None]
        for turn, advantage in zip(turns, critic.judged(seen[id(episode)]) if turns else (), strict=True):
            turn.extra["preference"] = advantage
    mean = float(np.mean(losses)) if losses else 0.0
    return {"preference_loss": mean / len(run.gather([0])), "preference_pairs": float(len(pairs(own)))}


async def _plans(episodes: Sequence[Episode], run: Any, most: int) -> list[list[int]]:
    """Return the tokens of the oracle's actions per episode, cut to the model's context; [] if the oracle fails."""
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
    plans: list[list[int]] = []
    for episode in episodes:
        longest = max((len(turn.prompt_ids) + len(turn.output_ids) for turn in episode.turns), default=0)
        room = max(min(context - longest - 1, most), 0)
        plans.append(tokens.get((run.env_name(episode), episode.task_id), [])[: int(room)])
    return plans
