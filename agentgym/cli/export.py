"""Write episodes as Parquet with TRL's columns (`datasets` and pandas read it too) or ATIF, or tasks as Harbor folders.

agentgym export runs/demo --as sft --success --split train --out data.parquet   successes to imitate
agentgym export runs/demo --out data.parquet --push ME/NAME   as a dataset on the hub, with a card
agentgym export runs/eval-a --as dpo --out pairs.parquet     pairs of attempts at a task, for DPO
agentgym export runs/eval-a --as turns --out turns.parquet   tokens, seconds, finish and cost of every turn
agentgym export runs/demo --as atif --out trajectories       a document of Harbor's trajectory format for each episode
agentgym export terminal --as harbor --tasks 20 --out tasks  a task folder of Harbor for each task of an environment
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from agentgym.cli.flags import Options
from agentgym.core.folders import check_folder, write_whole
from agentgym.episodes.episode import Episode
from agentgym.errors import BadConfig
from agentgym.evaluate.frames import episode_rows, turn_rows
from agentgym.evaluate.manifest import read_object
from agentgym.evaluate.spending import price_in
from agentgym.options import Alias, Positional
from agentgym.trainers.data.stored import Filter, read_files

if TYPE_CHECKING:
    from agentgym.trainers.data.export import Rows


OF_TASKS = ("tasks", "difficulty", "seed", "base", "skip_guessed", "env_options")
"""Options of `harbor` alone."""


@dataclass(frozen=True)
class Config:
    """Options of `agentgym export`."""

    files: Positional[tuple[str, ...]]
    """Files of episodes, folders of runs and evaluations, or logs of Harbor, inspect_ai and ATIF; with `harbor` also an
    environment."""
    out: str
    """File to write; with `atif` and `harbor`, a folder."""
    form: Annotated[Literal["sft", "dpo", "grpo", "episodes", "turns", "atif", "harbor"], Alias("as")] = "sft"
    """`sft` (one conversation per row), `dpo` (one pair of a group per row), `grpo` (with advantages), `episodes` or `turns`
    (all, with tokens, seconds, finish and cost), `atif` (a JSON document per episode), `harbor` (a task folder per task)."""
    success: bool = False
    """Only successful episodes."""
    env: str = ""
    """Only episodes of this environment."""
    min_reward: float | None = None
    """Only episodes with at least this reward."""
    split: str = ""
    """Only tasks of this split."""
    tokens: bool = True
    """With `sft`: include token ids and loss masks; --no-tokens keeps only the messages, for a model with another
    tokenizer."""
    card: str = ""
    """File to write the dataset's card to (its README.md: contents, origin, contamination)."""
    push: str = ""
    """Hugging Face dataset (OWNER/NAME) to which the table (a file for each split) and the card are uploaded, with the
    token of `hf auth login`."""
    private: bool = False
    """With --push: make the dataset private."""
    credit: str = ""
    """With `grpo`: credit algorithm that computes the advantages; by default the run's recorded advantages are exported."""
    credit_options: Options = field(default_factory=dict[str, object])
    """Hyperparameters of the algorithm named by --credit: --credit.KEY VALUE."""
    tasks: int = 0
    """With `harbor`: number of tasks; 0 for every task of a run."""
    difficulty: int | None = None
    """With `harbor`: difficulty of the tasks; by default the environment's own."""
    seed: int = 0
    """With `harbor`: seed of the episodes."""
    base: str = ""
    """With `harbor`: base image of the folders' images; by default Debian 12's slim image of this Python version."""
    skip_guessed: bool = False
    """With `harbor`: skip tasks that one of the environment's own shortcut policies solves, by chance or otherwise."""
    env_options: Options = field(default_factory=dict[str, object])
    """With `harbor`: options of the environment: --env.KEY VALUE."""


def _measured(config: Config, make: "Rows", episodes: list[Episode]) -> list[dict[str, Any]]:
    """Return a row for each episode or turn, with the columns of `agentgym.evaluate.to_pandas`."""
    summary = Path(config.files[0]) / "summary.json"
    price = price_in(read_object(summary)) if len(config.files) == 1 and summary.exists() else None
    if config.form == "turns":
        return turn_rows(episodes, price)
    pairs = zip(episode_rows(episodes, price), make.episodes(episodes), strict=True)
    return [{**measured, **row} for measured, row in pairs]


