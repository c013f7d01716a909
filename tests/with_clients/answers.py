"""Where a script's answers go: the standard output it was started with, in whole lines.

Packages print too, from threads of their own, and a line of theirs could begin or end within one of ours: what they print
goes to standard error.
"""

import json
import os
from typing import Any

_out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def tell(what: Any) -> None:
    _out.write(json.dumps(what) + "\n")
    _out.flush()
