"""What a reward file of Harbor holds, and one number of several metrics.

The values are those of harbor 0.26.0 (Python 3.12.1); tests/with_harbor/test_genuine_rewards.py compares with the package.
"""

import pytest
from harbor_rewards import REWARDS

from agentgym.envs.terminal.harbor.rewards import NoVerdict, check_rule, one_number, rewards_in
from agentgym.errors import BadConfig


@pytest.mark.parametrize(("name", "content", "rewards"), REWARDS)
def test_rewards_are_what_float_and_json_give(name, content, rewards):
    if rewards is None:
        with pytest.raises(NoVerdict, match=name):
            rewards_in(name, content)
    else:
        assert rewards_in(name, content) == rewards


def test_one_number_of_several_metrics():
    several = {"accuracy": 0.5, "speed": 2.0, "style": 0.0}
    numbers = {rule: one_number(several, rule) for rule in ("min", "max", "mean", "sum", "key:speed")}
    assert numbers == {"min": 0.0, "max": 2.0, "mean": 2.5 / 3, "sum": 2.5, "key:speed": 2.0}
    assert one_number({"reward": 0.25, "speed": 1.0}, "min") == 0.25 == one_number({"accuracy": 0.25}, "max")
    assert one_number({}, "min") == 0.0
    with pytest.raises(NoVerdict, match="no metric 'reward'"):
        one_number(several, "key:reward")


@pytest.mark.parametrize("rule", ["", "median", "key:", "key"])
def test_rules_have_names(rule):
    with pytest.raises(BadConfig, match="metric_rule is"):
        check_rule(rule)
