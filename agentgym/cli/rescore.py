"""Judge the episodes of an evaluation with another verifier or other rewards; nothing is overwritten.

This runs the code of the verifier and rewards that you name. An environment that the folder names is created only if it
is registered or you also name it with --env.

agentgym rescore runs/eval-a --verifier my_module:right     writes runs/eval-a-rescored-right
agentgym rescore runs/eval-a --verifier my_module:right --out runs/b   into a folder of your choice
agentgym rescore runs/eval-a --rewards length --reward.budget 200      adds the reward of training with --reward length
agentgym compare runs/eval-a runs/eval-a-rescored-right     shows which tasks flipped
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console

from agentgym.cli.eval_screen import table
from agentgym.cli.flags import written
from agentgym.cli.rows import say
from agentgym.evaluate.compare import read_evaluation
from agentgym.evaluate.rescore import rescore_folder
from agentgym.evaluate.summary import summarize
from agentgym.options import Options, Positional


@dataclass(frozen=True)
class Config:
    """Options of `agentgym rescore`."""

    folder: Positional[str]
    """Folder of an evaluation."""
    verifier: str = ""
    """MODULE:NAME of a function of an episode and its task that returns True, False, or a reward from 0 to 1."""
    rewards: tuple[str, ...] = ()
    """Reward stages of training (names or MODULE:NAME), which add to the verdict's reward."""
    reward_options: Options = field(default_factory=dict[str, object])
    """Options of the reward stages: --reward.KEY VALUE, or --reward.NAME.KEY VALUE if two stages share an option."""
    env: tuple[str, ...] = ()
    """MODULE:ID of unregistered environments that the folder names; this imports MODULE, which runs its code."""
    env_options: Options = field(default_factory=dict[str, object])
    """Options that say where or how an environment runs, which are never read from the folder: --env.KEY VALUE, or
    --env.2.KEY VALUE for the second of several environments."""
    out: str | None = None
    """New folder; by default one next to the evaluation's, named after the verifier and the rewards."""


def run(config: Config) -> int:
    """Write the new folder; print its table and the number of changed verdicts."""
    target, scored = rescore_folder(
        config.folder,
        config.verifier,
        config.out,
        rewards=config.rewards,
        reward_options=config.reward_options,
        envs=config.env,
        env_options=config.env_options,
        command=written(replace(config, env=()), "rescore"),
    )
    _, before = read_evaluation(Path(config.folder))
    changes = Counter((a.success, b.success) for a, b in zip(before, scored, strict=True))
    won, lost, same = changes[False, True], changes[True, False], changes[True, True] + changes[False, False]
    console = Console()
    console.print(table(summarize(scored)), soft_wrap=True)
    faults = len(scored) - won - lost - same
    fault_note = f"; {faults} infrastructure errors not counted" if faults else ""
    for line in (
        f"verdicts: {same} as before, {won} solved now and not before, {lost} solved before and not now{fault_note}",
        f"{target}: manifest.json, episodes.jsonl, summary.json",
        f"`agentgym compare {config.folder} {target}` shows the tasks",
    ):
        say(console, line)
    return 0
