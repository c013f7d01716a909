"""A task sampler: `agentgym train RECIPE --sampler examples.stages.sampler:Repeat`."""

import dataclasses

import agentgym.trainers


@agentgym.sampler("repeat")
class Repeat(agentgym.trainers.Sampler):
    """The same tasks in every step, until all attempts succeed."""

    def __init__(self, sources, *, most: int = 5):
        self.source, self.most = sources[0], most
        self.place, self.times = 0, 0

    def draw(self, step, number):
        draws = self.source.at(range(self.place, self.place + number), "train")
        return [dataclasses.replace(draw, label=f"#{self.times}") for draw in draws]

    def update(self, groups):
        self.times += 1
        if all(all(group.successes) for group in groups) or self.times == self.most:
            self.place, self.times = self.place + len(groups), 0

    def state_dict(self):
        return {"place": self.place, "times": self.times}

    def load_state_dict(self, state):
        self.place, self.times = state["place"], state["times"]
