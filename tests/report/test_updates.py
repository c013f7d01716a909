"""Steps without an update: the reason of each, and what a run says after three in a row."""

from typing import Any

import pytest

from agentgym.report.updates import PATIENCE, advice, no_update


def row(groups: int, equal: int, trained: int, alone: int = 0, success: float | None = 0.0, **others: Any) -> dict[str, Any]:
    counts = {"groups": groups, "groups_equal": equal, "groups_trained": trained, "groups_alone": alone}
    return {"step": 1, "phase": "rl", "success_train": success, **counts, **others}


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (row(16, 16, 0), "no update: all 16 groups had equal returns"),
        (row(1, 1, 0), "no update: the only group had equal returns"),
        (row(16, 10, 0, alone=6), "no update: of 16 groups 10 had equal returns and 6 only one attempt without an error"),
        (row(16, 12, 0), "no update: the selection kept none of 16 groups (12 had equal returns)"),
        (row(0, 0, 0), "no update: no attempt ended without an infrastructure error"),
        (row(16, 16, 16, grad_norm=0.0), "no gradient: all 16 groups had equal returns"),
        (row(16, 16, 16, grad_norm=0.4), ""),  # a credit that learns from groups of equal returns
        (row(16, 12, 4, grad_norm=0.4), ""),
        (row(16, 12, 4, grad_norm=0.0), ""),  # some groups differed: something else made it zero
        ({"step": 1, "phase": "rl", "groups_dropped": 4}, ""),  # of an older version
        ({"step": 1, "groups": "<b>", "groups_equal": None, "groups_trained": float("nan")}, ""),
    ],
)
def test_the_reason_of_a_step_without_an_update(one: dict[str, Any], expected: str) -> None:
    assert no_update(one) == expected


@pytest.mark.parametrize(
    ("last", "words"),
    [
        ([row(4, 4, 0)] * 3, "--sft-episodes"),
        ([row(4, 4, 0, success=1.0)] * 3, "every attempt succeeded"),
        ([row(4, 4, 0, success=0.25)] * 3, "--temperature"),
        ([row(4, 0, 0)] * 3, "--select.NAME"),
        ([row(4, 1, 0, alone=3)] * 3, "infrastructure errors"),
    ],
)
def test_what_to_do_after_three_in_a_row(last: list[dict[str, Any]], words: str) -> None:
    assert PATIENCE == 3
    before = [{"step": 9, "phase": "sft"}, row(4, 1, 3, grad_norm=1.0)]
    assert advice([*before, *last[:2]]) == ""
    suggestion = advice([*before, *last])
    assert suggestion.startswith("3 steps in a row without an update; ") and words in suggestion
    assert advice([*before, *last, row(4, 1, 3, grad_norm=1.0)]) == "" == advice([])
