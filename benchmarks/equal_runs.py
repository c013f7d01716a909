"""Whether a change of structure changed a run: small runs, compared with those of another checkout to the last digit.

    python benchmarks/equal_runs.py play FOLDER              # a minute or more each, in two processes, on the CPU
    python benchmarks/equal_runs.py compare FOLDER OTHER     # metrics and episodes without seconds, and the weights

`household-cut` is killed in its tenth step and resumed; it has to equal `household`.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path

SIZES = [
    "--steps", "20", "--sft-episodes", "320", "--sft-batch", "16", "--tasks-per-step", "4", "--group-size", "4",
    "--eval-tasks", "8", "--test-tasks", "10", "--eval-every", "10", "--checkpoint-every", "4", "--keep-episodes", "1000",
    "--processes", "2",
]  # fmt: skip
RUNS = {
    "household": ["household"],
    "household-cut": ["household"],
    "sql": ["sql"],
}
TIMES = ("seconds", "per_second", "share_env", "share_rollout", "share_train")


def play(folder: Path, name: str) -> None:
    """Play one run in a fresh folder; one that is `cut` is killed when half of its steps are written, then resumed."""
    out = folder / name
    agentgym = [sys.executable, "-m", "agentgym", "train"]
    with (folder / f"{name}.log").open("w") as log:
        first = subprocess.Popen([*agentgym, *RUNS[name], *SIZES, "--out", str(out)], stdout=log, stderr=log)
        if name.endswith("-cut"):
            while first.poll() is None and len(_rows(out / "metrics.jsonl")) < 11:
                time.sleep(0.2)
            first.kill()
            first.wait()
            time.sleep(5)  # its processes end themselves when it is gone
            first = subprocess.Popen([*agentgym, "--resume", str(out)], stdout=log, stderr=log)
        if first.wait():
            raise SystemExit(f"{name} failed; see {folder / name}.log")


def digest(out: Path) -> dict[str, str]:
    """Return a hash of each: the metrics, the episodes in any order, the weights."""
    metrics = [json.dumps(_plain(row), sort_keys=True) for row in _rows(out / "metrics.jsonl")]
    episodes = sorted(json.dumps(_plain(row), sort_keys=True) for row in _rows(out / "episodes.jsonl"))
    newest = sorted(out.glob("checkpoints/step-*"))[-1:]
    weights = [path for folder in newest for path in sorted(folder.glob("*.safetensors"))]
    return {
        "metrics": _hash("\n".join(metrics).encode()),
        "episodes": _hash("\n".join(episodes).encode()),
        "weights": _hash(b"".join(path.read_bytes() for path in weights)) if weights else "none",
        "rows": f"{len(metrics)} and {len(episodes)}",
    }


def _rows(path: Path) -> list[dict[str, object]]:
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (FileNotFoundError, ValueError):
        return []


def _plain(value: object) -> object:
    """Return JSON without what the clock says."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if not key.endswith(TIMES)}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def main() -> None:
    """Play or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("play", "compare"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("other", type=Path, nargs="?")
    parser.add_argument("--runs", nargs="+", choices=list(RUNS), default=list(RUNS))
    arguments = parser.parse_args()
    if arguments.command == "play":
        arguments.folder.mkdir(parents=True, exist_ok=True)
        for name in arguments.runs:
            play(arguments.folder, name)
            print(name, *digest(arguments.folder / name).items(), flush=True)
        return
    differs = False
    for name in arguments.runs:
        ours, theirs = digest(arguments.folder / name), digest(arguments.other / name)
        differs |= ours != theirs
        print(name, {key: "equal" if ours[key] == theirs[key] else (ours[key], theirs[key]) for key in ours})
    cut, whole = digest(arguments.folder / "household-cut"), digest(arguments.folder / "household")
    print("killed and resumed", "equal" if cut == whole else (cut, whole))
    raise SystemExit(int(differs or cut != whole))


if __name__ == "__main__":
    main()
