"""The loop over an environment where no model plays."""

import itertools

from agentgym.core.play import episode_text, play, steps
from agentgym.registry import make


def lake():
    env = make("rlvr/FrozenLake-v0").unwrapped
    return env, env.reset(seed=1)


def test_an_action_is_chosen_after_the_one_before_was_looked_at():
    env, seen = lake()
    order = []

    def choose(observation, info):
        order.append(("chosen", env.turn))
        return "no such action"

    for action, step in itertools.islice(play(env, choose, seen), 2):
        order.append((action, env.turn))
        assert step.observation == env.observation and not step.over
    assert order == [("chosen", 0), ("no such action", 1), ("chosen", 1), ("no such action", 2)]


def test_it_ends_with_the_episode_or_where_nothing_is_chosen():
    env, seen = lake()
    solved = list(play(env, lambda _, info: next(iter(env.oracle()), None), seen))
    assert solved[-1][1].over and env.success and not any(step.over for _, step in solved[:-1])
    env, seen = lake()
    assert list(play(env, lambda _, info: None, seen)) == []
    assert len(list(steps(env, [None, "x"]))) == 2  # nothing but the end of the actions ends them


def test_what_is_said_is_the_text_in_order():
    env, seen = lake()
    text = list(itertools.islice(episode_text(env, lambda _, info: "x", seen), 3))
    assert text == [seen[0], "x", env.observation]
