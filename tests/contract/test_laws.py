"""Every law can fail: a sound world keeps them all, and for each law there is a world that only that law catches."""

from types import MappingProxyType

import broken_worlds
import gymnasium
import pytest

import agentgym
from agentgym import Task
from agentgym.contract import LAWS, check, examine
from agentgym.contract.shortcuts import GENERIC
from agentgym.contract.subject import shrink


@pytest.mark.parametrize("kind", [broken_worlds.Stairs, broken_worlds.Vault])
def test_sound_worlds_keep_every_law(kind):
    report = check(f"broken/{kind.__name__}-v0")
    assert report.ok, str(report)
    assert sum(result.status == "holds" for result in report.results) >= 21


def test_there_is_a_broken_world_for_every_law():
    assert list(broken_worlds.BREAKS) == list(LAWS)


@pytest.mark.parametrize("law", LAWS)
def test_law_fails_on_its_broken_world(law):
    report = check(f"broken/{broken_worlds.BREAKS[law].__name__}-v0", laws=[law])
    assert [result.law for result in report.broken] == [law], str(report)


def broken(law):
    return check(f"broken/{broken_worlds.BREAKS[law].__name__}-v0", laws=[law]).broken[0]


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
    found = shrink(list(range(50)), lambda some: {7, 31} <= set(some))
    assert found == [7, 31]
    assert shrink([1, 2, 3], lambda some: True) == []


def test_a_world_already_made_is_checked_with_its_own_options():
    class Fickle(broken_worlds.Stairs):
        nondeterministic = "a coin is thrown outside"

    report = check(
        Fickle(split="valid", horizon=7), laws=["same again", "snapshots here", "equal keys", "made bare", "horizons"]
    )
    assert [result.status for result in report.results] == ["skipped"] * 3 + ["holds"] * 2
    assert "a coin is thrown outside" in str(report)


def test_a_world_that_no_other_process_can_import_is_not_blamed():
    class Local(broken_worlds.Stairs):
        pass

    report = check(Local(), laws=["same elsewhere", "snapshots elsewhere"])
    assert [result.status for result in report.results] == ["skipped"] * 2 and report.ok


def test_an_unknown_law_suggests_the_closest():
    with pytest.raises(LookupError, match=r"no law 'horizon'. Did you mean 'horizons'\?"):
        check("rlvr/GuessNumber-v0", laws=["horizon"])


class Ladder(broken_worlds.Stairs):
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
    ("law", "said"), [("oracle solves", "in the 12 turns of difficulty 1"), ("expert is good", "of difficulty 1;")]
)
def test_oracle_and_expert_are_held_to_the_horizon_at_every_difficulty(law, said):
    report = check(registered(Ladder), laws=[law])
    assert said in report.broken[0].note, str(report)
    assert check(registered(LongLadder), laws=[law]).ok
    assert check(registered(Ladder), laws=[law], difficulty=0).ok  # who names a difficulty means that one
    assert not check(registered(Ladder), laws=[law], difficulty=2).ok


def registered(kind):
    if f"broken/{kind.__name__}-v0" not in gymnasium.registry:
        agentgym.register(f"broken/{kind.__name__}-v0", kind)
    return f"broken/{kind.__name__}-v0"


def test_difficulties_that_have_no_tasks_of_their_own_are_left_out():
    assert [level.env.difficulty for level in examine(registered(LongLadder)).levels] == [0, 1, 2, 3]
    assert len(examine(registered(broken_worlds.Vault)).levels) == 4  # other numbers, other codes
    assert len(examine("rlvr/Shop-v0", preset="tiny").levels) == 1


def test_a_seed_draws_other_tasks_and_always_the_same():
    ids = {seed: [task.id for task in examine("broken/Stairs-v0", seed=seed).many] for seed in (0, 1, 2)}
    assert ids[0] == [task.id for task in broken_worlds.Stairs().tasks(30)]
    assert len({*ids[0], *ids[1], *ids[2]}) == 90
    assert ids[1] == [task.id for task in examine("broken/Stairs-v0", seed=1).many]
    assert check("broken/Stairs-v0", seed=7).ok


def test_policies_that_draw_by_chance_may_do_as_well_as_chance():
    class Guess(broken_worlds.Stairs):
        ceilings = MappingProxyType({"first admissible": 1.0, "last admissible": 1.0})

        def generate(self, rng, difficulty):
            return Task(
                "do it", super().generate(rng, difficulty).data
            )  # no word of a command: word overlap plays at random

    rates = check(Guess(), laws=["cheaters fail"])
    assert rates.ok and "word overlap 0." in rates.results[0].note


def test_the_first_hit_that_is_right_is_seen():
    """A shop whose first result is always right, and one where it never is."""
    for right, ok in ((0, False), (1, True)):
        env = Shelf(place=right)
        report = check(env, laws=["cheaters fail"])
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
