"""Measuring agents: intervals, interruptions, and a comparison on the same tasks. Run: python examples/07_evaluate.py"""

import json
import tempfile
from pathlib import Path

import agentgym
from agentgym.evaluate.run import EvaluationPlan, evaluate
from agentgym.evaluate.statistics import paired_difference

PLAN = EvaluationPlan(
    ("rlvr/Household-v0",),
    split="valid_unseen",
    tasks=20,
    attempts=2,
    env_options={"rlvr/Household-v0": {"preset": "tiny", "horizon": 15}},
)


def main() -> None:
    careful, careless = agentgym.ExpertAgent(), agentgym.ExpertAgent(agentgym.Noise(random=0.5))
    with tempfile.TemporaryDirectory() as folder:
        a = evaluate(careful, PLAN, f"{folder}/careful")
        file = Path(folder) / "careful" / "episodes.jsonl"
        lines = file.read_text().splitlines(keepends=True)
        file.write_text("".join(lines[:7]) + lines[7][:100])  # as a power cut would leave it
        again: list[agentgym.Episode] = []
        a = evaluate(careful, PLAN, f"{folder}/careful", progress=again.append)
        print(f"of {len(a)} episodes 7 were kept, and the same call played the other {len(again)}")

        b = evaluate(careless, PLAN, f"{folder}/careless")
        print(f"careful:    {agentgym.success(a)}")
        print(f"careless:   {agentgym.success(b)}")
        difference = paired_difference(a, b)
        print(f"difference: {difference}")
        print("it could be chance:", difference.low <= 0 <= difference.high)
        summary = json.loads((Path(folder) / "careless" / "summary.json").read_text())
        for kind, row in summary["envs"]["rlvr/Household-v0"]["by_type"].items():
            print(f"  {kind:<32} {row['success']['mean']:.2f} of {row['success']['episodes']} episodes")


if __name__ == "__main__":
    main()
