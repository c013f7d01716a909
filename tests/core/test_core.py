"""What the base class does for every environment."""

import dataclasses
import importlib.util
import math

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ladder_env import Ladder

import agentgym
from agentgym import BadConfig, EpisodeOver, Fault, MissingExtra, Outcome, Task, TextEnv, TextWrapper, UnknownName
from agentgym.core.env import MAX_ACTION
from agentgym.core.outcome import INFO_KEYS


def ladder(**options):
    env = Ladder(**options)
    env.reset(seed=0)
    return env


def test_info_has_the_same_keys_everywhere():
    env = Ladder()
    assert tuple(env.reset(seed=0)[1]) == INFO_KEYS
    for action in ("up", "nonsense", None, "fall"):
        assert tuple(env.step(action)[4]) == INFO_KEYS
    env.reset(seed=0)
    assert tuple(env.step("hang")[4]) == INFO_KEYS and tuple(env.info()) == INFO_KEYS


def test_a_win_pays_one_and_ends():
    env = ladder()
    rewards = [env.step("up") for _ in range(4)]
    assert [step[1] for step in rewards] == [0, 0, 0, 1.0]
    assert rewards[-1][2:4] == (True, False)
    info = rewards[-1][4]
    assert (info["success"], info["reason"], info["rewards"]) == (True, "success", {"success": 1.0})
    assert env.totals == {"agent": 1.0}
    with pytest.raises(EpisodeOver, match="call reset"):
        env.step("up")


def test_the_horizon_cuts_and_counts_as_failure():
    env = Ladder(horizon=2)
    env.reset(seed=0)
    assert env.step("up")[2:4] == (False, False)
    _, reward, terminated, truncated, info = env.step("up")
    assert (reward, terminated, truncated, info["success"], info["reason"]) == (0.0, False, True, False, "horizon")
    env.reset(seed=0, options={"horizon": 1})
    assert env.step("up")[3] and env.horizon == 2


def test_a_win_at_the_horizon_is_a_win():
    env = Ladder(horizon=4)
    env.reset(seed=0)
    assert [env.step("up")[2:4] for _ in range(4)][-1] == (True, False)


def test_a_fault_is_no_failure():
    observation, reward, terminated, truncated, info = ladder().step("hang")
    assert (observation, reward, terminated, truncated) == ("", 0.0, False, True)
    assert (info["success"], info["reason"], info["error"]) == (None, "timeout", "the rope holds nothing")


def test_an_episode_that_could_not_begin_is_not_played():
    class Locked(Ladder):
        def begin(self, task):
            if task.data.get("locked"):
                raise OSError("locked")
            return super().begin(task)

    env = Locked()
    env.reset(seed=0)
    with pytest.raises(OSError, match="locked"):
        env.reset(options={"task": Task(data={"locked": True}, id="mine")})
    with pytest.raises(EpisodeOver, match="call reset"):
        env.step("up")


def test_the_environment_is_not_asked_again_after_a_fault():
    class Dead(Ladder):
        def state(self):
            if self.turn:
                raise Fault("gone")
            return 0

    env = Dead()
    env.reset(seed=0)
    assert env.step("up")[4]["reason"] == "crash"
    with pytest.raises(EpisodeOver):
        env.step("up")


def test_shaping_pays_the_change_and_takes_it_back():
    env = ladder(shaping={"height": 0.4})
    paid = [env.step(action)[4]["rewards"] for action in ("up", "down", "up", "up", "up", "up")]
    parts = [0.1, -0.1, 0.1, 0.1, 0.1, 0.1]
    assert [part["height"] for part in paid] == pytest.approx(parts)
    assert paid[-1]["success"] == 1.0 and env.totals["agent"] == pytest.approx(1.4)


def test_where_an_episode_begins_is_not_paid():
    env = Ladder(shaping={"height": 0.4})
    env.reset(seed=0, options={"task": Task(data={"rung": 2}, id="mine")})
    assert env.step("nonsense")[1] == 0.0
    assert env.step("up")[1] == pytest.approx(0.1)


def test_a_reported_measure_is_paid_once():
    env = ladder(shaping={"brave": 0.5})
    assert [env.step("up")[1] for _ in range(2)] == [0.5, 0.0]


def test_a_measure_that_is_no_number_is_not_paid():
    class Lost(Ladder):
        def measures(self):
            return {"height": math.nan if self.turn else 0.0}

    env = Lost(shaping={"height": 0.4})
    env.reset(seed=0)
    with pytest.raises(TypeError, match="'height' of the measures of Lost is nan"):
        env.step("up")


def test_measures_are_metrics_unless_they_are_paid():
    env = ladder()
    assert env.step("up")[4]["metrics"] == {"height": 0.25, "brave": 1.0}
    env = ladder(shaping={"height": 0.5})
    assert env.step("up")[4]["metrics"] == {"brave": 1.0}


