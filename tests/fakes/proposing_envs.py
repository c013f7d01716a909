"""A pair of small environments, one of which proposes the other's tasks, in no time and without a sandbox."""

import dataclasses
import json

import small_envs

import agentgym


class Solver(small_envs.Generated):
    """Numbers up to 4, one guess."""


class Proposer(small_envs.Generated):
    """Propose the number to be guessed, by saying it."""

    def begin(self, task):
        super().begin(task)
        return "Say a number from 1 to 4 for somebody else to guess."

    def act(self, action):
        word = action.strip()
        if word not in ("1", "2", "3", "4"):
            return self.lose("no number")
        return self.win(json.dumps({"secret": int(word), "limit": 4, "n": self.task.data["n"] % 50}))

    def expert(self):
        yield str(1 + self.task.data["n"] % 4)

    oracle = expert

    @staticmethod
    def proposed(final_observation):
        return json.loads(final_observation)

    @staticmethod
    def conditioned(task, past):
        return dataclasses.replace(task, data={**task.data, "past": len(past)})


agentgym.register("small/Solver-v0", Solver, horizon=2)
agentgym.register("small/Proposer-v0", Proposer, horizon=2)
