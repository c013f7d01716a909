"""The reward stage: what is paid beside the environment's own, by the package and by a user's module."""

import copy
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paid_episodes import episode, paid

import agentgym
from agentgym.agents.policies import RandomAgent
from agentgym.episodes.episode import FAULTS, Episode, Group, view
from agentgym.errors import BadConfig, EngineDead, Fault, UnknownName
from agentgym.trainers.config.recipe_files import read_config, to_toml
from agentgym.trainers.credit.interface import resolve as resolve_credit
from agentgym.trainers.rewards.interface import resolve_rewards
from agentgym.trainers.rewards.length import excess
from agentgym.trainers.rewards.noise import noise
from agentgym.trainers.rewards.repetition import repeated
from agentgym.trainers.run.metrics import merged, part_names, parts
from agentgym.trainers.seam import SECOND_CTRL_C, contained

# the package's own, by hand-computed numbers


def test_length_is_the_overlong_punishment_of_dapo():
    """L_max 20, L_cache 8: nothing up to 12 tokens, (12 - 16) / 8 at 16, -1 at 20 and beyond."""
    sizes = (3, 12, 13, 16, 20, 21, 99)
    episodes = paid([episode([0] * size) for size in sizes], ["length"], budget=12, buffer=8, weight=1.0)
    assert [e.reward - 1 for e in episodes] == [0, 0, -1 / 8, -4 / 8, -1, -1, -1]
    assert episodes[3].turns[-1].rewards == {"success": 1.0, "length": -0.5}
    assert episodes[3].final_rewards == {"agent": 0.5}
    assert (excess(13, 12, 0), excess(12, 12, 0)) == (1.0, 0.0)


def test_length_counts_tokens_of_all_turns_or_turns_or_each_turn_by_itself():
    def fresh() -> list[Episode]:
        return [episode([0] * 5, [0] * 9, [0] * 7, success=False)]

    assert paid(fresh(), ["length"], budget=20, buffer=4, weight=2.0)[0].reward == -2 * 1 / 4
    assert paid(fresh(), ["length"], budget=1, buffer=4, weight=1.0, unit="turns")[0].reward == -2 / 4
    (found,) = paid(fresh(), ["length"], budget=6, buffer=6, weight=1.0, unit="turn_tokens")
    assert [turn.reward for turn in found.turns] == [0, -3 / 6, -1 / 6] and found.reward == pytest.approx(-4 / 6)
    with pytest.raises(BadConfig, match=r"counts tokens, and these episodes hold none: use --reward\.length\.unit turns"):
        paid([episode("words alone")], ["length"], budget=1)
    counted = episode("words alone")
    counted.turns[0].extra["completion_tokens"] = 4
    assert paid([counted], ["length"], budget=2, buffer=4)[0].reward == 1 - 0.5 * 2 / 4


def test_repetition_is_paid_by_the_turn_that_says_it_again():
    """Bigrams: 12 23 31 12 in the first turn, 12 24 in the second: two of six were said before."""
    repeating = episode([1, 2, 3, 1, 2], [1, 2, 4], success=False)
    assert repeated(repeating, 2) == [1 / 6, 1 / 6]
    paid([repeating], ["repetition"], n=2, weight=1.0)
    assert [turn.reward for turn in repeating.turns] == [-1 / 6, -1 / 6] and repeating.reward == pytest.approx(-2 / 6)
    assert repeated(episode("go north then go north", "go north"), 2) == [1 / 5, 1 / 5]
    assert repeated(episode([1], "a b"), 4) == [0, 0]  # shorter than an n-gram


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=12), min_size=1, max_size=5), st.integers(1, 4))
def test_repetition_over_an_episode_is_one_minus_the_share_of_distinct_n_grams(replies: list[list[int]], n: int):
    grams = [tuple(r[i : i + n]) for r in replies for i in range(len(r) - n + 1)]
    expected = 1 - len(set(grams)) / len(grams) if grams else 0.0
    assert sum(repeated(episode(*replies), n)) == pytest.approx(expected)


