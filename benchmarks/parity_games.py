"""Writes the games that parity.py plays: generated houses of several sizes, in all three forms of files, tidy and not."""

import json
import random
import re
import subprocess
from pathlib import Path

import agentgym
from agentgym.envs.household.catalog import SLICEABLE, TASK_TYPES
from agentgym.envs.household.export import export_game, old_generation, patched_generation

SIZES = {"full": {"preset": "full"}, "easy": {"preset": "easy", "together": 0.3}, "middle": {"together": 0.3}}


def genuine_texts(python: Path) -> tuple[str, str]:
    """Return the domain and the grammar of the ALFWorld installed beside a python."""
    code = "import alfworld, os; print(os.path.dirname(alfworld.__file__))"
    folder = Path(subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()) / "data"
    return (folder / "alfred.pddl").read_text(encoding="utf-8"), (folder / "alfred.twl2").read_text(encoding="utf-8")


def export_games(python: Path, folder: Path, count: int, full_size: int, seed: int) -> list[tuple[Path, bool]]:
    """Write games over the six types; return their paths and whether each is full-size (`full_size` 0: a sixth)."""
    texts = genuine_texts(python)
    forms = {"new": texts, "old": old_generation(*texts), "patched": patched_generation(*texts)}
    full = min(full_size or max(2, count // 6), count)
    paths: list[tuple[Path, bool]] = []
    for number in range(count):
        size = "full" if number < full else ("easy", "middle")[number % 2]
        kind = TASK_TYPES[(number * 5 + 1) % 6]
        env = agentgym.make("rlvr/Household-v0", types=(kind,), **SIZES[size])
        split = ("train", "valid_seen", "valid_unseen")[number % 3]
        candidates = [env.numbered(1000 * seed + number + 100_000 * more, split) for more in range(30)]
        task = next((task for task in candidates if number % 2 == 0 and can_slice(task)), candidates[0])
        form, rough = tuple(forms)[number // 2 % 3], number % 5 in (1, 3)
        name = f"{number:02}-{size}-{form}-{'rough' if rough else 'tidy'}-{kind}"
        path = export_game(task, folder / name, *forms[form])
        if rough:
            roughen(path, random.Random(f"{seed} {number}"))
        paths.append((path, size == "full"))
    return paths


def can_slice(task: agentgym.Task) -> bool:
    """Whether a house has a knife and food to slice, which chance seldom brings together."""
    classes = {entry.rsplit(" ", 1)[0] for entry in task.data["objects"]}
    return bool(classes & SLICEABLE and classes & {"Knife", "ButterKnife"})


def roughen(path: Path, rng: random.Random) -> None:
    """Make a game as untidy as genuine ones are, and odd in every way that genuine ones may be.

    Indentation, comments, case; classes declared as objects without a fact; things that cannot be taken; open doors;
    things inside other things; the agent before a receptacle; without the comma, by which visible things are examined.
    """
    game = json.loads(path.read_text(encoding="utf-8"))
    lines: list[str] = game["pddl_problem"].split("\n")
    places = re.findall(r"^\(receptacleAtLocation (\S+) (\S+)\)$", game["pddl_problem"], re.M)
    objects = re.findall(r"^\(inReceptacle (\S+) \S+\)$", game["pddl_problem"], re.M)
    outer, (_, place) = rng.choice(objects), rng.choice(places)
    declared = ["SaltShaker - object", "Window - object", "Window_bar__minus_1 - object", "Egg_bar__plus_9 - object"]
    facts = [f"(objectAtLocation Window_bar__minus_1 {place})", f"(isReceptacleObject {outer})"]
    facts += [f"(inReceptacleObject Egg_bar__plus_9 {outer})", "(pickupable Egg_bar__plus_9)"]
    facts += [line.replace("(openable", "(opened") for line in lines if line.startswith("(openable") and rng.random() < 0.5]
    if rng.random() < 0.5:
        lines = [f"(atLocation agent1 {place})" if line.startswith("(atLocation agent1") else line for line in lines]
    start = lines.index("(:objects") + 1
    lines[start:start] = declared
    start = lines.index("(:init") + 1
    lines[start:start] = facts
    rough: list[str] = []
    for line in lines:
        rough += ["", "   ; (a comment"] if rng.random() < 0.05 else []
        line = line.upper() if line.startswith("(openable") and rng.random() < 0.5 else line
        rough.append(" " * rng.randrange(12) + line)
    game["pddl_problem"] = "\n".join(rough)
    if rng.random() < 0.5:
        game["pddl_domain"] = game["pddl_domain"].replace("(exists (?l - location, ?r", "(exists (?l - location ?r")
    path.write_text(json.dumps(game), encoding="utf-8")
