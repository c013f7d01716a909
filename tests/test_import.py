"""Imports are light and silent, and point one way."""

import ast
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest
from sources import parsed

import agentgym

ROOT = Path(__file__).parent.parent / "agentgym"
HEAVY = {
    "torch",
    "transformers",
    "trl",
    "peft",
    "accelerate",
    "datasets",
    "vllm",
    "bm25s",
    "matplotlib",
    "openai",
    "playwright",
    "flask",
    "waitress",
    "miniwob",
    "uvicorn",
    "math_verify",
    "reasoning_gym",
}
TORCH = {"torch", "transformers", "trl", "peft", "accelerate"}

LAYERS = (  # a folder (or a file at the top) may import from its own layer and from every layer before, in no circle
    ("errors", "options"),
    ("core",),
    ("tasks", "episodes", "registry", "serving", "scaffold"),
    ("rewards", "sandbox", "browser", "mcp_tools", "retrieval", "engines", "envs", "agents", "contract"),
    ("rollout", "gateway"),
    ("harness",),
    ("trainers", "evaluate", "report", "logs", "env_server", "integrations", "planner"),
    ("cli", "__main__"),
)
LAYER = {name: level for level, names in enumerate(LAYERS) for name in names}


def modules():
    """Return every module of the package by its dotted name; repositories that tasks are made from are none of it."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        if path.is_relative_to(ROOT / "envs/swe/packages"):
            continue
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def words(expression):
    """Return the names in an expression."""
    return {word for node in ast.walk(expression) for word in (getattr(node, "id", ""), getattr(node, "attr", ""))}


@cache
def lines(path):
    """Return the imports of a file: the dotted name, whether a function holds it, and whether it is for types alone."""
    found = set()

    def visit(node, inside, typed):
        inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        typed = typed or (isinstance(node, ast.If) and "TYPE_CHECKING" in words(node.test))
        if isinstance(node, ast.Import):
            found.update((alias.name, inside, typed) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found.update((name if name in MODULES else node.module, inside, typed) for name in names)
        for field in ("body", "orelse", "handlers", "finalbody", "cases"):  # where statements stand
            for child in getattr(node, field, ()):
                visit(child, inside, typed)

    visit(parsed(path.read_text(encoding="utf-8")), False, False)
    return found


def imports(path, top_only=False, types=True):
    """Return the dotted names a file imports; with `top_only` those that run when it is imported; `types`: for types too."""
    return {
        name for name, inside, typed in lines(path) if not (top_only and inside) and not (typed and (top_only or not types))
    }


def part(module):
    """Return the part of the package a module belongs to: its second name."""
    return module.split(".")[1]


@cache
def ours():
    """Return by module what it imports of the package; read once asked for, since it takes seconds."""
    return {
        name: {used for used in imports(path) if used.split(".")[0] == "agentgym"}
        for name, path in MODULES.items()
        if name != "agentgym"
    }


def test_imports_point_one_way():
    arrows = [(name, used) for name in ours() for used in ours()[name] - {"agentgym"}]
    assert not [f"{name} imports {used}" for name, used in arrows if LAYER[part(used)] > LAYER[part(name)]]


def test_only_the_top_layers_import_the_package_itself():
    """`agentgym` imports the spine, the engines' protocol and the rollout: below, an import of it would close a circle."""
    tops = {*LAYERS[-1], *LAYERS[-2]}
    assert {part(name) for name, used in ours().items() if "agentgym" in used} <= tops


def test_siblings_of_envs_never_import_each_other():
    for name, used in ours().items():
        if name.startswith("agentgym.envs."):
            own = name.split(".")[2]
            others = {one.split(".")[2] for one in used if one.startswith("agentgym.envs.")} - {own}
            assert not others, f"{name} imports {others}"


def test_there_is_no_cycle():
    """Imports inside functions count: a cycle that they hide is a cycle for the reader. Those for types alone do not."""
    graph = {
        name: {used for used in imports(path, types=False) if used in MODULES and used != name} - {"agentgym"}
        for name, path in MODULES.items()
        if name != "agentgym"
    }
    found = cycles(graph)
    assert not found, "\n".join(f"{len(members)} files: {', '.join(members)}" for members in found)


