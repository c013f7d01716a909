"""Which turns continuations are played from: where a state was met once, where the policy was unsure, and what it costs."""

import json
import math

import pytest
from guesses import computed, made, played

from agentgym import read_episodes
from agentgym.episodes.episode import groups
from agentgym.errors import BadConfig
from agentgym.trainers import TrainConfig, train
from agentgym.trainers.credit.gigpo import anchor_statistics
from agentgym.trainers.needs.branches import _worth
from agentgym.trainers.run.preflight import check_run


def measured(found):
    return [[not math.isnan(turn.extra["branches"]) for turn in episode.turns] for group in found for episode in group]


def test_states_that_a_group_met_once():
    run = made()
    found = played(run, numbers=(0,))  # two episodes of three turns, alike
    assert computed(run, found, "branches", k=2, at="alone")["branch_episodes"] == 0
    found[0][1].turns[1].state_key = "elsewhere"  # now both are alone in their second turn, as in a group that parted there
    first, second = found[0]
    assert first.turns[1].state_key != second.turns[1].state_key
    took = computed(run, found, "branches", k=2, at="alone")
    assert measured(found)[0] == [False, True, False]
    assert took["branch_episodes"] == 2 and took["branch_turns_lost"] == 1  # the made-up key is not met again
    assert first.turns[1].extra["branches"] == 1.0  # of continuations from turn 1 the first two win


def test_turns_that_were_the_least_likely():
    run = made()
    found = played(run, numbers=(0, 3))  # 12 turns
    for number, turn in enumerate(turn for group in found for episode in group for turn in episode.turns):
        turn.logprobs = [-0.1 * number] * len(turn.output_ids)
    took = computed(run, found, "branches", k=2, at="uncertain", share=0.25)
    assert took["branch_episodes"] == 3 * 2
    assert [row for row in measured(found) if any(row)] == [[True] * 3]  # the last three


def test_discounted_continuations():
    run = made()
    found = played(run, numbers=(0,))
    computed(run, found, "branches", k=4, gamma=0.5)
    # those that win guess at once; from turn t (from 0) the first t + 1 do, and none of the others
    assert [turn.extra["branches"] for turn in found[0][0].turns] == [1 / 4, 2 / 4, 3 / 4]
    found[0][0].turns[0].reward = 0.0
    assert _worth(found[0][0], 0.5) == 0.25 and _worth(found[0][0], 1.0) == found[0][0].reward == 1.0


@pytest.mark.parametrize("options", [{"share": 0.2}, {"branches": {"share": 0.2, "at": "alone"}}])
def test_a_share_that_does_nothing_is_refused(tmp_path, options):
    config = TrainConfig(env="rlvr/GuessNumber-v0", out=str(tmp_path / "run"), credit="branch_td", needs_options=options)
    with pytest.raises(BadConfig, match="share of needs 'branches' has no effect"):
        check_run(config)


def test_a_run_counts_the_tokens_of_its_branches(tmp_path):
    config = TrainConfig(
        env="guesses:me/Few-v0", out=str(tmp_path / "run"), steps=1, sft_episodes=8, tasks_per_step=2, group_size=2,
        turn_tokens=6, eval_every=0, test_tasks=0, select="keep", threads=1, credit="branch_td", horizon=(3,),
        needs_options={"k": 2, "at": "alone", "gamma": 0.95}, credit_options={"branch_visits": 2},
    )  # fmt: skip
    train(config)
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    row = next(row for row in rows if row["phase"] == "rl")
    assert row["branch_episodes"] % 2 == 0 and (row["branch_tokens"] > 0) == (row["branch_episodes"] > 0)
    # the anchors that are told of are those of the credit, also where it was left at its default
    episodes = groups(read_episodes(tmp_path / "run" / "episodes.jsonl"))
    by_state, by_text = (anchor_statistics(episodes, anchor) for anchor in ("state", "observation"))
    expected = {name: total / number for name, (total, number) in by_state.items()}
    assert by_state != by_text and {name: row[name] for name in expected} == pytest.approx(expected)
