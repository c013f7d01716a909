"""browser-use at our browser, in an environment of its own; run by `./dev test-browser-use`."""

import os
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in ("engines", "agents")]
PYTHON = os.environ.get("AGENTGYM_BROWSER_USE", "")
collect_ignore_glob = [] if PYTHON else ["test_*.py"]
