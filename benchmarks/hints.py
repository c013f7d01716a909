"""Hints in training, from a warm start that can read them: more groups with a signal, and success without hints?

python benchmarks/hints.py --out runs/hints --seeds 0 1 2       train what is missing; resumes where it stopped
python benchmarks/hints.py --env code --out runs/hints-code     the same on Code
python benchmarks/hints.py --out runs/hints --report            print the table of what is there

`math`: stories of `rlvr/Math-v0`; count a stock sentence by sentence, with a program. `code`: functions on bits of
`rlvr/Code-v0`, written in one turn (see code_envs.py); its demonstrations report no failures, as `agent_rlvr` would. A
policy of below 0.6 million parameters imitates demonstrations, nine in ten with a hint in the words of training, and then
trains once with each arm from the same weights until it has sampled the same number of tokens. Success before and after is
without hints, on tasks of `test`.
"""

import argparse
import ast
import operator
import signal
import sys
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from seed_rows import agent_of, append, half_width, lines, newest, trained

sys.path.append(str(Path(__file__).parent))

import code_envs

import agentgym
from agentgym.core.env import Task, TextEnv
from agentgym.core.seeding import generator
from agentgym.envs.math.env import Math
from agentgym.registry import register
from agentgym.sandbox.protocol import Result
from agentgym.trainers.config.train_config import TrainConfig

HINTED, LEVELS = code_envs.HINTED, code_envs.LEVELS
FAILED = "An earlier attempt failed (failure). It ended with:\nThe answer is wrong."
"""What `agent_rlvr` adds to a hint after a wrong answer."""
ARMS: dict[str, dict[str, Any]] = {
    "grpo": {},
    "guide": {"select": "guide"},
    "ghpo": {"select": "ghpo", "select_options": {"rise": 0.5}},
    "questa": {"sampler": "questa", "sampler_options": {"level": 0.75, "shrink": 0.667, "every": 12}},
    "agent_rlvr": {"select": "agent_rlvr"},
}
"""Changes of each arm to the run."""
TOKENS = 100_000
"""Sampled tokens of a run, those of attempts with a hint included."""
TESTED, ATTEMPTS = 200, 2
"""Tasks of a test, and attempts at each."""
WARM: dict[str, Any] = {
    "env_options": {"difficulty": 2}, "processes": 1, "threads": 1, "vocabulary": 700, "pre_tokenizer": "phrases",
    "policy_induction_heads": True, "policy_episodes": 300, "prompt": "bare", "turn_tokens": 80, "eval_every": 0,
    "test_tasks": 0, "steps": 0, "sft_episodes": 3200, "sft_batch": 16, "sft_lr": 8e-3, "sft_noise": 0.0,
    "sft_invalid": 0.0, "sft_forget": 0.0,
}  # fmt: skip
RL: dict[str, Any] = {
    "sft_episodes": 0, "steps": 1000, "tasks_per_step": 8, "group_size": 8, "lr": 3e-4, "minibatches": 1, "credit": "grpo",
    "negative_advantage_weight": 0.5, "select": "drop", "checkpoint_every": 10,
}  # fmt: skip
CODE_WARM: dict[str, Any] = {
    **WARM, "env_options": {"difficulty": 0}, "policy_episodes": 80, "turn_tokens": 96, "sft_noise": 0.35
}  # fmt: skip
CODE_RL: dict[str, Any] = {**RL, "lr": 5e-4, "muon": True, "negative_advantage_weight": 1.0}
_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv}


