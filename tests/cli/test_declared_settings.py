"""Every setting is declared: what a stranger's file may hold, and what the caller alone says."""

import ast
import dataclasses
import importlib
from pathlib import Path
from typing import Annotated, Literal, get_args, get_origin

import gymnasium
import pytest
from sources import parsed

from agentgym.cli import COMMANDS
from agentgym.cli.eval_trained import USED
from agentgym.core.env import TextEnv
from agentgym.errors import BadConfig
from agentgym.registry import DESCRIPTIONS, load
from agentgym.trainers import seam as seams
from agentgym.trainers.config import caller_settings
from agentgym.trainers.config.caller_settings import BY_VALUE, CALLER, STAGES, STORED
from agentgym.trainers.config.imitation_config import ImitationConfig
from agentgym.trainers.config.recipe_files import read_run
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.needs.interface import NEEDS


def env_classes() -> dict[str, type[TextEnv]]:
    """Return the registered environments of the package."""
    entries = {id: gymnasium.registry[id].entry_point for id in DESCRIPTIONS if id.startswith("rlvr/")}
    return {id: load(entry, "environment", {}) if isinstance(entry, str) else entry for id, entry in entries.items()}


def test_every_keyword_of_every_environment_is_declared_once():
    for id, kind in env_classes().items():
        tasks = {name for base in kind.__mro__ for name in vars(base).get("task_settings", ())}
        caller = {name for base in kind.__mro__ for name in vars(base).get("caller_settings", ())}
        options = {*kind.option_names(), "preset", "render_mode"}
        assert options <= tasks | caller, f"{id}: neither in task_settings nor in caller_settings"
        assert not tasks & caller, f"{id}: declared twice"
        assert kind.stored_option_names() >= options - caller


def test_what_says_where_or_how_is_the_callers():
    words = {"backend", "backend_options", "data", "corpus", "questions", "retriever", "path", "network", "user", "packages"}
    for id, kind in env_classes().items():
        assert not words & kind.stored_option_names(), id


def test_an_undeclared_keyword_is_the_callers():
    class Own(TextEnv):
        settings = ("command", "level")
        task_settings = ("level",)

    class Below(Own):
        caller_settings = ("level",)

    assert {"level", "difficulty"} <= Own.stored_option_names() and "command" not in Own.stored_option_names()
    assert "level" not in Below.stored_option_names()  # where two classes disagree, the safe kind holds


@pytest.mark.parametrize("kind", [TrainConfig, ImitationConfig])
def test_every_field_of_a_stored_configuration_is_declared_once(kind: type):
    options = {f"{name}_options" for name in STAGES}
    for field in dataclasses.fields(kind):
        tables = [table for table in (STORED, CALLER, BY_VALUE, {*STAGES}, options) if field.name in table]
        assert len(tables) == 1, f"{field.name} of {kind.__name__} stands in {len(tables)} tables of caller_settings"
    known = {field.name for config in (TrainConfig, ImitationConfig) for field in dataclasses.fields(config)}
    assert known >= STORED | CALLER | BY_VALUE | {*STAGES}


def test_an_undeclared_field_is_the_callers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A field that somebody adds to a configuration and to no table is refused in a file, not read."""
    (tmp_path / "config.toml").write_text("lr = 0.5\n")
    assert read_run(tmp_path).lr == 0.5
    monkeypatch.setattr(caller_settings, "STORED", STORED - {"lr"})
    with pytest.raises(BadConfig, match="sets --lr"):
        read_run(tmp_path)


def test_text_options_of_every_stage_are_declared():
    for seam in (*STAGES.values(), NEEDS):
        for name in seam.table:
            target = seam.looked_up(name).target
            hints = seams._hints(target)
            for option, parameter in seams.options_of(target).items():
                if isinstance(parameter.default, bool | int | float) or get_origin(hints[option]) is Literal:
                    continue
                marks = get_args(hints[option])[1:] if get_origin(hints[option]) is Annotated else ()
                numeric = get_args(hints[option])[:1] in ((int,), (float,)) or name == "gigpo_reference"
                assert numeric or {seams.SHAPES, seams.CALLER} & {*marks}, f"{option} of {seam.kind} {name!r}"


def test_no_other_command_reads_settings_from_files():
    """TOML is parsed by the readers of recipes, suites, and stored runs; a new reader has to think of strangers."""
    root = Path(importlib.import_module("agentgym").__file__).parent
    readers = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if "tomllib" in (text := path.read_text(encoding="utf-8"))
        for node in ast.walk(parsed(text))
        if isinstance(node, ast.Import) and any(name.name == "tomllib" for name in node.names)
    }
    assert {name.rpartition("/")[2] for name in readers if not name.startswith("envs/")} == {
        "recipe_files.py",  # `read_values(stored=True)` for runs
        "spending.py",  # prices: numbers alone, in a file that the caller names
        "description.py",  # a harness is the caller's own text: `agent` is read from no stored run
        "suite.py",  # a suite is the caller's own text
        *("compare.py", "facts.py", "many_runs.py", "tokens.py"),  # show it
    }
    for name, (module, _) in COMMANDS.items():
        own = importlib.import_module(module)
        stored = vars(own).get("FLAGS")
        assert stored in (None, TrainConfig, ImitationConfig), name
    assert {*USED} <= {field.name for field in dataclasses.fields(TrainConfig)}
