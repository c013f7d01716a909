"""Groups of episodes by their rewards, for selections."""

from types import SimpleNamespace

from agentgym.episodes.episode import Episode, Group, Turn


def group(name, *rewards, step=1):
    """Return a group whose episodes have one turn each, and succeed where they are paid 1."""
    played = []
    for attempt, reward in enumerate(rewards):
        turn = Turn("?", prompt_ids=[1, 2], output_ids=[3, attempt], logprobs=[-0.5, -step], reward=reward)
        episode = Episode("env", name, f"{step}/{name}", 0, attempt, reward=reward, success=reward == 1)
        episode.add(turn)
        played.append(episode)
    return Group(name, "agent", played)


def names(groups):
    return [one.task_id for one in groups]


ALONE = SimpleNamespace(gather=lambda items: items, config=SimpleNamespace(seed=0))