@given(st.lists(st.sampled_from(["up", "down", "no"]), max_size=30), st.floats(0, 0.99))
@settings(deadline=None, max_examples=60)
def test_shaping_telescopes(actions, weight):
    env = ladder(shaping={"height": weight})
    total, ended = 0.0, False
    for action in actions:
        _, reward, ended, cut, info = env.step(action)
        total += reward
        assert reward == sum(info["rewards"].values())
        if ended or cut:
            break
    assert total == pytest.approx(weight * min(max(env.rung / 4, 0), 1) + float(env.success is True))


@pytest.mark.parametrize(
    "shaping", [{"height": 1.0}, {"height": -0.1}, {"height": math.nan}, {"a": 0.5, "b": 0.5}, {"success": 0.1}]
)
def test_shaping_that_could_outweigh_success_is_refused(shaping):
    with pytest.raises(BadConfig, match="sum to less than 1"):
        Ladder(shaping=shaping)


def test_invalid_actions_are_explained_in_two_voices():
    helpful, genuine = ladder().step("jump"), ladder(feedback="genuine").step("jump")
    assert (helpful[0], helpful[4]["error"], helpful[4]["valid"]) == ("Say up or down.", "Say up or down.", False)
    assert (genuine[0], genuine[4]["error"]) == ("Nothing happens.", "Say up or down.")


@pytest.mark.parametrize("action", [None, 3, b"up", ["up"], "x" * (MAX_ACTION + 1), "\ud800"])
def test_what_is_no_text_costs_a_turn(action):
    env = ladder()
    observation, _, _, _, info = env.step(action)
    assert not info["valid"] and info["error"] == observation and env.turn == 1 and len(observation) < 200


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"hozizon": 3}, BadConfig, "Did you mean 'horizon'"),
        ({"split": "tran"}, UnknownName, "Did you mean 'train'"),
        ({"preset": "lw"}, UnknownName, "Did you mean 'low'"),
        ({"difficulty": -1}, BadConfig, "expected an integer from 0"),
        ({"difficulty": True}, BadConfig, "expected an integer from 0"),
        ({"horizon": 0}, BadConfig, "expected an integer from 1"),
        ({"feedback": "kind"}, BadConfig, "expected 'helpful' or 'genuine'"),
        ({"render_mode": "human"}, BadConfig, "expected 'ansi' or None"),
    ],
)
def test_wrong_options_say_what_is_right(options, error, text):
    with pytest.raises(error, match=text):
        Ladder(**options)


def test_an_explicit_option_wins_over_the_preset():
    assert (Ladder(preset="low").top, Ladder(preset="low").horizon) == (2, 7)
    assert (Ladder(preset="low", top=3).top, Ladder(top=None).top) == (3, 4)
    assert Ladder.top == 4


@pytest.mark.parametrize(
    "options", [{"tsk": 1}, {"horizon": True}, {"horizon": "3"}, {"task": 2.5}, {"task": "train/0"}, {"task": -1}]
)
def test_wrong_reset_options(options):
    with pytest.raises(BadConfig):
        Ladder().reset(seed=0, options=options)


def test_reset_by_number_id_and_task_is_one_task():
    env = Ladder()
    task = env.numbered(7)
    assert task.id == "train/0/7"
    for given_task in (7, "train/0/7", task):
        env.reset(seed=1, options={"task": given_task})
        assert env.task == task


def test_the_same_seed_is_the_same_episode_and_no_seed_is_another():
    one, two = Ladder(), Ladder()
    for env in (one, two):
        env.reset(seed=9)
    assert one.task == two.task and [one.step("dice")[0] for _ in range(9)] == [two.step("dice")[0] for _ in range(9)]
    one.reset()
    two.reset()
    assert one.task == two.task  # later episodes follow from the seed given once
    before = one.task
    one.reset()
    assert one.task != before


def test_chance_depends_on_task_and_seed_alone():
    def rolls(task, seed, env):
        env.reset(seed=seed, options={"task": task})
        return [env.step("dice")[0] for _ in range(12)]

    env = Ladder()
    first = rolls(1, 1, env)
    assert first == rolls(1, 1, env) == rolls(1, 1, Ladder())
    assert first != rolls(2, 1, env) and first != rolls(1, 2, env)


def test_nothing_of_an_episode_is_left_at_the_next():
    env = ladder()
    env.note = "left by act"
    env.reset(seed=0)
    assert not hasattr(env, "note")


