"""Every numbered example runs as a user would run it, and says true things."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples"
EXPECTED: dict[str, list[str]] = {
    "01_one_episode.py": [r"valid True", r"reward 1\.0 +success True"],
    "02_your_own_env.py": [r"expert: success 10 of 10", r"valid False"],
    "03_rollouts.py": [r"expert: success 100\.0 %", r"model: success 100\.0 %", r"\n90 episodes", r"as sampled: True"],
    "04_branching.py": [r"with 9 turns left the best is \w+: (?:0\.[3-9]|1\.0)", r"same place: True", r"on its own: True"],
    "05_your_own_credit.py": [r"lost \[(?:0\.0, )*-0\.\d+\]", r"won .*\d", r"sums to -?0\.000000 over"],
    "06_train_tiny.py": [
        r"imitation: loss 0\.\d",
        r"step \d: success 0\.(?:0[1-9]|[1-9])",
        r"KL \d\.\de-(?:0[6-9]|1\d)",
        r"checkpoints, config\.toml, episodes\.jsonl, .*metrics\.jsonl, .*summary\.json",
    ],
    "07_evaluate.py": [
        r"of 40 episodes 7 were kept, and the same call played the other 33",
        r"careful: +100\.0 %",
        r"be chance: False",
    ],
    "08_train_any_agent.py": [r"KL \d\.\de-(?:0[6-9]|1\d)", r"held out: 0\.[01]\d before, (?:0\.[2-9]\d|1\.00) after"],
    "09_repair_a_repository.py": [r"> bash\[ls && git log", r"careless: +0\.0 %", r"oracle: +100\.0 %", r"\n  \+ +\S"],
    "10_two_roles.py": [
        r"expert +against the perfect opponent: 100\.0 %",
        r"self-play at random: the first role wins (?:1[5-9]|2\d|3[0-5]) of 50",
        r"by role: first second first",
    ],
    "11_four_modules.py": [r"held out: 0\.[0-2]\d before, (?:0\.[4-9]\d|1\.00) after"],
}


def test_every_example_has_facts_to_check() -> None:
    assert sorted(EXPECTED) == sorted(path.name for path in FOLDER.glob("*.py"))


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_example(name: str, tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error::DeprecationWarning:agentgym", str(FOLDER / name)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    for fact in EXPECTED[name]:
        assert re.search(fact, done.stdout), f"{fact!r} is not in:\n{done.stdout}"


@pytest.mark.parametrize("name", ["02_your_own_env:me/HeavyCoin-v0", "10_two_roles:me/Nim-v0"])
def test_the_environments_of_the_examples_keep_the_contract(name: str) -> None:
    command = [sys.executable, "-m", "agentgym", "check", name]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout
