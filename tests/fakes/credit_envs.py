"""Episodes written by hand for tests of credit."""

from agentgym.episodes.episode import Episode, Group, Turn


def episode(*turns, reward=None, task="train/0/0"):
    """Each turn: (observation, reward) or (observation, reward, valid); `reward`: the total, with what the outcome pays."""
    made = [Turn(observation=t[0], state_key=f"key {t[0]}", valid=t[2] if len(t) > 2 else True) for t in turns]
    for turn, (_, paid, *_) in zip(made, turns, strict=True):
        turn.reward, turn.rewards = paid, {"paid": paid}
    total = sum(turn.reward for turn in made)
    found = Episode(env="e", task_id=task, group_id=task, seed=0, turns=made, reward=total)
    if reward is not None:
        found.reward, found.role_outcomes = reward, {"agent": reward - total}
    return found


def group(*episodes):
    return Group("train/0/0", "agent", list(episodes))
