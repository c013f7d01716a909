"""The selection `dagger`: train on the expert's action in every state that the policy visited."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

from agentgym.agents.demonstrator import Demonstrator
from agentgym.agents.token_agent import TokenConversation
from agentgym.core.env import TextEnv
from agentgym.core.seeding import generator
from agentgym.episodes.episode import Episode, Group, Turn
from agentgym.rollout.replay import begins_a_reply
from agentgym.trainers.credit.interface import WORTH
from agentgym.trainers.seam import Within
from agentgym.trainers.selections.interface import select
from agentgym.trainers.selections.mixing import joined, stand_in


def expert_action(env: TextEnv) -> str | None:
    """Return the expert's next action in the current state; None if the expert has no action."""
    return next(iter(env.expert()), None)


@select("dagger", requires=("expert", "replays"), worth=True)
async def dagger(
    groups: Sequence[Group],
    *,
    earlier: Annotated[float, Within(0, 1000)] = 1.0,
    capacity: Annotated[int, Within(0, 1_000_000)] = 1000,
    own: bool = False,
    state: dict[str, list[str]],
    step: int = 0,
    run: Any,
) -> list[Group]:
    """Replace each episode by the expert's replies in the states that the policy visited, for imitation.

    Source: DAgger, arXiv 1011.0686. Each episode is replayed, and the expert is asked for its action in every state.
    The action is written in the agent's own tokens after the policy's prompt, with a worth of 1 (use credit
    `off_policy`). An SFT warm start corresponds to the first iteration, in which the expert acts (beta 1); afterwards
    the policy acts (beta 0). DAgger trains on all labels so far in every iteration. Here a step trains on its own
    labels and on `earlier` times as many episodes, drawn from the last `capacity` of this process.

    With `own`, the policy's episodes stay in their groups, and the credit's base applies to them. Labels have the
    log-probabilities of the policy before the update, so the ratio starts at 1. There is no label for a state that the
    replay does not reach, a state without an expert action, a state within a reply of several calls, or a state in
    which the expert's reply would exceed the context. Groups without labels are dropped.
    """
    pairs = [(group, episode) for group in groups for episode in group]
    labels = await _labelled([episode for _, episode in pairs], run)
    fresh: dict[int, list[Episode]] = {}
    for (group, _), label in zip(pairs, labels, strict=True):
        if label.turns:
            fresh.setdefault(id(group), []).append(label)
    labels_text: list[str] = state.setdefault("labels", [])
    old = _drawn(labels_text, round(earlier * sum(map(len, fresh.values()))), run.config.seed, step)
    added = [label.to_json() for of_group in fresh.values() for label in of_group]
    state["labels"] = [*labels_text, *added][-capacity:] if capacity else []
    stand_in([*old, *(label for of_group in fresh.values() for label in of_group)], run)
    known = [group for group in groups if id(group) in fresh]
    mixed: list[Group] = []
    for place, group in enumerate(known):
        labels = fresh[id(group)]
        first = joined(group, labels) if own else Group(group.task_id, group.role, labels)
        mixed.append(joined(first, old[place :: len(known)]))
    return mixed


async def _labelled(episodes: Sequence[Episode], run: Any) -> list[Episode]:
    """Return the episodes with the expert's replies in place of the policy's; turns without such a reply are dropped."""
    by_env: dict[str, list[int]] = {}
    for place, episode in enumerate(episodes):
        by_env.setdefault(run.env_name(episode), []).append(place)
    agents = run.rollouts.agents(run.config.temperature)
    labels: dict[int, Episode] = {}
    for name, places in by_env.items():
        queries = [(run.task(episodes[place]), episodes[place]) for place in places]
        answers = await run.rollouts.pool.consult(name, queries, expert_action)
        demonstrator = Demonstrator(agents[name])
        tools = run.rollouts.env(name).tools
        for place, (task, episode), actions in zip(places, queries, answers, strict=True):
            talk: TokenConversation = demonstrator.agent.begin(task, tools)
            places = range(episode.shared, len(actions))  # turns of another attempt have their labels there
            turns = [
                _label(episode.turns[k], actions[k], demonstrator, talk) for k in places if begins_a_reply(episode.turns, k)
            ]
            labels[place] = _with_turns(episode, [turn for turn in turns if turn is not None])
    return [labels[place] for place in range(len(episodes))]


def _label(turn: Turn, action: str | None, demonstrator: Demonstrator, talk: TokenConversation) -> Turn | None:
    """Return the expert's reply at a turn of the policy.

    None if there is no action, the turn has no prompt tokens, or the reply exceeds the context.
    """
    if action is None or not turn.prompt_ids:
        return None
    ids, limit = demonstrator.reply_ids(talk, action), demonstrator.agent.context_tokens
    if limit is not None and len(turn.prompt_ids) + len(ids) > limit:
        return None
    label = Turn(turn.observation, turn.state_key, turn.admissible, turn.prompt_ids, ids, text=action, action=action)
    label.role, label.extra, label.plain_ids = turn.role, {WORTH: 1.0}, turn.plain_ids
    return label


def _with_turns(episode: Episode, turns: list[Turn]) -> Episode:
    """Return a copy of an episode with these turns and without reward."""
    built = replace(episode, turns=[], reward=0.0, final_rewards={}, role_outcomes={}, forks=[])
    for turn in turns:
        built.add(turn)
    return built


def _drawn(labels: Sequence[str], number: int, seed: int, step: int) -> list[Episode]:
    """Draw `number` episodes from the stored `labels` (JSON text) without replacement; return all if there are fewer."""
    order = generator("dagger", seed, step).permutation(len(labels))[:number]
    return [Episode.from_json(labels[int(place)]) for place in order]