def test_noise_flips_as_often_as_asked_and_the_same_ones_every_time():
    def fresh() -> list[Episode]:
        return [episode([0], success=n % 2 == 0, attempt=n) for n in range(4000)]

    options = {"false_positive": 0.1, "false_negative": 0.3}
    first, second = (paid(fresh(), ["noise"], **options) for _ in range(2))
    assert first == second
    assert [e.success for e in first] == [e.success for e in fresh()]  # the environment's word
    assert {e.reward for e in first} == {0.0, 1.0}
    wins, losses = [e.reward for e in first if e.success], [e.reward for e in first if not e.success]
    assert sum(wins) / 2000 == pytest.approx(0.7, abs=0.04) and sum(losses) / 2000 == pytest.approx(0.1, abs=0.03)
    other = paid(fresh(), ["noise"], seed=1, **options)
    assert [e.reward for e in other] != [e.reward for e in first]
    again = [episode([0], success=False, attempt=n) for n in range(50)]
    assert noise(again, false_positive=0.5) == noise(again[::-1], false_positive=0.5)[::-1]  # whatever their order


# what is paid, and what is not


@agentgym.reward("made_up")
def made_up(episodes: list[Episode], *, parts: Any = None) -> Any:
    return parts


numbers = st.floats(-5, 5, allow_nan=False)


@given(st.data(), st.lists(st.integers(1, 4), min_size=1, max_size=4), st.booleans())
def test_parts_sum_to_the_reward_of_each_turn_and_episode(data: st.DataObject, sizes: list[int], success: bool):
    episodes = [episode(*[[0]] * size, success=success) for size in sizes]
    own = [
        data.draw(st.dictionaries(st.sampled_from("abc"), numbers | st.lists(numbers, min_size=size, max_size=size)))
        for size in sizes
    ]
    paid(episodes, ["made_up", "length"], parts=own, budget=1, unit="turns")
    for found, expected_rewards in zip(episodes, own, strict=True):
        for turn in found.turns:
            assert turn.reward == pytest.approx(sum(turn.rewards.values()))
        assert found.reward == pytest.approx(sum(turn.reward for turn in found.turns))
        assert found.reward == pytest.approx(sum(found.final_rewards.values()))
        for name, amount in expected_rewards.items():
            total = sum(turn.rewards.get(name, 0.0) for turn in found.turns)
            assert total == pytest.approx(sum(amount) if isinstance(amount, list) else amount)


def test_a_part_of_zero_is_noted_and_faults_are_left_out():
    lost, fine = episode([0], success=None), episode([0])
    lost.reason = "crash"
    before = copy.deepcopy(lost)
    paid([lost, fine], ["made_up"], parts=[{"style": 0}])
    assert lost == before and fine.turns[-1].rewards == {"success": 1.0, "style": 0.0} and fine.reward == 1.0


@pytest.mark.parametrize("fault", [Fault("no answer", reason="engine"), Fault("odd", reason="tired")])
def test_a_fault_of_a_reward_is_never_the_models_failure(fault: Fault):
    first, second = paid([episode([0]), episode([0])], ["made_up"], parts=[fault, {"style": 0.5}])
    assert first.fault and first.success is None and str(fault) in str(first.error) and first.reason in FAULTS
    assert not second.fault and second.reward == 1.5


def test_a_fault_that_a_reward_raises_holds_for_all_it_saw_and_a_dead_engine_ends_the_run(monkeypatch: pytest.MonkeyPatch):
    @agentgym.reward("raises")
    async def raises(episodes: list[Episode], *, dead: bool = False) -> Any:
        raise EngineDead("gone") if dead else Fault("tired", reason="timeout")

    found = paid([episode([0]), episode([0])], ["raises"])
    assert [e.reason for e in found] == ["timeout", "timeout"]
    with pytest.raises(EngineDead, match="gone"):
        paid([episode([0])], ["raises"], dead=True)


@pytest.mark.parametrize(
    "wrong", [{"a": float("nan")}, {"a": "12"}, {"a": "1"}, {"a": None}, {"a": [1.0]}, {"a": [[1.0, 2.0]]}, None, 1.0]
)
def test_what_cannot_be_paid_is_named(wrong: Any):
    with pytest.raises(BadConfig, match=r"reward 'made_up', task 'train/0/0', attempt 0: .*expected a"):
        paid([episode([0], [0], [0])], ["made_up"], parts=[wrong])


