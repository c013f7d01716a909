"""Imitate stored episodes: a training run without rollouts, whose folder looks like that of `train`.

`--resume RUN` continues an interrupted run; repeat the flags for its modules, prompts, loggers and model from the hub.

agentgym sft runs/demo --model runs/demo --success --split train   the run's own successes
agentgym sft a.jsonl b.jsonl --weights 3 1 --model FOLDER --lora-rank 16 --lr 1e-4   two files, three to one, by adapters
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from agentgym.cli.flags import read_flags, read_settings
from agentgym.cli.train import need_training, quiet, session, warn_in_one_line
from agentgym.cli.train_screen import Screen
from agentgym.core.caller import Setting, quoted
from agentgym.core.folders import check_alone
from agentgym.engines.model_names import check_model
from agentgym.errors import BadConfig
from agentgym.trainers.config.imitation_config import ImitationConfig, read_imitation
from agentgym.trainers.data.stored import read_files
from agentgym.trainers.run import preflight
from agentgym.trainers.run.launch import end_with_launcher, launch, launched, main_process


@dataclass(frozen=True)
class Config:
    """Parsed command line of `agentgym sft`."""

    run: ImitationConfig
    """Run to start or resume."""
    arguments: tuple[str, ...]
    """Arguments as typed, for the processes of a distributed run."""
    resume: str = ""
    """Folder of the run to resume."""
    settings: dict[str, object] = field(default_factory=dict[str, object])
    """Settings that say where and how to resume, by flag without dashes; these are never read from the folder."""


FLAGS = ImitationConfig
"""Dataclass of the flags for shell completion."""


def read(arguments: Sequence[str]) -> Config:
    """Parse the files and flags of a run, or `--resume FOLDER`.

    Raises:
        BadConfig: --resume names no folder, or a flag is invalid.
    """
    words = list(arguments)
    if words and words[0] == "--resume":
        if len(words) < 2 or words[1].startswith("-"):
            raise BadConfig("--resume takes the folder of a run, for example --resume runs/sft")
        settings = read_settings(words[2:], "--resume takes the folder of a run, and flags that say where or how it runs")
        return Config(read_imitation(words[1], settings), tuple(arguments), resume=words[1], settings=settings)
    run = read_flags(ImitationConfig, words, command="sft", description=__doc__)
    return Config(run, tuple(arguments))


def run(config: Config) -> int:
    """Train with progress, and print the model's location."""
    need_training()
    warn_in_one_line()
    settings, folder = config.run, config.resume or config.run.out
    if not launched():
        check_alone(Path(folder), preflight.RUN)
        if not config.resume:
            preflight.check_free(Path(settings.out))
            check_model(preflight.model_folder(settings.model))
        read_files(settings.files, settings.which)
    if settings.processes > 1 and not launched():
        return launch(("sft", *config.arguments), settings.processes, folder)
    end_with_launcher()
    screen = Screen(Console(highlight=False), settings.learning, folder)
    if main_process():
        screen.begin(f"{folder}: imitation of {', '.join(settings.files)}, model {settings.model}; loading torch")
    quiet()
    from agentgym.trainers.run.imitation import Imitation

    again = [word for flag, value in config.settings.items() for word in Setting(flag, value).words]
    with session(screen, quoted(["agentgym", "sft", "--resume", folder, *again])):
        resumed = Imitation.resumed(config.resume, screen, config.settings) if config.resume else None
        imitation = resumed or Imitation.fresh(settings, screen)
        summary = imitation.run_to_end()
    if main_process():
        screen.console.print(_line(summary), markup=False, soft_wrap=True)
    return 0


def _line(summary: dict[str, object]) -> str:
    return (
        f"{summary['updates']} updates on {summary['drawn']} of {summary['episodes']} episodes, last loss "
        f"{summary['nll']:.3f}, {summary['train_seconds']:.0f} s: {summary['checkpoint']}"
    )
