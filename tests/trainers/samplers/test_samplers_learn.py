"""Every sampler teaches sooner what it is for: a policy of a number a place opens locks, without a model."""

from types import SimpleNamespace

import numpy as np
import pytest
import small_envs
from small_envs import Generated, Small

import agentgym
from agentgym.episodes.episode import Episode, Group, Turn
from agentgym.trainers.credit.interface import resolve
from agentgym.trainers.samplers.interface import SAMPLERS, GroupOutcome, TaskSource, Uniform
from agentgym.trainers.samplers.starts import Starts
from agentgym.trainers.selections.interface import SELECTIONS

PLACES, SLIP = 10, 0
"""The longest lock, and the place of the logit that says how often a turn is written without a slip."""


class Locks:
    """A lock of n places opens if each gets the right one of two keys; its last places are those of shorter locks."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        self.logits = np.zeros(PLACES + 1)
        self.played = 0

    def chance(self, logit):
        return 1 / (1 + np.exp(-self.logits[logit]))

    def success(self, places=PLACES):
        return float(np.prod([self.chance(left) for left in range(1, places + 1)]))

    def play(self, attempt, places):
        episode = Episode("e", "t", "t", 0, attempt, success=False)
        self.played += 1
        for left in range(places, 0, -1):
            right = bool(self.rng.random() < self.chance(left))
            clean = bool(self.rng.random() < self.chance(SLIP))
            turn = Turn(str(left), prompt_ids=[left], output_ids=[int(right), int(clean)], valid=clean, parsed=clean)
            episode.turns.append(turn)
            if not right:
                break
        else:
            episode.success = True
        episode.reward = episode.turns[-1].reward = float(episode.success)
        return episode

    def group(self, places, size):
        return Group("t", "agent", [self.play(n, places) for n in range(size)])

    def learn(self, groups, step, lr=1.0):
        """Go up GRPO's gradient; groups whose attempts all ended alike give none."""
        move = np.zeros(PLACES + 1)
        for group, rows in zip(groups, resolve("grpo")(groups, step=step), strict=True):
            for episode, row in zip(group, rows, strict=True):
                for turn, advantage in zip(episode.turns, row, strict=True):
                    for logit, did in zip((int(turn.observation), SLIP), turn.output_ids, strict=True):
                        move[logit] += advantage * (did - self.chance(logit)) / len(group)
        self.logits += lr * move / max(len(groups), 1)


def opened(sampler, places_of, steps=160, groups=6, size=8):
    """Train on what a sampler draws, whose lock has `places_of(draw)` places, and return the locks."""
    locks = Locks()
    for step in range(steps):
        draws = sampler.draw(step, groups)
        played = [locks.group(places_of(draw), draw.attempts or size) for draw in draws]
        locks.learn(played, step)
        sampler.update([
            GroupOutcome(draw.env, draw.task.id, draw.task.difficulty, tuple(e.reward for e in group),
                 tuple(e.success is True for e in group), draw.label)
            for draw, group in zip(draws, played, strict=True)
        ])  # fmt: skip
    return locks


def generated():
    return [TaskSource(Generated(), 0, "train", "g")]


def test_a_long_lock_alone_is_never_opened():
    assert opened(Uniform(generated()), lambda draw: PLACES).success() < 0.01


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("window", {"low": 0.3, "high": 0.7, "groups": 4, "start": 0, "most": PLACES - 1}),
        ("difficulty_range", {"groups": 4, "high": 0.7, "span": 3}),
    ],
)
def test_a_difficulty_that_rises_opens_it(name, options):
    sampler = SAMPLERS.resolve(name, options)(generated())
    assert opened(sampler, lambda draw: min(draw.task.difficulty + 1, PLACES)).success() > 0.5


def test_starts_near_the_end_open_it():
    sampler = Starts([TaskSource(Small(), 0, "train", "file")], high=0.6, groups=4, most=PLACES - 1, whole=0.25)
    sampler.draw = lambda step, groups: [
        sampler._labelled(draw) for draw in Uniform(sampler.sources.values()).draw(step, groups)
    ]
    assert opened(sampler, lambda draw: int(draw.label[1:] or PLACES) if draw.label else PLACES).success() > 0.5


def by_task(draw):
    """Return one place, which is learned at once, in most tasks of the file, and five in one."""
    return 5 if draw.task.id == "file-0" else 1


def file():
    return [TaskSource(agentgym.make(f"{small_envs.__name__}:small/File-v0"), 0, "train", "file")]


@pytest.mark.parametrize(("name", "options"), [("prioritized", {"floor": 0.1}), ("hard_attempts", {"least": 2, "most": 24})])
def test_more_play_of_what_is_not_mastered_teaches_it_sooner(name, options):
    wins = {}
    for sampler in ("uniform", name):
        locks = opened(SAMPLERS.resolve(sampler, options if sampler == name else {})(file()), by_task, steps=60, groups=2)
        wins[sampler] = locks.success(5), locks.played
    assert wins[name][0] > wins["uniform"][0] + 0.1


def chosen(name, groups, step, **options):
    run = SimpleNamespace(config=SimpleNamespace(seed=0))
    return SELECTIONS.resolve(name, options)(groups, step=step, run=run)


def test_successes_without_slips_are_imitated_more():
    slips = {}
    for name in ("drop", "resample_on_correct"):
        locks = Locks()
        for step in range(80):
            locks.learn(chosen(name, [locks.group(2, 8) for _ in range(6)], step), step)
        slips[name] = 1 - locks.chance(SLIP)
    assert slips["resample_on_correct"] < 0.5 * slips["drop"]  # nothing in the reward says so


@pytest.mark.parametrize(("name", "options"), [("accuracy", {}), ("variance", {"share": 0.25})])
def test_as_many_trained_groups_teach_more_if_they_are_chosen(name, options):
    success = {}
    for arm in ("keep", name):
        locks, trained = Locks(), 0
        while trained < 120:
            groups = [locks.group(places, 8) for places in (1, 4, 6, 8) for _ in range(2)]
            groups = chosen(arm, groups, trained, **options) if arm == name else groups
            locks.learn(groups, trained, lr=0.15 * len(groups))
            trained += len(groups)
        success[arm] = locks.success(4)
    assert success[name] > success["keep"] + 0.1
