"""Hand-computed numbers for every credit of the package."""

import math

import numpy as np
import pytest
from credit_envs import episode, group

from agentgym.trainers.credit.gigpo import anchor_statistics, gigpo
from agentgym.trainers.credit.gigpo_reference import gigpo_reference
from agentgym.trainers.credit.group import dr_grpo, grpo, rloo


def flat(arrays):
    return [float(x) for array in arrays for x in array]


def three():
    """Returns 1, 0, 0 with 2, 1 and 3 turns."""
    return group(
        episode(("a", 0), ("b", 1)),
        episode(("a", 0)),
        episode(("a", 0), ("c", 0), ("d", 0)),
    )


def test_grpo_by_hand():
    # mean 1/3; deviations 2/3, -1/3, -1/3; sum of squares 4/9 + 1/9 + 1/9 = 2/3
    # ddof 1: std = sqrt(2/3 / 2) = 0.5774 -> 1.1547, -0.5774;  ddof 0: std = sqrt(2/9) = 0.4714 -> 1.4142, -0.7071
    one, zero = grpo(three(), eps=0.0), grpo(three(), eps=0.0, ddof=0)
    assert flat(one) == pytest.approx([2 / math.sqrt(3)] * 2 + [-1 / math.sqrt(3)] * 4)
    assert flat(zero) == pytest.approx([math.sqrt(2)] * 2 + [-1 / math.sqrt(2)] * 4)
    assert flat(grpo(three(), eps=1.0)) == pytest.approx(
        [2 / 3 / (1 + 1 / math.sqrt(3))] * 2 + [-1 / 3 / (1 + 1 / math.sqrt(3))] * 4
    )
    assert flat(grpo(three(), norm="mean", eps=1.0)) == pytest.approx([2 / 3] * 2 + [-1 / 3] * 4)  # eps divides nothing


def test_dr_grpo_and_rloo_by_hand():
    assert flat(dr_grpo(three())) == pytest.approx([2 / 3] * 2 + [-1 / 3] * 4)
    # rloo: 1 - mean(0, 0) = 1; 0 - mean(1, 0) = -1/2
    assert flat(rloo(three())) == pytest.approx([1.0] * 2 + [-0.5] * 4)


def punished_pair():
    """Returns 1 and 0; the second turn of the failure is invalid."""
    return group(episode(("a", 0), ("b", 1)), episode(("a", 0), ("b", 0, False)))


def test_where_penalties_enter():
    # before: returns 1 and 0 - 0.2; mean 0.4 -> 0.6, -0.6 for every turn
    assert flat(dr_grpo(punished_pair(), penalty=0.2, penalty_order="before")) == pytest.approx([0.6, 0.6, -0.6, -0.6])
    # after: row scores (1, 1) and (0, -0.2); trajectory means 1 and -0.1, mean 0.45
    assert flat(dr_grpo(punished_pair(), penalty=0.2, penalty_order="after")) == pytest.approx([0.55, 0.55, -0.45, -0.65])
    # advantage: 0.5, 0.5, -0.5, -0.5 and the invalid turn pays on top
    assert flat(dr_grpo(punished_pair(), penalty=0.2, penalty_order="advantage")) == pytest.approx([0.5, 0.5, -0.5, -0.7])
    # rloo doubles the centred part (n/(n-1) = 2), not a penalty on the advantage
    assert flat(rloo(punished_pair(), penalty=0.2, penalty_order="advantage")) == pytest.approx([1, 1, -1, -1.2])
    # all turns parse, so punishing `parsed` costs nothing
    assert flat(dr_grpo(punished_pair(), penalty=0.2)) == pytest.approx([0.5, 0.5, -0.5, -0.7]), "the default"
    assert flat(dr_grpo(punished_pair(), penalty=0.2, punish="parsed")) == pytest.approx([0.5, 0.5, -0.5, -0.5])


def hand_check():
    """Returns 1, 0, 0, 0 from one common state; the last episode comes back to it."""
    return group(
        episode(("s0", 1)),
        episode(("s0", 0), ("x", 0)),
        episode(("s0", 0), ("y", 0)),
        episode(("s0", 0)),
    )


