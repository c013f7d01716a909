"""Stages of one's own are called on made-up episodes before a model is loaded."""

import subprocess
import sys

import numpy as np
import pytest
import stages_in_trial as own
from fresh_run import fresh

from agentgym.errors import BadConfig
from agentgym.trainers import TrainConfig
from agentgym.trainers.run.preflight import check_run
from agentgym.trainers.run.trial import made_up

MINE = "stages_in_trial:"


def checked(folder, env="rlvr/GuessNumber-v0", **stages):
    return check_run(TrainConfig(env=env, out=str(folder / "run"), **stages))


@pytest.mark.parametrize(
    ("stages", "problem"),
    [
        ({"reward": (MINE + "raising",)}, r"reward 'raising': KeyError: 'color' \(.*stages_in_trial.py, line 23\)"),
        ({"reward": (MINE + "one_number",)}, "reward 'one_number' returned 1.0; expected a list with a mapping"),
        ({"reward": (MINE + "too_few",)}, "reward 'too_few' returned 1 results for 2 episodes"),
        ({"reward": (MINE + "wrong_shape",)}, r"'wrong_shape', task .*expected a finite number, or one per turn \(2\)"),
        ({"credit": MINE + "raising_credit"}, "credit 'raising_credit': AttributeError: 'Episode' .*line"),
        ({"credit": MINE + "nothing"}, "credit 'nothing' returned None; expected 2 arrays"),
        ({"credit": MINE + "one_per_episode"}, r"'one_per_episode', .*: shape \(1,\); expected \(2,\), one number per"),
        ({"credit": MINE + "not_finite"}, "advantages are not finite"),
        ({"credit": MINE + "batch_as_group"}, "credit 'batch_as_group' returned 2 lists of arrays for 1 groups; expected 1"),
        ({"credit": MINE + "with_half"}, "needs 'half' put no turn.extra"),
        ({"credit": MINE + "with_first"}, "needs 'of_first': IndexError.*line"),
        ({"loss": MINE + "a_sum"}, r"loss 'a_sum': a loss returned \(\); expected \(.*,\), a number per token"),
        ({"loss": MINE + "without_gradient"}, "loss 'without_gradient': a loss has no gradient"),
        ({"loss": MINE + "raising_loss"}, "loss 'raising_loss': AttributeError: 'Tokens' object has no .*line"),
        ({"loss": MINE + "endless"}, "loss 'endless' is .*; expected finite numbers"),
        ({"loss": MINE + "with_factor"}, r"choose of loss 'with_factor' returned \(1,\)"),
        ({"select": MINE + "first_alone"}, "select 'first_alone': IndexError.*line"),
        ({"select": MINE + "true_or_false"}, r"select 'true_or_false' returned \[True\]; expected a list of groups"),
        ({"branching": MINE + "numbers"}, r"branching 'numbers' returned \[1, 2\]; expected a list of Branch"),
        ({"sampler": MINE + "Tasks"}, r"sampler 'tasks' drew \[Task.*expected a list of Draw"),
        ({"sampler": MINE + "Forgets"}, "sampler 'forgets': KeyError: 'place'.*line"),
        ({"sampler": MINE + "RaisingUpdate"}, "sampler 'raising_update': AttributeError.*line"),
        ({"generation": MINE + "NoPlay"}, r"generation 'no_play' lacks .*play\(\), .*update\(\)"),
        ({"loggers": (MINE + "NoClose",)}, r"logger 'no_close' lacks close\(\)"),
    ],
)  # fmt: skip
def test_a_mistake_of_a_stage_is_reported_before_anything_is_loaded(stages, problem, tmp_path):
    with pytest.raises(BadConfig, match=problem):
        checked(tmp_path, **stages)


@pytest.mark.parametrize(
    "stages",
    [
        {"reward": (MINE + "right",)},
        {"reward": (MINE + "no_judge", MINE + "waiting", MINE + "of_the_run")},
        {"credit": MINE + "right_credit"},
        {"credit": MINE + "with_own"},
        {"loss": MINE + "right_loss"},
        {"loss": MINE + "right_loss", "minibatches": 3, "epochs": 2},
        {"loss": MINE + "of_the_present", "minibatches": 1},
        {"select": MINE + "right_selection"},
        {"branching": MINE + "right_branching"},
        {"sampler": MINE + "RightSampler"},
        {"generation": MINE + "RightGeneration"},
    ],
)
@pytest.mark.parametrize("env", ["rlvr/GuessNumber-v0", "rlvr/SQL-v0", "rlvr/TicTacToe-v0"])
def test_stages_without_a_mistake_pass(stages, env, tmp_path):
    if env != "rlvr/TicTacToe-v0" or "branching" not in stages:  # episodes of several roles do not branch
        checked(tmp_path, env, **stages)


def test_a_credit_after_a_need_that_only_a_run_computes_is_not_tried(tmp_path):
    checked(tmp_path, credit=MINE + "after_branches")


def test_a_stage_in_its_trial_has_its_options_and_a_state_that_is_thrown_away(tmp_path):
    own.SEEN.clear()
    run = checked(tmp_path, reward=(MINE + "right",), reward_options={"weight": 0.25}, seed=5)
    assert own.SEEN == [({"calls": 1}, 0, 0.25, 0, [1], 5)] and not run.stages.rewards[0].state
    own.SEEN.clear()
    run = checked(tmp_path, reward=(MINE + "right",), reward_options={"schedule": [[0, 0.75], [9, 0]]})
    assert own.SEEN[0][2] == 0.75
    own.SEEN.clear()
    run = checked(tmp_path, credit=MINE + "right_credit")
    assert own.SEEN[-1] == {"calls": 1} and not run.stages.credit.stage.state


def test_the_trial_can_be_left_out(tmp_path):
    checked(tmp_path, reward=(MINE + "raising",), credit=MINE + "nothing", loss=MINE + "a_sum", try_stages=False)


def test_without_steps_nothing_is_tried(tmp_path):
    checked(tmp_path, credit=MINE + "nothing", steps=0)


@pytest.mark.parametrize("env", ["rlvr/GuessNumber-v0", "rlvr/SQL-v0", "rlvr/TicTacToe-v0"])
def test_made_up_episodes_are_as_those_of_a_run(env):
    group = made_up(fresh(TrainConfig(env=env)))
    assert [episode.success for episode in group] == [False, True] and [len(e.turns) for e in group] == [2, 3]
    for episode in group:
        assert episode.reward == sum(turn.reward for turn in episode.turns) == sum(episode.final_rewards.values())
        held_ids = []
        for turn in episode.turns:
            assert list(turn.prompt_ids)[: len(held_ids)] == held_ids and len(turn.logprobs) == len(turn.output_ids)
            held_ids = [*turn.prompt_ids, *turn.output_ids]
        assert np.unique(held_ids).size == len(held_ids)


TIMED = """
import atexit, sys
atexit.register(lambda: print("loaded:", [name for name in ("torch", "transformers", "accelerate") if name in sys.modules]))
from agentgym.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(("flag", "loaded"), [("reward", []), ("credit", []), ("loss", ["torch"])])
def test_a_raising_stage_costs_no_import_of_transformers(flag, loaded, tmp_path):
    (tmp_path / "mine.py").write_text(
        f"import agentgym\n\n\n@agentgym.{flag}('mine')\ndef mine(group):\n    return group.nothing\n"
    )
    words = [sys.executable, "-c", TIMED, "train", "household", f"--{flag}", "mine:mine"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and f"loaded: {loaded}" in done.stdout, done
    assert f"{flag} 'mine': AttributeError" in done.stderr and "mine.py, line 6" in done.stderr
