"""browser-use at our browser, in an environment of its own; run by `./dev test-browser-use`."""

import os

PYTHON = os.environ.get("AGENTGYM_BROWSER_USE", "")
collect_ignore_glob = [] if PYTHON else ["test_*.py"]
