"""Make what the site shows of results/: the picture of the credit bench and the example leaderboard.

`./dev docs` runs it.
"""

import json
import sys
from pathlib import Path

from agentgym.report.leaderboard import write_leaderboard

DOCS = Path(__file__).resolve().parent
RESULTS = DOCS.parent / "results"
sys.path.append(str(DOCS.parent / "benchmarks"))


def main() -> None:
    """Write both beside the pages."""
    import credit_report

    credit_report.picture(DOCS / "credit_bench.svg", DOCS / "credit_bench.md", RESULTS / "credit_bench.jsonl")
    board = json.loads((RESULTS / "board.json").read_text(encoding="utf-8"))
    write_leaderboard(board, DOCS / "board" / "leaderboard.html")


if __name__ == "__main__":
    main()
