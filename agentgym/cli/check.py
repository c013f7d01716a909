"""Check an environment against the contract; show the shortest sequence of actions that breaks each failed check.

agentgym check guessnumber
agentgym check my_module:me/MyEnv-v0 --thorough
agentgym check harbor:tasks/ --certificate certificate.json     write a report for others
agentgym check harbor:tasks/ --verify certificate.json          is a certificate true?
agentgym check frozenlake --check "equal keys" --env.slip 0.5
agentgym check guessnumber --json                              for programs

Exit code: 0 if no check is broken, 1 if one is (or a certificate does not hold), 2 if the environment cannot be checked.
"""

import json
import time
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.text import Text

import agentgym
from agentgym.contract import CHECKS, Report, Result
from agentgym.contract.certificate import OF_OTHERS, Certificate, certificate, differences, read_certificate
from agentgym.contract.report import show
from agentgym.contract.supervised import SECONDS, CheckRequest, Examined, supervised
from agentgym.core.folders import check_file
from agentgym.core.provenance import write_json
from agentgym.core.screen import printable
from agentgym.errors import BadConfig, UnknownName, no_such
from agentgym.evaluate.markdown import plain
from agentgym.options import Options, Positional, Repeated
from agentgym.registry import foreign

_COLOURS = {"holds": "green", "broken": "bold red", "skipped": "dim", "does not apply": "dim", "not checked": "yellow"}


@dataclass(frozen=True)
class Config:
    """Options of `agentgym check`."""

    id: Positional[str]
    """The environment: an id, a short name, MODULE:NAMESPACE/NAME-v0 to import your module first, or one from another
    library: verifiers:NAME, openenv:URL, nemo_gym:FOLDER, harbor:FOLDER.
    """
    thorough: bool = False
    """Check more thoroughly: takes minutes instead of seconds."""
    seed: int = 0
    """Seed that selects the tasks to check; 0 is the fixed evaluation list."""
    json: bool = False
    """Print the results as JSON once all checks have run."""
    check: Repeated[str] = ()
    """Run only this check; can be repeated. By default all checks run; for environments of other libraries, only the
    checks of a certificate.
    """
    certificate: str = ""
    """Write the checks and their results to this file as JSON."""
    markdown: str = ""
    """Append the results to this file as a Markdown table, for the summary of a CI step."""
    verify: str = ""
    """Repeat the checks of this certificate and report which claims do not hold."""
    seconds: float = SECONDS
    """Time limit of one check in seconds; a check that takes longer is broken."""
    env_options: Options = field(default_factory=dict[str, object])
    """Options of the environment: --env.KEY VALUE."""


def run(config: Config) -> int:
    """Print passed checks as they finish, then the broken checks.

    Return 1 if a check is broken; with --verify, if the certificate is contradicted or the new verdict is `failed`.

    Raises:
        UnknownName: a check is unknown.
        BadConfig: an option is invalid or does not go with --verify.
    """
    for name in config.check:
        if name not in CHECKS:
            raise UnknownName(no_such("check", name, CHECKS))
    if not config.seconds > 0:
        raise BadConfig(f"--seconds is {config.seconds:g}; expected a number above 0")
    old = read_certificate(Path(config.verify)) if config.verify else None
    if old is not None and (config.check or config.thorough or config.seed):
        raise BadConfig("--verify takes checks, --seed and --thorough from the certificate: leave them out")
    place = Path(config.certificate)
    _make_way(config, place)
    request = _recorded_request(config, old) if old else CheckRequest(
        config.id,
        config.env_options,
        config.check or (OF_OTHERS if foreign(config.id) else tuple(CHECKS)),
        config.thorough,
        config.seed,
    )  # fmt: skip
    console, subjects, results, started = Console(highlight=False), list[Examined](), list[Result](), time.monotonic()
    with closing(supervised(request, subjects.append, config.seconds)) as running:
        for result in running:
            results.append(result)
            if not config.json and (result.status == "holds" or (config.check and result.status == "skipped")):
                console.print(_lines(result))
    examined: Examined = subjects[0] if subjects else _unexamined(request)
    seconds = time.monotonic() - started
    document = certificate(examined, results, version=agentgym.__version__, thorough=request.thorough, seconds=seconds)
    if config.certificate:
        write_json(place, document)
    if config.markdown:
        with Path(config.markdown).open("a", encoding="utf-8") as file:
            file.write(_table(document))
    report = Report(printable(str(examined["environment"]["id"])), results)
    if config.json:
        outcome = {"id": report.id, "ok": report.ok, "results": [asdict(result) for result in results]}
        print(json.dumps(outcome, indent=2, default=str))
    else:
        _show_rest(console, report, counted=not config.check)
        _conclude(console, config, report, document)
    if old:
        return _verified(Console(stderr=config.json, highlight=False), old, document)
    return 0 if report.ok else 1


