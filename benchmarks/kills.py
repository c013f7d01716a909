"""Runs killed with SIGKILL at random times, taken up again, and held against one that nobody touched.

    python benchmarks/kills.py train --kills 20 [--seed 0] [--out kills.json]    one process, hf engine
    python benchmarks/kills.py processes --kills 6                               two: a rank, or the launcher, is killed
    python benchmarks/kills.py eval --kills 10                                   evaluations of two environments
    python benchmarks/kills.py vllm                                              vllm: the trainer twice, its engine once
    python benchmarks/kills.py parts --only server worker --times 3              parts beside the trainer: `kills_parts.py`

Each is started by its command, `agentgym train …` or `agentgym eval …`. A kill waits for a phase, drawn in turn, and then a
random time; it is counted under the phase it hit (`benchmarks/watched` notes it from outside). After the last kill the run
goes on to its end: metrics, episodes, summary and the names of all files have to be those of the untouched run, seconds
dropped, and no process may be left. With vllm, whose digits depend on what runs beside what, each step and each episode of
an evaluation has to be there once. Exits with 1 where something differs.
"""

import argparse
import collections
import contextlib
import importlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
A_RUN = 5  # kills of one run, at most
PATIENCE = 400.0  # seconds until a phase, or an end, is given up
GONE = 20.0  # seconds in which every process of a killed run has to be gone
TIMES = {"seconds", "eta_seconds", "tokens_per_second", "share_env", "share_rollout", "share_train", "train_seconds"}

RUN = """env = "rlvr/GuessNumber-v0"
out = "{out}"
threads = 1
processes = {processes}
sft_episodes = 40
sft_batch = 2
steps = 6
tasks_per_step = 2
group_size = 4
horizon = [2, 3]
horizon_steps = 3
eval_every = 2
eval_tasks = 4
valid_split = "valid"
test_split = "test"
test_tasks = 4
checkpoint_every = 1
select = "keep"
turn_tokens = 6
kl = 0.1
"""

PHASES = {  # what a kill waits for, and the longest random time after it in seconds
    "start-up": 6.0,
    "policy made": 1.0,
    "evaluation": 0.2,
    "SFT warm start": 1.5,
    "checkpoint": 0.05,
    "rollouts": 0.05,
    "update": 0.1,
    "weights sent": 0.02,
    "report": 1.0,
}
PHASES_OF_EVAL = {"start-up": 6.0, "evaluation": 8.0, "summary": 0.05}


@dataclass
class Started:
    """One command under way, and what its processes note about themselves."""

    process: subprocess.Popen[str]
    folder: Path
    mark: str
    words: Path

    def phases(self) -> dict[int, tuple[str, str]]:
        """Return rank and phase of each process that has noted something, by its id."""
        found: dict[int, tuple[str, str]] = {}
        for path in self.folder.iterdir():
            rank, _, phase = path.read_text().strip().partition(" ")
            if phase:
                found[int(path.name)] = rank, phase
        return found

    def alive(self) -> list[int]:
        """Return the processes that carry this command's mark, whoever their parent is by now."""
        found: list[int] = []
        for path in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                state, _, _, session = (path / "stat").read_text().rpartition(")")[2].split()[:4]
                ours = int(session) == self.process.pid or self.mark.encode() in (path / "environ").read_bytes()
                if ours and state != "Z":
                    found.append(int(path.name))
        return found

    def engine(self) -> int | None:
        """Return vLLM's engine process."""
        for pid in self.alive():
            with contextlib.suppress(OSError):
                if "EngineCor" in Path(f"/proc/{pid}/comm").read_text():
                    return pid
        return None

    def main(self, rank: str) -> int | None:
        """Return the process of a rank; that without one is the command itself."""
        pids = [pid for pid, (found, _) in self.phases().items() if found == rank]
        return self.process.pid if rank == "-" else min(pids, default=None)

    def left_over(self) -> list[str]:
        """Wait until all processes are gone; end and return those that are not."""
        deadline = time.monotonic() + GONE
        while (alive := self.alive()) and time.monotonic() < deadline:
            time.sleep(0.05)
        commands = [Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()[:200] for pid in alive]
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return commands


@contextlib.contextmanager
def started(arguments: Sequence[str], **environment: str) -> Iterator[Started]:
    """Run `agentgym ARGUMENTS` in a session of its own."""
    mark = uuid.uuid4().hex
    with tempfile.TemporaryDirectory() as folder:
        watch, words = Path(folder) / "watch", Path(folder) / "words"
        watch.mkdir()
        path = os.pathsep.join([str(ROOT / "benchmarks" / "watched"), str(ROOT), os.environ.get("PYTHONPATH", "")])
        own = {"PYTHONPATH": path, "AGENTGYM_WATCH": str(watch), "AGENTGYM_MARK": mark, "OMP_NUM_THREADS": "1"}
        with words.open("w") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "agentgym", *arguments],
                env={**os.environ, **own, **environment},
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                text=True,
            )
        try:
            yield Started(process, watch, mark, words)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()