# weights that follow the step


def test_a_weight_follows_the_step():
    schedule = [[0, 0.0], [10, 1.0], [20, 0.5]]

    def at(step: int) -> float:
        (found,) = paid([episode([0] * 9, success=False)], ["length"], step=step, budget=1, schedule=schedule)
        return found.reward

    assert [at(step) for step in (0, 5, 10, 15, 20, 999)] == [0, -0.5, -1, -0.75, -0.5, -0.5]
    both = paid(
        [episode([7] * 9)],
        ["length", "repetition"],
        step=5,
        budget=1,
        length__schedule=schedule,
        repetition__weight=1.0,
        n=1,
    )
    assert both[0].turns[-1].rewards == {"success": 1.0, "length": -0.5, "repetition": pytest.approx(-8 / 9)}


OWN = {"budget": 4}


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        (["lenght"], {}, "no reward 'lenght'. Did you mean 'length'"),
        (["length"], {}, "reward 'length' needs budget; give --reward.budget VALUE"),
        (["length"], {**OWN, "bufer": 3}, "Did you mean 'buffer'"),
        (["length"], {**OWN, "unit": "words"}, "unit of reward 'length' is 'words'; expected one of 'tokens', 'turns'"),
        (["length"], {**OWN, "weight": -1.0}, "weight of reward 'length' is -1.0; expected a number from 0"),
        (["length"], {**OWN, "weight": 0.0}, "reward 'length' has weight 0 and would pay nothing"),
        (["length"], {**OWN, "schedule": [[0, 0], [9, 0]]}, "reward 'length' has weight 0"),
        (["length"], {**OWN, "schedule": [[0, 0], [9, -1]]}, "weight of reward 'length' is -1.0; expected"),
        (["length"], {**OWN, "schedule": [[9, 0], [0, 1]]}, "expected pairs of a step and a weight, the steps rising"),
        (["length"], {**OWN, "schedule": "soon"}, "reward.schedule is 'soon'; expected pairs"),
        (["length"], {**OWN, "schedule": []}, "expected pairs"),
        (["length"], {**OWN, "schedule": [[0, 1]], "weight": 1.0}, "has a weight and a schedule"),
        (["length", "repetition"], {**OWN, "schedule": [[0, 1]]}, "say which: --reward.length.schedule VALUE"),
        (["noise"], {"false_negative": 0.1, "schedule": [[0, 1]]}, "has a weight to follow it"),
        (["noise"], {}, "reward 'noise' flips nothing"),
        (["noise"], {"false_negative": 1.5}, "expected a number from 0 to 1"),
        (["length", "length"], OWN, "expected each name once"),
        (["length", "agentgym.trainers.rewards.length:length"], OWN, "expected each name once"),
        ([], OWN, "reward.budget has no effect without a reward"),
        (["judge"], {}, "reward 'judge' needs engine, rubric"),
        (["judge"], {"engine": "chat:http://x/v1#m"}, "reward 'judge' needs rubric; give --reward.rubric VALUE"),
        (["judge"], {"engine": "chat:http://x/v1#m", "rubric": "nowhere.md"}, "nowhere.md, which cannot be read"),
        (["judge"], {"engine": "hf:model", "rubric": __file__}, "is 'hf:model'; expected chat:URL#MODEL"),
        (["judge"], {"engine": "json:lods", "rubric": __file__}, "no chat engine in module json 'lods'"),
        (["judge"], {"engine": "chat:http://x#m", "rubric": __file__, "engine_options": {"retry": 1}}, "'retries'"),
        (["judge"], {"engine": "chat:http://x#m", "rubric": __file__, "cache": "/nowhere/at/all"}, "a folder that exists"),
    ],
)
def test_what_cannot_work_is_said_in_one_sentence(names: list[str], options: dict[str, Any], message: str):
    with pytest.raises((BadConfig, UnknownName)) as error:
        resolve_rewards(names, options)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_a_recipe_names_one_reward_or_a_table_for_each(tmp_path: Path):
    (tmp_path / "a.toml").write_text('[reward]\nname = "length"\nbudget = 3\n')
    config = read_config(tmp_path / "a.toml")
    assert (config.reward, config.reward_options) == (("length",), {"budget": 3})
    (tmp_path / "b.toml").write_text(
        '[reward]\nname = ["length", "repetition"]\n[reward.length]\nbudget = 3\nschedule = [[0, 0.5], [9, 0.0]]\n'
        "[reward.repetition]\nweight = 0.25\n"
    )
    config = read_config(tmp_path / "b.toml")
    again = read_config((tmp_path / "c.toml").write_text(to_toml(config)) and tmp_path / "c.toml")
    assert again == config
    length, repetition = resolve_rewards(config.reward, config.reward_options)
    assert length.options["budget"] == 3 and length.options["weight"].at(3) == pytest.approx(1 / 3)
    assert repetition.options == {"weight": 0.25}


