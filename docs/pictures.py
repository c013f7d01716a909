"""Write docs/made/, the pictures and pages of the site that come from code and results; `./dev docs` runs it."""

import json
import shutil
import sys
from pathlib import Path

from agentgym.report.leaderboard import write_leaderboard

DOCS = Path(__file__).resolve().parent
RESULTS = DOCS.parent / "results"
MADE = DOCS / "made"
sys.path += [str(DOCS), str(DOCS.parent / "benchmarks")]


def main() -> None:
    """Write all of them."""
    import api
    import configuration
    import credit_report
    import layers

    MADE.mkdir(exist_ok=True)
    api.main()
    configuration.main()
    layers.main()
    credit_report.picture(MADE / "credit_bench.svg", RESULTS / "credit_bench.md", RESULTS / "credit_bench.jsonl")
    shutil.copytree(RESULTS, MADE / "results", ignore=shutil.ignore_patterns("*.json*"), dirs_exist_ok=True)
    board = json.loads((RESULTS / "board.json").read_text(encoding="utf-8"))
    write_leaderboard(board, MADE / "leaderboard.html")


if __name__ == "__main__":
    main()