@pytest.mark.parametrize("anchor", ["observation", "state"])
def test_gigpo_by_hand(anchor):
    # A_E: mean 1/4 -> 3/4, -1/4...   A_S at s0: G = 1, 0, 0, 0 -> 3/4, -1/4...; x and y are met once: 0
    found = gigpo(hand_check(), norm="mean", anchor=anchor)
    assert flat(found) == pytest.approx([1.5, -0.5, -0.25, -0.5, -0.25, -0.5])
    assert flat(gigpo(hand_check(), norm="mean", anchor=anchor, step_weight=0.0)) == pytest.approx([0.75] + [-0.25] * 5)
    # std of (1, 0, 0, 0) with ddof 1 is 1/2: both terms double
    both = gigpo(hand_check(), norm="std", step_norm="std", eps=0.0, anchor=anchor)
    assert flat(both) == pytest.approx([3, -1, -0.5, -1, -0.5, -1])


def test_gigpo_discounts_towards_the_end():
    # G of the success: 0.25, 0.5, 1 with gamma 0.5; both start at s (G 0.25 and 0): A_S = 0.125, -0.125; A_E = 0.5, -0.5
    both = group(episode(("s", 0), ("t", 0), ("u", 1)), episode(("s", 0)))
    assert flat(gigpo(both, gamma=0.5, norm="mean")) == pytest.approx([0.625, 0.5, 0.5, -0.625])


def test_gigpo_revisits():
    # G of the loop with gamma 0.5: s 0.25, t 0.5, s 1; of the failure: s 0. A_E = 0.5, -0.5
    loop = group(episode(("s", 0), ("t", 0), ("s", 1)), episode(("s", 0)))
    # with revisits: mean of 0.25, 1, 0 is 5/12
    assert flat(gigpo(loop, gamma=0.5, norm="mean")) == pytest.approx([0.5 - 2 / 12, 0.5, 0.5 + 7 / 12, -0.5 - 5 / 12])
    # without: first visits 0.25 and 0
    assert flat(gigpo(loop, gamma=0.5, norm="mean", revisits=False)) == pytest.approx([0.625, 0.5, 0.5, -0.625])


def errors():
    """Both get the same error message, in different places, and only the first recovers."""
    return group(
        episode(("s", 0, False), ("Nothing happens.", 1)),
        episode(("t", 0, False), ("Nothing happens.", 0)),
    )


def test_gigpo_answers_to_invalid_actions_are_no_states():
    assert flat(gigpo(errors(), norm="mean")) == pytest.approx([0.5, 0.5, -0.5, -0.5])
    assert flat(gigpo(errors(), norm="mean", keep_errors=True)) == pytest.approx([0.5, 1.0, -0.5, -1.0])
    assert flat(gigpo(errors(), norm="mean", anchor="state")) == pytest.approx([0.5, 1.0, -0.5, -1.0])  # keys are states
    both = group(episode(("s", 0, False), ("t", 1)), episode(("s", 0)))
    # G at s: 0.95 and 0 -> +-0.475, unless the invalid turn is left out and the other is alone
    assert flat(gigpo(both, norm="mean")) == pytest.approx([0.975, 0.5, -0.975])
    assert flat(gigpo(both, norm="mean", keep_invalid=False)) == pytest.approx([0.5, 0.5, -0.5])


def test_gigpo_penalty_order():
    # one group, both fail from s; the second turn of the first is invalid, penalty 0.2, gamma 0.5
    both = group(episode(("s", 0), ("t", 0, False)), episode(("s", 0), ("t", 0)))
    # before: R = -0.2, 0 -> A_E = -0.1, 0.1; G at s = -0.1, 0 -> -0.05, 0.05; G at t = -0.2, 0 -> -0.1, 0.1
    assert flat(gigpo(both, gamma=0.5, norm="mean", penalty=0.2, penalty_order="before")) == pytest.approx(
        [-0.15, -0.2, 0.15, 0.2]
    )
    # after: scores (0, -0.2), (0, 0), means -0.1, 0, mean -0.05; G at s all 0; at t -0.2, 0 -> -0.1, 0.1
    after = gigpo(both, gamma=0.5, norm="mean", penalty=0.2, penalty_order="after")
    assert flat(after) == pytest.approx([0.05, -0.15 - 0.1, 0.05, 0.05 + 0.1])
    # advantage: nothing but the turn itself
    alone = gigpo(both, gamma=0.5, penalty=0.2, penalty_order="advantage", step_norm="std")
    assert flat(alone) == [0, -0.2, 0, 0]


def test_a_role_is_credited_for_what_it_was_paid_outside_its_turns():
    # the opponent's move ended the game: the last own turn gets the loss, G = -0.5, -1 with gamma 0.5
    lost, won = episode(("s", 0), ("t", 0), reward=-1.0), episode(("s", 0), ("t", 1))
    # A_E: -1, 1; A_S at s: +-0.5; at t: +-1
    assert flat(gigpo(group(lost, won), gamma=0.5, norm="mean")) == pytest.approx([-1.5, -2, 1.5, 2])