@dataclass
class Tally:
    """What was seen so far."""

    kills: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    runs: int = 0
    wrong: list[str] = field(default_factory=list[str])

    def report(self, out: str) -> int:
        """Print the table, write it where asked, and return the exit code."""
        hit = collections.Counter((kill["victim"], kill["phase"]) for kill in self.kills)
        for (victim, phase), count in sorted(hit.items()):
            print(f"{victim:<10} {phase:<14} {count}")
        print(f"{len(self.kills)} kills over {self.runs} runs; {len(self.wrong)} wrong")
        for line in self.wrong:
            print("  ", line)
        if out:
            Path(out).write_text(json.dumps({"runs": self.runs, "wrong": self.wrong, "kills": self.kills}, indent=1) + "\n")
        return 1 if self.wrong else 0


def wait_for(run: Started, phase: str, entry: int, rank: str, pause: float = 0.001) -> int | None:
    """Return the process of that rank when it has entered the phase so many times; None when the command ended before.

    It looks every `pause` seconds.
    """
    deadline, inside = time.monotonic() + PATIENCE, False
    while run.process.poll() is None and time.monotonic() < deadline:
        pid = run.main(rank)
        now = run.phases().get(pid or 0, ("", ""))[1]
        if now == phase:
            entry -= not inside
            if entry < 0:
                return pid
        inside = now == phase
        time.sleep(pause)
    return None


def kill_once(run: Started, phase: str, span: float, victim: str, rng: random.Random, tally: Tally) -> bool:
    """Kill a rank, or the whole command's first process, some time after a phase began; False when it ended before."""
    again = rng.randrange(3) if phase in ("checkpoint", "rollouts", "update") else 0
    pid = wait_for(
        run, phase, again, "-" if victim in ("trainer", "engine") else "0"
    )  # ranks go from phase to phase together
    time.sleep(rng.random() * span)
    chosen = {"trainer": run.process.pid, "launcher": run.process.pid, "engine": run.engine()}.get(victim, run.main(victim))
    if pid is None or chosen is None or run.process.poll() is not None:
        return False
    os.kill(chosen, signal.SIGKILL)
    if victim.isdigit() or victim == "engine":
        try:
            code = run.process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            tally.wrong.append(f"{victim} killed in {phase}: the others hung for {PATIENCE:.0f} s")
            return True
        words = run.words.read_text()
        if code == 0 or "error: " not in words or ("Traceback" in words and victim != "engine"):  # vLLM's own
            tally.wrong.append(f"{victim} killed in {phase}: code {code} and the words {words[-600:]!r}")
    else:
        run.process.wait()
    hit = run.phases().get(chosen if victim.isdigit() else pid, ("", phase))[1]
    tally.kills.append({"victim": victim, "wanted": phase, "phase": hit})
    tally.wrong += [f"left over after a kill of {victim} in {hit}: {command}" for command in run.left_over()]
    return True


