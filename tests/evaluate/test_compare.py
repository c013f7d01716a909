"""Comparisons of two evaluations: numbers by hand, simulated power, folders that do not pair."""

import math
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym import BadConfig, Episode
from agentgym.evaluate import manifest
from agentgym.evaluate.compare import compare, compare_folders, read_evaluation, sign_test, tasks_needed


def written(folder: Path, results: dict[str, list[bool | None]], **options: object) -> Path:
    """Write the folder of an evaluation: results by task, None for a fault; instructions and types by task."""
    manifest.start(folder, {"seed": 0, **options})
    episodes = [
        Episode(
            "me/A-v0",
            task,
            task,
            0,
            attempt=attempt,
            success=result,
            reason={True: "success", False: "horizon", None: "crash"}[result],
            labels={"type": task[0]},
            instruction=f"do {task}",
        )
        for task, values in results.items()
        for attempt, result in enumerate(values)
    ]
    (folder / "episodes.jsonl").write_text("".join(e.to_json() + "\n" for e in episodes))
    return folder


def test_rates_flips_and_signs_by_hand():
    a = {"t1": [1.0, 0.0], "t2": [1.0, 1.0], "t3": [0.0, 0.0], "t4": [1.0, 1.0], "only a": [1.0]}
    b = {"t1": [1.0, 1.0], "t2": [0.0, 0.0], "t3": [0.0, 0.0], "t4": [1.0], "only b": [0.0]}
    found = compare(a, b)
    assert (found.a, found.b) == (2.5 / 4, 2 / 4)
    assert found.difference.mean == -0.125  # (0.5 - 1 + 0 + 0) / 4
    assert found.difference.units == 4
    assert found.gained == ("t1",)  # half of the attempts is not solved
    assert found.lost == ("t2",)
    assert found.p_value == 1.0  # one sign each way
    # squared deviations from -0.125: 0.390625 + 0.765625 + 2 * 0.015625 = 1.1875; sd = sqrt(1.1875 / 3)
    assert found.tasks_needed == math.ceil((2.801585 * math.sqrt(1.1875 / 3) / 0.125) ** 2) == 199
    assert found.detectable == pytest.approx(2.801585 * math.sqrt(1.1875 / 3) / 2, abs=1e-5)


@pytest.mark.parametrize(
    ("up", "down", "expected"), [(0, 0, 1), (5, 0, 0.0625), (6, 0, 0.03125), (0, 6, 0.03125), (8, 2, 0.109375), (3, 3, 1)]
)
def test_sign_test(up: int, down: int, expected: float):
    assert sign_test(up, down) == expected


def test_tasks_needed_by_hand():
    assert tasks_needed(0.1, 0.5) == 197  # (2.801585 * 5)^2 = 196.2
    assert tasks_needed(-0.1, 0.5) == 197
    assert tasks_needed(0.0, 0.5) is None
    assert tasks_needed(1.0, 0.0) == 6  # five alike are not enough for the sign test


def test_so_many_tasks_have_the_power_that_is_said():
    rng, gain, loss = np.random.default_rng(5), 0.25, 0.15
    n = tasks_needed(gain - loss, math.sqrt(gain + loss - (gain - loss) ** 2))
    drawn = rng.choice([1.0, -1.0, 0.0], p=[gain, loss, 1 - gain - loss], size=(4000, n))
    z = drawn.mean(axis=1) / (drawn.std(axis=1, ddof=1) / math.sqrt(n))
    power = float((np.abs(z) > NormalDist().inv_cdf(0.975)).mean())
    assert power == pytest.approx(0.8, abs=0.02)  # three standard errors


outcomes = st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=3))


