"""browser-use as a training run names it, `web_harness:play`, at `rlvr/Web-v0` in a Chromium of its own."""

import re
import threading
from typing import Any

import browsing

from agentgym.harness.gateway_agent import Access

STEPS, TOKENS = 2, 96
TURN = threading.Lock()  # a browser at a time
TOLD: list[dict[str, Any]] = []
"""What browser-use told of every attempt."""


def play(task: Any, access: Access) -> tuple[float, bool]:
    """Let browser-use play; the task is out of reach of a small policy, so what it tried is paid too.

    An action is paid, and where none could be read, how far the JSON was right.
    """
    with TURN:
        record, right = browsing.attempt(task, access, TOKENS, STEPS)
    TOLD.append(record)
    kinds = set(record["actions"])
    columns = [int(found[1]) for error in record["errors"] if (found := re.search(r"line 1 column (\d+)", error))]
    return float(right) + 0.5 * ("navigate" in kinds) + 0.25 * len(kinds) + 0.002 * max(columns, default=0), right
