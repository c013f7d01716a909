"""Episodes of tried actions, and what rewards pay them."""

from credit_envs import episode

from agentgym.trainers.rewards.interface import REWARDS


def paid(name, *made, **options):
    return REWARDS.resolve(name, options)(list(made))


def tried(won, *actions):
    made = episode(*(("o", 0.0) for _ in actions), reward=float(won))
    made.success = won
    for turn, action in zip(made.turns, actions, strict=True):
        turn.action = turn.text = action
    return made
