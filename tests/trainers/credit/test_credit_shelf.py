"""The shelf of credits: each by hand, and each on a small environment that it has to solve."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from credit_envs import episode, group
from small_runs import policy, small
from tabular import Tabular

from agentgym.trainers import train
from agentgym.trainers.credit.interface import resolve

SHELF = (
    "turn_gae", "bilevel_gae", "turn_mc", "mt_grpo", "reinforce_pp", "reinforce_pp_baseline", "rebn", "ngrpo", "salt",
    "hgpo", "igpo", "rl_zvp", "lite_ppo",
)  # fmt: skip


def run(name, *made, **options):
    """Return by episode what the turns of one group are credited with."""
    return [array.tolist() for array in resolve(name, **options)([group(*made)])[0]]


def tokens(*turns):
    """An episode of (reward, output tokens)."""
    made = episode(*((f"o{k}", reward) for k, (reward, _) in enumerate(turns)))
    for turn, (_, number) in zip(made.turns, turns, strict=True):
        turn.output_ids = [1] * number
    return made


def test_turn_monte_carlo_by_hand():
    # G: 0.25, 0.5, 1 with mean 7/12, and 0; the mean of both is 7/24
    won, lost = run("turn_mc", episode(("a", 0), ("b", 0), ("c", 1)), episode(("a", 0)), gamma=0.5)
    assert won == pytest.approx([0.25 - 7 / 24, 0.5 - 7 / 24, 1 - 7 / 24]) and lost == pytest.approx([-7 / 24])
    spread = (7 / 24) * 2**0.5  # of 7/12 and 0, ddof 1
    won, _ = run("turn_mc", episode(("a", 0), ("b", 0), ("c", 1)), episode(("a", 0)), gamma=0.5, norm="std", eps=0)
    assert won[2] == pytest.approx((1 - 7 / 24) / spread)
    pair = episode(("a", 0), ("b", 1)), episode(("a", 0), ("b", 0))
    assert run("turn_mc", *pair, gamma=1.0, norm="std") == pytest.approx(np.array(run("grpo", *pair)))


def test_mt_grpo_by_hand():
    made = episode(("a", 0.2), ("b", 1)), episode(("a", 0.0), ("b", 0)), episode(("a", 0.1), ("b", 0), ("c", 1))
    # outcomes 1, 0, 1: +1/3, -2/3, +1/3; first turns 0.2, 0, 0.1: +0.1, -0.1, 0; turn 1 before a last one: alone, 0
    found = run("mt_grpo", *made, norm="mean", outcome_weight=0.5)
    assert found == [pytest.approx(row) for row in ([0.1 + 1 / 6, 1 / 3], [-0.1 - 1 / 3, -2 / 3], [1 / 6, 1 / 6, 1 / 3])]
    assert run("mt_grpo", made[0], made[1])[0][1] == pytest.approx(0.5**0.5, rel=1e-5)  # (1 - 0.5) / 0.7071


def test_lite_ppo_by_hand():
    # returns 1, 0 and 1, 1: group means 1/2 and 1, and the std of all four is 1/2 (ddof 1); its tokens do not matter
    groups = [group(tokens((1, 1)), tokens((0, 50))), group(tokens((1, 2)), tokens((1, 3)))]
    found = resolve("lite_ppo", eps=0)(groups)
    assert [[a.tolist() for a in rows] for rows in found] == [[[1.0], [-1.0]], [[0.0], [0.0]]]
    other = SimpleNamespace(gather=lambda values: [*values, 3.0])  # another process: std of 1, 0, 1, 1, 3
    spread = np.std([1, 0, 1, 1, 3], ddof=1)
    assert replace(resolve("lite_ppo", eps=0), run=other)(groups)[0][0] == pytest.approx([0.5 / spread])
    assert resolve("lite_ppo")(groups[1:])[0][0].tolist() == [0.0]


def test_rlpr_by_hand():
    # gains 0.6 and 0.2 (mean 0.4, std 0.283), whatever was paid; a loss and what could not be measured are 0
    won = group(probed(0, 0.1, 0.3, 0.7), probed(0, 0.1, 0.3))
    found = resolve("rlpr", eps=0, spread=0)([won])[0]
    assert [a.tolist() for a in found] == [pytest.approx([0.5**0.5] * 3), pytest.approx([-(0.5**0.5)] * 2)]
    lost = group(probed(0, 0.5, 0.1), probed(0, 0.2, math.nan), probed(0, 0.9))
    assert [a.tolist() for a in resolve("rlpr", spread=0)([lost])[0]] == [[0.0, 0.0], [0.0, 0.0], [0.0]]
    close = group(probed(0, 0.1, 0.2), probed(0, 0.1, 0.21))  # std 0.007, below half of the mean of both groups'
    found = resolve("rlpr", eps=0)([won, close])
    assert found[0][0][0] == pytest.approx(0.5**0.5) and [a.tolist() for a in found[1]] == [[0.0, 0.0]] * 2


def test_reinforce_pp_by_hand():
    # returns by token: 0.125, 0.25, 0.5, 1 (the reward at the end of the second turn) and 0: nothing decays between turns
    found = resolve("reinforce_pp", gamma=0.5)([group(tokens((0, 2), (1, 2)), tokens((0, 1)))])[0]
    values = np.array([0.125, 0.25, 0.5, 1.0, 0.0])
    np.testing.assert_allclose(np.concatenate(found), (values - values.mean()) / values.std(), rtol=1e-6)
    lost = resolve("reinforce_pp")([group(tokens((0.0, 1), (0.5, 0)), tokens((0, 1)))])[0]  # paid where nothing was said
    np.testing.assert_allclose(np.concatenate(lost), [1.0, -1.0], rtol=1e-6)


def test_reinforce_pp_with_a_baseline_by_hand():
    groups = [group(tokens((1, 3)), tokens((0, 1))), group(tokens((4, 1)), tokens((0, 1)))]
    # +-0.5 and +-2, weighed by 3, 1, 1, 1 tokens: mean 1/6, mean square (3 + 1) * 0.25 / 6 + 8 / 6 = 1.5
    found = [float(array[0]) for arrays in resolve("reinforce_pp_baseline")(groups) for array in arrays]
    assert found == pytest.approx([(x - 1 / 6) / (1.5 - 1 / 36) ** 0.5 for x in (0.5, -0.5, 2.0, -2.0)])


def test_rebn_by_hand():
    groups = [group(episode(("a", 0), ("b", 1))), group(episode(("a", 0.5)))]
    values = np.array([0.8, 1.0, 0.5])
    found = np.concatenate([array for arrays in resolve("rebn", gamma=0.8)(groups) for array in arrays])
    np.testing.assert_allclose(found, (values - values.mean()) / values.std())


@pytest.mark.parametrize("name", ["reinforce_pp", "reinforce_pp_baseline", "rebn"])
def test_what_is_whitened_is_whitened_over_all_processes_and_no_spread_is_exactly_0(name):
    made = [group(tokens((1, 2)), tokens((0, 1))), group(tokens((3, 1)), tokens((0.2, 4)))]
    credit, seen = resolve(name), []
    whole = credit(made)
    for part in (made[:1], made[1:]):
        replace(credit, run=SimpleNamespace(gather=lambda sums: seen.extend(sums) or sums))(part)
    per_process = [replace(credit, run=SimpleNamespace(gather=lambda _: seen))([one])[0] for one in made]
    np.testing.assert_allclose(np.concatenate([*per_process[0], *per_process[1]]), np.concatenate([*whole[0], *whole[1]]))
    assert replace(credit, run=SimpleNamespace(gather=lambda _: seen))([]) == []
    same = credit([group(tokens((0.1, 2)), tokens((0.1, 3)), tokens((0.1, 1)))])[0]
    assert all((array == 0).all() for array in same)


def test_ngrpo_by_hand():
    failed = run("ngrpo", episode(("a", 0), ("b", 0)), episode(("a", 0)), episode(("a", 0)))
    # 0, 0, 0 and 1: mean 0.25, std 0.5 (ddof 1)
    assert failed[0] == pytest.approx([-0.5, -0.5], rel=1e-5) and failed[2] == pytest.approx([-0.5], rel=1e-5)
    assert run("ngrpo", episode(("a", 1)), episode(("a", 1))) == [[0.0], [0.0]]
    mixed = run("ngrpo", episode(("a", 1)), episode(("a", 0)), ddof=0, eps=0)  # 1, 0 and 1: mean 2/3, std sqrt(2)/3
    assert mixed == [pytest.approx([0.5**0.5]), pytest.approx([-(2**0.5)])]


def walk(actions, reward, final):
    made = episode(*((seen, 0.0) for seen, _ in actions), reward=reward)
    for turn, (seen, action) in zip(made.turns, actions, strict=True):
        turn.state_key, turn.action = seen, action
    made.final_state_key = made.final_observation = final
    return made


def test_salt_by_hand():
    made = [
        walk([("s", "go"), ("t", "left")], 1.0, "won"),
        walk([("s", "go"), ("t", "right")], 0.0, "lost"),
        walk([("s", "stay"), ("s", "go")], 0.0, "t"),
    ]
    # returns 1, 0, 0: +2/3, -1/3, -1/3; all three take s -go-> t, which is worth 0; the others keep their own
    found = run("salt", *made, norm="mean")
    assert found == [pytest.approx(row, abs=1e-12) for row in ([0, 2 / 3], [0, -1 / 3], [-1 / 3, 0])]
    made[0].turns[0].state_key = None
    assert run("salt", *made, norm="mean")[0] == pytest.approx([2 / 3, 2 / 3])


def test_salt_counts_an_episode_once_however_often_it_goes_round():
    made = [walk([("s", "x"), ("s", "x"), ("s", "x")], 0.0, "s"), walk([("s", "x")], 1.0, "s")]
    assert run("salt", *made, norm="mean") == [[0.0] * 3, [0.0]]


def test_hgpo_by_hand():
    ways = (("a", 1.0), ("a", 0.0), ("b", 0.0))
    made = [walk([(first, "1"), ("c", "1")], reward, "x") for first, reward in ways]
    made[0].turns[1].reward = 1.0
    # turn 1, state c: 1, 0, 0 of three: +2/3, -1/3, -1/3, weight 2; after a too: 1, 0 of two: +-1/2, weight 3
    found = run("hgpo", *made, gamma=1.0)
    assert found[0] == pytest.approx([0.5, (2 * 2 / 3 + 3 * 0.5) / 5])
    assert found[1] == pytest.approx([-0.5, (-2 / 3 - 1.5) / 5]) and found[2] == pytest.approx([0.0, -1 / 3])
    plain = run("hgpo", *made, gamma=1.0, history=0)  # states alone: GiGPO's second term
    assert plain[0] == pytest.approx([0.5, 2 / 3])
    gigpo = np.subtract(run("gigpo", *made, gamma=1.0), run("grpo", *made))
    np.testing.assert_allclose(plain, gigpo, atol=1e-12)
    even = run("hgpo", *made, gamma=1.0, alpha=0.0)
    assert even[0][1] == pytest.approx((2 / 3 + 0.5) / 2)


def probed(reward, *probes):
    made = episode(*((f"o{k}", 0.0) for k in range(len(probes))), reward=reward)
    for turn, value in zip(made.turns, probes, strict=True):
        turn.extra["probe"] = value
    return made


def test_igpo_by_hand():
    made = probed(1.0, 0.1, 0.5, 0.6), probed(0.0, 0.1, 0.2)
    # gains 0.4, 0.1 and 0.1: mean 0.2, std sqrt(0.06 / 2); returns 1 and 0: +-1 / sqrt(2)
    a, b = 0.2 / 0.03**0.5, -0.1 / 0.03**0.5
    o = 0.5**0.5
    found = run("igpo", *made, eps=0.0)
    assert found == [pytest.approx([a + b + o, b + o, o]), pytest.approx([b - o, -o])]
    found = run("igpo", *made, eps=0.0, gamma=0.5)
    assert found[0] == pytest.approx([a + b / 2 + o / 4, b + o / 2, o])
    flat = np.array([0.4, 0.1, 1.0, 0.1, 0.0])
    z = (flat - flat.mean()) / flat.std(ddof=1)
    found = run("igpo", *made, eps=0.0, together=True)
    assert found == [pytest.approx([z[0] + z[1] + z[2], z[1] + z[2], z[2]]), pytest.approx([z[3] + z[4], z[4]])]


def test_igpo_learns_where_all_failed_and_passes_over_what_was_not_measured():
    found = run("igpo", probed(0.0, 0.1, 0.5, 0.5), probed(0.0, 0.1, 0.1, 0.1), eps=0.0)
    assert found[0][0] > 0 > found[1][0] and found[0][2] == 0
    found = run("igpo", probed(1.0, 0.1, math.nan, 0.5), probed(0.0, 0.1, 0.4, 0.2))
    assert np.isfinite(np.concatenate(found)).all()


def test_rl_zvp_by_hand():
    def surprised(won, *entropies):
        made = tokens(*((0.0, len(one)) for one in entropies))
        made.pay_last(float(won), {})
        made.success = won
        for turn, values in zip(made.turns, entropies, strict=True):
            turn.extra["entropy"] = np.array(values, dtype=np.float32)
        return made

    won = run("rl_zvp", surprised(True, [0.5, 0.1], [1.0]), surprised(True, [0.2]), alpha=0.5)
    assert won == [pytest.approx([0.25, 0.05, 0.5]), pytest.approx([0.1])]
    lost = run("rl_zvp", surprised(False, [0.5, 0.1], [1.0]), surprised(False, [0.2]), alpha=0.5)
    assert lost == [pytest.approx([-0.25, -0.45, 0.0]), [0.0]]
    mixed = surprised(True, [0.5, 0.1], [1.0]), surprised(False, [0.2])
    found, plain = run("rl_zvp", *mixed), run("grpo", *mixed)
    assert found == [pytest.approx([plain[0][0]] * 3), pytest.approx(plain[1])]
    context = surprised(False, [0.5, 0.1], [1.0])
    del context.turns[0].extra["entropy"]  # a turn that is not trained
    assert run("rl_zvp", context, surprised(False, [0.2]), alpha=0.5)[0] == [0.0, 0.0, 0.0]


@pytest.mark.long
@pytest.mark.parametrize("name", SHELF)
def test_a_policy_learns_a_chain_of_choices_by_it(name):
    table = Tabular()
    assert table.success() == pytest.approx(1 / 16)
    assert table.learn(resolve(name)) > 0.8, {key: value.tolist() for key, value in table.logits.items()}


def test_shared_steps_get_no_credit_from_salt_where_grpo_blames_them():
    """All episodes take the first step alike; only the second one decides."""
    made = [walk([("s", "go"), ("t", "left")], 1.0, "won"), walk([("s", "go"), ("t", "right")], 0.0, "lost")]
    assert [row[0] for row in run("salt", *made)] == [0.0, 0.0] and abs(run("grpo", *made)[0][0]) > 0.5


@pytest.mark.slow  # test_a_policy_learns_a_chain_of_choices_by_it plays without a model
@pytest.mark.parametrize("name", SHELF)
def test_it_goes_through_a_run(tmp_path, name):
    train(small(tmp_path / "run", policy(tmp_path / "model"), credit=name, credit_options={}, steps=2))
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 2]
