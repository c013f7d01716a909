"""Self-play in the negotiation with a policy of one number a choice: both roles learn the deal that is best for both."""

import numpy as np
import pytest

import agentgym
from agentgym import Task
from agentgym.episodes.episode import Episode, Turn, groups
from agentgym.trainers.credit.interface import resolve

TASK = Task(
    "Make a good deal.",
    {
        "names": ["book", "hat"], "counts": (1, 2), "values": ((6, 0), (2, 2)), "goals": (10, 10), "floor": 4,
        "scoring": "cooperative", "rounds": 2,
    },
    "train/0/0",
    "train",
)  # fmt: skip
"""The book to A (6 points) and both hats to B (4): no other of the six deals brings 10 points together."""


class Tabular:
    """One number for each command at each observation of each role."""

    def __init__(self, seed):
        self.rng, self.logits = np.random.default_rng(seed), {}
        self.env = agentgym.make("rlvr/Negotiation-v0", opponent="self", scoring="cooperative", rounds=2)

    def chances(self, key, count):
        raised = np.exp(self.logits.setdefault(key, np.zeros(count)))
        return raised / raised.sum()

    def play(self, attempt):
        observation, info = self.env.reset(seed=0, options={"task": TASK})
        episode, over = Episode("n", TASK.id, "g", 0, attempt), False
        while not over:
            role, commands = self.env.role, info["admissible"]
            key = f"{role} {observation}"
            action = int(self.rng.choice(len(commands), p=self.chances(key, len(commands))))
            observation, reward, terminated, truncated, info = self.env.step(commands[action])
            turn = Turn(
                key, output_ids=[action], reward=reward, rewards=info["rewards"], role=role, admissible=len(commands)
            )
            episode.add(turn)
            over = terminated or truncated
        episode.success, episode.reason = info["success"], info["reason"]
        episode.end(self.env.totals, self.env.outcomes)
        return episode

    def learn(self, credit, steps, size=16, lr=1.5):
        """Go up the policy gradient of a credit; return the share of deals in the last steps."""
        rates = []
        for step in range(steps):
            played = [self.play(attempt) for attempt in range(size)]
            rates.append(np.mean([episode.success for episode in played]))
            seen, moves = groups(played), {}
            for group, arrays in zip(seen, credit(seen, step=step), strict=True):
                for episode, array in zip(group, arrays, strict=True):
                    for turn, advantage in zip(episode.turns, array, strict=True):
                        score = np.eye(turn.admissible)[turn.output_ids[0]] - self.chances(turn.observation, turn.admissible)
                        moves[turn.observation] = moves.get(turn.observation, 0) + advantage * score / size
            for key, move in moves.items():
                self.logits[key] = self.logits[key] + lr * move
        return np.mean(rates[:5]), np.mean(rates[-10:])


@pytest.mark.parametrize(
    ("name", "options"),
    [("mars", {}), ("role_baseline", {"every": "episode"}), ("role_baseline", {})],
)
def test_both_roles_learn_the_deal_that_is_best_for_both(name, options):
    before, after = Tabular(0).learn(resolve(name, **options), steps=60)
    assert before < 0.35 and after > 0.9


def test_without_credit_nothing_is_learned():
    before, after = Tabular(0).learn(lambda seen, step: [[np.zeros(len(e.turns)) for e in g] for g in seen], steps=60)
    assert after < 0.35 and abs(after - before) < 0.2