def _make_way(config: Config, place: Path) -> None:
    """Check that the output files are writable, and remove an older certificate at `place`, unless it is to be verified."""
    for flag, file in (("--certificate", config.certificate), ("--markdown", config.markdown)):
        if file:
            check_file(flag, Path(file), replaced=flag == "--certificate")
    if place.is_file() and not place.is_symlink() and place.resolve() != Path(config.verify).resolve():
        place.unlink()


def _recorded_request(config: Config, old: Certificate) -> CheckRequest:
    """Return the request recorded in a certificate, but with the caller's id and options: these decide which code runs.

    Raises:
        BadConfig: the certificate's seed is invalid.
    """
    seed, names = old["budget"].get("seed"), {row["check"] for row in old["checks"]}
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise BadConfig(f"the certificate's seed is {seed!r}; expected an integer")
    return CheckRequest(
        config.id, config.env_options, [name for name in CHECKS if name in names], old.get("thorough") is True, seed
    )


def _unexamined(request: CheckRequest) -> Examined:
    """Return a placeholder for the result of `certificate.subject` if the environment could not be created."""
    about: dict[str, object] = {"name": request.name, "id": request.name, "class": "", "options": {}, "packages": {}}
    nothing: dict[str, object] = {"count": 0, "sha256": None, "observations": None, "ids": []}
    return {"environment": about, "budget": {"seed": request.seed}, "tasks": nothing, "splits": {}}


def _show_rest(console: Console, report: Report, *, counted: bool) -> None:
    """Print the broken checks last, since the user must act on them; with `counted`, first the number of skipped checks."""
    skipped = [result for result in report.results if result.status == "skipped"]
    if counted and skipped:
        silent = sum(not result.applies for result in skipped)
        parts = [f"{silent} do not apply"] * (silent > 0) + [f"{len(skipped) - silent} wait for a broken one"] * (
            silent < len(skipped)
        )
        console.print(Text(f"   {len(skipped)} skipped: {', '.join(parts)} (--json lists them)", style="dim"))
    for result in report.broken:
        console.print(_lines(result))


def _conclude(console: Console, config: Config, report: Report, document: Certificate) -> None:
    if config.certificate:
        for name, claim in document["claims"].items():
            text = Text(f"{name:<12} ").append(f"{claim['verdict']:<14} ", style=_COLOURS[claim["verdict"]])
            console.print(text.append(printable(claim["why"]), style="dim"))
        console.print(Text(f"certificate: {printable(config.certificate)} ({document['verdict']})"), soft_wrap=True)
    console.print(Text(str(report).splitlines()[-1], style="bold green" if report.ok else "bold red"))


def _table(document: Certificate) -> str:
    """Return a certificate as a Markdown table with the environment's texts escaped."""
    rows = [f"| {name} | {claim['verdict']} | {plain(claim['why'])[:600]} |" for name, claim in document["claims"].items()]
    title = f"### {plain(document['environment']['name'])}: {document['verdict']}"
    return "\n".join([title, "", "| claim | verdict | why |", "|---|---|---|", *rows, "", ""])


def _verified(console: Console, old: Certificate, new: Certificate) -> int:
    """Print the differences between two certificates; return 1 if they contradict or the new verdict is `failed`."""
    against, notes = differences(old, new)
    for line in against:
        console.print(Text(printable(line), style="bold red"))
    for line in notes:
        console.print(Text(printable(line), style="dim"))
    console.print(Text("the certificate does not hold" if against else "the certificate holds", style="bold"))
    return 1 if against or new["verdict"] == "failed" else 0


def _lines(result: Result) -> Text:
    text = Text(f"{result.promise:>2} ", style="dim")
    text.append(f"{result.status:<8}", style=_COLOURS[result.status])
    text.append(f" {result.check:<25} ").append(printable(result.note), style="" if result.status == "broken" else "dim")
    if result.task:
        text.append(f"\n   task {printable(result.task)}, seed {result.seed}, actions: {printable(show(result.actions))}")
    return text