def test_anchor_statistics_by_hand():
    # anchors: s0 x4, x, y -> 6 turns in 3 groups, 2 of them alone
    assert anchor_statistics([hand_check()]) == {
        "anchor_size": (6, 3),
        "anchor_singletons": (2, 6),
        "anchor_missing": (0, 6),
    }
    # errors: s and t alone, the two error messages without anchor
    assert anchor_statistics([errors()]) == {"anchor_size": (2, 2), "anchor_singletons": (2, 2), "anchor_missing": (2, 4)}
    assert anchor_statistics([errors()], "state")["anchor_size"] == (4, 3)
    assert anchor_statistics([]) == {"anchor_size": (0, 0), "anchor_singletons": (0, 0), "anchor_missing": (0, 0)}


def transcription(rows, norm, w=1.0, eps=1e-6, penalty=0.0):
    """The published semantics over a table of rows (episode return, G, anchor, invalid), one by one."""
    score = [r - penalty * bad for r, _, _, bad in rows]
    back = [g - penalty * bad for _, g, _, bad in rows]

    def spread(xs):
        mean = sum(xs) / len(xs)
        return mean, math.sqrt(sum((x - mean) ** 2 for x in xs) / (len(xs) - 1))

    found = []
    for n, (_, _, anchor, _) in enumerate(rows):
        mean, std = spread(score) if len(rows) > 1 else (0.0, 1.0)
        whole = score[n] - mean if norm == "mean" else (score[n] - mean) / (std + eps)
        peers = [back[m] for m in range(len(rows)) if rows[m][2] == anchor]
        mean, std = spread(peers) if len(peers) > 1 else (peers[0], 1.0)
        step = back[n] - mean if norm == "mean" else (back[n] - mean) / (std + eps)
        found.append(whole + w * step)
    return found


@pytest.mark.parametrize("norm", ["mean", "std"])
@pytest.mark.parametrize("penalty", [0.0, 0.1])
def test_gigpo_reference_against_a_transcription(norm, penalty):
    # ALFWorld's scale: reward 10; gamma 0.95
    played = group(
        episode(("s", 0), ("t", 0, False), ("s", 10)),
        episode(("s", 0), ("u", 0)),
        episode(("s", 0, False), ("Nothing happens.", 0), ("t", 0)),
    )
    rows = [
        (10, 9.025, "s", 0), (10, 9.5, "t", 1), (10, 10, "s", 0),
        (0, 0, "s", 0), (0, 0, "u", 0),
        (0, 0, "s", 1), (0, 0, "Nothing happens.", 0), (0, 0, "t", 0),
    ]  # fmt: skip
    assert flat(gigpo_reference(played, norm=norm, penalty=penalty)) == pytest.approx(
        transcription(rows, norm, penalty=penalty)
    )
    again = gigpo_reference(played, norm=norm, penalty=penalty, copies=[(0, 1), (1, 0), (0, 1)])
    repeated = transcription([*rows, rows[1], rows[3], rows[1]], norm, penalty=penalty)
    assert flat(again) == pytest.approx(repeated[:8])


def test_gigpo_reference_by_hand():
    # rows 1, 1 | 0: mean over ROWS 2/3 (over trajectories it would be 1/2); s: G = 0.95, 0 -> 0.475
    played = group(episode(("s", 0), ("t", 1)), episode(("s", 0)))
    assert flat(gigpo_reference(played)) == pytest.approx([1 / 3 + 0.475, 1 / 3, -2 / 3 - 0.475])
    assert flat(gigpo(played, norm="mean")) == pytest.approx([0.5 + 0.475, 0.5, -0.5 - 0.475])
    # a copy of the failing row moves both means: rows 1, 1, 0, 0 -> 1/2; s: 0.95, 0, 0 -> 0.95 / 3
    copied = gigpo_reference(played, copies=[(1, 0)])
    assert flat(copied) == pytest.approx([0.5 + 0.95 * 2 / 3, 0.5, -0.5 - 0.95 / 3])
    # one row alone keeps its raw score
    assert flat(gigpo_reference(group(episode(("s", 10))))) == [10.0]
    assert flat(gigpo_reference(group(episode(("s", 10))), norm="std")) == pytest.approx([10 / (1 + 1e-6)])
    assert np.all(gigpo_reference(group(episode(("s", 1)), episode(("s", 1))), norm="std")[0] == 0)
