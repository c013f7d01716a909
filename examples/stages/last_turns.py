"""What the rollout pool can do for a draw: begin at a snapshot and sample in another way. `--sampler last_turns`."""

import dataclasses

import agentgym.trainers


@agentgym.sampler("last_turns")
class LastTurns(agentgym.trainers.Sampler):
    """Episodes begin `back` turns before the end of an expert's, and are sampled at a temperature of their own."""

    def __init__(self, sources, *, back: int = 1, temperature: float = 1.2):
        self.source, self.back, self.sampling, self.place = sources[0], back, {"temperature": temperature}, 0

    async def draw(self, step, number, *, run):
        draws = self.source.at(range(self.place, self.place + number), "train")
        self.place += number
        mine = run.share(draws)  # of several processes each plays its own
        starts = await run.demonstrations.starts(mine, [self.back] * len(mine), step)
        begun = {draw.task.id: start for draw, start in zip(mine, starts, strict=True)}
        return [dataclasses.replace(draw, start=begun.get(draw.task.id), sampling=self.sampling) for draw in draws]

    def state_dict(self):
        return {"place": self.place}

    def load_state_dict(self, state):
        self.place = state["place"]