def test_snapshot_holds_all_and_restore_leaves_it_as_it_was():
    env = ladder(shaping={"height": 0.4})
    env.step("up")
    env.step("dice")
    state = env.snapshot()
    onward = [env.step(action) for action in ("dice", "up", "dice", "up", "up")]
    other = Ladder(shaping={"height": 0.4})
    for environment in (env, other, other):
        assert environment.restore(state) is environment
        assert environment.observation.startswith("a ")
        assert [environment.step(action) for action in ("dice", "up", "dice", "up", "up")] == onward
        assert environment.totals["agent"] == pytest.approx(1.4)


def test_restore_with_a_seed_draws_afresh():
    env = ladder()
    state = env.snapshot()

    def rolls(seed):
        env.restore(state, seed=seed)
        return [env.step("dice")[0] for _ in range(20)]

    assert rolls(1) == rolls(1) != rolls(2) and rolls(None) == rolls(None) != rolls(1)


def test_an_ended_episode_stays_ended_when_restored():
    env = ladder()
    env.step("fall")
    state = env.snapshot()
    env.reset(seed=0)
    env.restore(state)
    assert env.success is False
    with pytest.raises(EpisodeOver):
        env.step("up")


def test_shared_attributes_are_kept_by_reference():
    class Heavy(Ladder):
        shared = ("book",)

        def begin(self, task):
            self.book, self.page, self.rung = list(range(1000)), [0], 0
            return "open"

    env = Heavy()
    env.reset(seed=0)
    book, page = env.book, env.page
    env.restore(env.snapshot())
    assert env.book is book and env.page is not page


def test_state_key_is_of_task_role_and_state():
    env = ladder()
    start = env.state_key()
    env.step("up")
    up = env.state_key()
    env.step("down")
    assert env.state_key() == start != up and len(start) == 16
    other = Ladder()
    other.reset(seed=1)
    assert other.state_key() != start  # another task


def test_gym_make_returns_the_environment_bare_and_wrappers_forward():
    env = gym.make("rlvr/GuessNumber-v0", difficulty=1, render_mode="ansi")
    assert isinstance(env, TextEnv) and env.unwrapped is env and env.difficulty == 1
    env.reset(seed=1)
    assert env.render() == f"{env.task.id} turn 0/15 success=None"
    wrapped = TextWrapper(gym.Wrapper(TextWrapper(env)))
    state = wrapped.snapshot()
    wrapped.step("500")
    assert wrapped.restore(state) is wrapped and wrapped.turn == 0 and wrapped.state_key() == env.state_key()
    with pytest.raises(AttributeError):
        wrapped.no_such_thing


def test_roles_are_paid_apart():
    env = agentgym.make("rlvr/TicTacToe-v0", opponent="self")
    env.reset(seed=1)
    roles = []
    while env._running:
        roles.append(env.role)
        env.step(next(env.oracle()))
    assert roles == [roles[0], {"X": "O", "O": "X"}[roles[0]]] * (len(roles) // 2) + roles[:1] * (len(roles) % 2)
    assert env.totals == {roles[0]: 1.0, {"X": "O", "O": "X"}[roles[0]]: 0.0} and env.success is True
    ended = env.snapshot()
    assert env.outcomes == {roles[0]: (1.0, True), {"X": "O", "O": "X"}[roles[0]]: (0.0, False)}
    env.reset(seed=2)
    assert env.outcomes == {} and env.restore(ended).outcomes[roles[0]].success is True


def test_outcomes_are_plain_data():
    assert dataclasses.asdict(TextEnv.reward(ladder(), "x", a=0.5)) == dataclasses.asdict(Outcome("x", measures={"a": 0.5}))
    assert np.isfinite(ladder().step("up")[1])


def test_what_an_oracle_or_expert_says_ends_with_the_episode():
    class Endless(Ladder):
        def oracle(self):
            while True:
                yield "up"

        expert = oracle

    class More(Endless):
        def expert(self):
            yield from super().expert()

    for method in ("oracle", "expert"):
        env = More(horizon=9)
        env.reset(seed=0)
        for action in getattr(env, method)():  # a plain loop needs no look at `terminated`
            last = env.step(action)
        assert last[2] and env.turn == 4
    env = More(horizon=2)
    env.reset(seed=0)
    assert [env.step(action)[3] for action in env.oracle()] == [False, True]
    env.reset(seed=0)
    assert len([action for _, action in zip(range(9), env.oracle(), strict=False)]) == 9  # asked without a step
    with pytest.raises(NotImplementedError, match="Ladder defines no oracle"):
        ladder().oracle()


@pytest.mark.skipif(importlib.util.find_spec("verifiers") is not None, reason="the package verifiers is installed here")
def test_an_environment_of_a_package_that_is_not_here_says_how_to_get_it() -> None:
    with pytest.raises(MissingExtra, match=r"verifiers:gsm8k is an environment of the package verifiers: .*\[verifiers\]"):
        agentgym.make("verifiers:gsm8k")
