"""Groups written by hand whose episodes branch off from one another."""

from agentgym.episodes.episode import Episode, Group, Turn
from agentgym.rollout.branched import graft


def turn(name, tokens=(1, 2), logprobs=(-0.5, -0.5), reward=0.0):
    return Turn(f"before {name}", name, output_ids=list(tokens), logprobs=list(logprobs), action=name, reward=reward)


def whole(attempt, names, reward, **options):
    """An episode from the beginning: a turn for each name, its last one paid."""
    turns = [turn(name, **options) for name in names]
    turns[-1].reward = reward
    for number, one in enumerate(turns):
        one.prompt_ids = [i for before in turns[:number] for i in (60, *before.output_ids)] + [60]
    return Episode("e", "t", "g", 100 + attempt, attempt, turns=turns, reward=reward, success=reward > 0)


def branch(attempt, parent, at, names, reward, **options):
    """An episode that goes on from before turn `at` of another."""
    episode = whole(attempt, names, reward, **options)
    graft(episode, parent, at)
    held_ids = []
    for one in episode.turns:
        one.prompt_ids = [*held_ids, 60]
        held_ids = [*one.prompt_ids, *one.output_ids]
    return episode


def tree():
    """Two trees: a b c (1) with branches a b x (0) and a y z (1), of which a y w (0) left; and alone d (0)."""
    first = whole(0, "abc", 1.0)
    second = branch(1, first, 2, "x", 0.0)
    third = branch(2, first, 1, "yz", 1.0)
    fourth = branch(3, third, 2, "w", 0.0)
    return Group("t", "agent", [first, second, third, fourth, whole(4, "d", 0.0)])
