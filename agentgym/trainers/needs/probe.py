"""The need `probe`: the probability of the gold answer at each turn."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from agentgym.agents.demonstrator import Demonstrator
from agentgym.agents.policies import OracleAgent
from agentgym.agents.spec import AGENTS
from agentgym.agents.token_agent import TokenConversation
from agentgym.core.env import TextEnv
from agentgym.core.tasks import Task
from agentgym.episodes.episode import Episode, Group, Turn
from agentgym.errors import BadConfig
from agentgym.rollout.play import Job
from agentgym.trainers.data.segments import trained_prompt
from agentgym.trainers.needs.interface import needs, score

if TYPE_CHECKING:
    from agentgym.trainers.config.train_config import TrainConfig

Mean = Literal["geometric", "arithmetic", "none"]


def _check(config: "TrainConfig", env: TextEnv, name: str) -> None:
    plain: Any = env.unwrapped
    reason = ""
    if config.agent not in AGENTS or config.agent == "summary":
        reason = f"agent {config.agent!r} has no demonstrator that could spell an answer"
    elif not plain.declared.answers:
        reason = f"{name} declares no hidden answers (`answers`), so there are none to score"
    elif plain.oracle.__func__ is TextEnv.oracle:
        reason = f"{name} has no oracle to name the winning action"
    if reason:
        raise BadConfig(f"needs 'probe': {reason}. Choose a credit and a loss that do not need it")


@needs("probe", check=_check)
async def probe(groups: Sequence[Group], *, run: Any, mean: Mean = "geometric") -> dict[str, float]:
    """Compute the probability of the gold answer at each turn, given the turn's prompt tokens (IGPO, arXiv 2510.14967).

    A turn's gain is the next turn's number minus its own. The gold answer is the action with which the oracle ends the
    task, written as the agent's demonstrator would: with an empty thought, tags and stop token. The trainer scores all
    of these tokens under the current weights. `mean` combines their probabilities: `geometric` as in IGPO, `arithmetic`
    as in RLPR, or `none` for the probability of the whole answer, which is tiny for long answers. Turns without prompt
    tokens get nan, and so do all turns if the oracle fails. Returns `probe_tokens`, the number of tokens that the
    trainer scored for this need.
    """
    episodes = [episode for group in groups for episode in group]
    winning = await _answers(episodes, run)
    episodes_to_score: list[Episode] = []
    for episode in episodes:
        ids = winning[run.env_name(episode), episode.task_id]
        prompts = [trained_prompt(episode, turn) for turn in episode.turns]
        calls = [Turn("", prompt_ids=prompt, output_ids=ids) for prompt in prompts if prompt]
        episodes_to_score.append(Episode(episode.env, episode.task_id, episode.group_id, 0, turns=calls if ids else []))
    score(episodes_to_score, ("logprobs",), run.learner.score)
    for episode, probes in zip(episodes, episodes_to_score, strict=True):
        answered = iter(probes.turns)
        for turn in episode.turns:
            value = next(answered, None) if trained_prompt(episode, turn) else None
            logprobs = None if value is None else np.asarray(value.extra["logprobs"], dtype=np.float64)
            turn.extra["probe"] = math.nan if logprobs is None else _averaged(logprobs, mean)
    return {"probe_tokens": float(sum(len(t.prompt_ids) + len(t.output_ids) for e in episodes_to_score for t in e.turns))}


def _averaged(logprobs: npt.NDArray[np.float64], mean: Mean) -> float:
    if mean == "arithmetic":
        return float(np.exp(logprobs).mean())
    return math.exp(float(logprobs.mean() if mean == "geometric" else logprobs.sum()))


async def _answers(episodes: Sequence[Episode], run: Any) -> dict[tuple[str, str], list[int]]:
    """Return the tokens of the oracle's last action by (environment, task id); [] if the oracle failed."""
    tasks: dict[tuple[str, str], Task] = {}
    for episode in episodes:
        tasks.setdefault((run.env_name(episode), episode.task_id), run.task(episode))
    jobs = [Job(task, 0, run.config.seed, f"oracle/{name}/{task.id}", name) for (name, _), task in tasks.items()]
    solved: list[Episode] = await run.rollouts.pool.collect(OracleAgent(), jobs)
    agents = run.rollouts.agents(run.config.temperature)
    by_place: dict[tuple[str, str], list[int]] = {}
    for (place, task), episode in zip(tasks.items(), solved, strict=True):
        by_place[place] = []
        if episode.success:
            demonstrator = Demonstrator(agents[place[0]])
            talk: TokenConversation = demonstrator.agent.begin(task, run.rollouts.env(place[0]).tools)
            by_place[place] = demonstrator.reply_ids(talk, episode.turns[-1].action)
    return by_place
