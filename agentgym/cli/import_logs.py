"""Convert other programs' logs to an evaluation folder; view, compare, leaderboard, export and sft also read logs directly.

agentgym import jobs/2026-11-27__10-00-00 --out runs/harbor     a job of Harbor: rewards and trajectories of its trials
agentgym import logs/arith.eval --out runs/inspect              a log of inspect_ai
agentgym import trajectory.json --out runs/one                  ATIF documents; agentgym's own become the original episodes
"""

from dataclasses import dataclass
from pathlib import Path

from agentgym.core.folders import alone, check_folder, write_whole
from agentgym.core.screen import printable
from agentgym.errors import BadConfig
from agentgym.evaluate import manifest
from agentgym.logs.foreign import Logs
from agentgym.options import Positional


@dataclass(frozen=True)
class Config:
    """Options of `agentgym import`."""

    logs: Positional[tuple[str, ...]]
    """ATIF documents (.json), folders of them, folders of Harbor's jobs, inspect_ai's .eval files."""
    out: str
    """Folder to write; it must not contain an evaluation."""


def run(config: Config) -> int:
    """Write the folder; print its contents and a note on data that was lost.

    Raises:
        BadConfig: a log is missing, or the folder already contains episodes.
    """
    out = Path(config.out)
    if not config.logs:
        raise BadConfig("no log is given; for example: agentgym import jobs/2026-11-27__10-00-00 --out runs/harbor")
    check_folder(out)
    if (out / "episodes.jsonl").exists():
        raise BadConfig(f"out is {out}, which holds episodes; choose another folder")
    logs = Logs()
    for name in config.logs:
        path = Path(name).expanduser()
        if not path.exists():
            raise BadConfig(f"{path} is not there; expected a log or the folder of a job")
        logs.read(path)
    with alone(out, "evaluation"):
        manifest.start(out, {"imported": dict(logs.kinds)})
        write_whole(out / "episodes.jsonl", "".join(f"{episode.to_json()}\n" for episode in logs.episodes))
    what = ", ".join(f"{count} {kind}" for kind, count in logs.kinds.items())
    print(printable(f"{out}: {len(logs.episodes)} episodes from {what}"))
    if lost := [f"{count} {kind}" for kind, count in logs.lost.items() if count]:
        print(printable(f"left out, for an episode has no place for them: {', '.join(lost)}"))
    return 0
