"""A defect is reported once, by what causes it and where."""

import random
import re
import sys

import broken_envs
import numpy as np
import one_defect
import pytest

import agentgym
from agentgym.contract import check
from agentgym.contract.causes import own_chance
from agentgym.contract.checks import CHECKS, RESTS_ON
from agentgym.core.declared import Declarations


@pytest.mark.parametrize("kind", one_defect.SAID)
def test_one_defect_is_one_finding_that_names_its_cause(kind):
    report = check(f"defect/{kind.__name__}-v0")
    assert len(report.broken) == 1, str(report)
    assert re.search(one_defect.SAID[kind], report.broken[0].note), report.broken[0].note


def test_what_was_not_looked_at_says_why():
    report = check("defect/DrawsFromRandom-v0", checks=["same again", "snapshots here", "info schema"])
    assert [result.status for result in report.results] == ["broken", "skipped", "holds"]
    assert report.results[1].note == "rests on 'same again', which is broken"


def test_checks_rest_on_earlier_ones():
    order = list(CHECKS)
    for check_name, below in RESTS_ON.items():
        assert all(order.index(one) < order.index(check_name) for one in below), check_name


def test_two_defects_are_two_findings():
    class Both(one_defect.ToolForgetsToReturn):
        declared = Declarations(expert_bound=1.0)

        def expert(self):
            yield "open[0]"

    report = check(Both(), checks=["nasty actions", "info schema", "spellings", "expert is good"])
    assert [result.check for result in report.broken] == ["nasty actions", "expert is good"], str(report)


@pytest.mark.parametrize(
    ("parameter", "message"),
    [("code", "parameter 'code' has no annotation"), ("code: list", "parameter 'code' is annotated <class 'list'>")],
)
def test_a_tool_without_annotations_is_named_with_its_line(parameter, message):
    source = f"def note(self, {parameter}) -> str:\n    'Read.'\n"
    namespace = {}
    exec(compile(source, "my_module.py", "exec"), namespace)
    with pytest.raises(
        TypeError, match=re.escape(f"tool note (my_module.py:1): {message}; expected str, int, float or bool")
    ):
        agentgym.tool(namespace["note"])


def test_an_annotation_that_is_nothing_is_named():
    def note(self, code: "Cod") -> str:  # noqa: F821
        """Read."""

    with pytest.raises(TypeError, match=r"note \(.*:\d+\): an annotation uses a name that is not defined: name 'Cod'"):
        agentgym.tool(note)


def test_the_search_for_chance_leaves_nothing_behind():
    before = np.random.rand, sys.getprofile(), random.random
    finding = own_chance(one_defect.DrawsFromNumpy, lambda: one_defect.DrawsFromNumpy().act("up"))
    assert "numpy.random.rand" in finding
    assert (np.random.rand, sys.getprofile(), random.random) == before
    env = broken_envs.Stairs()
    assert own_chance(broken_envs.Stairs, lambda: env.reset(seed=0)) == ""  # its own generator is its right
