"""Plays the genuine ALFWorld engine and ours side by side and compares every step, byte for byte; measures both speeds.

    python benchmarks/parity.py --games 12 --full-size 2
    python benchmarks/parity.py --games 60 --out parity.json

The genuine engine is installed into a separate environment. Games are generated houses, exported with the domain and
grammar of the installed ALFWorld: a third as it writes them today, a third in the words of the older generation, a third
as `patch_tw-pddl.py` makes new ones of those (data of 2.1.2 and later); two in five as untidy as genuine files.
In each: `help`, random and invalid commands, then the oracle from there to the end, then a few commands more.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import venv
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parity_games import export_games

import agentgym
from agentgym.core.env import TextEnv

PACKAGES = ["textworld[pddl]==1.7.0", "fast-downward-textworld==20.6.4"]


@dataclass
class Options:
    """What the command line says."""

    games: int
    full_size: int
    commands: int
    workers: int
    seed: int
    venv: Path
    out: Path | None


@dataclass
class Report:
    """What one game brought."""

    name: str
    full_size: bool
    steps: int = 0
    commands: list[str] = field(default_factory=list)
    mismatches: list[str] = field(default_factory=list)
    step_seconds: list[float] = field(default_factory=list)
    reset_seconds: list[float] = field(default_factory=list)
    answered: Counter[str] = field(default_factory=Counter)
    """What was exercised: first words of commands that were possible, and lists of things lying beside a place."""
    won: bool = False


def read_options() -> Options:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=60, help="how many games, spread over the six task types")
    parser.add_argument("--full-size", type=int, default=0, help="how many of them have 30 or more receptacles (0: a sixth)")
    parser.add_argument("--commands", type=int, default=100, help="random or invalid commands before the oracle")
    parser.add_argument("--workers", type=int, default=2, help="genuine engines at a time")
    parser.add_argument("--seed", type=int, default=0, help="chooses houses and commands")
    parser.add_argument("--venv", type=Path, default=Path(".venv-parity"), help="environment of the genuine engine")
    parser.add_argument("--out", type=Path, default=None, help="where to write the result as JSON")
    return Options(**vars(parser.parse_args()))


def ensure_genuine(folder: Path) -> Path:
    """Install the genuine engine into its environment, if it is not there; return that environment's python."""
    python = folder / "bin" / "python"
    check = [python, "-c", "import textworld.envs.pddl.pddl, alfworld.agents.environment.alfred_tw_env"]
    if python.exists() and subprocess.run(check, capture_output=True).returncode == 0:
        return python
    print(f"installing the genuine ALFWorld into {folder} …", flush=True)
    venv.create(folder, with_pip=True)
    more = os.environ.get("AGENTGYM_PIP_ARGS", "").split()
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *more]
    for command in ([*pip, "--no-deps", "alfworld==0.4.2"], [*pip, *PACKAGES], check):
        if subprocess.run(command).returncode:
            sys.exit(
                f"the genuine ALFWorld could not be installed into {folder}; see above. It needs a network or a mirror."
            )
    return python


class Genuine:
    """The genuine engine in a process of its own."""

    def __init__(self, python: Path) -> None:
        script = Path(__file__).with_name("genuine_alfworld.py")
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen([python, script], text=True, encoding="utf-8", **pipes)

    def ask(self, **request: str) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the genuine engine died (exit code {self.process.wait()}) on {request}")
        return json.loads(answer)

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def choose_command(rng: random.Random, env: TextEnv) -> str:
    """Return a random command: mostly admissible, with a liking for those that change something, or invalid in many ways."""
    play: Any = env.unwrapped.play  # type: ignore[attr-defined]
    game, admissible = play.game, play.admissible()
    command = rng.choice(admissible)
    draw = rng.random()
    if draw < 0.3:
        return command
    if draw < 0.55:
        changing = [one for one in admissible if not one.startswith(("go ", "examine ", "help", "inventory"))]
        return rng.choice(changing)
    if draw < 0.65:  # what only some states allow
        rare = [one for one in admissible if one.startswith(("move", "put", "clean", "cool", "heat", "slice", "use"))]
        return rng.choice(rare or ["look"])
    thing, place = rng.choice(game.objects), rng.choice(game.receptacles)
    before, between = game.dialect.put
    wrong = [
        command.upper(),
        command.capitalize(),
        f"  {command}\t\n",
        command.replace(" ", "  "),
        f"go to {place}",
        f"open {place}",
        f"close {place}",
        f"take {thing} from {place}",
        f"{before}{thing}{between}{place}",
        f"put {thing} in/on {place}",
        f"move {thing} to {place}",
        f"use {thing}",
        f"examine {thing}",
        f"examine {place}",
        f"slice {thing} with {rng.choice(game.objects)}",
        f"{rng.choice(('clean', 'heat', 'cool'))} {thing} with {place}",
        rng.choice(("", "help", "xyzzy", "look around", "go to", "take", "inventory 1", "go to nowhere 1", "é ☃")),
    ]
    return rng.choice(wrong)


