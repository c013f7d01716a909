"""The card of an environment."""

import broken_envs

from agentgym import Task
from agentgym.cli.card import Lengths, _watched
from agentgym.contract.solutions import finish


def test_turns_of_the_expert_are_those_that_it_played():
    """An expert that gives up has not played the turn at which it does."""
    env, lengths = broken_envs.Stairs(), Lengths([], [])
    for actions, goal in (([None], 9), (["up", "up", None], 9), (["up", "up"], 2)):
        _, info = env.reset(seed=0, options={"task": Task("climb", {"start": 0, "goal": goal})})
        turns = finish(env, _watched(lambda _, rest=iter(actions): next(rest), lengths), info)
        assert lengths.turns[-1] == turns == len(actions) - (actions[-1] is None)
    assert len(lengths.turns) == 3
