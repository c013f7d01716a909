"""Properties that credit functions have whatever the episodes are, and how credits are found and configured."""

import re
import sys
import types
from typing import Annotated

import numpy as np
import pytest
from credit_envs import episode, group
from hypothesis import given
from hypothesis import strategies as st

import agentgym
from agentgym.episodes.episode import Episode, Turn
from agentgym.errors import BadConfig, UnknownName
from agentgym.trainers.credit.interface import CREDITS, Within, credit, resolve

CORRECTED = ("grpo", "dr_grpo", "rloo", "gigpo")
rewards = st.sampled_from([0.0, 1.0, 0.1, -0.3, 10.0])
turns = st.tuples(st.sampled_from("abc"), rewards, st.booleans())
episodes = st.lists(turns, min_size=1, max_size=6).map(lambda made: episode(*made))
groups = st.lists(episodes, min_size=1, max_size=6).map(lambda made: group(*made))
orders = st.sampled_from(["before", "after", "advantage"])


def run(name, made, **options):
    return resolve(name, **options)([made])[0]


@given(groups, orders, st.sampled_from([0.0, 0.1]))
def test_episode_terms_sum_to_zero_over_trajectories(made, order, penalty):
    for name in ("grpo", "dr_grpo", "rloo"):
        found = run(name, made, penalty=penalty if order != "advantage" else 0.0, penalty_order=order)
        assert sum(array.mean() for array in found) == pytest.approx(0, abs=1e-8)


@given(groups, st.sampled_from(["std", "mean"]), st.sampled_from(["observation", "state"]), st.booleans())
def test_step_terms_sum_to_zero_over_turns(made, step_norm, anchor, revisits):
    with_steps = run("gigpo", made, norm="mean", step_norm=step_norm, anchor=anchor, revisits=revisits)
    without = run("gigpo", made, norm="mean", step_weight=0.0)
    total = sum((a - b).sum() for a, b in zip(with_steps, without, strict=True))
    assert total == pytest.approx(0, abs=1e-6)


@given(groups, st.randoms(use_true_random=False), orders)
def test_the_order_of_episodes_does_not_matter(made, random, order):
    shuffled = list(range(len(made)))
    random.shuffle(shuffled)
    for name in (*CORRECTED, "gigpo_reference"):
        options = {"penalty": 0.1} if name == "gigpo_reference" else {"penalty": 0.1, "penalty_order": order}
        straight = run(name, made, **options)
        mixed = run(name, group(*(made[i] for i in shuffled)), **options)
        for place, i in enumerate(shuffled):
            np.testing.assert_allclose(mixed[place], straight[i], atol=1e-9, rtol=1e-7)


@given(episodes, orders)
def test_a_group_of_one_teaches_nothing_about_the_episode(one, order):
    for name in ("grpo", "dr_grpo", "rloo"):
        assert not np.any(run(name, group(one), penalty=0.1 if order != "advantage" else 0.0, penalty_order=order)[0])
    assert not np.any(run("gigpo", group(one), revisits=False)[0])


@given(rewards, st.integers(1, 6), st.integers(1, 5), st.sampled_from(["std", "mean"]))
def test_no_spread_gives_exactly_zero(reward, size, length, norm):
    made = group(*(episode(*[("a", reward)] * length) for _ in range(size)))
    for name in ("grpo", "dr_grpo", "rloo"):
        assert not np.any(run(name, made))
    assert not np.any(run("gigpo", made, norm=norm, step_norm=norm, revisits=False))