def lines(path: Path) -> list[Any]:
    return [without_times(json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key not in TIMES}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def differences(ours: Path, theirs: Path) -> list[str]:
    """Return in which of its files a run differs from another."""
    names = [{str(p.relative_to(folder)) for p in folder.rglob("*")} for folder in (ours, theirs)]
    found = [f"files differ: {sorted(names[0] ^ names[1])}"] if names[0] != names[1] else []
    for name in ("metrics.jsonl", "episodes.jsonl"):
        if lines(ours / name) != lines(theirs / name):
            found.append(f"{name} differs")
    summaries = [without_times(json.loads((folder / "summary.json").read_text())) for folder in (ours, theirs)]
    return found + (["summary.json differs"] if summaries[0] != summaries[1] else [])


def to_the_end(arguments: Sequence[str]) -> None:
    with started(arguments) as run:
        if run.process.wait(timeout=600) != 0:
            raise SystemExit(f"{' '.join(arguments)} ended with {run.process.returncode}: {run.words.read_text()[-3000:]}")
        if alive := run.left_over():
            raise SystemExit(f"{' '.join(arguments)} left {alive}")


def targets(phases: dict[str, float], victims: Sequence[str], rng: random.Random) -> Iterator[tuple[str, str]]:
    """Yield phase and victim without end: every phase before any comes again; those of a run in the order a run has them."""
    order = list(phases)
    while True:
        drawn = rng.sample(order, len(order))
        for first in range(0, len(drawn), A_RUN):
            for phase in sorted(drawn[first : first + A_RUN], key=order.index):
                yield phase, rng.choice(list(victims))


def killed_training(folder: Path, kills: int, seed: int, processes: int) -> Tally:
    """Kill training runs, each up to `A_RUN` times, until there were enough kills."""
    rng, tally = random.Random(seed), Tally()
    whole = folder / "whole"
    recipe(folder, "whole", processes)
    to_the_end(["train", str(folder / "whole.toml")])
    wanted = targets(PHASES, ("trainer",) if processes == 1 else ("0", "1", "launcher"), rng)
    phase, victim = next(wanted)
    while len(tally.kills) < kills:
        out = recipe(folder, f"run{tally.runs}", processes)
        for number in range(A_RUN + 1):
            more = number < A_RUN and len(tally.kills) < kills
            with started(take_up(out)) as run:
                if more and kill_once(run, phase, PHASES[phase], victim, rng, tally):
                    print(f"run {tally.runs}: {tally.kills[-1]}", flush=True)
                    phase, victim = next(wanted)
                    continue
                phase, victim = next(wanted) if more else (phase, victim)  # it was over before the phase came
                if run.process.wait(timeout=600) != 0:
                    tally.wrong.append(
                        f"run {tally.runs} ended with {run.process.returncode}: {run.words.read_text()[-2000:]}"
                    )
                break
        tally.wrong += [f"run {tally.runs}: {line}" for line in differences(out, whole)]
        tally.runs += 1
        print(f"{tally.runs} runs, {len(tally.kills)} kills, wrong: {tally.wrong}", flush=True)
    return tally


def recipe(folder: Path, name: str, processes: int) -> Path:
    out = folder / name
    (folder / f"{name}.toml").write_text(RUN.format(out=out, processes=processes))
    return out


def take_up(out: Path) -> list[str]:
    """Return the command that starts a run or, where one was begun, goes on with it."""
    return ["train", "--resume", str(out)] if (out / "config.toml").exists() else ["train", f"{out}.toml"]


def killed_evaluations(folder: Path, kills: int, seed: int) -> Tally:
    """Kill evaluations of one policy over two environments; at the end each (task, attempt) is there once."""
    rng, tally = random.Random(seed), Tally()
    recipe(folder, "policy", 1)
    to_the_end(["train", str(folder / "policy.toml")])
    command = ["eval", "guessnumber,frozenlake", "--model", str(folder / "policy"), "--tasks", "20", "--attempts", "2"]
    command += ["--concurrency", "4", "--out"]
    to_the_end([*command, str(folder / "whole")])
    wanted = targets(PHASES_OF_EVAL, ("trainer",), rng)
    phase, victim = next(wanted)
    while len(tally.kills) < kills:
        out = folder / f"eval{tally.runs}"
        for number in range(A_RUN + 1):
            more = number < A_RUN and len(tally.kills) < kills
            with started([*command, str(out)]) as run:
                if more and kill_once(run, phase, PHASES_OF_EVAL[phase], victim, rng, tally):
                    print(f"evaluation {tally.runs}: {tally.kills[-1]}", flush=True)
                    phase, victim = next(wanted)
                    continue
                phase, victim = next(wanted) if more else (phase, victim)  # it was over before the phase came
                if run.process.wait(timeout=600) != 0:
                    tally.wrong.append(f"evaluation {tally.runs}: {run.words.read_text()[-2000:]}")
                break
        tally.wrong += [f"evaluation {tally.runs}: {line}" for line in unlike(out, folder / "whole")]
        tally.runs += 1
        print(f"{tally.runs} evaluations, {len(tally.kills)} kills, wrong: {tally.wrong}", flush=True)
    return tally


def unlike(ours: Path, theirs: Path) -> list[str]:
    """Return how an evaluation differs from another: the episodes by identity, then their course."""
    found: list[str] = []
    sides = [
        {(e["env"], e["task_id"], e["attempt"]): e for e in lines(folder / "episodes.jsonl")} for folder in (ours, theirs)
    ]
    written = len(lines(ours / "episodes.jsonl"))
    if written != len(sides[0]) or sides[0].keys() != sides[1].keys():
        found.append(f"{written} episodes, {len(sides[0])} different ones, {len(sides[1])} expected")
    differing = sum(
        [turn["action"] for turn in episode["turns"]] != [turn["action"] for turn in sides[1][key]["turns"]]
        for key, episode in sides[0].items()
        if key in sides[1]
    )
    if differing:
        found.append(f"{differing} of {len(sides[1])} episodes took another course")
    names = [{p.name for p in folder.iterdir()} for folder in (ours, theirs)]
    return found + ([f"files differ: {sorted(names[0] ^ names[1])}"] if names[0] != names[1] else [])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("train", "processes", "eval", "vllm", "parts"))
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--only", nargs="+", default=["client", "client-tinker", "server", "worker", "node"], help="parts")
    parser.add_argument("--times", type=int, default=3, help="kills of each part")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="", help="file for every kill as JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        if arguments.what == "parts":
            return importlib.import_module("kills_parts").main(
                Path(folder), arguments.only, arguments.times, arguments.seed, arguments.out
            )
        if arguments.what == "vllm":
            tally = importlib.import_module("kills_vllm").killed_vllm(Path(folder), arguments.seed)
        elif arguments.what == "eval":
            tally = killed_evaluations(Path(folder), arguments.kills, arguments.seed)
        else:
            tally = killed_training(Path(folder), arguments.kills, arguments.seed, 2 if arguments.what == "processes" else 1)
    return tally.report(arguments.out)


if __name__ == "__main__":
    sys.exit(main())
