"""A policy that is a table, in real environments: real rollouts and stages, an update by hand, and no model."""

import asyncio
from types import SimpleNamespace

import numpy as np
from accelerate import Accelerator

import agentgym
from agentgym import Task
from agentgym.core.seeding import generator
from agentgym.engines.scripted import ScriptedEngine
from agentgym.envs.guess_number import GuessNumber
from agentgym.episodes.episode import groups
from agentgym.trainers import TrainConfig
from agentgym.trainers.credit.interface import resolve
from agentgym.trainers.generation.interface import Generation
from agentgym.trainers.run.assemble import Run
from agentgym.trainers.run.rollouts import Rollouts
from agentgym.trainers.samplers.interface import SAMPLERS
from agentgym.trainers.selections.interface import SELECTIONS

NUMBERS = 8
SLIP = 0.5
"""How often the policy guesses at random whatever it learned: what brings it where no expert was."""


class Eight(GuessNumber):
    """Numbers up to 8; the prompts of all tasks are the same."""

    @staticmethod
    def generate(rng, difficulty):
        data = {"secret": int(rng.integers(1, NUMBERS + 1)), "limit": NUMBERS, "salt": int(rng.integers(10**9))}
        return Task("guess", data)


agentgym.register("small/Eight-v0", Eight, horizon=5)


class Table(ScriptedEngine):
    """Guesses numbers by a row of logits for each prompt that it ever learned something about; elsewhere evenly."""

    def __init__(self):
        super().__init__(lambda prompt, turn: "")
        self.rows, self.seed = {}, 0

    def chances(self, prompt_ids):
        logits = self.rows.get(tuple(prompt_ids), np.zeros(NUMBERS))
        raised = np.exp(logits - logits.max())
        return raised / raised.sum()

    async def complete(self, request):
        chances = self.chances(request.prompt_ids)
        slipping = SLIP / NUMBERS + (1 - SLIP) * chances
        number = 1 + int(generator("table", request.sampling.seed).choice(NUMBERS, p=slipping))
        self._replies = lambda prompt, turn: str(number)
        return await super().complete(request)

    def learn(self, turns, advantages, lr):
        """Go up the policy gradient; at a ratio of 1 that of an advantage of 1 is imitation."""
        for turn, advantage in zip(turns, advantages, strict=True):
            key, number = tuple(turn.prompt_ids), int(turn.action)
            if 1 <= number <= NUMBERS and advantage:
                slope = np.eye(NUMBERS)[number - 1] - self.chances(key)
                self.rows[key] = self.rows.get(key, np.zeros(NUMBERS)) + lr * advantage * slope


def made(engine, env="small/Eight-v0", seed=0, **changes):
    """Return a run whose policy is the engine."""
    config = TrainConfig(
        env=f"{__name__}:{env}", turn_tokens=6, prompt="bare", seed=seed, **{"group_size": 4, "tasks_per_step": 8, **changes}
    )
    learner = SimpleNamespace(
        engine=engine,
        score=lambda rows: {"logprobs": [np.full(len(row), -0.5, np.float32) for row in rows]},
    )
    rollouts = Rollouts(config, engine, engine.tokenizer)
    rollouts.generation = Generation()
    sampler, played = SAMPLERS.resolve("uniform")(rollouts.sources()), rollouts.generation
    return Run(config, None, Accelerator(cpu=True), learner, rollouts, sampler, [], None, [], None, None, played)


def trained(engine, select, *, steps, lr, select_options=None, credit="off_policy", credit_options=None, **changes):
    """Train a table by a selection and a credit; return the success of each step, and how many turns were trained."""
    run = made(engine, **changes)
    selection, credit = SELECTIONS.resolve(select, select_options or {}), resolve(credit, **(credit_options or {}))
    source = run.rollouts.sources()[0]

    async def all_of_it():
        curve, turns = [], 0
        for step in range(steps):
            number = run.config.tasks_per_step
            draws = source.at(range(step * number, (step + 1) * number), "train")
            played = await run.rollouts.collect(draws, step)
            selected = selection(groups(played), step=step, run=run)
            selected = await selected if hasattr(selected, "__await__") else selected
            arrays = credit(selected, step=step)
            for group, of_group in zip(selected, arrays, strict=True):
                for episode, array in zip(group, of_group, strict=True):
                    starts = np.cumsum([0, *(len(turn.output_ids) for turn in episode.turns)])[:-1]
                    per_turn = array if len(array) == len(episode.turns) else array[starts]
                    engine.learn(episode.turns, per_turn, lr)
                    turns += len(episode.turns)
            curve.append(sum(bool(e.success) for e in played) / len(played))
        return curve, turns

    return asyncio.run(all_of_it())


def success(engine, tasks=100):
    """Return the success at tasks that nobody was trained on."""
    run = made(engine, seed=99, group_size=2)
    source = run.rollouts.sources()[0]
    played = asyncio.run(run.rollouts.collect(source.at(range(10**6, 10**6 + tasks), "train"), 0))
    return sum(bool(e.success) for e in played) / len(played)