@given(groups, st.sampled_from([0.5, 2.0, 8.0]))
def test_scale_of_rewards(made, factor):
    larger = group(*(episode(*[(t.observation, t.reward * factor, t.valid) for t in e.turns]) for e in made))
    for name in ("dr_grpo", "rloo"):
        for a, b in zip(run(name, made), run(name, larger), strict=True):
            np.testing.assert_allclose(a * factor, b, atol=1e-9)
    options = {"norm": "std", "step_norm": "std", "eps": 0.0}
    for a, b in zip(run("gigpo", made, **options), run("gigpo", larger, **options), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


@given(groups, st.integers(2, 3))
def test_copies_of_all_episodes_leave_mean_centred_credit_alone(made, times):
    copied = group(*list(made) * times)
    for name in ("dr_grpo", "gigpo"):
        options = {"norm": "mean"} if name == "gigpo" else {}
        anchored_once = run(name, made, **options)
        for a, b in zip(anchored_once, run(name, copied, **options)[: len(made)], strict=True):
            np.testing.assert_allclose(a, b, atol=1e-9)


@given(groups)
def test_without_anchors_gigpo_is_grpo(made):
    for one in made:
        for turn in one.turns:
            turn.state_key = None
    for a, b in zip(run("gigpo", made, anchor="state"), run("grpo", made), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_length_of_an_episode_does_not_move_the_baseline():
    short = group(episode(("a", 1)), episode(("b", 0)))
    long = group(episode(("a", 1)), episode(*[("b", 0)] * 9))
    assert run("grpo", short)[0][0] == run("grpo", long)[0][0]
    assert run("gigpo_reference", short)[0][0] != run("gigpo_reference", long)[0][0]


# A credit of one's own, as in the documentation


@pytest.fixture
def my_module(monkeypatch):
    module = types.ModuleType("my_module")
    source = '''
import agentgym, numpy as np

@agentgym.credit("last_turn")
def last_turn(group, *, scale: float = 1.0):
    """Only the last turn of an episode is credited, with reward minus the group's mean."""
    mean = np.mean([episode.reward for episode in group])
    return [np.r_[np.zeros(len(e.turns) - 1), scale * (e.reward - mean)] for e in group]

def undeclared(group):
    return []
'''
    exec(source, module.__dict__)
    monkeypatch.setitem(sys.modules, "my_module", module)
    return module


def test_a_credit_of_ones_own(my_module):
    made = group(episode(("a", 0), ("b", 1)), episode(("a", 0)))
    credit = resolve("my_module:last_turn", scale="0.5")  # as the command line gives it
    assert [array.tolist() for array in credit([made])[0]] == [[0, 0.25], [-0.25]]
    assert my_module.last_turn(made)[0].tolist() == [0, 0.5]
    assert resolve("last_turn").stage.target is my_module.last_turn


def test_unknown_names_are_answered_with_the_closest(my_module):
    with pytest.raises(UnknownName, match="Did you mean 'gigpo'"):
        resolve("gipo")
    with pytest.raises(UnknownName, match="Did you mean 'last_turn'"):
        resolve("my_module:last_trn")
    with pytest.raises(BadConfig, match="Did you mean 'scale'"):
        resolve("my_module:last_turn", scal=1.0)
    with pytest.raises(BadConfig, match="expected float"):
        resolve("grpo", eps="small")
    with pytest.raises(BadConfig, match="expected bool"):
        resolve("gigpo", revisits="perhaps")
    with pytest.raises(BadConfig, match=r"is not a credit.*@agentgym.credit\('undeclared'\)"):
        resolve("my_module:undeclared")


def test_strings_are_read_as_the_type_of_the_default():
    assert resolve("gigpo", gamma="0.5", revisits="false", ddof="0", anchor="state").hyperparameters == {
        "gamma": 0.5, "revisits": False, "ddof": 0, "anchor": "state",
    }  # fmt: skip
    assert resolve("grpo", penalty=1).hyperparameters == {"penalty": 1.0}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("grpo", {"norm": "zscore"}), ("grpo", {"penalty_order": "during"}), ("rloo", {"punish": "all"}),
        ("gigpo", {"anchor": "text"}), ("gigpo", {"anchor": "state", "keep_errors": True}),
        ("gigpo", {"step_norm": "none"}), ("gigpo_reference", {"norm": "none"}),
    ],
)  # fmt: skip
def test_values_that_mean_nothing_are_refused(name, options):
    with pytest.raises(BadConfig):
        run(name, group(episode(("a", 1)), episode(("a", 0))), **options)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("gigpo", {"anchor": "obs"}, "anchor of credit 'gigpo' is 'obs'; expected one of 'observation', 'state'"),
        ("gigpo", {"gamma": "1.5"}, "gamma of credit 'gigpo' is 1.5; expected a number from 0 to 1"),
        ("gigpo", {"anchor": "state", "keep_errors": "true"}, "keep_errors has no effect"),
        ("gigpo_reference", {"norm": "none"}, "expected one of 'std', 'mean'"),
        ("grpo", {"ddof": "2"}, "ddof of credit 'grpo' is 2; expected one of 0, 1"),
        ("grpo", {"eps": "nan"}, "eps of credit 'grpo' is nan; expected a number from 0"),
        ("dr_grpo", {"penalty": "-0.1"}, "penalty of credit 'dr_grpo' is -0.1"),
        ("rloo", {"penalty": "inf"}, "penalty of credit 'rloo' is inf"),
    ],
)
def test_bad_values_are_refused_when_the_credit_is_looked_up(name, options, message):
    with pytest.raises(BadConfig, match=re.escape(message)):
        resolve(name, **options)


