"""What counts as a verdict or an amount: the values of five kinds, and an error that names the environment for all else."""

import math

import numpy as np
import pytest
from ladder_env import Ladder

from agentgym import collect
from agentgym.agents.policies import RandomAgent
from agentgym.browser.env import BrowserEnv
from agentgym.core.outcome import Outcome
from agentgym.core.wrapper import TextWrapper
from agentgym.mcp_tools import McpEnv
from agentgym.rollout.hosted import LocalEnv

NO_VERDICTS = [
    math.nan, 0.4, 1, 0, 1.0, "true", "false", "", (False, "why"), (True,), [], {"success": True}, np.float64(1.0),
    np.array([True]), np.array(True), np.int64(1), 1 + 0j, Ladder,
]  # fmt: skip
NO_AMOUNTS = [
    math.nan,
    math.inf,
    -math.inf,
    "0.5",
    None,
    [0.5],
    np.array([0.5]),
    np.array(0.5),
    1 + 0j,
    10**400,
    np.float32("nan"),
]


class Odd(Ladder):
    """Answers every action with what the class says."""

    outcome = Outcome("seen")
    metrics: dict = {}  # noqa: RUF012
    by_role = None
    more: dict = {}  # noqa: RUF012

    def act(self, action):
        return self.outcome

    def measures(self):
        return self.metrics

    def role_rewards(self):
        return self.by_role

    def more_info(self):
        return self.more


def stepped(**attributes):
    env = type("Odd", (Odd,), {**attributes})()
    env.reset(seed=0)
    return env.step("up")


@pytest.mark.parametrize("value", NO_VERDICTS, ids=repr)
def test_a_success_that_is_no_verdict_is_the_environments_error(value):
    with pytest.raises(TypeError, match=r"success of Odd is .* expected True, False, or None"):
        stepped(outcome=Outcome("seen", success=value))


@pytest.mark.parametrize(
    ("value", "wanted"), [(True, True), (np.True_, True), (False, False), (np.False_, False), (None, None)]
)
def test_a_verdict_is_a_plain_boolean_or_none(value, wanted):
    _, reward, terminated, _, info = stepped(outcome=Outcome("seen", success=value))
    assert info["success"] is wanted and terminated is (wanted is not None) and reward == float(wanted is True)


@pytest.mark.parametrize("value", NO_AMOUNTS, ids=lambda value: repr(value)[:20])
def test_a_measure_that_is_no_number_is_the_environments_error(value):
    by_role = ({"agent": value}, {"agent": (value, True)}, {"agent": (1.0, value)})
    wrong = [{"outcome": Outcome("seen", measures={"height": value})}, *({"more": {}, "by_role": one} for one in by_role)]
    for attributes in wrong:
        outcome = attributes.get("outcome", Outcome("seen", success=True))
        with pytest.raises(TypeError, match="Odd"):
            stepped(**{**attributes, "outcome": outcome})
    with pytest.raises(TypeError, match="'height' of the measures of Odd is"):
        stepped(metrics={"height": value})


def test_numbers_of_every_kind_are_floats_in_info():
    measures = {"a": True, "b": np.float32(0.5), "c": np.int64(2), "d": 3, "e": np.bool_(False)}
    metrics = stepped(outcome=Outcome("seen", measures=measures))[4]["metrics"]
    assert metrics == {"a": 1.0, "b": 0.5, "c": 2.0, "d": 3.0, "e": 0.0} and {type(v) for v in metrics.values()} == {float}


@pytest.mark.parametrize("value", ["no", 0, None, 1])
def test_valid_is_a_boolean(value):
    with pytest.raises(TypeError, match="valid of Odd is"):
        stepped(outcome=Outcome("seen", valid=value))


def test_more_info_replaces_no_key_of_every_info():
    env = type("Odd", (Odd,), {"more": {"success": True, "mine": 1}})()
    with pytest.raises(TypeError, match=r"more_info of Odd returned \['success'\]"):
        env.reset(seed=0)
    assert stepped(more={"mine": 1})[4]["mine"] == 1


class Tampered(TextWrapper):
    """Changes one part of a step."""

    place: object = 1
    value: object = None

    def step(self, action):
        parts = list(super().step(action))
        if isinstance(self.place, str):
            parts[4] = {**parts[4], self.place: self.value}
        else:
            parts[self.place] = self.value
        return tuple(parts)


def tampered(place, value):
    wrapped = type("Tampered", (Tampered,), {"place": place, "value": value})(Ladder())
    hosted = LocalEnv(wrapped)
    wrapped.reset(seed=0)
    return hosted.step_here("up", 5.0)


@pytest.mark.parametrize("value", NO_VERDICTS, ids=repr)
def test_a_wrapper_cannot_make_a_success_of_anything_else(value):
    with pytest.raises(TypeError, match=r"info\['success'\] of Tampered"):
        tampered("success", value)


@pytest.mark.parametrize("value", NO_AMOUNTS, ids=lambda value: repr(value)[:20])
def test_a_wrapper_pays_finite_numbers(value):
    with pytest.raises(TypeError, match="the reward of Tampered"):
        tampered(1, value)
    for part in ("rewards", "metrics"):
        with pytest.raises(TypeError, match=f"'x' of info\\['{part}'\\] of Tampered"):
            tampered(part, {"x": value})


@pytest.mark.parametrize("place", [2, 3])
@pytest.mark.parametrize("value", [1, "yes", None, np.array([True])], ids=repr)
def test_a_wrapper_ends_an_episode_with_booleans(place, value):
    with pytest.raises(TypeError, match=r"(terminated|truncated) of Tampered"):
        tampered(place, value)
    assert tampered(2, np.True_)[2] is True


def test_a_wrong_success_ends_its_episode_as_a_fault_and_counts_as_no_success():
    class Generous(Ladder):
        def act(self, action):
            return Outcome("seen", success="false")

    (episode,) = collect(RandomAgent(), Generous, tasks=1)
    assert (episode.success, episode.reason) == (None, "crash") and "success of Generous is 'false'" in episode.error


@pytest.mark.parametrize("verdict_text", NO_VERDICTS, ids=repr)
def test_the_judge_of_a_base_class_gives_a_verdict_too(verdict_text):
    for kind in (McpEnv, BrowserEnv):
        env = object.__new__(type("Odd", (kind,), {"judge": lambda self, answer: verdict_text}))
        with pytest.raises(TypeError, match="judge of Odd is"):
            env.answer("x")
        env.judge = lambda answer: np.True_
        assert env.answer("x").success is True
        env.judge = lambda answer: False
        assert env.answer("x").success is False