@given(outcomes, outcomes)
def test_the_other_way_round_is_the_mirror_image(a: dict[str, list[float]], b: dict[str, list[float]]):
    if not set(a) & set(b):
        with pytest.raises(BadConfig, match="nothing to pair"):
            compare(a, b)
        return
    there, back = compare(a, b), compare(b, a)
    assert there.difference.mean == pytest.approx(-back.difference.mean)
    assert (there.gained, there.lost, there.p_value) == (back.lost, back.gained, back.p_value)
    assert there.tasks_needed == back.tasks_needed


def test_folders_are_paired_by_task_and_say_what_differs(tmp_path: Path):
    a = written(tmp_path / "a", {"x1": [False], "x2": [True], "y1": [True], "gone": [True], "f": [None]}, model="small")
    b = written(tmp_path / "b", {"x1": [True], "x2": [True], "y1": [False], "f": [True]}, model="large")
    found = compare_folders(a, b)
    assert found["options"] == {"model": ["small", "large"]}
    assert found["tasks"] == {"paired": 3, "only_a": 1, "only_b": 1, "other_instruction": 0}
    assert found["faults"] == {"a": 1, "b": 0} and found["fault_share"] == {"a": 0.2, "b": 0.0}
    assert found["not_comparable"] == [
        "A: infrastructure errors ended 20.0% of 5 episodes of me/A-v0; the rates of the rest are not comparable "
        "with any number"
    ]
    assert found["all"]["gained"] == ["me/A-v0 x1"]
    assert found["all"]["lost"] == ["me/A-v0 y1"]
    assert found["envs"]["me/A-v0"]["by_type"]["x"]["difference"]["mean"] == 0.5
    assert found["envs"]["me/A-v0"]["by_type"]["y"]["difference"]["mean"] == -1


def test_the_same_id_with_another_instruction_is_another_task(tmp_path: Path):
    a, b = (written(tmp_path / name, {"x": [True], "y": [True]}) for name in "ab")
    path = b / "episodes.jsonl"
    path.write_text(path.read_text().replace("do x", "do something else"))
    assert compare_folders(a, b)["tasks"] == {"paired": 1, "only_a": 0, "only_b": 0, "other_instruction": 1}
    path.write_text(path.read_text().replace("do y", "do nothing"))
    with pytest.raises(BadConfig, match=r"2 tasks of .* have the same ids, but other instructions"):
        compare_folders(a, b)


def test_what_does_not_pair_says_why(tmp_path: Path):
    a = written(tmp_path / "a", {"x": [True]})
    b = written(tmp_path / "b", {"z": [True], "y": [False]})
    with pytest.raises(BadConfig, match=r"a has 1 tasks, such as 'me/A-v0 x'; .*b has 2 tasks, such as 'me/A-v0 y'\. Eval"):
        compare_folders(a, b)
    with pytest.raises(BadConfig, match="c has no episode without an infrastructure error"):
        compare_folders(a, written(tmp_path / "c", {"x": [None]}))
    with pytest.raises(BadConfig, match=r"nowhere holds no evaluation \(no manifest.json\)"):
        compare_folders(a, tmp_path / "nowhere")
    (b / "episodes.jsonl").unlink()
    with pytest.raises(BadConfig, match=r"b holds no evaluation \(no episodes.jsonl\)"):
        compare_folders(a, b)


def test_of_a_training_run_the_last_evaluation_counts_alone(tmp_path: Path):
    """Those of the SFT warm start are as many as there were, each of another policy."""
    (tmp_path / "config.toml").write_text("seed = 0\n")
    played = [("7/", False), ("eval/sft/20/", False), ("eval/sft/40/", True)]
    lines = [
        Episode("me/A-v0", f"t/{n}", f"{prefix}t/{n}", 0, success=won, reason="success" if won else "horizon").to_json()
        for prefix, won in played
        for n in range(3)
    ]
    (tmp_path / "episodes.jsonl").write_text("\n".join(lines) + "\n")
    options, episodes = read_evaluation(tmp_path)
    assert options["episodes of"] == "eval/sft/40" and [episode.success for episode in episodes] == [True] * 3
