"""Rollouts beside the update (`async_level`): how much faster where steps are slow and uneven, and what old tokens cost.

    python benchmarks/overlap.py [--rounds 3] [--steps 8] [--out overlap.json]
    python benchmarks/overlap.py --waits Web [--engine vllm]      the waits of recorded episodes: Web, Terminal or SWE
    python benchmarks/overlap.py --rounds 0 --seeds 0-7 --runs runs/credit --picture docs/overlap.svg

`speed`: an environment in worker processes whose steps take log-normal times and whose episodes take 3 to 10 turns; whole
training runs of the default small policy with the hf engine, k = 0 and k = 1 in turn (A B B A), the same tasks and as many
episodes in flight in both. Episodes a second are those of the steps after the first two, from the end of one to the next.
`staleness` (with `--seeds`): runs of the credit bench in Household `tiny` with k = 0, 1, 2, 4, paired by seed. They share
its warm start and rows at k = 0 through `--runs`, and go on where they were stopped.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import agentgym
from agentgym import TextEnv
from agentgym.core.env import Outcome
from agentgym.core.tasks import Task

MEDIAN, SIGMA = 0.25, 1.0  # seconds of a step: a mean of 0.41, one in a hundred above 2.5
POLICY = {"prompt": "bare", "turn_tokens": 16, "threads": 1, "eval_every": 0}


class Uneven(TextEnv):
    """Steps that wait as a browser's, a test suite's or a terminal's do; what an episode is paid is drawn by its seed."""

    blocking = True
    horizon = 10
    shaping = {"luck": 0.5}  # noqa: RUF012

    def begin(self, task: Task) -> str:
        self.left = int(self.np_random.integers(3, 10, endpoint=True))
        return "Say which of the drawers you open next, and why."

    def act(self, action: str) -> str | Outcome:
        time.sleep(self.wait())
        self.left -= 1
        text = f"Drawer {int(self.np_random.integers(100))} is empty, and so is the one beside it."
        luck = {} if self.left else {"luck": float(self.np_random.random())}
        return Outcome(text, success=None if self.left else False, measures=luck)

    def wait(self) -> float:
        return MEDIAN * float(self.np_random.lognormal(0.0, SIGMA))

    def state(self) -> int:
        return self.left

    @staticmethod
    def generate(rng: np.random.Generator, difficulty: int) -> Task:
        return Task(data={"key": int(rng.integers(2**31))})


class Replayed(Uneven):
    """Waits as long as recorded episodes of an environment did (`steps.json`): each reset, and each step in its order."""

    horizon = 1000

    def __init__(self, recorded: str, **options: Any) -> None:
        super().__init__(**options)
        path = Path(__file__).with_name("steps.json")
        self.episodes: list[list[float]] = json.loads(path.read_text())[recorded]["episodes"]

    def begin(self, task: Task) -> str:
        reset, *self.waits = self.episodes[int(self.np_random.integers(len(self.episodes)))]
        time.sleep(reset)
        self.left = len(self.waits)
        return "Say which of the drawers you open next, and why."

    def wait(self) -> float:
        return self.waits[-self.left]


RECORDED = {name: f"rlvr/{name}-v0" for name in ("Web", "Terminal", "SWE")}
if __name__ == Path(__file__).stem:  # as the run and its worker processes import it
    agentgym.register("bench/Uneven-v0", Uneven, horizon=10)
    for name, recorded in RECORDED.items():
        agentgym.register(f"bench/{name}-v0", Replayed, recorded=recorded)


VLLM = {"enforce_eager": True, "max_num_seqs": 16, "kv_cache_memory_bytes": 64 << 20}


