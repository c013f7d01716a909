"""Stages of one's own for the trial before a run: right ones, and some with a mistake each."""

import numpy as np
import torch

import agentgym
from agentgym.errors import Fault
from agentgym.trainers import Branch, Generation, Sampler

SEEN = []
"""What stages were handed in their trials."""


@agentgym.reward("right")
def right(episodes, *, state, step, weight: float = 0.5, run):
    state["calls"] = state.get("calls", 0) + 1
    SEEN.append((dict(state), step, weight, run.rank, run.gather([1]), run.config.seed))
    return [{"right": weight * len(e.turns), "each": [0.1] * len(e.turns)} for e in episodes]


@agentgym.reward("raising")
def raising(episodes):
    return [{"found": e.labels["color"]} for e in episodes]


@agentgym.reward("one_number")
def one_number(episodes):
    return 1.0


@agentgym.reward("too_few")
def too_few(episodes):
    return [{"x": 1.0}]


@agentgym.reward("wrong_shape")
def wrong_shape(episodes):
    return [{"x": [1.0] * (len(e.turns) + 1)} for e in episodes]


@agentgym.reward("no_judge")
def no_judge(episodes):
    raise Fault("the judge is away")


@agentgym.reward("waiting")
async def waiting(episodes):
    raise AssertionError("a coroutine is not tried")


@agentgym.reward("of_the_run")
def of_the_run(episodes, *, run):
    return [{"length": float(len(run.learner.tokenizer.encode(e.turns[0].text)))} for e in episodes]


@agentgym.credit("right_credit", needs=("entropy",))
def right_credit(group, *, state, share: float = 0.5):
    state["calls"] = state.get("calls", 0) + 1
    SEEN.append(dict(state))
    return [np.concatenate([share * e.reward - turn.extra["entropy"] for turn in e.turns]) for e in group]


@agentgym.credit("raising_credit")
def raising_credit(group):
    return [[1 / len(e.notes)] for e in group]


@agentgym.credit("nothing")
def nothing(group):
    for episode in group:
        episode.reward += 1


@agentgym.credit("one_per_episode")
def one_per_episode(group):
    return [[e.reward] for e in group]


@agentgym.credit("not_finite")
def not_finite(group):
    return [np.zeros(len(e.turns)) / 0 for e in group]


@agentgym.credit("batch_as_group", scope="batch")
def batch_as_group(groups):
    return [[e.reward] * len(e.turns) for e in groups[0]]


@agentgym.credit("after_branches", needs=("branches",))
def after_branches(group):
    return [[float(turn.extra["branches"]) for turn in e.turns] for e in group]


@agentgym.needs("own")
def own(groups, *, run):
    for turn in (turn for group in groups for episode in group for turn in episode.turns):
        turn.extra["own"] = float(run.rank + 1)


@agentgym.needs("half")
def half(groups, *, run):
    for group in groups:
        group[0].turns[0].extra["half"] = 1.0


@agentgym.needs("of_first")
def of_first(groups):
    for turn in groups[0][0].turns:
        turn.extra["of_first"] = 1.0


@agentgym.credit("with_own", needs=("own",))
def with_own(group):
    return [[turn.extra["own"] for turn in e.turns] for e in group]


@agentgym.credit("with_half", needs=("half",))
def with_half(group):
    return [[1.0 for _ in e.turns] for e in group]


@agentgym.credit("with_first", needs=("of_first",))
def with_first(group):
    return [[1.0 for _ in e.turns] for e in group]


@agentgym.loss("right_loss", needs=("entropy",))
def right_loss(tokens, *, floor: float = 0.1):
    assert tokens.extra["entropy"].shape == tokens.advantages.shape
    weight = torch.exp(tokens.logprobs - tokens.behaviour).clamp(min=floor)
    return -weight * tokens.advantages, {"weight": weight}


@agentgym.loss("a_sum")
def a_sum(tokens):
    return -(tokens.logprobs * tokens.advantages).sum()


@agentgym.loss("without_gradient")
def without_gradient(tokens):
    return -tokens.advantages


@agentgym.loss("raising_loss")
def raising_loss(tokens):
    return -tokens.log_probs


@agentgym.loss("endless")
def endless(tokens):
    return -tokens.advantages / (tokens.logprobs - tokens.logprobs)


def one_factor(update):
    return [1.0]


@agentgym.loss("with_factor", choose=one_factor)
def with_factor(tokens):
    return -tokens.logprobs * tokens.advantages


def present_factors(update):
    assert len(update.present) == len(update.logprobs)
    return [1.0] * len(update.present)


@agentgym.loss("of_the_present", choose=present_factors, present=True)
def of_the_present(tokens):
    return -tokens.logprobs * tokens.advantages


@agentgym.select("right_selection")
async def right_selection(groups):
    return groups


@agentgym.select("first_alone")
def first_alone(groups):
    return groups[0]


@agentgym.select("true_or_false")
def true_or_false(groups):
    return [len(group) > 1 for group in groups]


@agentgym.branching("right_branching")
def right_branching(growth, *, step):
    return [Branch(1, e.attempt, 1) for e in growth.new] if growth.rounds else [Branch(2)]


@agentgym.branching("numbers")
def numbers(growth):
    return [1, 2]


@agentgym.sampler("right_sampler")
class RightSampler(Sampler):
    def __init__(self, sources, *, first: int = 3):
        self.sources, self.place = sources, first

    def draw(self, step, number):
        self.place += number
        return self.sources[0].at(range(self.place, self.place + number), "train")

    def measures(self, step):
        return {"place": self.place}

    def state_dict(self):
        return {"place": self.place}

    def load_state_dict(self, state):
        self.place = state["place"]


@agentgym.sampler("tasks")
class Tasks(RightSampler):
    def draw(self, step, number):
        return [draw.task for draw in super().draw(step, number)]


@agentgym.sampler("forgets")
class Forgets(RightSampler):
    def state_dict(self):
        return {}


@agentgym.sampler("raising_update")
class RaisingUpdate(RightSampler):
    def update(self, groups):
        self.place = groups[0].reward


@agentgym.generation("no_play")
class NoPlay:
    def __init__(self, run):
        pass


@agentgym.generation("right_generation")
class RightGeneration(Generation):
    pass


@agentgym.logger("no_close")
class NoClose:
    def log(self, position, row):
        pass
