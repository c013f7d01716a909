"""Functions on bits without a sandbox: verdicts as trusted code gives them, bounded programs, consistent demonstrations."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))

import code_envs
import hints as bench

import agentgym
from agentgym import Hint
from agentgym.agents.base import hinted
from agentgym.core.actions import spell
from agentgym.core.seeding import generator
from agentgym.engines import Sampling
from agentgym.engines.hf.engine import HFEngine
from agentgym.envs.code.families import read
from agentgym.envs.code.families.family import passes
from agentgym.trainers.model.policy import PolicySize, init_policy

HEAD = "def f(x):\n    "


@pytest.fixture
def env():
    return agentgym.make("bits/Bits-v0", difficulty=0).unwrapped


def test_reference_solutions_and_mistakes_get_the_verdict_of_the_familys_own_execution(env):
    verdicts = []
    for number in range(25):
        task = env.numbered(number, "train")
        for code in [task.data["reference"], *read(task.data["statement"]).mistakes()]:
            env.reset(options={"task": task})
            *_, info = env.step(spell("submit", code))
            right = passes(task.data["hidden"], code, task.data["entry"], "function", 0.0) == len(task.data["hidden"])
            assert info["success"] is right
            verdicts.append(right)
    assert True in verdicts
    assert False in verdicts


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("return x << 1 << 999999999", TypeError),
        ("x = x << 99\n    return x << 99", OverflowError),
        ("return range(10 ** 9)", KeyError),
        ("return sum(range(999999999))", OverflowError),
        ("return format(x, '0999999999b')", TypeError),
        ("return '%999999999d' % x", TypeError),
        ("y = [1]\n    y = [y for i in range(9)]\n    return y", TypeError),
        ("return sum(i for i in range(64) for j in range(64))", ValueError),
        ("return [sum(j for j in range(64)) for i in range(64)]", OverflowError),
        ("return x.__class__", TypeError),
        ("return open(x)", KeyError),
        ("import os\n    return x", TypeError),
        ("while x:\n        x = x", TypeError),
    ],
)
def test_programs_of_any_other_form_or_size_fail(body, error):
    assert code_envs.result_of(f"{HEAD}return x + 1", "f", [5]) == 6
    with pytest.raises(error):
        code_envs.result_of(HEAD + body, "f", [5])


def test_a_demonstration_has_the_prompt_that_training_has_with_a_hint(tmp_path):
    chosen = bench.BENCHES["code"]
    size = PolicySize(width=64, layers=1, heads=2, vocabulary=400)
    engine = HFEngine(str(init_policy(chosen.reader, tmp_path / "policy", size=size, episodes=10)))
    agent = bench.warm_start(0, tmp_path, chosen).spec.make(engine, Sampling(), engine.tokenizer)
    reader, plain = (agentgym.make(name, difficulty=0).unwrapped for name in (chosen.reader, chosen.env))
    seen = set()
    for number in range(15):
        task = reader.numbered(number, "train")
        observation, info = reader.reset(options={"task": task})
        bare, _ = plain.reset(options={"task": task})
        level = reader.hint_level(task)
        talk = hinted(agent.begin(task, plain.tools), Hint(level, plain.hint(level)) if level else None)
        assert talk.prompt(bare, info) == agent.begin(task, plain.tools).prompt(observation, info)
        seen.add(level > 0)
    assert seen == {False, True}


def test_mistakes_agree_with_the_hint_that_the_demonstration_shows():
    reader = agentgym.make("bits/ShownBits-v0", difficulty=0).unwrapped
    found = []
    for number in range(40):
        task = reader.numbered(number, "train")
        reader.reset(options={"task": task})
        wrong, level = reader.mistake(generator("mistake", number)), reader.hint_level(task)
        found.append(wrong is not None)
        if wrong is not None and level:
            code = wrong.removeprefix("submit[").removesuffix("]")
            assert reader.plan(code) == reader.plan(task.data["reference"])
    assert True in found
    assert False in found
