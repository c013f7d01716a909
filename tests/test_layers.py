"""docs/layers.py draws the imports of the package, and the places that docs/reference/architecture.md names exist."""

import ast
import importlib.util
import re
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

from test_import import ours, part

from agentgym.core.garbage import uncollected

ROOT = Path(__file__).resolve().parent.parent
SPEC = importlib.util.spec_from_file_location("layers", ROOT / "docs" / "layers.py")
layers = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(layers)
DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
PAGE = ROOT / "docs" / "reference" / "architecture.md"


@cache
def drawn() -> dict[str, set[str]]:
    """Return the arrows of the picture."""
    found = {name: set() for name in layers.parts()}
    with uncollected():
        arrows = layers.arrows()
    for element in ElementTree.fromstring(layers.picture(arrows)).iter("{http://www.w3.org/2000/svg}path"):
        if element.get("class") == "arrow":
            found[element.get("data-from")].add(element.get("data-to"))
    return found


def test_the_arrows_of_the_picture_are_those_of_the_imports():
    """Each is an import, and every import is one or follows from several; the imports are read by `test_import` too."""
    imports = {name: set() for name in layers.parts()}
    for module, used in ours().items():
        if not part(module).startswith("__"):
            imports[part(module)] |= {part(one) for one in used - {"agentgym"}} - {part(module)}
    arrows = drawn()
    for name, wanted in imports.items():
        assert arrows[name] <= wanted, f"{name}: an arrow without an import"
        assert wanted <= layers.reach(arrows, name), f"{name}: an import without an arrow"


def test_every_arrow_leads_down():
    arrows = drawn()
    layer = layers.depths(arrows)
    assert all(layer[to] < layer[name] for name, used in arrows.items() for to in used)


def test_the_hand_made_case():
    """`top` imports the two below it; that one of them imports the other makes the long arrow follow."""
    arrows = {"top": {"middle", "bottom"}, "middle": {"bottom"}, "bottom": set()}
    assert layers.direct(arrows) == {"top": {"middle"}, "middle": {"bottom"}, "bottom": set()}
    assert layers.depths(arrows) == {"top": 2, "middle": 1, "bottom": 0}


def test_the_way_of_an_observation_names_what_is_there():
    steps = re.findall(r"^(\d+)\. `([^`]+)` `([^`]+)`:", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [number for number, _, _ in steps] == [str(number) for number in range(1, 11)]
    for _, path, name in steps:
        tree: ast.AST = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        for word in name.split("."):
            defined = {node.name: node for node in tree.body if isinstance(node, DEFINITIONS)}
            assert word in defined, f"{path} has no {name}"
            tree = defined[word]