def printed(code: str) -> str:
    """Return what a program of assignments and `print` prints; its error, if it is anything else.

    A program of a story needs no more, and a sandbox for each episode takes longer than its tokens.
    """
    names, lines = dict[str, int](), list[str]()

    def value(node: ast.AST) -> int:
        match node:
            case ast.Constant(value=int(number)) if abs(number) < 10**9:
                return number
            case ast.Name(id=name):
                return names[name]
            case ast.BinOp(left=left, op=op, right=right):
                return _OPERATORS[type(op)](value(left), value(right))
            case _:
                raise TypeError(type(node).__name__)

    try:
        with warnings.catch_warnings(action="ignore"):
            program = ast.parse(code)
        for line in program.body:
            match line:
                case ast.Assign(targets=[ast.Name(id=name)], value=node):
                    names[name] = value(node)
                case ast.AugAssign(target=ast.Name(id=name), op=op, value=node):
                    names[name] = _OPERATORS[type(op)](names[name], value(node))
                case ast.Expr(value=ast.Call(func=ast.Name(id="print"), args=[node], keywords=[])):
                    lines.append(str(value(node)))
                case _:
                    raise TypeError(type(line).__name__)
    except (SyntaxError, ValueError, KeyError, TypeError, ZeroDivisionError, RecursionError, MemoryError) as error:
        lines.append(type(error).__name__)
    return "\n".join(lines)


class Story(Math):
    """A story, one program and one answer; programs are interpreted in this process."""

    horizon = 2
    blocking = False
    families = ("story",)

    def requires(self) -> None:
        """Require nothing: there is no sandbox."""
        TextEnv.requires(self)

    def compute(self, code: str, timeout: float | None = None) -> Result:
        """Return what a program prints."""
        return Result(0, printed(code).encode(), b"", "exit", 0.0)


class ShownStory(Story):
    """The same with a hint in most tasks, in the words that training shows: what the demonstrations are of."""

    def begin(self, task: Task) -> str:
        rng = generator("hints shown", task.id)
        hinted, level, failed = rng.random() < HINTED, float(rng.uniform(*LEVELS)), rng.random() < 0.25
        text = super().begin(task)
        if not hinted:
            return text
        return "\n\n".join([text, f"Hint: {self.hint(level)}", *([FAILED] if failed else [])])


register("hints/Story-v0", Story, description="for benchmarks/hints.py")
register("hints/ShownStory-v0", ShownStory, description="for benchmarks/hints.py")


@dataclass(frozen=True)
class Bench:
    """An environment, the one of its demonstrations, and the settings of the warm start and of the arms."""

    env: str
    reader: str
    warm: dict[str, Any]
    rl: dict[str, Any]


BENCHES = {
    "math": Bench("hints/Story-v0", "hints/ShownStory-v0", WARM, RL),
    "code": Bench("bits/Bits-v0", "bits/ShownBits-v0", CODE_WARM, CODE_RL),
}


def trained_for(config: TrainConfig, tokens: int) -> Path:
    """Run a configuration until the first step with which it has sampled so many tokens; return the newest checkpoint."""
    metrics = Path(config.out) / "metrics.jsonl"

    def show(event: str, row: Any) -> None:
        if event == "step" and sampled(metrics) >= tokens:
            signal.raise_signal(signal.SIGINT)  # a checkpoint is written, as after Ctrl-C

    if sampled(metrics) < tokens:
        try:
            trained(config, show)
        except KeyboardInterrupt:
            if sampled(metrics) < tokens:
                raise
    return newest(config.out)


def steps_of(metrics: Path) -> list[dict[str, Any]]:
    """Return the rows of a run's steps of reinforcement learning."""
    return [row for row in lines(metrics) if row["phase"] == "rl"]


def sampled(metrics: Path) -> int:
    """Return the number of tokens that a run has sampled."""
    return sum(row["tokens"] for row in steps_of(metrics))


def success(config: TrainConfig, policy: Path, env: str) -> float:
    """Return the share of attempts at the test tasks that succeed, without hints."""
    agent = agent_of(config, policy)
    episodes = agentgym.collect(agent, env, env_options=config.env_options, split="test", tasks=TESTED, attempts=ATTEMPTS)
    return float(np.mean([episode.success is True for episode in episodes]))


def warm_start(seed: int, out: Path, bench: Bench = BENCHES["math"]) -> TrainConfig:
    """Return the configuration of a seed's warm start."""
    return TrainConfig(env=bench.reader, out=str(out / f"{seed}-warm"), seed=seed, **bench.warm)