def cycles(graph):
    """Return the members of each cycle: the strongly connected components of more than one file (Kosaraju)."""
    order, seen, backward = [], set(), {}
    for name, used in graph.items():
        for one in used:
            backward.setdefault(one, set()).add(name)

    def walk(name, arrows, visited):
        stack = [(name, iter(sorted(arrows.get(name, ()))))]
        visited.add(name)
        while stack:
            following = next((one for one in stack[-1][1] if one not in visited), None)
            if following is None:
                yield stack.pop()[0]
            else:
                visited.add(following)
                stack.append((following, iter(sorted(arrows.get(following, ())))))

    for name in graph:
        if name not in seen:
            order += walk(name, graph, seen)
    seen.clear()
    components = [sorted(walk(name, backward, seen)) for name in reversed(order) if name not in seen]
    return [members for members in components if len(members) > 1]


def test_cycles_are_found():
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert cycles(graph) == [["a", "b", "c"], ["d", "e"]]


def test_folders_import_one_another_in_no_circle():
    """Also where single modules would not: what two folders want of each other belongs into a third."""
    arrows = {}
    for name, used in ours().items():
        arrows.setdefault(part(name), set()).update(part(one) for one in used - {"agentgym"} if part(one) != part(name))
    while free := {folder for folder, wanted in arrows.items() if not wanted & arrows.keys()}:
        arrows = {folder: wanted for folder, wanted in arrows.items() if folder not in free}
    assert not arrows, f"in circles, or on top of one: {arrows}"


def inner(module):
    """Return the folder within a folder that a module lies in: `trainers/model`; empty where it lies in none."""
    words = MODULES[module].relative_to(ROOT).parts
    return "/".join(words[:2]) if len(words) > 2 and words[0] != "envs" else ""


def inner_arrows():
    """Return which inner folder imports which other one beside it."""
    arrows = {}
    for name, used in ours().items():
        beside = {inner(one) for one in used & ours().keys() if part(one) == part(name)}
        arrows.setdefault(inner(name), set()).update(beside - {inner(name), ""})
    del arrows[""]
    return arrows


def test_inner_folders_import_one_another_in_no_circle():
    """The rooms of trainers/ are told apart by modules: what a room shares is its interface."""
    arrows = {name: used for name, used in inner_arrows().items() if not name.startswith("trainers/")}
    while free := {folder for folder, wanted in arrows.items() if not wanted & arrows.keys()}:
        arrows = {folder: wanted for folder, wanted in arrows.items() if folder not in free}
    assert not arrows, f"in circles, or on top of one: {arrows}"


def test_backends_never_import_one_another_and_training_leans_on_no_planner():
    arrows = inner_arrows()
    for kind, backends in {"engines": ("hf", "vllm", "openai"), "sandbox": ("bubblewrap", "docker", "process")}.items():
        every = {f"{kind}/{backend}" for backend in backends}
        assert every <= arrows.keys()
        assert not [backend for backend in every if arrows[backend] & every], arrows
    assert not [folder for folder, used in arrows.items() if "planner" in used], arrows


def test_few_files_stand_at_the_top():
    files = {"__init__.py", "__main__.py", "errors.py", "options.py", "registry.py"}
    assert {path.name for path in ROOT.glob("*.py")} <= files


def pages(name):
    """Whether it makes pages of an embedded site with Flask: imported when a browser is about to ask for them."""
    if not name.startswith("agentgym.envs.web.sites.") or name.endswith((".data", ".tasks")):
        return False
    used = imports(MODULES[name], top_only=True)
    made = any(one.startswith(("flask", "agentgym.envs.web.sites.frame")) for one in used)
    return made or name.endswith(".app")


def foreign(name):
    """Whether it imports a package of others that is in no extra of ours that goes with the rest."""
    return name.startswith("agentgym.integrations.") and not name.endswith(".methods")


