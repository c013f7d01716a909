"""MiniWoB keeps the contract in a real browser; a file of its own, so that it runs beside the rest."""

import pytest

from agentgym.browser.chromium import chromium
from agentgym.contract import check


@pytest.mark.skipif(chromium() is None, reason="needs a Chromium: apt install chromium")
def test_miniwob_keeps_the_contract():
    report = check("rlvr/MiniWoB-v0")
    assert report.ok, str(report)
    assert sum(result.status == "holds" for result in report.results) >= 18, str(report)