def timed(folder: Path, model: str, level: int, steps: int, waits: str, engine: str) -> dict[str, Any]:
    """Train some steps and return episodes a second and the shares of the time that went into waiting and updating."""
    from agentgym.trainers import TrainConfig, train

    ends: list[tuple[float, dict[str, Any]]] = []

    def show(kind: str, numbers: dict[str, Any]) -> None:
        if kind == "step":
            ends.append((time.perf_counter(), numbers))

    config = TrainConfig(
        env=f"{Path(__file__).stem}:bench/{waits}-v0", model=model, out=str(folder), steps=steps, tasks_per_step=4,
        engine=engine, engine_options=VLLM if engine == "vllm" else {},
        group_size=4, concurrency=16, test_tasks=0, select="keep", credit="grpo", minibatches=1, async_level=level,
        lr=1e-4, checkpoint_every=10_000, keep_episodes=10_000, **POLICY,
    )  # fmt: skip
    train(config, show)
    counted = [numbers for _, numbers in ends[2:]]
    seconds = ends[-1][0] - ends[1][0]
    return {
        "episodes_per_second": 16 * len(counted) / seconds,
        "share_train": statistics.mean(numbers["share_train"] for numbers in counted),
        "versions_behind": statistics.mean(numbers.get("versions_behind", 0.0) for numbers in counted),
        "mismatch_ess": statistics.mean(numbers.get("mismatch_ess", 1.0) for numbers in counted),
        "faults": sum(numbers["faults"] for _, numbers in ends),
    }


def speed(folder: Path, rounds: int, steps: int, waits: str, engine: str) -> dict[str, Any]:
    """Run both arms in turn and return what each did, and the ratio of each pair."""
    from agentgym.trainers.model.policy import init_policy

    model = str(init_policy("rlvr/Household-v0", folder / "policy", env_options={"preset": "tiny"}))
    arms: dict[int, list[dict[str, Any]]] = {0: [], 1: []}
    for number in range(rounds):
        for level in (0, 1) if number % 2 == 0 else (1, 0):
            load = os.getloadavg()[0]
            arms[level].append({**timed(folder / f"{number}-{level}", model, level, steps, waits, engine), "load": load})
            print(f"round {number + 1}, k = {level}: {arms[level][-1]}", flush=True)
    pairs = zip(*([run["episodes_per_second"] for run in arms[level]] for level in (0, 1)), strict=True)
    ratios = [faster / slower for slower, faster in pairs]
    print(
        f"{engine}, {waits}: k = 1 over k = 0: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
        flush=True,
    )
    return {"arms": {str(level): runs for level, runs in arms.items()}, "ratios": ratios}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="pairs of runs; 0 leaves the speed out")
    parser.add_argument("--steps", type=int, default=8, help="of each of these runs")
    parser.add_argument(
        "--waits", choices=("Uneven", *RECORDED), default="Uneven", help="drawn, or recorded in which environment"
    )
    parser.add_argument("--engine", choices=("hf", "vllm"), default="hf", help="of these runs")
    parser.add_argument("--seeds", default="", help="of the runs of Household, as 0-7; none leaves them out")
    parser.add_argument("--arm", choices=("state_td", "gigpo"), default="state_td", help="the credit of these runs")
    parser.add_argument("--lr", type=float, default=None, help="of these runs; left out, the rate tuned for k = 0")
    parser.add_argument("--levels", nargs="+", type=int, default=[0, 1, 2, 4], help="async_level of these runs")
    parser.add_argument("--runs", type=Path, default=Path("runs/credit"), help="the folder of the credit bench")
    parser.add_argument("--minutes", type=float, default=1e9, help="start no run of Household after so many")
    parser.add_argument("--picture", type=Path, default=None, metavar="SVG", help="draw these runs")
    parser.add_argument("--out", type=Path, default=None, help="where to write the result as JSON")
    arguments = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent))  # worker processes and the run import the environment from here
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        if arguments.rounds:
            results["speed"] = speed(Path(folder), arguments.rounds, arguments.steps, arguments.waits, arguments.engine)
    if arguments.seeds:
        import credit
        from overlap_staleness import main as staleness

        until = time.time() + 60 * arguments.minutes
        seeds = credit.seeds(arguments.seeds)
        results["staleness"] = staleness(
            arguments.runs, arguments.arm, arguments.lr, seeds, arguments.levels, until, arguments.picture
        )
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
