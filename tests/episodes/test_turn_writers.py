"""Each field of a turn has one writer; docs/guides/episodes.md lists them."""

import ast
from dataclasses import fields
from pathlib import Path

from sources import parsed

from agentgym.episodes.episode import Turn

ROOT = Path(__file__).parents[2]
TURNS = {"turn", "last", "call", "made", "label", "written", "judged"}
"""Names that the package gives to turns."""
WRITERS = {
    "agentgym/agents": {"text", "action", "parsed", "finish", "notes", "extra"},
    "agentgym/gateway": {"state_key"},
    "agentgym/logs/foreign.py": {"error", "extra"},
    "agentgym/trainers/data/stored.py": {"prompt_ids", "extra"},
    "agentgym/trainers/selections/mixing.py": {"logprobs"},
    "agentgym/trainers/selections/dagger.py": {"role", "plain_ids", "extra"},
    "agentgym/trainers/selections/memorize.py": {"text", "action", "role", "plain_ids", "extra"},
}
"""What is assigned outside of `Turn` and `Episode`; keys of `extra` belong to the stage that they are named after."""


def assigned(path):
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(parsed(text)) if any(f"{name}." in text for name in TURNS) else ():
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
        for target in (inner for one in targets for inner in (one.elts if isinstance(one, ast.Tuple) else [one])):
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id in TURNS:
                yield target.attr


def test_nobody_else_writes_a_field_of_a_turn():
    names, wrong = {field.name for field in fields(Turn)}, []
    for path in sorted((ROOT / "agentgym").rglob("*.py")):
        place = path.relative_to(ROOT).as_posix()
        if place.startswith(("agentgym/envs/", "agentgym/episodes/")):
            continue
        allowed = next((may for prefix, may in WRITERS.items() if place.startswith(prefix)), {"extra"})
        wrong += [f"{place} assigns {name}" for name in assigned(path) if name in names - allowed]
    assert not wrong


def test_the_page_lists_every_field_once():
    page = (ROOT / "docs/guides/episodes.md").read_text(encoding="utf-8")
    table = page.partition("| field of a turn |")[2].partition("\n\n")[0]
    listed = [name.strip(" `") for row in table.splitlines()[2:] for name in row.split("|")[1].split(",")]
    assert sorted(listed) == sorted(field.name for field in fields(Turn))