def errands(env: TextEnv) -> list[str]:
    """Return commands that chance would hardly string together: take a knife, and slice food behind every door."""
    play: Any = env.unwrapped.play  # type: ignore[attr-defined]
    game = play.game
    lying = [(o, r) for r, content in enumerate(play.contents) for o in content]
    knives = [(o, r) for o, r in lying if game.knives >> o & 1]
    if not knives:
        return []
    knife, drawer = game.objects[knives[0][0]], game.receptacles[knives[0][1]]
    commands = [f"go to {drawer}", f"open {drawer}", f"take {knife} from {drawer}"]
    for o, r in [pair for pair in lying if game.able[3] >> pair[0] & 1][:3]:
        food, place = game.objects[o], game.receptacles[r]
        commands += [
            f"go to {place}",
            f"slice {food} with {knife}",
            f"take {food} from {place}",
            f"slice {food} with {knife}",
        ]
    return [
        *commands,
        f"examine {knife}",
        f"clean {knife} with sinkbasin 1",
        "go to sinkbasin 1",
        f"clean {knife} with sinkbasin 1",
    ]


class Match:
    """One game on both engines."""

    def __init__(self, path: Path, full_size: bool, genuine: Genuine, options: Options) -> None:
        self.report = Report(path.parent.name, full_size)
        self.path, self.genuine, self.options = path, genuine, options
        self.rng = random.Random(f"{options.seed} {path.parent.name}")
        self.env = agentgym.make("rlvr/ALFWorld-v0", data=path, horizon=1_000_000)
        self.running = True

    def compare(self, command: str, theirs: dict[str, Any], ours: dict[str, Any]) -> None:
        self.report.steps += 1
        for name, value in ours.items():
            if theirs[name] != value:
                place = f"{self.report.name}, step {self.report.steps} {command!r}, {name}"
                self.report.mismatches.append(f"{place}: genuine {theirs[name]!r}, ours {value!r}")

    def reset(self) -> None:
        theirs = self.genuine.ask(load=str(self.path))
        self.report.reset_seconds.append(theirs["seconds"])
        text, info = self.env.reset(seed=0)
        self.running = True
        self.compare("reset", theirs, {"text": text, "admissible": info["admissible"], "won": False})

    def step(self, command: str) -> bool:
        """Play a command on both sides; return whether the goal holds. After a win only the rules go on, as theirs do."""
        theirs = self.genuine.ask(step=command)
        self.report.step_seconds.append(theirs["seconds"])
        play: Any = self.env.unwrapped.play  # type: ignore[attr-defined]
        if self.running:
            text, reward, terminated, _, info = self.env.step(command)
            self.running = not terminated
            ours = {"text": text, "admissible": info["admissible"], "won": info["success"] is True}
            ours |= {"score": int(reward), "done": terminated}
        else:
            text = play.answer(command)
            won = play.won()
            ours = {"text": text, "admissible": play.admissible(), "won": won, "score": int(won), "done": won}
        self.compare(command, theirs, ours)
        possible = theirs["text"] != "Nothing happens."
        self.report.answered[command.split()[0] if possible else "nothing happens"] += 1
        self.report.answered["something beside a place"] += "Next to it, you see a " in theirs["text"]
        self.report.commands.append(command)
        return play.won()

    def play(self) -> Report:
        self.reset()
        for command in ("help", *errands(self.env)):
            self.step(command)
        played = 0
        while played < self.options.commands:
            if self.step(choose_command(self.rng, self.env)):  # won by chance: see that it goes on, then start anew
                self.after_win()
                self.reset()
            played += 1
        for command in list(self.env.unwrapped.oracle()):  # type: ignore[attr-defined]
            self.report.won = self.step(command)
        self.after_win()
        return self.report

    def after_win(self) -> None:
        """Go on after the win: what undoes the goal takes score and done back."""
        for _ in range(4):
            self.step(choose_command(self.rng, self.env))


