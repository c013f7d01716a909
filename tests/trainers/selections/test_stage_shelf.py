"""The shelf of selections, samplers and rewards: each by hand, and what each is for."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import small_envs
from credit_envs import episode
from hypothesis import given, settings
from hypothesis import strategies as st
from paid_tries import paid, tried
from small_runs import curve, episodes, policy, small

import agentgym
from agentgym.episodes.confidence import confidence
from agentgym.episodes.episode import Group
from agentgym.errors import BadConfig
from agentgym.trainers import resume, train
from agentgym.trainers.branching.interface import BRANCHINGS
from agentgym.trainers.credit.interface import CREDITS
from agentgym.trainers.losses.interface import LOSSES
from agentgym.trainers.needs.interface import NEEDS
from agentgym.trainers.rewards.interface import REWARDS, resolve_rewards
from agentgym.trainers.samplers.interface import SAMPLERS, GroupOutcome, TaskSource
from agentgym.trainers.selections.interface import SELECTIONS


def attempts(*made, group_id="g"):
    """Return a group of (success, [(parsed, valid), ...]) by attempt."""
    group = []
    for number, (won, turns) in enumerate(made):
        one = episode(*(("o", 0.0) for _ in turns), reward=float(won))
        one.attempt, one.success, one.group_id = number, won, group_id
        for turn, (parsed, valid) in zip(one.turns, turns, strict=True):
            turn.parsed, turn.valid = parsed, valid
        group.append(one)
    return Group("t", "agent", group)


GOOD, MUTE, WRONG = (True, True), (False, False), (True, False)


def picks(name, *groups, step=0, seed=0, **options):
    run = SimpleNamespace(config=SimpleNamespace(seed=seed))
    found = SELECTIONS.resolve(name, options)(list(groups), step=step, run=run)
    return [[one.attempt for one in group] for group in found]


def test_void_turns_take_their_whole_episode_with_them():
    made = attempts((True, [GOOD, GOOD]), (False, [GOOD, MUTE]), (False, [GOOD]), (True, [WRONG, GOOD]))
    assert picks("void_turns", made) == [[0, 2, 3]]
    assert picks("void_turns", made, void="valid") == [[0, 2]]
    assert picks("void_turns", attempts((True, [GOOD]), (False, [MUTE]), (True, [GOOD]))) == []  # nothing left to compare
    assert picks("void_turns", attempts((True, [GOOD]), (False, [MUTE]))) == []


def test_resampling_keeps_half_of_either_kind_and_the_cleaner_successes():
    made = attempts(*[(True, [GOOD] * 4)] * 2, *[(True, [MUTE] * 4)] * 2, *[(False, [MUTE])] * 4)
    drawn = [picks("resample_on_correct", made, step=step)[0] for step in range(200)]
    assert all(sum(number < 4 for number in one) == 2 and len(one) == 4 for one in drawn)
    clean = sum(number < 2 for one in drawn for number in one) / (2 * len(drawn))
    assert clean > 0.9  # chances 10 to 1 / 2.1
    failures = np.bincount([number for one in drawn for number in one if number >= 4], minlength=8)[4:]
    assert failures.min() > 60  # 100 of 200 each, whatever they look like
    assert drawn[:5] == [picks("resample_on_correct", made, step=step)[0] for step in range(5)]
    assert picks("resample_on_correct", made, seed=1) != [drawn[0]] or picks("resample_on_correct", made, seed=2) != [
        drawn[0]
    ]


def test_resampling_leaves_one_of_a_rare_kind():
    made = attempts((True, [MUTE]), *[(False, [GOOD])] * 5)
    assert picks("resample_on_correct", made)[0][0] == 0
    assert picks("resample_on_correct", attempts(*[(False, [GOOD])] * 4)) == []


def test_accuracy_keeps_what_is_neither_too_easy_nor_too_hard():
    made = [attempts(*[(n < wins, [GOOD]) for n in range(8)]) for wins in (0, 1, 2, 6, 7, 8)]
    assert [len(one) for one in picks("accuracy", *made)] == [8, 8]
    assert len(picks("accuracy", *made, low=0.0, high=1.0)) == 4  # of those that differ at all
    assert SELECTIONS.resolve("accuracy", {"rounds": 7}).option("rounds", 1) == 7


def sources(env="small/Generated-v0"):
    return [TaskSource(agentgym.make(f"{small_envs.__name__}:{env}"), seed=3, name="g")]


def test_a_horizon_that_is_multiplied_or_added_to():
    made = SAMPLERS.resolve("growing_horizon", {"least": 10, "most": 25, "every": 5})(sources())
    assert [made.horizon(step) for step in (0, 4, 5, 9, 10, 100)] == [10, 10, 20, 20, 25, 25]
    assert {draw.horizon for draw in made.draw(7, 3)} == {20}
    added = SAMPLERS.resolve("growing_horizon", {"least": 2, "most": 4, "every": 1, "growth": "add"})(sources())
    assert [added.horizon(step) for step in range(4)] == [2, 3, 4, 4]


def seen(difficulty, *successes):
    return GroupOutcome("g", "t", difficulty, tuple(map(float, successes)), tuple(map(bool, successes)))


def test_a_range_of_difficulties_moves_up_when_its_top_is_mastered():
    made = SAMPLERS.resolve("difficulty_range", {"groups": 2, "span": 2, "high": 0.75})(sources())
    assert {draw.task.difficulty for draw in made.draw(0, 20)} == {0}
    made.update([seen(0, 1, 1), seen(0, 1, 0)])  # 0.75
    assert {draw.task.difficulty for draw in made.draw(1, 40)} == {0, 1}
    made.update([seen(0, 1, 1), seen(0, 1, 1), seen(1, 1, 1)])  # one group of the top
    assert made.top == {"g": 1}
    made.update([seen(1, 0, 1)])  # 0.75 of two
    assert made.top == {"g": 2} and {draw.task.difficulty for draw in made.draw(2, 40)} == {1, 2}
    made.update([seen(2, 0, 0), seen(2, 0, 0)])
    assert made.top == {"g": 2}  # it never falls
    again = SAMPLERS.resolve("difficulty_range", {"groups": 2, "span": 2, "high": 0.75})(sources())
    again.load_state_dict(made.state_dict())
    assert [d.task.id for d in again.draw(3, 9)] == [d.task.id for d in made.draw(3, 9)]


@pytest.mark.parametrize(("name", "stands"), [("difficulty_range", "top"), ("window", "difficulty")])
def test_no_sampler_goes_beyond_the_hardest_tasks_of_an_environment(name, stands):
    drawn = sources()
    drawn[0].env.hardest = 2
    made = SAMPLERS.resolve(name, {"groups": 1, "high": 0.5})(drawn)
    for difficulty in (0, 1, 2, 2):
        made.update([seen(difficulty, 1, 1)])
    assert getattr(made, stands) == {"g": 2}


def test_a_task_that_is_always_solved_is_played_warmer():
    made = SAMPLERS.resolve("rising_temperature", {"rise": 0.25, "most": 1.4})(sources("small/File-v0"))
    run = SimpleNamespace(config=SimpleNamespace(temperature=0.8))
    task = made.draw(0, 1, run=run)[0].task.id
    temperatures = []
    for successes in ((True, True), (True, True), (True, False), (True,)):
        made.update([GroupOutcome("g", task, 0, tuple(map(float, successes)), successes)])
        draws = {draw.task.id: draw.sampling for draw in made.draw(1, 12, run=run)}
        assert all(not sampling for name, sampling in draws.items() if name != task)
        temperatures.append(draws[task].get("temperature"))
    assert temperatures == [pytest.approx(1.0), pytest.approx(1.12), None, pytest.approx(1.0)]
    again = SAMPLERS.resolve("rising_temperature", {"rise": 0.25, "most": 1.4})(sources("small/File-v0"))
    again.load_state_dict(made.state_dict())
    assert again.draw(2, 6, run=run) == made.draw(2, 6, run=run)


@pytest.mark.parametrize(
    ("name", "options", "env", "message"),
    [
        ("growing_horizon", {"least": 5, "most": 5}, "small/Generated-v0", "expected least below most"),
        ("difficulty_range", {}, "small/File-v0", "has no effect"),
        ("rising_temperature", {}, "small/Generated-v0", "has no effect"),
        ("rising_temperature", {"rise": 0.0}, "small/File-v0", "never raises one"),
    ],
)
def test_samplers_that_would_do_nothing_are_refused(name, options, env, message):
    with pytest.raises(BadConfig, match=message):
        SAMPLERS.resolve(name, options)(sources(env))


def test_a_run_whose_horizon_and_difficulty_grow_is_resumed_to_the_last_digit(tmp_path):
    model = policy(tmp_path / "model", f"{small_envs.__name__}:small/Generated-v0")

    def config(name, steps):
        stages = {"sampler": "growing_horizon", "select": "resample_on_correct", "reward": ("ufo",)}
        stages["sampler_options"] = {"least": 1, "most": 3, "every": 1}
        changes = {"env": "small/Generated-v0", "horizon": (), "group_size": 4, "steps": steps, **stages}
        return small(tmp_path / name, model, **changes)

    train(config("whole", 3))
    train(config("cut", 2))
    resume(tmp_path / "cut", steps=3)
    assert curve(tmp_path / "cut") == curve(tmp_path / "whole")
    assert episodes(tmp_path / "cut") == episodes(tmp_path / "whole")
    assert {row["horizon"] for row in episodes(tmp_path / "whole")} == {1, 2, 3}


def test_ufo_by_hand():
    found = paid("ufo", tried(True, "a"), tried(True, "a", " a", "b"), tried(False, "a", "a"), decay=0.5, weight=0.3)
    assert found[0] == {"late": 0.0, "again": 0.0}
    assert found[1] == {"late": pytest.approx(0.25 - 1), "again": pytest.approx(-0.3 / 3)}
    assert found[2] == {"late": 0.0, "again": pytest.approx(-0.15)}


def test_retry_by_hand():
    made = tried(
        False, "search[a b]", "open[x]", "search[ A  b]", "<search>c", '{"name": "search", "query": "d"}', "answer[x]"
    )
    none = tried(True, "searching[a]", "research[b]", "answer[search]")
    cut = tried(False, "search[a]", "search[b]")
    for one, reason in ((made, "failure"), (none, "success"), (cut, "horizon")):
        one.reason = reason
    found = [part["retry"] for part in paid("retry", made, none, cut, weight=0.2, decay=0.5)]
    assert found == [[0, 0, 0, 0.2, 0.1, 0], [0, 0, 0], [0, 0]]
    made.turns[3].valid = False
    assert paid("retry", made, weight=0.2, decay=0.5)[0]["retry"] == [0, 0, 0, 0, 0.2, 0]
    made.error = "the agent's action hung"
    assert paid("retry", made)[0]["retry"] == [0] * 6
    with pytest.raises(BadConfig, match="decay"):
        resolve_rewards(["retry"], {"decay": 1.0})


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["search[a]", "search[b]", "search[c]", "search[d]", "answer[x]"]), min_size=1),
    st.floats(0, 0.9),
)
def test_retry_has_a_bound(actions, decay):
    made = tried(True, *actions)
    made.reason = "success"
    assert 0 <= sum(paid("retry", made, weight=0.1, decay=decay)[0]["retry"]) <= 0.1 / (1 - decay) + 1e-9


@given(st.floats(0, 0.45), st.floats(0.01, 0.45), st.booleans())
def test_the_corrected_reward_is_right_on_average(false_positive, false_negative, truth):
    options = {"false_positive": false_positive, "false_negative": false_negative}
    means = [paid("denoise", tried(bool(r), "a"), **options)[0]["denoise"] + r for r in (0.0, 1.0)]
    one = 1 - false_negative if truth else false_positive  # the chance that the verifier says 1
    assert (1 - one) * means[0] + one * means[1] == pytest.approx(float(truth), abs=1e-9)


@pytest.mark.parametrize(
    ("options", "message"), [({}, "corrects nothing"), ({"false_positive": 0.6, "false_negative": 0.4}, "a sum below 1")]
)
def test_corrections_that_cannot_be_are_refused(options, message):
    with pytest.raises(BadConfig, match=message):
        resolve_rewards(["denoise"], options)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("so <confidence>0.8</confidence>", 0.8),
        ("<confidence> 1.0 </confidence>", 1.0),
        ("<confidence>.5</confidence>", 0.5),
        ("no", None),
        ("<confidence>2</confidence>", None),
        ("<confidence>0.1</confidence><confidence>0.9</confidence>", None),
        ("<confidence>nan</confidence>", None),
        ("<confidence>\u0661</confidence>", None),
        ("<confidence>1e9</confidence>", None),
    ],
)
def test_a_confidence_has_one_form(text, value):
    assert confidence(text) == value


def test_calibration_by_hand_and_the_truth_pays_best():
    sure = [tried(won, f"x <confidence>{q}</confidence>") for won, q in ((True, 0.8), (False, 0.8))]
    found = [one["calibration"] for one in paid("calibration", *sure, tried(True, "x"), weight=0.5)]
    assert found == pytest.approx([-0.5 * 0.04, -0.5 * 0.64, -0.5])
    expected = {}
    for q in ("0.1", "0.3", "0.5", "0.9"):  # of three in ten that are right
        won, lost = paid("calibration", *(tried(w, f"<confidence>{q}</confidence>") for w in (True, False)))
        expected[q] = 0.3 * won["calibration"] + 0.7 * lost["calibration"]
    assert max(expected, key=lambda q: expected[q]) == "0.3"


def test_every_name_of_the_tables_is_on_its_page():
    folder = Path(__file__).parents[3] / "docs"
    algorithms = (folder / "reference" / "algorithms.md").read_text()
    pages = {
        SAMPLERS: "task_samplers",
        SELECTIONS: "selection",
        REWARDS: "rewards",
        LOSSES: "losses",
        NEEDS: "needs",
        CREDITS: "credit",
        BRANCHINGS: "branching",
    }
    for seam, file in pages.items():
        page = (folder / "seams" / f"{file}.md").read_text()
        missing = [name for name in seam.table if f"`{name}`" not in page or f"`{name}`" not in algorithms]
        assert not missing, (seam.kind, missing)
