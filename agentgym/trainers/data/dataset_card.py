"""Dataset card for a table of exported episodes, and the upload to the Hugging Face Hub."""

import hashlib
import importlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentgym import registry
from agentgym.core.provenance import commit
from agentgym.core.screen import storable
from agentgym.episodes.episode import Episode
from agentgym.errors import BadConfig, MissingExtra, how_to_install

HELD_OUT = ("test", "valid")
"""Splits that must not be used for training; splits of published benchmarks keep their own names."""

SIZES = ((1000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"), (10**18, "n>1M"))
"""The Hub's size categories: (upper bound of rows, name)."""


def card(
    rows: Sequence[Mapping[str, object]], episodes: Sequence[Episode], form: str, source: str, *, pushed: bool = False
) -> str:
    """Return a dataset's README: its content, how it was made, and which held-out tasks it contains.

    `form`: form of the rows, such as `sft`. `source`: command that made the rows. `pushed`: list the files that `push`
    uploads, so that `load_dataset` finds our splits under their own names.
    """
    agentgym = importlib.import_module("agentgym")
    size = next(name for most, name in SIZES if len(rows) < most)
    envs = sorted({episode.env for episode in episodes})
    splits = Counter((episode.env, episode.split or "(none)") for episode in episodes)
    ids = sorted({f"{episode.env} {episode.task_id}" for episode in episodes})
    held_out = sum(count for (_, split), count in splits.items() if split.startswith(HELD_OUT))
    versions = sorted({turn.policy_version for episode in episodes for turn in episode.turns})
    won = sum(bool(episode.success) for episode in episodes)
    descriptions = {id: registry.DESCRIPTIONS[id] for id in envs if id in registry.DESCRIPTIONS}
    lines = [
        "---",
        f"size_categories:\n- {size}",
        "tags:\n- agentgym\n- reinforcement-learning\n- agents",
        *(_configs(sorted({_split_name(row["split"]) for row in rows})) if pushed else []),
        "---",
        "",
        "# Episodes of language agents",
        "",
        "## What",
        "",
        f"{len(rows)} rows of the form `{form}` from {len(episodes)} episodes, {won} of them successes. "
        f"Columns: {', '.join(f'`{name}`' for name in rows[0])}.",
        "",
        "| environment | split | episodes |",
        "|---|---|---|",
        *[f"| {env} | {split} | {count} |" for (env, split), count in sorted(splits.items())],
        "",
        *[f"- `{id}`: {about}" for id, about in descriptions.items()],
        "",
        "## How it was made",
        "",
        f"By `{source}` of agentgym {agentgym.__version__}{f', commit {revision}' if (revision := commit()) else ''}. "
        + (f"Policy versions {versions[0]} to {versions[-1]}. " if versions else "")
        + "Rewards were computed by programs; episodes that ended in an infrastructure error are left out. "
        "The agent's texts were written by a model, and nobody has read all of them.",
        "",
        "## Contamination",
        "",
        (
            f"**{held_out} episodes are from held-out splits.** "
            "If you train on this dataset, do not evaluate on their tasks."
            if held_out
            else "No episode is of a split called test or valid."
        ),
        f"{len(ids)} different tasks; BLAKE2 of their sorted ids, one a line: "
        f"`{hashlib.blake2b(chr(10).join(ids).encode('utf-8', 'replace'), digest_size=16).hexdigest()}`.",
        "",
    ]
    return "\n".join(lines)


def _split_name(split: object) -> str:
    """Return a split's name as the Hub allows it: letters, digits and underscores; `unsplit` if it is empty."""
    return re.sub(r"\W", "_", str(split)) if split else "unsplit"


def _configs(splits: Sequence[str]) -> list[str]:
    return [
        "configs:\n- config_name: default\n  data_files:",
        *(f"  - split: {s}\n    path: data/{s}.parquet" for s in splits),
    ]


def by_split(table: Path) -> dict[str, bytes]:
    """Return the bytes of a Parquet file per split, by split name; the Hub would treat a single file as training data."""
    arrow = importlib.import_module("pyarrow")
    parquet = importlib.import_module("pyarrow.parquet")
    whole = parquet.read_table(table)
    names = [_split_name(split) for split in whole["split"].to_pylist()]
    files: dict[str, bytes] = {}
    for name in sorted(set(names)):
        sink = arrow.BufferOutputStream()
        parquet.write_table(whole.filter(arrow.array([other == name for other in names])), sink)
        files[name] = sink.getvalue().to_pybytes()
    return files


def push(repository: str, table: Path, text: str, *, private: bool) -> str:
    """Upload a table (one file per split) and its card to a dataset on the Hub, creating it if needed, and return its URL.

    Raises:
        MissingExtra: huggingface_hub is not installed.
        BadConfig: the Hub refuses (no token, unknown user) or cannot be reached.
    """
    try:
        hub = importlib.import_module("huggingface_hub")
    except ImportError as error:
        raise MissingExtra(f"the hub needs huggingface_hub: {how_to_install('train')}") from error
    files = {"README.md": storable(text).encode()} | {
        f"data/{split}.parquet": rows for split, rows in by_split(table).items()
    }
    try:
        client = hub.HfApi()
        address = client.create_repo(repository, repo_type="dataset", private=private, exist_ok=True)
        operations = [hub.CommitOperationAdd(path_in_repo=name, path_or_fileobj=content) for name, content in files.items()]
        client.create_commit(repository, operations, repo_type="dataset", commit_message="Episodes, with their card")
    except Exception as error:  # the hub's own errors, the network's
        raise BadConfig(f"{repository} could not be written: {str(error)[:300]}. The table is at {table}") from error
    return str(address)