def torch_allowed(name):
    if foreign(name):
        return True
    if name.startswith("agentgym.planner."):
        return True
    if name.startswith("agentgym.trainers"):
        return not name.startswith("agentgym.trainers.credit") and MODULES[name].name != "__init__.py"
    if name == "agentgym.cli.plan":  # imported by `train --plan` alone
        return True
    return name.startswith(("agentgym.engines.hf.", "agentgym.engines.vllm.", "agentgym.engines.shards"))


def test_torch_only_where_allowed():
    wrong = []
    for name in MODULES:
        top = {used.split(".")[0] for used in imports(MODULES[name], top_only=True)}
        anywhere = {used.split(".")[0] for used in imports(MODULES[name], types=False)}  # which are never imported
        if not torch_allowed(name):
            wrong += [f"{name} imports {heavy} when it is imported" for heavy in top & TORCH]
        if not torch_allowed(name) and part(f"{name}.x") != "cli":
            allowed = {"transformers"} if name.startswith("agentgym.agents") else set()
            wrong += [f"{name} imports {heavy}" for heavy in anywhere & TORCH - allowed]
    assert not wrong


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_importing_the_package_is_light():
    start = time.perf_counter()
    done = run("import sys, agentgym; print(*sorted({name.split('.')[0] for name in sys.modules}))")
    print(f"import agentgym: {time.perf_counter() - start:.2f} s in all")
    assert done.returncode == 0 and done.stderr == ""
    assert not set(done.stdout.split()) & (HEAVY | {"gymnasium", "numpy", "dataclasses", "rich", "scipy", "pandas"})


@pytest.mark.parametrize(
    "imported",
    [
        "import agentgym, gymnasium",
        "import gymnasium, agentgym",
        "import agentgym, importlib.util; importlib.util.find_spec('gymnasium'); import gymnasium",
        "from agentgym import TextEnv; import gymnasium",
        "import agentgym.registry, gymnasium",
    ],
)
def test_gymnasium_knows_the_environments_whichever_is_imported_first(imported):
    hooks = "[finder for finder in sys.meta_path if type(finder).__module__ == 'agentgym']"
    done = run(f"{imported}, sys\nprint(gymnasium.make('rlvr/GuessNumber-v0'), {hooks})")
    assert (done.stdout, done.stderr) == ("<GuessNumber<rlvr/GuessNumber-v0>> []\n", "")


def test_type_checkers_see_the_names_that_the_package_has():
    block = next(
        node for node in parsed((ROOT / "__init__.py").read_text(encoding="utf-8")).body if isinstance(node, ast.If)
    )
    typed = {alias.asname: node.module for node in block.body for alias in node.names}
    assert typed == agentgym._LATE
    assert all(getattr(agentgym, name) for name in agentgym.__all__) and set(agentgym.__all__) <= set(dir(agentgym))


def test_importing_every_light_module_prints_nothing_and_loads_nothing_heavy():
    names = [name for name in MODULES if not torch_allowed(name) and not pages(name) and name != "agentgym.__main__"]
    code = f"import importlib, sys\nfor name in {names}: importlib.import_module(name)\n"
    code += f"found = sorted(set({sorted(HEAVY - {'bm25s'})}) & set(sys.modules))\nassert not found, found"
    done = run(code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.long
def test_importing_every_heavy_module_prints_nothing():
    names = [name for name in MODULES if torch_allowed(name) and "vllm" not in name and not foreign(name)]
    done = run(f"import importlib\nfor name in {names}: importlib.import_module(name)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_evaluation_over_plain_chat_loads_neither_training_nor_containers():
    done = run(
        "import sys\nfrom agentgym.cli import main\n"
        "main(['eval', 'guessnumber', '--model', 'chat:http://127.0.0.1:9/v1#m', '--tasks', '1'])\n"
        "print(*sys.modules)"
    )
    loaded = {name for name in done.stdout.split() if name.startswith("agentgym.")}
    assert "agentgym.cli.eval" in loaded and "agentgym.rollout.pool" in loaded
    heavy = ("agentgym.trainers", "agentgym.gateway", "agentgym.sandbox", "agentgym.envs.terminal")
    assert not [name for name in loaded if name.startswith(heavy)]