def play_all(options: Options, python: Path, games: list[tuple[Path, bool]]) -> list[Report]:
    """Play all games, several genuine engines at a time."""

    def work(share: int) -> list[Report]:
        genuine = Genuine(python)
        reports: list[Report] = []
        for path, full_size in games[share :: options.workers]:
            begun = time.perf_counter()
            report = Match(path, full_size, genuine, options).play()
            reports.append(report)
            bad = f"{len(report.mismatches)} MISMATCHES" if report.mismatches else "equal"
            won = "won" if report.won else "NOT WON"
            print(f"  {report.name}: {report.steps} steps {bad}, {won}, {time.perf_counter() - begun:.0f} s", flush=True)
        genuine.close()
        return reports

    with ThreadPoolExecutor(options.workers) as pool:
        return [report for reports in pool.map(work, range(options.workers)) for report in reports]


def measure_ours(games: list[tuple[Path, bool]], reports: list[Report]) -> tuple[float, float]:
    """Return our mean seconds a step and a reset from the game file, on the same games and commands, nothing cached."""
    commands = {report.name: report.commands for report in reports}
    steps = step_seconds = resets = reset_seconds = 0.0
    for path, _ in games:
        for _ in range(5):
            env = agentgym.make("rlvr/ALFWorld-v0", data=path, horizon=1_000_000)
            begun = time.perf_counter()
            env.reset(seed=0)
            reset_seconds += time.perf_counter() - begun
            resets += 1
            begun = time.perf_counter()
            for command in commands[path.parent.name]:
                _, _, terminated, _, _ = env.step(command)
                steps += 1
                if terminated:
                    break
            step_seconds += time.perf_counter() - begun
    return step_seconds / steps, reset_seconds / resets


def summarise(games: list[tuple[Path, bool]], reports: list[Report]) -> dict[str, Any]:
    """Return the numbers of the table."""
    result: dict[str, Any] = {
        "games": len(reports),
        "full_size": sum(report.full_size for report in reports),
        "steps": sum(report.steps for report in reports),
        "mismatches": [line for report in reports for line in report.mismatches],
        "answered": dict(sum((report.answered for report in reports), Counter())),
        "not_won": [report.name for report in reports if not report.won],
    }
    for size, keep in (("all", (True, False)), ("full_size_only", (True,))):
        chosen = [report for report in reports if report.full_size in keep]
        if chosen:
            step, reset = measure_ours([game for game in games if game[1] in keep], chosen)
            times = [seconds for report in chosen for seconds in report.step_seconds]
            resets = [seconds for report in chosen for seconds in report.reset_seconds]
            their_step, their_reset = sum(times) / len(times), sum(resets) / len(resets)
            result[size] = {
                "steps_per_second": 1 / step,
                "genuine_steps_per_second": 1 / their_step,
                "step_ratio": their_step / step,
                "reset_milliseconds": 1000 * reset,
                "genuine_reset_milliseconds": 1000 * their_reset,
                "reset_ratio": their_reset / reset,
            }
    return result


def main() -> None:
    options = read_options()
    python = ensure_genuine(options.venv)
    with tempfile.TemporaryDirectory() as folder:
        games = export_games(python, Path(folder), options.games, options.full_size, options.seed)
        reports = play_all(options, python, games)
        result = summarise(games, reports)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    for line in result["mismatches"][:20]:
        print(line[:2000])
    print(f"{result['games']} games ({result['full_size']} full-size), {result['steps']} steps compared")
    print(f"exercised: {result['answered']}")
    print(f"mismatches: {len(result['mismatches'])}; not won: {len(result['not_won'])}")
    for size in ("all", "full_size_only"):
        if size in result:
            print(size, {name: round(value, 1) for name, value in result[size].items()})
    sys.exit(1 if result["mismatches"] or result["not_won"] else 0)


if __name__ == "__main__":
    main()
