"""Stages: each is resolved once a start, and no file but its own asks by name which one it is."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from fresh_run import fresh

from agentgym.errors import UnknownName
from agentgym.trainers import TrainConfig
from agentgym.trainers.run.preflight import SEAMS
from agentgym.trainers.run.stages import Stages
from agentgym.trainers.seam import Seam

PACKAGE = Path(__file__).parents[2] / "agentgym"
TABLES = {kind: seam for module in SEAMS for kind, seam in vars(module).items() if isinstance(seam, Seam)}
FILES: dict[str, set[str]] = {}
"""By the name of a stage, the files that define a stage of this name."""
for _seam in TABLES.values():
    for _name, _path in _seam.table.items():
        FILES.setdefault(_name, set()).add(_path.partition(":")[0].replace(".", "/") + ".py")
CHOICES = {
    *("loss", "credit", "select", "selection", "sampler", "generation", "branching", "learner", "reward", "rewards"),
    *("loggers", "needs", "needed", "names", "stage", "kind", "name"),
}
"""What holds a stage or its name: an attribute of a configuration or a stage, or a variable."""


def comparisons(tree):
    """Return (line, name) of each comparison of something that holds a stage's name with a constant."""
    for node in ast.walk(tree):
        sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        if isinstance(node, ast.Match):
            sides = [node.subject, *(case.pattern for case in node.cases)]
        words = [part.value for side in sides for part in ast.walk(side) if isinstance(part, ast.Constant)]
        holders = {part.attr for side in sides for part in ast.walk(side) if isinstance(part, ast.Attribute)}
        holders |= {part.id for side in sides for part in ast.walk(side) if isinstance(part, ast.Name)} - {"name", "kind"}
        if holders & CHOICES:
            yield from ((node.lineno, word) for word in words if isinstance(word, str))


def test_the_search_finds_what_a_file_asks():
    code = "if config.loss == 'icepop' or stage.name in ('values', 'x') or 'entropy' in names or text == 'drop': ..."
    assert sorted(name for _, name in comparisons(ast.parse(code)) if name in FILES) == ["entropy", "icepop", "values"]
    assert len(TABLES) == 10 and {"icepop", "grpo", "drop", "uniform", "local", "values", "plain", "wandb"} <= set(FILES)


def test_no_file_but_its_own_asks_which_stage_it_is():
    found = [
        f"{path.relative_to(PACKAGE.parent)}:{line} names {name!r}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, name in comparisons(ast.parse(path.read_text(encoding="utf-8")))
        if name in FILES and str(path.relative_to(PACKAGE.parent)) not in FILES[name]
    ]
    assert not found


def test_every_seam_has_one_check():
    for seam in SEAMS:
        assert callable(seam.check), seam.__name__
        seam.check(fresh(TrainConfig(env="rlvr/GuessNumber-v0")))


def test_a_stage_is_resolved_once_and_is_the_same_from_then_on():
    stages = Stages(
        TrainConfig(env="rlvr/GuessNumber-v0", credit="gigpo", credit_options={"step_weight": 0.5}, reward=("tool_calls",))
    )
    assert stages.credit is stages.credit and stages.rewards is stages.rewards and stages.needs is stages.needs
    assert stages.credit.hyperparameters == {"step_weight": 0.5} and stages.named_loss is None
    with pytest.raises(UnknownName, match="grpo"):
        _ = Stages(TrainConfig(credit="grppo")).credit


COUNTED = """
import collections, sys
from agentgym.trainers.seam import Seam

from agentgym.trainers.config import checks

counts, resolve, check = collections.Counter(), Seam.resolve, checks.check

def counted(self, *arguments):
    counts[self.kind] += 1
    return resolve(self, *arguments)

def checked(config):
    counts["configuration"] += 1
    check(config)

Seam.resolve, checks.check = counted, checked
from agentgym.cli import main

code = main(["train", "household", "--processes", "1", "--steps", "1", "--sft-episodes", "0", "--test-tasks", "0",
             "--eval-tasks", "0", "--tasks-per-step", "1", "--group-size", "2", "--out", "run"])
print(code, {kind: counts[kind] for kind in ("configuration", "credit", "loss", "sampler", "select", "generation")})
"""


@pytest.mark.long
def test_one_start_of_a_run_checks_its_configuration_once_and_resolves_each_stage_once(tmp_path):
    done = subprocess.run([sys.executable, "-c", COUNTED], cwd=tmp_path, capture_output=True, text=True, check=False)
    once = dict.fromkeys(("configuration", "credit", "loss", "sampler", "select", "generation"), 1)
    assert done.stdout.splitlines()[-1] == f"0 {once}", done.stderr[-2000:]
