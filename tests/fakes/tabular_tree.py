"""The fork at every turn of `tabular`, played in groups whose episodes branch off from one another."""

import numpy as np
from tabular import TURNS, Tabular

from agentgym.episodes.episode import Episode, Group, Turn
from agentgym.rollout.branched import GroupInProgress, graft
from agentgym.trainers.branching.interface import BRANCHINGS
from agentgym.trainers.data.trees import copy_extra, weigh_shared_turns


class TabularTree(Tabular):
    """Plays groups as a branching stage asks; `turns_played` counts what was sampled."""

    def __init__(self, seed=0, branching="", **options):
        super().__init__(seed)
        self.stage = BRANCHINGS.resolve(branching, options) if branching else None
        self.turns_played = 0

    def played(self, attempt, parent=None, at=0):
        episode = Episode("e", "t", "t", attempt, attempt)
        way = "on" if parent is None or all(turn.action == "1" for turn in parent.turns[:at]) else "lost"
        for k in range(at, TURNS):
            key = f"{way} {k}"
            chances = self.chances(key)
            action = int(self.rng.random() < chances[1])
            turn = Turn(key, state_key=key, prompt_ids=[k], output_ids=[action], action=str(action))
            turn.logprobs = [float(np.log(chances[action]))]
            turn.extra = {"entropy": np.array([-(chances * np.log(chances)).sum()])}
            turn.extra |= {"prover": self.best_of(way, k), "values": np.array([self.values[key]], dtype=np.float32)}
            way = way if action else "lost"
            episode.turns.append(turn)
        self.turns_played += len(episode.turns)
        episode.reward = episode.turns[-1].reward = float(way == "on")
        if parent is not None and at:
            graft(episode, parent, at)
        return episode

    def best_of(self, way, k, number=4):
        return 1 - (1 - self.worth(way, k)) ** number

    def group(self, size):
        episodes, new, rounds = [], [], 0
        while len(episodes) < size:
            chance = np.random.default_rng(int(self.rng.integers(2**31)))
            growth = GroupInProgress(size, size - len(episodes), episodes, new, rounds, chance)
            branch_points = self.stage(growth) if self.stage else []
            by_attempt = {e.attempt: e for e in episodes}
            plan = [b for b in branch_points for _ in range(b.number)][: size - len(episodes)]
            new = []
            for branch in plan or [None] * (size - len(episodes)):
                attempt = len(episodes) + len(new)
                parent = None if branch is None or branch.attempt is None else by_attempt[branch.attempt]
                if parent is not None and branch.turn:
                    parent = by_attempt[parent.origin_of(branch.turn - 1)]
                new.append(self.played(attempt, parent, branch.turn if parent is not None else 0))
            episodes = [*episodes, *new]
            rounds += 1
        return Group("t", "agent", episodes)

    def learn(self, credit, steps=60, lr=0.7, groups=4, size=8, turns=None):
        """Go up the policy gradient of a credit until so many steps or turns were played; return the success."""
        for step in range(steps if turns is None else 10**9):
            if turns is not None and self.turns_played >= turns:
                break
            played = weigh_shared_turns([self.group(size) for _ in range(groups)], "once")
            copy_extra(played, ("entropy", "values"))
            moves, weight = {key: np.zeros(2) for key in self.logits}, 0
            for group, arrays in zip(played, credit(played, step=step), strict=True):
                for episode, array in zip(group, arrays, strict=True):
                    for turn, advantage in zip(episode.turns, array, strict=True):
                        if turn.extra.get("train") is False:
                            continue
                        weight += 1
                        moves[turn.observation] += advantage * (
                            np.eye(2)[turn.output_ids[0]] - self.chances(turn.observation)
                        )
                        target = turn.extra.get("value_target")
                        if target is not None and not np.isnan(target[-1]):
                            self.values[turn.observation] += 0.05 * (target[-1] - self.values[turn.observation])
            for key, move in moves.items():
                self.logits[key] += lr * move * TURNS / weight
        return self.success()