def run(arm: str, seed: int, out: Path, before: float, bench: Bench) -> dict[str, Any]:
    """Train one arm from a seed's warm start, test it, and return its row."""
    start, warm = time.process_time(), warm_start(seed, out, bench)
    changes = {**bench.rl, **ARMS[arm]}
    config = replace(warm, env=bench.env, out=str(out / f"{seed}-{arm}"), model=str(trained(warm)), **changes)
    policy = trained_for(config, TOKENS)
    steps = steps_of(Path(config.out) / "metrics.jsonl")
    groups, signals = (sum(row[name] for row in steps) for name in ("groups", "groups_trained"))
    hinted = sum(row.get("hinted", 0) for row in steps)
    won = sum(row.get("hinted", 0) * row.get("success_hinted", 0.0) for row in steps)
    return {
        "arm": arm, "seed": seed, "before": before, "after": success(warm, policy, bench.env), "steps": len(steps),
        "tokens": sum(row["tokens"] for row in steps), "signal": signals / groups, "updates": signals,
        "hinted": hinted, "success_hinted": won / hinted if hinted else None, "options": ARMS[arm],
        "cpu": round(time.process_time() - start),
    }  # fmt: skip


def interval(values: list[float], digits: int = 1) -> str:
    """Return the mean in percent, with Student's 95 % interval over seeds."""
    points = 100 * np.array(values)
    half = half_width(points)
    if np.isnan(half):
        return f"{points.mean():+.{digits}f}"
    return f"{points.mean():+.{digits}f} ({points.mean() - half:+.{digits}f} to {points.mean() + half:+.{digits}f})"


def report(rows: list[dict[str, Any]]) -> list[str]:
    """Return the table of arms, with differences to `grpo` over the seeds that both have."""
    lines = [
        "| arm | groups with a signal | less `grpo`'s | groups trained | success of hinted attempts | success before "
        "| after | less `grpo`'s, 95 % | steps | CPU seconds |",
        "|---" * 10 + "|",
    ]
    by_arm = {arm: {row["seed"]: row for row in rows if row["arm"] == arm} for arm in ARMS}
    base = by_arm["grpo"]
    for arm, mine in by_arm.items():
        if not mine:
            continue
        both = sorted(set(mine) & set(base))
        cells = [f"{100 * np.mean([row['signal'] for row in mine.values()]):.0f} %"]
        paired = {name: interval([mine[s][name] - base[s][name] for s in both]) for name in ("signal", "after")}
        cells.append("" if arm == "grpo" else paired["signal"])
        cells.append(", ".join(str(row["updates"]) for row in mine.values()))
        won = [row["success_hinted"] for row in mine.values() if row["hinted"]]
        cells.append(f"{100 * np.mean(won):.0f} %" if won else "")
        cells += [", ".join(f"{100 * row[name]:.1f}" for row in mine.values()) for name in ("before", "after")]
        cells.append("" if arm == "grpo" else paired["after"])
        cells += [", ".join(str(row[name]) for row in mine.values()) for name in ("steps", "cpu")]
        lines.append(f"| `{arm}` | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Run or report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--env", choices=list(BENCHES), default="math")
    parser.add_argument("--arms", nargs="*", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("runs/hints"))
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background command ignores it
    path, bench = args.out / "rows.jsonl", BENCHES[args.env]
    args.out.mkdir(parents=True, exist_ok=True)
    for seed in args.seeds if not args.report else ():
        before: float | None = next((row["before"] for row in lines(path) if row["seed"] == seed), None)
        if before is None:
            start, warm = time.process_time(), warm_start(seed, args.out, bench)
            before = success(warm, trained(warm), bench.env)
            print(f"seed {seed}: warm start {before:.3f}, {time.process_time() - start:.0f} CPU s", flush=True)
        for arm in args.arms:
            if any((row["arm"], row["seed"]) == (arm, seed) for row in lines(path)):
                continue
            row = run(arm, seed, args.out, before, bench)
            append(path, row)
            print(row, flush=True)
    if args.report:
        print("\n".join(report(lines(path))))


if __name__ == "__main__":
    main()