def test_means_of_parts_count_every_episode_of_every_process():
    here = paid([episode([0] * 9), episode([0], success=False)], ["length"], budget=1)
    there = [episode([0], success=False)]
    names = [*part_names(here), *part_names(there)]
    row = merged([parts(here, names), parts(there, names)])
    assert row == {"reward/length": pytest.approx(-0.5 / 3), "reward/success": pytest.approx(1 / 3)}


def test_the_example_of_ones_own(monkeypatch: pytest.MonkeyPatch):
    root = Path(__file__).parents[3]
    monkeypatch.syspath_prepend(str(root))
    lost, won = episode([0], success=False, horizon=4), episode([0], [0], horizon=4)
    paid([lost, won], ["examples.stages.brief:brevity"], weight=0.1)
    assert (lost.reward, won.reward) == (0.0, 1 - 0.1 * 2 / 4)
    page, file = ((root / name).read_text() for name in ("docs/seams/rewards.md", "examples/stages/brief.py"))
    code_block = re.search(r"(?s)```python\nimport agentgym\n\n\n(@agentgym\.reward.*?)```", page)
    assert code_block and code_block[1] in file


def test_in_self_play_each_role_is_paid_for_its_own_part():
    """Else the penalty of a whole episode would fall on whoever moved last, and the other would be compared without."""
    episodes = agentgym.collect(RandomAgent(), "tictactoe", tasks=6, attempts=2, env_options={"opponent": "self"})
    several = [e for e in episodes if len({turn.role for turn in e.turns}) == 2]
    earned = [dict(e.final_rewards) for e in several]
    paid(several, ["length", "noise"], budget=1, buffer=10, unit="turns", length__weight=0.5, false_positive=1.0)
    assert len({e.turns[-1].role for e in several}) == 2  # in some the one moved last, in some the other
    for e, before in zip(several, earned, strict=True):
        for role in {turn.role for turn in e.turns}:
            own = [turn for turn in e.turns if turn.role == role]
            penalty, flipped = -0.5 * excess(len(own), 1, 10), 0.0 if e.role_success[role] else 1.0
            assert own[-1].rewards["length"] == pytest.approx(penalty) and own[-1].rewards.get("noise", 0.0) == flipped
            assert view(e, role).reward == pytest.approx(before[role] + penalty + flipped)
        assert e.reward == pytest.approx(sum(turn.reward for turn in e.turns))


@pytest.mark.parametrize("error", [SystemExit(0), GeneratorExit()])
def test_a_stage_cannot_end_the_program_without_a_word(error: BaseException) -> None:
    """Rewards, credits and every other stage, plain or async: an error that names it, in place of exit code 0."""

    @agentgym.reward("leaving")
    def leaving(episodes: Any) -> list[dict[str, float]]:
        raise error

    @agentgym.reward("leaving_later")
    async def leaving_later(episodes: Any) -> list[dict[str, float]]:
        raise error

    @agentgym.credit("leaving_credit", scope="group")
    def leaving_credit(group: Any) -> list[Any]:
        raise error

    for name in ("leaving", "leaving_later"):
        with pytest.raises(RuntimeError, match=rf"leaving.* raised {type(error).__name__}"):
            paid([episode([1])], [name])
    with pytest.raises(RuntimeError, match="credit 'leaving_credit' raised"):
        resolve_credit("leaving_credit")([Group("t", "agent", [])])
    with pytest.raises(SystemExit), contained("a reward"):
        raise SystemExit(SECOND_CTRL_C)  # the user's second Ctrl-C
