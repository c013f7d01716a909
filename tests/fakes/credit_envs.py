"""Episodes written by hand for tests of credit."""

from agentgym.episodes.episode import Episode, Group, Turn


def episode(*turns, reward=None, task="train/0/0"):
    """Each turn: (observation, reward) or (observation, reward, valid)."""
    made = [Turn(observation=t[0], state_key=f"key {t[0]}", reward=t[1], valid=t[2] if len(t) > 2 else True) for t in turns]
    total = sum(turn.reward for turn in made) if reward is None else reward
    return Episode(env="e", task_id=task, group_id=task, seed=0, turns=made, reward=total)


def group(*episodes):
    return Group("train/0/0", "agent", list(episodes))