def test_a_credit_of_ones_own_may_refuse_its_values_when_it_is_looked_up():
    @agentgym.credit("picky", needs=["entropy"])
    def picky(group, *, power: float = 1.0):
        if power == 2:
            raise BadConfig("power is 2, and squares are not wanted")
        return [np.concatenate([t.extra["entropy"] ** power for t in e.turns]) for e in group]

    assert resolve("picky", power=3).needs == ("entropy",)
    with pytest.raises(BadConfig, match="squares"):
        resolve("picky", power=2)


@pytest.mark.parametrize("need", ["regrets", "futures"])
def test_needs_that_nothing_computes_are_refused_when_the_credit_is_looked_up(need):
    agentgym.credit(f"with_{need}", needs=[need])(lambda group: [])
    with pytest.raises(UnknownName, match=f"no need '{need}'.*branches, entropy, .*probe, prover, .*values"):
        resolve(f"with_{need}")


def test_a_penalty_leaves_a_group_that_failed_alike_without_an_advantage_of_one():
    # all four failed, one of them with an invalid action: by default it costs that turn 0.01, and nobody gains
    failed = group(*[episode(("a", 0)) for _ in range(4)])
    failed[0].turns[0].valid = False
    assert [float(row[0]) for row in run("grpo", failed, penalty=0.01)] == [-0.01, 0, 0, 0]
    assert run("grpo", failed, penalty=0.01, penalty_order="before")[0][0] == pytest.approx(-1.5, abs=0.01)  # 3/4 / std 1/2


def test_names_of_the_package_cannot_be_taken():
    with pytest.raises(BadConfig, match="belongs to"):
        agentgym.credit("grpo")(lambda group: [])
    with pytest.raises(BadConfig, match="scope"):
        agentgym.credit("mine", scope="turn")
    agentgym.credit("needy", needs=["entrop"])(lambda group: [])
    with pytest.raises(UnknownName, match="Did you mean 'entropy'"):
        resolve("needy")


def test_every_credit_of_the_table_resolves_and_declares_itself():
    for name in CREDITS.table:
        credit = resolve(name)
        assert credit.name == name
        for word in ("Source:", "Statistics", "ddof", "spread", "enalties"):
            assert word in credit.stage.target.__doc__


def test_batch_scope_sees_all_groups_and_results_are_checked():
    @agentgym.credit("batch_mean", scope="batch")
    def batch_mean(groups, *, bad: str = ""):
        mean = np.mean([e.reward for g in groups for e in g])
        made = [[np.full(len(e.turns), e.reward - mean) for e in g] for g in groups]
        if bad == "shape":
            made[0][0] = np.zeros(99)
        if bad == "nan":
            made[0][0][0] = np.nan
        if bad == "few":
            made[0].pop()
        return made

    two = [group(episode(("a", 1), ("b", 0))), group(episode(("a", 0)))]
    assert [a.tolist() for g in resolve("batch_mean")(two) for a in g] == [[0.5, 0.5], [-0.5]]
    for bad, message in (("shape", r"expected \(2,\)"), ("nan", "not finite"), ("few", "0 arrays for a group of 1")):
        with pytest.raises(ValueError, match=message):
            resolve("batch_mean", bad=bad)(two)


def test_an_array_may_have_a_number_per_output_token():
    @agentgym.credit("per_token")
    def per_token(group):
        return [np.arange(sum(len(t.output_ids) for t in e.turns)) for e in group]

    one = Episode("e", "t", "t", 0, turns=[Turn("o", output_ids=[1, 2]), Turn("o", output_ids=[3])])
    assert resolve("per_token")([group(one)])[0][0].tolist() == [0, 1, 2]


@pytest.mark.parametrize("value", ["x", True, None, 2, float("nan")])
def test_a_bounded_hyper_parameter_without_a_default_refuses_what_is_no_number(value):
    @credit("bounded")
    def bounded(group, *, alpha: Annotated[float, Within(0, 1)]):
        return [np.zeros(len(episode.turns)) for episode in group]

    with pytest.raises(BadConfig, match=r"alpha of credit 'bounded' is .*; expected a number from 0 to 1"):
        resolve("bounded", alpha=value)
    assert resolve("bounded", alpha=1).hyperparameters == {"alpha": 1}
