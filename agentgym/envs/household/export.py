"""Export of a generated house as files of an ALFWorld game that the genuine engine can play.

The caller supplies ALFWorld's domain and grammar (`alfworld/data/alfred.pddl` and `alfred.twl2`).
"""

import json
from pathlib import Path

from agentgym.core.env import Task
from agentgym.envs.household.env import generated_game
from agentgym.envs.household.goals import Goal, goal_pddl
from agentgym.envs.household.houses import goal_of, make_problem
from agentgym.envs.household.play import Play
from agentgym.envs.household.problem import Problem
from agentgym.envs.household.solve import solve
from agentgym.envs.household.text import HELP, NEW, OLD
from agentgym.errors import BadData

_OLD_PUT = 'template :: "put {o} in/on {r}";'
_OLD_WORDS = (
    ('"rhs": "You arrive at {r.name}. ', '"rhs": "You arrive at {lend.name}. '),
    ('"rhs": "You move the {o.name} to the {r.name}."', '"rhs": "You put the {o.name} in/on the {r.name}."'),
    ('template :: "move {o} to {r}";', _OLD_PUT),
)


def old_generation(domain: str, grammar: str) -> tuple[str, str]:
    """Convert domain and grammar to ALFWorld 0.2 and 0.3: `put … in/on …`, named locations, no `help`.

    Raises:
        BadData: the grammar is not that of ALFWorld 0.4.
    """
    for new, old in _OLD_WORDS:
        if new not in grammar:
            raise BadData(f"the grammar has no {new!r}; expected alfred.twl2 of ALFWorld 0.4")
        grammar = grammar.replace(new, old)
    return _without_block(domain, "(:action help", "(", ")"), _without_block(grammar, "action help", "{", "}")


def patched_generation(domain: str, grammar: str) -> tuple[str, str]:
    """Convert domain and grammar to the form of data 2.1.2 and later, produced by ALFWorld's `patch_tw-pddl.py`.

    The words are those of ALFWorld 0.4. The action `help` comes last in both texts, with its answer in the action
    itself and with real line breaks.
    """
    start = domain.index("(:action help")
    action = domain[start : domain.index("\n)", start) + 3]
    domain, grammar = old_generation(domain, grammar)
    for new, old in _OLD_WORDS:
        grammar = grammar.replace(old, new)
    before, _, after = domain.rpartition(")")
    grammar += f'\n\naction help {{\n    template :: "help";\n    feedback :: "\n{HELP}";\n}}\n'
    return f"{before}{action}){after}", grammar


def _without_block(text: str, head: str, opening: str, closing: str) -> str:
    """Return the text without the bracketed block that starts with `head`, if there is one.

    Brackets in the block must balance.
    """
    start = text.find(head)
    if start < 0:
        return text
    depth, position = 0, text.index(opening, start)
    while True:
        depth += {opening: 1, closing: -1}.get(text[position], 0)
        position += 1
        if depth == 0:
            return text[:start] + text[position:]


def problem_pddl(problem: Problem, goal: Goal, name: str) -> str:
    """Return a problem as PDDL text."""
    lines = [f"(define (problem {name})", "(:domain alfred)", "(:objects"]
    lines += [f"{id} - {kind}" for id, kind in problem.types.items()]
    lines += [")", "(:init"]
    lines += [f"({predicate} {' '.join(fact)})" for predicate, facts in problem.facts.items() for fact in facts]
    lines += ["(= (total-cost) 0)", ")", f"(:goal {goal_pddl(goal)})", ")"]
    return "\n".join(lines) + "\n"


def export_game(task: Task, folder: Path, domain: str, grammar: str) -> Path:
    """Write a generated task's `game.tw-pddl` and `traj_data.json` to a folder; return the path of the game file.

    `domain` and `grammar` are the contents of ALFWorld's `alfred.pddl` and `alfred.twl2`.
    """
    goal, kind = goal_of(task), task.data["type"]
    game = {
        "pddl_domain": domain,
        "grammar": grammar.replace("UNKNOWN GOAL", task.instruction),
        "pddl_problem": problem_pddl(make_problem(task), goal, task.id.replace("/", "_")),
        "solvable": True,
        "walkthrough": solve(Play(generated_game(task, OLD if _OLD_PUT in grammar else NEW))),
    }
    params = {
        "object_target": goal.object,
        "parent_target": goal.receptacle,
        "mrecep_target": "",
        "toggle_target": goal.lamp,
        "object_sliced": False,
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "game.tw-pddl"
    path.write_text(json.dumps(game), encoding="utf-8")
    description = {"task_type": kind, "pddl_params": params, "turk_annotations": {"anns": [{"task_desc": task.instruction}]}}
    (folder / "traj_data.json").write_text(json.dumps(description), encoding="utf-8")
    return path
