"""Reward files beside harbor 0.26.0's own verifier: the same numbers, and none where it raises an error."""

import asyncio
import contextlib
import importlib.metadata
import sys
from pathlib import Path
from typing import Any

import pytest
from harbor.models.trial.paths import TrialPaths
from harbor.models.verifier.result import VerifierResult
from harbor.verifier.verifier import Verifier

sys.path.insert(0, str(Path(__file__).parents[1] / "envs" / "terminal"))
from harbor_rewards import REWARDS

from agentgym.envs.terminal.harbor.rewards import FILES, NoVerdict, rewards_in


def genuine(folder: Path, files: dict[str, bytes]) -> dict[str, float] | None:
    """Return what its verifier reads after tests that wrote these files; None for an error."""
    paths = TrialPaths(folder)
    paths.verifier_dir.mkdir(parents=True)
    for name, content in files.items():
        (paths.verifier_dir / name).write_bytes(content)
    verifier: Any = Verifier.__new__(Verifier)
    verifier.trial_paths = paths
    with contextlib.suppress(Exception):
        if paths.reward_json_path.exists():
            return VerifierResult(rewards=verifier._parse_reward_json()).rewards
        if paths.reward_text_path.exists():
            return VerifierResult(rewards=verifier._parse_reward_text()).rewards
    return None


def ours(files: dict[str, bytes]) -> dict[str, float] | None:
    name = next((name for name in FILES if name in files), None)
    with contextlib.suppress(NoVerdict):
        return None if name is None else rewards_in(name, files[name])
    return None


def test_the_version():
    assert importlib.metadata.version("harbor") == "0.26.0" and asyncio.iscoroutinefunction(Verifier.verify)


@pytest.mark.parametrize(("name", "content", "rewards"), REWARDS)
def test_a_reward_file(name, content, rewards, tmp_path):
    assert genuine(tmp_path, {name: content}) == rewards == ours({name: content})


@pytest.mark.parametrize(
    ("files", "rewards"),
    [
        ({"reward.json": b'{"reward": 0}', "reward.txt": b"1"}, {"reward": 0.0}),
        ({"reward.json": b"", "reward.txt": b"1"}, None),
        ({"reward.json": b"1", "reward.txt": b"1"}, None),
        ({}, None),
    ],
)
def test_several_files(files, rewards, tmp_path):
    assert genuine(tmp_path, files) == rewards == ours(files)
