"""A fork at every turn and a policy of one number a choice: what a credit is for, in a second and without a model."""

import numpy as np

from agentgym.episodes.episode import Episode, Group, Turn

TURNS = 4


class Tabular:
    """Of two actions a turn one goes on and one is the end of all hopes; 1 is paid after `TURNS` right ones."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        self.logits = {f"{way} {k}": np.zeros(2) for way in ("on", "lost") for k in range(TURNS)}
        self.values = dict.fromkeys(self.logits, 0.0)

    def chances(self, key):
        raised = np.exp(self.logits[key])
        return raised / raised.sum()

    def success(self):
        return float(np.prod([self.chances(f"on {k}")[1] for k in range(TURNS)]))

    def worth(self, way, k):
        """Return the chance of success from a turn on."""
        return float(np.prod([self.chances(f"on {j}")[1] for j in range(k, TURNS)])) if way == "on" else 0.0

    def play(self, attempt):
        episode, way = Episode("e", "t", "t", 0, attempt), "on"
        for k in range(TURNS):
            key = f"{way} {k}"
            action = int(self.rng.random() < self.chances(key)[1])
            turn = Turn(key, state_key=key, prompt_ids=[k], output_ids=[action], action=str(action))
            chances = self.chances(key)
            turn.extra = {"entropy": np.array([-(chances * np.log(chances)).sum()])}
            turn.extra |= {"probe": self.worth(way, k), "values": np.array([self.values[key]], dtype=np.float32)}
            way = way if action else "lost"
            episode.turns.append(turn)
        episode.final_state_key = episode.final_observation = f"{way} {TURNS}"
        episode.reward = episode.turns[-1].reward = float(way == "on")
        episode.success = way == "on"
        return episode

    def learn(self, credit, steps=60, lr=0.7, groups=4, size=8):
        """Go up the policy gradient of a credit, and take the critic's values to their targets; return the success."""
        for step in range(steps):
            played = [Group("t", "agent", [self.play(n) for n in range(size)]) for _ in range(groups)]
            found = credit(played, step=step)
            moves = {key: np.zeros(2) for key in self.logits}
            for group, arrays in zip(played, found, strict=True):
                for episode, array in zip(group, arrays, strict=True):
                    for turn, advantage in zip(episode.turns, array, strict=True):
                        score = np.eye(2)[turn.output_ids[0]] - self.chances(turn.observation)
                        moves[turn.observation] += advantage * score / (groups * size)
                        target = turn.extra.get("value_target")
                        if target is not None:
                            self.values[turn.observation] += 0.05 * (target[0] - self.values[turn.observation])
            for key, move in moves.items():
                self.logits[key] += lr * move
        return self.success()
