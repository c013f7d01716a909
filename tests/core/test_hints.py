"""Hints of environments: what the base class makes of a solution, what an override says, and that asking changes nothing."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentgym
from agentgym import BadConfig, Fault, Hint, Task, TextEnv
from agentgym.core.hints import first_share, hint_text, solution


class Corridor(TextEnv):
    """Walk to a door whose number was drawn; the oracle plans again at every step from where one stands."""

    horizon = 9

    def begin(self, task):
        self.place, self.rolls = 0, []
        return "a corridor"

    def act(self, action):
        self.rolls.append(int(self.np_random.integers(6)))
        self.place += {"on": 1, "back": -1}.get(action, 0)
        return self.win("out") if self.place == task_goal(self.task) else f"place {self.place}"

    def state(self):
        return self.place

    def oracle(self):
        yield "on" if self.place < task_goal(self.task) else "back"

    @staticmethod
    def generate(rng, difficulty):
        return Task("walk out", {"goal": 4, "n": int(rng.integers(10**9))})


def task_goal(task):
    return task.data["goal"]


class Bare(Corridor):
    """Has neither an oracle nor an expert."""

    oracle = TextEnv.oracle


class Explorer(Bare):
    """Has an expert alone; with a short horizon that one does not get there."""

    def expert(self):
        yield "on"


class Typo(Corridor):
    def hint(self, level):
        return 7


def started(kind, **options):
    env = kind(**options)
    env.reset(seed=3)
    return env


def test_the_default_is_the_first_share_of_the_oracles_actions_rounded_down():
    env = started(Corridor)
    assert solution(env) == ["on"] * 4
    assert env.hint(0.5) == "The first 2 of the 4 actions of a solution:\non\non"
    assert env.hint(0.74) == env.hint(0.5) and env.hint(0.24) == ""
    assert env.hint(1) == "The first 4 of the 4 actions of a solution:\n" + "on\n" * 3 + "on"
    env.step("back")
    assert env.hint(0.2) == "The first 1 of the 5 actions of a solution:\non"  # from where the episode stands


def test_of_a_single_action_it_is_the_first_share_of_its_words():
    query = "SELECT name\n  FROM town WHERE size > 3"
    assert first_share([query], 0.5) == "A solution begins with:\nSELECT name\n  FROM town"
    assert first_share([query], 1.0) == f"A solution begins with:\n{query}"
    assert first_share([query], 0.1) == "" and first_share([], 1.0) == ""


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), max_size=6), st.floats(0, 1), st.floats(0, 1))
def test_a_higher_level_says_what_a_lower_one_does_and_more(actions, one, other):
    low, high = (first_share(actions, level).partition(":\n")[2] for level in sorted((one, other)))
    assert high.startswith(low)
    if len(actions) > 1:
        assert first_share(actions, 1).partition(":\n")[2] == "\n".join(actions)


@pytest.mark.parametrize("kind", [Corridor, Explorer])
@pytest.mark.parametrize("turns_taken", [0, 2])
def test_asking_for_a_hint_changes_nothing(kind, turns_taken):
    env, twin = started(kind), started(kind)
    for each in (env, twin):
        for _ in range(turns_taken):
            each.step("wait")
    before = pickle.dumps(env.snapshot())
    key, seen, info = env.state_key(), env.observation, env.info()
    assert hint_text(env, 0.5) and hint_text(env, 1)
    assert (env.state_key(), env.observation, env.info()) == (key, seen, info)
    assert pickle.dumps(env.snapshot()) == before == pickle.dumps(twin.snapshot())
    steps = [[each.step(action) for action in ("on", "look", "on")] for each in (env, twin)]
    assert steps[0] == steps[1] and env.rolls == twin.rolls  # chance too is where it was


@pytest.mark.parametrize("name", ["rlvr/GuessNumber-v0", "rlvr/Household-v0", "rlvr/FrozenLake-v0", "rlvr/TextCraft-v0"])
def test_a_hint_is_no_part_of_an_episode_of_the_package(name):
    env, twin = agentgym.make(name), agentgym.make(name)
    plays = []
    for each, level in ((env, 0.75), (twin, 0)):
        seen = each.reset(seed=5)
        hint = hint_text(each, level)
        actions = [action for action, _ in zip(each.expert(), range(3), strict=False)]
        steps = [each.step(action) for action in actions if each.info()["success"] is None]
        plays.append((seen, steps, each.state_key()))
    assert plays[0] == plays[1] and hint == ""
    env.reset(seed=5)
    assert env.hint(1.0) and env.hint(1.0) == env.hint(1.0)


def test_guess_number_narrows_the_range():
    env = agentgym.make("rlvr/GuessNumber-v0")
    env.reset(seed=1)
    inner = env.unwrapped
    inner.secret, inner.low, inner.high = 30, 1, 100
    assert env.hint(0.5) == "It is from 16 to 65."  # 29 / 2 rounds to 14, 70 / 2 is 35
    assert env.hint(1.0) == "It is from 30 to 30." and env.hint(0.0) == "It is from 1 to 100."


def test_without_an_oracle_or_an_expert_there_is_no_hint():
    with pytest.raises(NotImplementedError, match=r"Bare defines no expert\(\)"):
        started(Bare).hint(1.0)
    assert hint_text(started(Bare), 1.0) == ""  # in a rollout, such a task is played without one
    with pytest.raises(NotImplementedError, match="the expert of Explorer does not solve task"):
        started(Explorer, horizon=2).hint(1.0)
    assert solution(started(Corridor, horizon=2)) == ["on", "on"]  # an oracle's beginning is right


def test_a_step_that_fails_on_the_way_is_an_infrastructure_error(monkeypatch):
    env = started(Corridor)

    def broken(action):
        raise Fault("the floor is gone", reason="timeout")

    monkeypatch.setattr(env, "act", broken)
    state = env.snapshot()
    with pytest.raises(Fault, match="played for a hint: the floor is gone") as fault:
        env.hint(1.0)
    assert fault.value.reason == "timeout" and env.snapshot() == state


def test_a_hint_that_is_no_text_is_named():
    with pytest.raises(TypeError, match="hint of Typo returned 7; expected text"):
        hint_text(started(Typo), 1.0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"level": 1.5}, "level of a hint is 1.5; expected a share from 0 to 1"),
        ({"level": True}, "level of a hint is True"),
        ({"level": "half"}, "level of a hint is 'half'"),
        ({"text": 3}, "a hint has text 3"),
        ({"level": 0}, "a hint of level 0 without text says nothing"),
    ],
)
def test_hints_that_cannot_be_are_refused(values, message):
    with pytest.raises(BadConfig, match=message):
        Hint(**values)