def run(config: Config) -> int:
    """Write the file and print a summary.

    Raises:
        BadConfig: an option is invalid or does not apply to the form.
    """
    out = Path(config.out)
    if not config.files:
        raise BadConfig("no file of episodes is given; for example: agentgym export runs/demo --out data.parquet")
    if config.form in ("atif", "harbor"):
        if config.card or config.push:
            raise BadConfig("--card and --push are of a table: use --as episodes")
    elif out.suffix != ".parquet":
        raise BadConfig(f"out is {config.out}; expected a name that ends with .parquet")
    if (config.credit or config.credit_options) and (config.form != "grpo" or not config.credit):
        raise BadConfig("credit goes with --as grpo --credit NAME: other forms have no advantages")
    if config.private and not config.push:
        raise BadConfig("--private goes with --push OWNER/NAME")
    if not config.tokens and config.form != "sft":
        raise BadConfig(f"--no-tokens goes with --as sft, not with {config.form}")
    which = Filter(config.success, config.env, config.min_reward, config.split)
    of_tasks = {name: getattr(config, name) for name in OF_TASKS}
    if config.form == "harbor":
        from agentgym.cli.export_harbor import Tasks, write_folders

        number, *others = of_tasks.values()
        return write_folders(Tasks(config.files, which, number, *others), out)
    if misplaced := [name for name, value in of_tasks.items() if value not in (0, None, "", {})]:
        flag = misplaced[0].replace("_options", ".KEY").replace("_", "-")
        raise BadConfig(f"--{flag} goes with --as harbor, not with {config.form}")
    files = read_files(config.files, which)
    for number, episodes in enumerate(files if len(files) > 1 else []):
        for episode in episodes:  # groups of different files are different, even with equal names
            episode.group_id = f"{number}/{episode.group_id}"
    if config.form == "atif":
        return write_documents(out, [episode for file in files for episode in file])
    from agentgym.trainers.credit.interface import resolve
    from agentgym.trainers.data.export import Rows, write_parquet

    episodes = [episode for file in files for episode in file]
    make = Rows()
    if config.form == "grpo":
        rows = make.grpo(episodes, resolve(config.credit, **config.credit_options) if config.credit else None)
    elif config.form == "sft":
        rows = make.sft(episodes, tokens=config.tokens)
    else:
        rows = make.dpo(episodes) if config.form == "dpo" else _measured(config, make, episodes)
    write_parquet(out, rows)
    if config.card or config.push:
        from agentgym.trainers.data.dataset_card import card, push

        source = f"agentgym export --as {config.form}"
        if config.card:
            write_whole(Path(config.card), card(rows, episodes, config.form, source))
        if config.push:
            text = card(rows, episodes, config.form, source, pushed=True)
            print(push(config.push, out, text, private=config.private))
    print(f"{out}: {len(rows)} rows from {len(episodes)} episodes; columns {', '.join(rows[0])}")
    return 0


def write_documents(folder: Path, episodes: list[Episode]) -> int:
    """Write an ATIF document for each episode into a folder that is empty or new.

    Raises:
        BadConfig: the folder is not empty.
    """
    from agentgym.logs.atif import file_name, to_atif
    from agentgym.trainers.data.export import tools_of

    check_folder(folder)
    if folder.is_dir() and any(folder.iterdir()):
        raise BadConfig(f"out is {folder}, which is not empty; expected a new folder for the documents")
    folder.mkdir(parents=True, exist_ok=True)
    tools = {env: tools_of(env) for env in dict.fromkeys(episode.env for episode in episodes)}
    for number, episode in enumerate(episodes):
        document = json.dumps(to_atif(episode, tools[episode.env]), indent=1)
        write_whole(folder / file_name(episode, number), f"{document}\n")
    print(f"{folder}: {len(episodes)} documents")
    return 0
