"""Kills of a training run on vllm and of vllm's own process: python benchmarks/kills.py vllm."""

import collections
import random
from pathlib import Path

import kills

VLLM = """
engine = "vllm"
model = "{model}"
context_tokens = 512
[engine_options]
dtype = "float32"
enforce_eager = true
max_num_seqs = 16
kv_cache_memory_bytes = 33554432
"""
KILLS_OF_VLLM = (("evaluation", "trainer"), ("rollouts", "trainer"), ("rollouts", "engine"))


def killed_vllm(folder: Path, seed: int) -> kills.Tally:
    """Kill one run on vllm three times and let it end."""
    rng, tally, out = random.Random(seed), kills.Tally(runs=1), folder / "run"
    shape = ["--width", "64", "--layers", "2", "--vocabulary", "400", "--episodes", "50"]
    kills.to_the_end(["init-policy", "rlvr/GuessNumber-v0", *shape, "--out", str(folder / "tiny")])
    text = (kills.RUN.format(out=out, processes=1) + VLLM.format(model=folder / "tiny")).replace("kl = 0.1\n", "")
    (folder / "run.toml").write_text(text)
    for phase, victim in (*KILLS_OF_VLLM, ("", "")):
        with kills.started(kills.take_up(out), VLLM_LOGGING_LEVEL="ERROR", SPT_NOENV="1") as run:
            if phase and kills.kill_once(run, phase, 0.5, victim, rng, tally):
                print(f"{tally.kills[-1]}, words: {run.words.read_text()[-300:]!r}", flush=True)
            elif run.process.wait(timeout=900) != 0:
                tally.wrong.append(f"the run ended with {run.process.returncode}: {run.words.read_text()[-2000:]}")
    steps = [row["step"] for row in kills.lines(out / "metrics.jsonl") if row["phase"] == "rl"]
    counts = collections.Counter((e["group_id"], e["attempt"]) for e in kills.lines(out / "episodes.jsonl"))
    parts = collections.Counter(group.rpartition("/")[0].partition("/")[0] for group, _ in counts)
    wanted = {"success_before": 4, "success_sft": 4, "success_after": 4, "eval": 12}
    if steps != list(range(1, 7)) or set(counts.values()) != {1} or any(parts[name] != n for name, n in wanted.items()):
        tally.wrong.append(f"steps {steps}, episodes {dict(parts)}, most often {counts.most_common(1)}")
    tally.wrong += [f"left in shared memory: {path}" for path in Path("/dev/shm").glob("agentgym-weights-*")]
    return tally
