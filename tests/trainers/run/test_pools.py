"""Training on a pool of generated tasks: they come again, in a new order each time, and every stage that needs that runs."""

import json
from pathlib import Path
from typing import Any

import pytest
import small_envs
from small_runs import episodes, goes_on_to_the_last_digit, policy, small

from agentgym.core.pool import lines
from agentgym.errors import BadData
from agentgym.registry import make
from agentgym.trainers import resume, train

ENV = f"{small_envs.__name__}:small/Generated-v0"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return policy(tmp_path_factory.mktemp("policy"), "small/Generated-v0")


@pytest.mark.parametrize(
    "stage", [{"sampler": name} for name in ("uniform", "prioritized", "hard_attempts", "rising_temperature")]
    + [{"select": "replay"}, {"generation": "spec"}]
)  # fmt: skip
def test_stages_that_need_tasks_that_repeat(model: str, tmp_path: Path, stage: dict[str, str]) -> None:
    train(small(tmp_path / "run", model, env=ENV, env_options={"pool": 4}, steps=4, **stage))
    played = {one["task_id"] for one in episodes(tmp_path / "run")}
    assert played <= {f"train/0/{number}" for number in range(4)}
    if "sampler" not in stage or stage["sampler"] != "prioritized":
        assert len(played) == 4
    pools = json.loads((tmp_path / "run" / "manifest.json").read_text())["sessions"][-1]["pools"]
    assert [pool["tasks"] for pool in pools.values()] == [4]


def test_each_epoch_has_an_order_of_its_own(model: str, tmp_path: Path) -> None:
    train(small(tmp_path / "run", model, env=ENV, env_options={"pool": 6}, steps=4, group_size=2))
    order = list(dict.fromkeys(one["group_id"] for one in episodes(tmp_path / "run")))
    tasks = [next(one["task_id"] for one in episodes(tmp_path / "run") if one["group_id"] == group) for group in order]
    first, second = tasks[:6], tasks[6:]
    assert len({*first}) == len({*second}) == 6 and first != second


def test_one_example(model: str, tmp_path: Path) -> None:
    train(small(tmp_path / "run", model, env=ENV, env_options={"pool": 1}, tasks_per_step=2))
    assert {one["task_id"] for one in episodes(tmp_path / "run")} == {"train/0/0"}


def test_the_pool_does_not_narrow_the_test(model: str, tmp_path: Path) -> None:
    config = small(tmp_path / "run", model, env=ENV, env_options={"pool": 1}, steps=1, test_tasks=5)
    tested: list[int] = []

    def show(kind: str, about: dict[str, Any]) -> None:
        if kind == "progress" and "test" in about["what"]:
            tested.append(about["total"])

    train(config, show)
    assert {*tested} == {5}


@pytest.mark.long
def test_a_killed_run_goes_on_to_the_last_digit(model: str, tmp_path: Path) -> None:
    goes_on_to_the_last_digit(
        tmp_path, lambda out: small(out, model, env=ENV, env_options={"pool": 4}, steps=4, sampler="prioritized")
    )


def test_a_pool_that_changed_is_refused_at_resume(model: str, tmp_path: Path) -> None:
    file, env = tmp_path / "pool.jsonl", make("small/Generated-v0")
    file.write_text("".join(lines(env.up_to(4))))
    train(small(tmp_path / "run", model, env=ENV, env_options={"pool_file": str(file)}, steps=2))
    file.write_text("".join(lines(env.up_to(5))))
    named = {"env": ENV, "env.pool_file": str(file)}
    with pytest.raises(BadData, match=r"was trained on the pools .* and would go on with"):
        resume(tmp_path / "run", steps=3, settings=named)
    file.write_text("".join(lines(env.up_to(4))))
    assert resume(tmp_path / "run", steps=3, settings=named)["steps"] == 3
