"""A run of few tasks whose model answers by a table, to compute needs and to branch."""

import asyncio
import itertools

from accelerate import Accelerator

import agentgym
from agentgym import Task
from agentgym.engines.scripted import ScriptedEngine
from agentgym.envs.guess_number import GuessNumber
from agentgym.episodes.episode import groups
from agentgym.rollout.draw import Draw
from agentgym.trainers import TrainConfig
from agentgym.trainers.generation.interface import Generation
from agentgym.trainers.needs import interface as needs
from agentgym.trainers.needs.interface import resolve_needs
from agentgym.trainers.run.assemble import Run
from agentgym.trainers.run.rollouts import Rollouts
from agentgym.trainers.samplers.interface import SAMPLERS


class Few(GuessNumber):
    """Tasks as of a file: the secret of number n is 10 + n."""

    def numbered(self, number, split=None, difficulty=None):
        return Task("guess", {"secret": 10 + number % 5, "limit": 100}, f"few-{number % 5}", split or self.split)

    def size(self, split=None):
        return 5

    def find(self, task_id):
        return self.numbered(int(task_id.removeprefix("few-")))


class Forgetful(Few):
    """Says something else each time that a task is played."""

    played = itertools.count()

    def begin(self, task):
        return f"{super().begin(task)} For the {next(self.played)}. time."


class Changed(Few):
    blocking = True


agentgym.register("me/Forgetful-v0", Forgetful, horizon=3)
agentgym.register("me/InWorkers-v0", Changed, horizon=3)
agentgym.register("me/Few-v0", Few, horizon=3)


class Guesses(ScriptedEngine):
    """Episodes guess 1, 2 and the secret; of the continuations from turn t (counted from 0) the first t + 1 guess it."""

    def __init__(self):
        super().__init__(lambda prompt, turn: "")
        self.prompts = {}

    async def complete(self, request):
        group, attempt, _ = request.session.split("#")
        place = self._turns.get(request.session, 0)
        self.prompts[request.session, place] = list(request.prompt_ids)
        name, *branch = group.removeprefix("1/").split("/")
        secret = str(10 + int(name.removeprefix("few-")))
        won = int(attempt) <= int(branch[1]) if branch else place == 2
        self._replies = lambda prompt, turn: secret if won else str(1 if branch else place + 1)
        return await super().complete(request)


def made(env="me/Few-v0", engine=None, learner=None, **changes):
    """Return a run whose model is the engine."""
    env = env if ":" in env else f"{__name__}:{env}"
    config = TrainConfig(env=env, turn_tokens=6, prompt="bare", **{"group_size": 2, **changes})
    engine = engine or Guesses()
    rollouts = Rollouts(config, engine, engine.tokenizer)
    rollouts.generation = Generation()
    sampler, played = SAMPLERS.resolve("uniform")(rollouts.sources()), rollouts.generation
    return Run(config, None, Accelerator(cpu=True), learner, rollouts, sampler, [], None, [], None, None, played)


def played(run, numbers=(0, 3)):
    name = next(iter(run.rollouts.envs))
    draws = [Draw(run.rollouts.env(name).numbered(n), env=name) for n in numbers]
    return groups(asyncio.run(run.rollouts.collect(draws, 0)))


def computed(run, found, *names, **options):
    return asyncio.run(needs.compute(found, resolve_needs(names, options), run, 0))
