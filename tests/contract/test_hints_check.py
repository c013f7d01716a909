"""What the check of hints finds, and that the environments which are shipped with hints keep it."""

import itertools

import broken_envs
import pytest

import agentgym
from agentgym.contract import check


class Number(broken_envs.Vault):
    def hint(self, level):
        return 7


class Chance(broken_envs.Vault):
    count = itertools.count()

    def hint(self, level):
        return f"hint number {next(self.count)}"


class Moves(broken_envs.Vault):
    def hint(self, level):
        self.read = True
        return "Read the note."


class Draws(broken_envs.Stairs):
    """A hint that takes a number from the episode's own chance."""

    def begin(self, task):
        self.wind = 0
        return super().begin(task)

    def act(self, action):
        self.wind = int(self.np_random.integers(1000))
        return super().act(action)

    def look(self):
        return f"{super().look()} Wind {self.wind}."

    def state(self):
        return *super().state(), self.wind

    def hint(self, level):
        return "left" if self.np_random.random() < 2 else "right"


class Silent(agentgym.TextEnv):
    """Has neither an oracle nor an expert, nor a hint of its own."""

    begin, act, state = broken_envs.Stairs.begin, broken_envs.Stairs.act, broken_envs.Stairs.state
    look, generate = broken_envs.Stairs.look, broken_envs.Stairs.generate


SAID = {
    Number: "hint(0.25) is 7; expected text",
    Chance: "hint(0.25) is another when it is asked for again",
    Moves: "asking for a hint changes the state",
    Draws: "asking for a hint changes what comes next, turn 1",
    broken_envs.HintTells: "hint(0.25) to hint(0.75) tell the answer in 4 of 4 tasks",
}


@pytest.mark.parametrize("kind", SAID)
def test_a_hint_that_is_wrong_is_found(kind):
    report = check(kind(), checks=["hints"])
    assert [result.check for result in report.broken] == ["hints"] and SAID[kind] in report.broken[0].note, str(report)


def test_without_any_solution_there_is_nothing_to_ask():
    result = check(Silent(), checks=["hints"]).results[0]
    assert result.status == "skipped" and "neither its oracle nor its expert" in result.note


@pytest.mark.parametrize(
    "name", ["GuessNumber", "Household", "SQL", "Search", "Desk", "TextCraft", "FrozenLake", "Wordle", "Math"]
)
def test_hints_of_environments_that_are_shipped(name):
    options = {"preset": "tiny"} if name in ("Household", "SQL") else {}
    report = check(f"rlvr/{name}-v0", checks=["hints"], **options)
    assert report.ok and report.results[0].status == "holds", str(report)
