"""Check an environment against the contract: what holds, what does not, and the shortest actions that break it.

agentgym check guessnumber
agentgym check my_module:me/MyEnv-v0 --thorough
agentgym check frozenlake --check "equal keys" --env.slip 0.5
agentgym check guessnumber --json                              for programs
"""

import json
from dataclasses import asdict, dataclass, field

import tyro
from rich.console import Console
from rich.text import Text

from agentgym.contract import CHECKS, Report, Result, examine, looks
from agentgym.contract.report import show
from agentgym.core.screen import printable
from agentgym.errors import unknown
from agentgym.options import Options
from agentgym.registry import make

_COLOURS = {"holds": "green", "broken": "bold red", "skipped": "dim"}


@dataclass(frozen=True)
class Config:
    """What to check, and how long."""

    id: tyro.conf.Positional[str]
    """The environment: an id, a short name, or MODULE:NAMESPACE/NAME-v0 to import a module of yours first."""
    thorough: bool = False
    """Check more thoroughly: takes minutes instead of seconds."""
    seed: int = 0
    """Which tasks to check: 0 takes the fixed first ones, any other seed draws others."""
    json: bool = False
    """Print the results as JSON once all checks have run."""
    check: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """Run only this check; may be given several times."""
    env_options: Options = field(default_factory=dict[str, object])
    """Options of the environment: --env.KEY VALUE."""


def run(config: Config) -> int:
    """Print each check as it is looked at; the exit code is 1 where one is broken."""
    for name in config.check:
        if name not in CHECKS:
            raise unknown("check", name, CHECKS)
    console = Console(highlight=False)
    under_test = examine(make(config.id, **config.env_options), thorough=config.thorough, seed=config.seed)
    results: list[Result] = []
    for result in looks(under_test, config.check or CHECKS):
        results.append(result)
        if not config.json:
            console.print(_lines(result))
    report = Report(under_test.id, results)
    if config.json:
        outcome = {"id": under_test.id, "ok": report.ok, "results": [asdict(result) for result in results]}
        print(json.dumps(outcome, indent=2, default=str))
        return 0 if report.ok else 1
    console.print(Text(str(report).splitlines()[-1], style="bold green" if report.ok else "bold red"))
    return 0 if report.ok else 1


def _lines(result: Result) -> Text:
    text = Text(f"{result.promise:>2} ", style="dim")
    text.append(f"{result.status:<8}", style=_COLOURS[result.status])
    text.append(f" {result.check:<25} ").append(printable(result.note), style="" if result.status == "broken" else "dim")
    if result.task:
        text.append(f"\n   task {printable(result.task)}, seed {result.seed}, actions: {printable(show(result.actions))}")
    return text
