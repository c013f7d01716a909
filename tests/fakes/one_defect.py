"""Environments that a beginner might write, each with one defect; what `check` says of each is tested."""

import random
import threading
import time

import broken_envs
import numpy as np

import agentgym
from agentgym import Task


class DrawsFromRandom(broken_envs.Stairs):
    def look(self):
        return f"{super().look()} The wind blows {random.choice(['north', 'south', 'east', 'west'])}."


class DrawsFromNumpy(broken_envs.Stairs):
    def act(self, action):
        if action == "up" and np.random.rand() < 0.5:
            return "You slip."
        return super().act(action)


class DrawsUnseeded(broken_envs.Stairs):
    def begin(self, task):
        self.noise = int(np.random.default_rng().integers(1000))
        return f"{super().begin(task)} {self.noise}"


class DrawsTasksFromRandom(broken_envs.Stairs):
    def generate(self, rng, difficulty):
        start = random.randrange(1000)
        return Task("climb", {"start": start, "goal": start + 2})


class LooksAtTheClock(broken_envs.Stairs):
    def look(self):
        return f"{super().look()} It is {time.time()}."


class HashesNames(broken_envs.Stairs):
    def look(self):
        return f"{super().look()} ({hash('stairs') % 1000})"


class HoldsALock(broken_envs.Stairs):
    def begin(self, task):
        self.guard = threading.Lock()
        return super().begin(task)


class HoldsAGenerator(broken_envs.Stairs):
    def begin(self, task):
        self.numbers = (number for number in range(3))
        return super().begin(task)


class HoldsAFunction(broken_envs.Stairs):
    def begin(self, task):
        self.rule = lambda: None
        return super().begin(task)


class ToolForgetsToReturn(broken_envs.Vault):
    @agentgym.tool
    def note(self) -> str:
        """Read the note."""
        self.read = True


class ToolReturnsANumber(broken_envs.Vault):
    @agentgym.tool
    def note(self) -> str:
        """Read the note."""
        self.read = True
        return 7


class ActForgetsToReturn(broken_envs.Stairs):
    def act(self, action):
        super().act(action)


class BeginForgetsToReturn(broken_envs.Stairs):
    def begin(self, task):
        super().begin(task)


class ActDividesByZero(broken_envs.Stairs):
    def act(self, action):
        return f"{1 / (len(action) - 2)}" if action == "up" else super().act(action)


class StateLooksElsewhere(broken_envs.Stairs):
    def state(self):
        return self.nowhere


SAID = {
    DrawsFromRandom: r"random\.choice is called at .*one_defect\.py:\d+: draw from self\.np_random",
    DrawsFromNumpy: r"numpy\.random\.rand is called at .*one_defect\.py:\d+: draw from self\.np_random",
    DrawsUnseeded: r"an unseeded generator .* is called at .*one_defect\.py:\d+: draw from self\.np_random",
    DrawsTasksFromRandom: r"the task .* is another when it is made again\. random\.randrange is called at .*one_defect",
    LooksAtTheClock: r"time\.time is called at .*one_defect\.py:\d+: do not use the clock",
    HashesNames: r"another process answers otherwise.*hash is called at .*one_defect\.py:\d+: .*hashlib",
    HoldsALock: r"HoldsALock\.guard \(a lock\) cannot be copied into a snapshot",
    HoldsAGenerator: r"HoldsAGenerator\.numbers \(a generator\) cannot be copied into a snapshot",
    HoldsAFunction: r"the snapshot cannot be written: self\.rule is a function",
    ToolForgetsToReturn: r"tool note of ToolForgetsToReturn returned None; .*one_defect\.py:\d+\)\. Return a string",
    ToolReturnsANumber: r"tool note of ToolReturnsANumber returned 7 \(type int\); expected text \(.*one_defect\.py:\d+\)",
    ActForgetsToReturn: r"act of ActForgetsToReturn returned None; expected text \(.*one_defect\.py:\d+\)",
    BeginForgetsToReturn: r"begin of BeginForgetsToReturn returned None; .*one_defect\.py:\d+\)\. Return the first",
    ActDividesByZero: r"ZeroDivisionError: .* \(.*one_defect\.py:\d+, in act\)",
    StateLooksElsewhere: r"AttributeError: .*'nowhere' \(.*one_defect\.py:\d+, in state\)",
}
"""The only finding of each, as a pattern."""

for _kind in SAID:
    agentgym.register(f"defect/{_kind.__name__}-v0", _kind)
