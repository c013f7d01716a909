"""A run in which a state is what was read so far and nothing else: critics of turns without a model."""

import asyncio
from types import SimpleNamespace

import numpy as np
from tabular import TURNS, Tabular

from agentgym.episodes.episode import Episode, Turn

WIDTH = 64


class OneHot:
    """Gives every text that it is shown a direction of its own; its plans are one token that the answer decides."""

    def __init__(self, answers=None):
        self.met, self.answers = {}, answers or {}
        self.learner = SimpleNamespace(embed=self.embed, engine=SimpleNamespace(context=None))
        self.config = SimpleNamespace(seed=0, temperature=1.0)
        encoder = SimpleNamespace(plain=lambda text: [100 + int(text.split()[-1])])
        agents = {"e": SimpleNamespace(template=SimpleNamespace(encoder=encoder))}
        self.rollouts = SimpleNamespace(pool=self, agents=lambda heat: agents)

    def gather(self, items):
        return items

    def env_name(self, episode):
        return "e"

    def task(self, episode):
        return SimpleNamespace(id=episode.task_id)

    async def collect(self, agent, jobs):
        turns = [[Turn("", action=str(self.answers[job.task.id]))] for job in jobs]
        return [Episode("e", "t", "t", 0, turns=made, success=True) for made in turns]

    def embed(self, rows):
        states = []
        for row in rows:
            read = [tuple(row.ids[:place].tolist()) for place in np.flatnonzero(row.mask)]
            states.append(
                np.stack([np.eye(WIDTH, dtype=np.float32)[self.met.setdefault(text, len(self.met))] for text in read])
            )
        return states


class Forks(Tabular):
    """The forks of `tabular`, each with a prompt of its own."""

    def play(self, attempt):
        episode = super().play(attempt)
        for turn in episode.turns:
            turn.prompt_ids = [list(self.logits).index(turn.observation)]
            turn.extra = {}
        return episode


def crediting(credit, need, run, state, **options):
    """Return a credit that computes its need first, as a run does."""

    def credited(groups, step=0):
        found = need(groups, run=run, step=step, state=state, **options)
        if hasattr(found, "__await__"):
            asyncio.run(found)
        return credit(groups, step=step)

    return credited


__all__ = ["TURNS", "WIDTH", "Forks", "OneHot", "crediting"]
