"""R1-Searcher++: a bonus for the fewest searches of a group and answers without the search; MT-GRPO where turns are paid."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paid_tries import paid, tried

import agentgym
from agentgym.agents.policies import OracleAgent
from agentgym.episodes.episode import Episode, Group, Turn, groups
from agentgym.trainers.config.recipe_files import read_config
from agentgym.trainers.credit.interface import WORTH, resolve
from agentgym.trainers.data.segments import build
from agentgym.trainers.run.preflight import check_run
from agentgym.trainers.selections.interface import SELECTIONS

STAGES = Path(__file__).parents[3] / "examples" / "stages"


def searched(won, calls, group="g"):
    made = tried(won, *("search[x]" for _ in range(calls)), "answer[y]")
    made.group_id = group
    return made


def bonuses(*episodes, **options):
    return [row["fewest_calls"] for row in paid("fewest_calls", *episodes, **options)]


def test_the_successes_with_the_fewest_calls_are_paid_by_their_spread():
    # successes with 1, 3 and 1 calls: mean 5/3, variance (4/9 + 16/9 + 4/9) / 3 = 8/9; 2 * 8/9 = 16/9, capped
    played = [searched(True, 1), searched(True, 3), searched(True, 1), searched(False, 0)]
    assert bonuses(*played, most=10) == pytest.approx([16 / 9, 0, 16 / 9, 0])
    assert bonuses(*played) == [0.5, 0, 0.5, 0]
    assert bonuses(searched(True, 2), searched(True, 2)) == [0, 0]  # no difference
    assert bonuses(searched(True, 0), searched(False, 2)) == [0, 0]  # one success
    two_groups = [searched(True, 1, "a"), searched(True, 3, "b")]  # two groups
    assert bonuses(*two_groups) == [0, 0]
    assert bonuses(searched(True, 0), searched(True, 1)) == [0.5, 0]  # from memory: 2 * 0.25


def test_calls_that_were_refused_do_not_count():
    played = [searched(True, 2), searched(True, 1)]
    played[0].turns[0].valid = False
    assert bonuses(*played) == [0, 0]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 6)), min_size=1, max_size=8), st.floats(0, 5))
def test_only_successes_are_paid_and_fewer_calls_are_never_paid_less(attempts, most):
    found = bonuses(*(searched(won, calls) for won, calls in attempts), most=most)
    won = sorted((calls, bonus) for (success, calls), bonus in zip(attempts, found, strict=True) if success)
    assert all(0 <= bonus <= most for bonus in found)
    assert all(bonus == 0 for (success, _), bonus in zip(attempts, found, strict=True) if not success)
    assert [bonus for _, bonus in won] == sorted((bonus for _, bonus in won), reverse=True)


def spoken(won, calls, attempt, answer):
    episode = Episode("env", "t", "1/t", 0, attempt, success=won, reward=float(won))
    context = [1, 2]
    for number in range(calls + 1):
        last = number == calls
        ids = [answer, 9] if last else [7, 9]
        text = "answer[y]" if last else "search[x]"
        episode.add(Turn("?", prompt_ids=context, output_ids=ids, logprobs=[-1.0, -1.0], text=text, action=text))
        context = [*context, *ids, 50 + number]  # a document
    episode.turns[-1].reward = float(won)
    return episode


def memorized(*episodes, **options):
    seen = []

    def score(rows):
        seen.extend(rows)
        return {"logprobs": [np.full(len(row), -0.25, dtype=np.float32) for row in rows]}

    run = SimpleNamespace(learner=SimpleNamespace(score=score))
    chosen = SELECTIONS.resolve("memorize", options)
    return chosen([Group("t", "agent", list(episodes))], run=run), seen


def test_the_answer_of_the_shortest_search_follows_the_question_alone():
    (group,), rows = memorized(spoken(True, 2, 0, 30), spoken(True, 1, 1, 31), spoken(False, 1, 2, 32), weight=0.2)
    assert len(group) == 4
    memory = group.episodes[3]
    (turn,) = memory.turns
    assert list(turn.prompt_ids) == [1, 2] and turn.output_ids == [31, 9] and turn.logprobs == [-0.25, -0.25]
    assert memory.attempt == 3 and turn.extra[WORTH] == 0.2 and memory.reward == 0
    assert [row.ids.tolist() for row in rows] == [[1, 2, 31, 9]]  # no document
    advantages = resolve("off_policy", base="dr_grpo")([group])[0]
    assert [array.tolist() for array in advantages] == [
        pytest.approx([1 / 3] * 6), pytest.approx([1 / 3] * 4), pytest.approx([-2 / 3] * 4), [0.2, 0.2],
    ]  # fmt: skip  # per token
    assert build(group.episodes, advantages)[-1].mask.tolist() == [False, False, True, True]


def test_what_was_known_without_a_search_or_failed_is_not_memorized():
    (group,), rows = memorized(spoken(True, 0, 0, 30), spoken(False, 2, 1, 31))
    assert len(group) == 2 and not rows
    assert memorized(spoken(False, 2, 0, 30), spoken(False, 1, 1, 31))[0] == []  # and nothing differs
    (same,), _ = memorized(spoken(True, 2, 0, 30), spoken(True, 2, 1, 31))  # all succeeded: there is something to memorize
    assert len(same) == 3


@pytest.mark.parametrize("name", ["r1_searcher_plus", "mt_grpo"])
def test_the_recipes_can_be_run(name, tmp_path):
    config = read_config(STAGES / f"{name}.toml")
    check_run(config.__class__(**{**vars(config), "out": str(tmp_path / "run")}))


def test_mt_grpo_differs_from_grpo_where_the_recipe_pays_turns():
    config = read_config(STAGES / "mt_grpo.toml")
    played = agentgym.collect(OracleAgent(), config.env, tasks=2, attempts=2, env_options=config.env_options)
    assert {name for episode in played for turn in episode.turns for name in turn.rewards} == {"success", "evidence"}
    (group, *_) = groups(played)
    turns = group.episodes[0].turns
    # One that searches as the oracle does and then fails: its turns until then are as good as the others'.
    lost = Episode("env", group.task_id, group[0].group_id, 0, 2, success=False, reward=0.0)
    for turn in turns:
        copy = Turn(turn.observation, output_ids=[1], action=turn.action, rewards=dict(turn.rewards), reward=turn.reward)
        lost.add(copy)
    lost.turns[-1].reward, lost.turns[-1].rewards = 0.0, {}
    three = Group(group.task_id, "agent", [*group, lost])
    by_turn, by_episode = resolve("mt_grpo", outcome_weight=0.0)([three])[0], resolve("grpo")([three])[0]
    assert by_turn[2][:-1].tolist() == pytest.approx([0.0] * (len(turns) - 1))  # the same documents were found
    assert by_turn[2][-1] < 0 and (by_episode[2] < 0).all()
