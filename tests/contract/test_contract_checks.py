"""Every check can fail: a sound environment keeps them all, and for each check there is an environment that only that
check catches."""

import broken_envs
import gymnasium
import pytest

import agentgym
from agentgym import Task
from agentgym.contract import CHECKS, check, examine
from agentgym.contract.env_under_test import EnvUnderTest, shrink
from agentgym.contract.report import Broken
from agentgym.contract.shortcuts import GENERIC
from agentgym.core.declared import Declarations


@pytest.mark.parametrize("kind", [broken_envs.Stairs, broken_envs.Vault])
def test_sound_environments_passes_every_check(kind):
    report = check(f"broken/{kind.__name__}-v0")
    assert report.ok, str(report)
    assert sum(result.status == "holds" for result in report.results) >= 21


def test_there_is_a_broken_environment_for_every_check():
    assert list(broken_envs.BREAKS) == list(CHECKS)


@pytest.mark.parametrize("check_name", CHECKS)
def test_check_fails_on_its_broken_environment(check_name):
    report = check(f"broken/{broken_envs.BREAKS[check_name].__name__}-v0", checks=[check_name])
    assert [result.check for result in report.broken] == [check_name], str(report)


def broken(check_name):
    return check(f"broken/{broken_envs.BREAKS[check_name].__name__}-v0", checks=[check_name]).broken[0]


def test_the_shortest_sequence_is_reported():
    assert broken("admissible is valid").actions == ["jump"]
    assert broken("nasty actions").actions == ["9" * 5000]
    assert len(broken("equal keys").actions) <= 28
    assert len(broken("info schema").actions) == 1
    assert broken("oracle recovers").actions in (["up"], ["down"])


def test_a_report_shows_long_and_hostile_actions_cut_and_escaped():
    text = str(broken("nasty actions"))
    assert "(5000 characters)" in text and len(text) < 600


def test_shrink_deletes_all_that_is_not_needed():
    found = shrink(list(range(50)), lambda numbers: {7, 31} <= set(numbers))
    assert found == [7, 31]
    assert shrink([1, 2, 3], lambda numbers: True) == []


@pytest.mark.parametrize(("times", "length"), [(1, 4), (2, 2)])
def test_a_defect_that_does_not_show_up_again_is_reported_with_its_text(times, length):
    def breaks(actions):
        calls.append(actions)
        if len(calls) > times:
            return
        raise ValueError(f"after {len(actions)} actions")

    calls = []
    with pytest.raises(Broken) as caught:
        EnvUnderTest("x", broken_envs.Stairs, {}).hold(Task(), 0, ["up"] * 4, breaks)
    text = f"after {length} actions"
    assert str(caught.value) == f"ValueError: {text}" and text in caught.value.cause
    assert caught.value.actions == ["up"] * length


def test_an_environment_already_made_is_checked_with_its_own_options():
    class Fickle(broken_envs.Stairs):
        declared = Declarations(nondeterministic="a coin is thrown outside")

    report = check(
        Fickle(split="valid", horizon=7), checks=["same again", "snapshots here", "equal keys", "made bare", "horizons"]
    )
    assert [result.status for result in report.results] == ["skipped"] * 3 + ["holds"] * 2
    assert "a coin is thrown outside" in str(report)


def test_an_environment_that_no_other_process_can_import_is_not_blamed():
    class Local(broken_envs.Stairs):
        pass

    report = check(Local(), checks=["same elsewhere", "snapshots elsewhere"])
    assert [result.status for result in report.results] == ["skipped"] * 2 and report.ok


def test_an_unknown_check_suggests_the_closest():
    with pytest.raises(LookupError, match=r"no check 'horizon'. Did you mean 'horizons'\?"):
        check("rlvr/GuessNumber-v0", checks=["horizon"])


class Ladder(broken_envs.Stairs):
    """Goals further up at each level of difficulty, in 12 turns."""

    horizon = 12
    steps = 10

    def generate(self, rng, difficulty):
        start = int(rng.integers(0, 1000))
        return Task("climb", {"start": start, "goal": start + self.steps * (1 + difficulty)})


class LongLadder(Ladder):
    """The same, with the turns that it takes."""

    def limit_of(self, task):
        return self.horizon * (1 + task.difficulty)


@pytest.mark.parametrize(
    ("check_name", "message"), [("oracle solves", "in the 12 turns of difficulty 1"), ("expert is good", "of difficulty 1;")]
)
def test_oracle_and_expert_are_held_to_the_horizon_at_every_difficulty(check_name, message):
    report = check(registered(Ladder), checks=[check_name])
    assert message in report.broken[0].note, str(report)
    assert check(registered(LongLadder), checks=[check_name]).ok
    assert check(registered(Ladder), checks=[check_name], difficulty=0).ok  # who names a difficulty means that one
    assert not check(registered(Ladder), checks=[check_name], difficulty=2).ok


