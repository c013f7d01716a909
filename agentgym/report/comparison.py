"""Self-contained HTML page that compares two evaluations or two training runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentgym.core.folders import write_whole
from agentgym.episodes.episode import Episode
from agentgym.report.html import episode_entry, page
from agentgym.report.run_folder import Row, open_run
from agentgym.report.tokens import decoder

SCRIPTS = ("nodes.js", "charts.js", "curves.js", "tables.js", "group.js", "episode.js", "compare.js")
MOST = 40
"""Maximum number of tasks with a changed outcome on a page: half of them gained and half lost, if there are enough."""


def write_comparison(
    comparison: Mapping[str, Any], sides: Sequence[Sequence[Episode]], notes: Sequence[str], path: str | Path
) -> Path:
    """Write the page of a comparison and return its path.

    `comparison` is the result of `compare_folders`, `sides` are the episodes of the two sides that it compared, and `notes`
    are sentences for the head of the page.
    """
    runs = {name: open_run(comparison[name]) for name in "ab"}
    flipped = [
        *((task, True) for task in comparison["all"]["gained"]),
        *((task, False) for task in comparison["all"]["lost"]),
    ]
    gained, lost = len(comparison["all"]["gained"]), len(comparison["all"]["lost"])
    first = min(gained, MOST - min(lost, MOST // 2))
    displayed = [*flipped[:first], *flipped[gained : gained + MOST - first]]
    episodes: list[dict[str, object]] = []
    flips: list[dict[str, object]] = []
    decoders = {name: decoder(run) for name, run in runs.items()}
    for task, up in displayed:
        entry: dict[str, object] = {"task": task, "gained": up}
        for name, side in zip("ab", sides, strict=True):
            entry[name] = len(episodes)
            episode = _telling(side, task, solved=up == (name == "b"))
            episodes.append({**episode_entry(_row(episode), episode, decoders[name]), "group": f"{name} {len(episodes)}"})
        flips.append(entry)
    data = {
        "names": {name: run.name for name, run in runs.items()},
        "comparison": comparison,
        "notes": list(notes),
        "metrics": {name: run.metrics for name, run in runs.items()},
        "episodes": episodes,
        "flips": flips,
        "flipped": len(flipped),
        "envs": list(comparison["envs"]),
    }
    title = f"{runs['a'].name} against {runs['b'].name}"
    write_whole(Path(path), page(title, data, body="compare.html", scripts=SCRIPTS))
    return Path(path)


def _telling(side: Sequence[Episode], task: str, *, solved: bool) -> Episode:
    """Return the first attempt at a task that has the outcome `solved`, or else the first attempt; faults do not count."""
    tried = [episode for episode in side if f"{episode.env} {episode.task_id}" == task and not episode.fault]
    return next((episode for episode in tried if bool(episode.success) is solved), tried[0])


def _row(episode: Episode) -> Row:
    outcome = "succeeded" if episode.success else "failed"
    labels = episode.labels
    return Row(0, episode.env, episode.task_id, labels.get("type", ""), labels.get("difficulty", ""), "", "", outcome)