def registered(kind):
    if f"broken/{kind.__name__}-v0" not in gymnasium.registry:
        agentgym.register(f"broken/{kind.__name__}-v0", kind)
    return f"broken/{kind.__name__}-v0"


def test_difficulties_that_have_no_tasks_of_their_own_are_left_out():
    assert [level.env.difficulty for level in examine(registered(LongLadder)).levels] == [0, 1, 2, 3]
    assert len(examine(registered(broken_envs.Vault)).levels) == 4  # other numbers, other codes
    assert len(examine("rlvr/Shop-v0", preset="tiny").levels) == 1


def test_a_seed_draws_other_tasks_and_always_the_same():
    ids = {seed: [task.id for task in examine("broken/Stairs-v0", seed=seed).many] for seed in (0, 1, 2)}
    assert ids[0] == [task.id for task in broken_envs.Stairs().tasks(30)]
    assert len({*ids[0], *ids[1], *ids[2]}) == 90
    assert ids[1] == [task.id for task in examine("broken/Stairs-v0", seed=1).many]
    assert check("broken/Stairs-v0", seed=7).ok


def test_policies_that_draw_by_chance_may_do_as_well_as_chance():
    class Guess(broken_envs.Stairs):
        declared = Declarations(ceilings={"first admissible": 1.0, "last admissible": 1.0})

        def generate(self, rng, difficulty):
            return Task(
                "do it", super().generate(rng, difficulty).data
            )  # no word of a command: word overlap plays at random

    rates = check(Guess(), checks=["shortcut policies fail"])
    assert rates.ok and "word overlap 0." in rates.results[0].note


def test_the_first_hit_that_is_right_is_seen():
    """A shop whose first result is always right, and one where it never is."""
    for right, ok in ((0, False), (1, True)):
        env = Shelf(place=right)
        report = check(env, checks=["shortcut policies fail"])
        assert report.ok == ok, str(report)


class Shelf(agentgym.TextEnv):
    """Search, open one of two results, choose the colour that is named, buy."""

    settings = ("place",)
    place = 0

    def begin(self, task):
        self.found, self.opened, self.colour = False, "", ""
        return "Write search[words]."

    def act(self, action):
        name, _, value = action.removesuffix("]").partition("[")
        if name == "search" and value:
            self.found = True
            return "Two results."
        if action not in (self.admissible() or ()):
            return self.invalid("click[…]")
        if value == "buy":
            right = self.opened == f"item{self.place}" and self.colour == self.task.data["colour"]
            return self.win("Bought.") if right else self.lose("Wrong.")
        if value.startswith("item"):
            self.opened = value
        elif value != "back":
            self.colour = value
        return "Opened."

    def admissible(self):
        if not self.found:
            return None
        names = ["back", "buy", "red", "blue"] if self.opened else ["back", "item0", "item1"]
        return [f"click[{name}]" for name in names]

    def state(self):
        return self.found, self.opened, self.colour

    def generate(self, rng, difficulty):
        colour = ("red", "blue")[int(rng.integers(2))]
        return Task(f"a {colour} thing number {rng.integers(10**6)}", {"colour": colour})


@pytest.mark.parametrize("wanted", ["red", "blue"])
def test_word_overlap_by_hand(wanted):
    env = Shelf()
    env.reset(seed=0, options={"task": Task(f"a {wanted} thing", {"colour": wanted}, id="train/0/0")})
    env.step("search[thing]")
    env.step("click[item0]")
    assert GENERIC["word overlap"](env, [""], env.info()) == f"click[{wanted}]"


class Choices(agentgym.TextEnv):
    """A question whose choices are shown, the answer among them."""

    declared = agentgym.Declarations(answers=("answer",), choices=("choices",), random_bound=1.0)
    question: str = "{}, {} or {}?"

    def begin(self, task):
        return self.question.format(*task.data["choices"])

    def act(self, action):
        return self.win("Yes.") if action == self.task.data["answer"] else self.lose("No.")

    @staticmethod
    def generate(rng, difficulty):
        words = [f"w{number}" for number in rng.choice(10_000, size=3, replace=False)]
        return agentgym.Task("choose", {"choices": words, "answer": words[int(rng.integers(3))]})


@pytest.mark.parametrize(
    ("leaks", "declares", "status"),
    [("{}, {} or {}?", True, "holds"), ("{}, {} or {}?", False, "broken"), ("{0} or {1}?", True, "broken")],
)
def test_an_answer_among_shown_choices_is_not_told(leaks, declares, status):
    declared = Choices.declared if declares else agentgym.Declarations(answers=("answer",))
    kind = type("Choices", (Choices,), {"question": leaks, "declared": declared})
    assert check(kind(), checks=["answers stay hidden"]).results[0].status == status
