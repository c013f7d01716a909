"""`agentgym package`: the files name the environment safely, and another project's names of it come from there."""

import ast
import json
import sys
import tomllib

import pytest

import agentgym
from agentgym.cli import main
from agentgym.cli.package import describe
from agentgym.errors import BadConfig
from agentgym.scaffold.package import TARGETS, Packaged, Trace, write

FILES = {
    "openenv": {
        "openenv.yaml",
        "Dockerfile",
        ".dockerignore",
        "pyproject.toml",
        "README.md",
        "__init__.py",
        "wheels/.gitkeep",
    }
    | {
        "server/__init__.py",
        "server/app.py",
        "validation/runtime.json",
        "oracle/solved_state.json",
        "canaries/canaries.json",
    },
    "verifiers": {"pyproject.toml", "README.md", "rlvr_guess_number.py"},
    "nemo_gym": {"app.py", "configs/rlvr_guess_number.yaml", "requirements.txt", "task_data.py", "README.md"}
    | {"data/example.jsonl"},
}


@pytest.mark.parametrize("project", TARGETS)
def test_the_files_of_each_project(tmp_path, capsys, project):
    assert main(["package", "guessnumber", "--for", project, "--out", str(tmp_path / "out"), "--env.horizon", "9"]) == 0
    paths = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert paths == FILES[project]
    assert len(capsys.readouterr().out.splitlines()) == len(paths)
    for path in paths:
        if path.endswith(".py"):
            ast.parse((tmp_path / "out" / path).read_text())
        if path.endswith(".toml"):
            project_table = tomllib.loads((tmp_path / "out" / path).read_text())["project"]
            assert project_table["dependencies"] == [f"rlvr-gym[{project}]"]
    assert any("'horizon': 9" in (tmp_path / "out" / path).read_text() for path in paths if path.endswith(".py"))


def test_the_episodes_of_a_validation_are_those_of_the_environment():
    env = describe("guessnumber", {})
    played = agentgym.make("guessnumber")
    for trace, won in ((env.public, True), (env.solution, True), *((canary, False) for canary in env.canaries)):
        played.reset(seed=trace.seed, options={"task": trace.task})
        rewards = [played.step(action)[1] for action in trace.actions]
        assert (sum(rewards), bool(played.success)) == (float(won), won)
    assert env.solution.actions == [str(played.task.data["secret"])] and len(env.public.actions) > 1
    assert {canary.label for canary in env.canaries} >= {"empty", "claim of success", "prewritten verdict"}


def test_the_origin_of_an_environment_is_required_or_copied(tmp_path, monkeypatch):
    (tmp_path / "lone_module.py").write_text(
        "import agentgym\nfrom agentgym.envs.guess_number import GuessNumber\n"
        "class Mine(GuessNumber): pass\nagentgym.register('lone/Mine-v0', 'lone_module:Mine')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    env = describe("lone_module:lone/Mine-v0", {})
    assert (env.env, env.requirements, env.source) == ("lone_module:lone/Mine-v0", [], tmp_path / "lone_module.py")
    write(env, "verifiers", tmp_path / "out")
    assert (tmp_path / "out" / "lone_module.py").read_text() == (tmp_path / "lone_module.py").read_text()
    assert "lone_module" in (tmp_path / "out" / "pyproject.toml").read_text()
    sys.modules.pop("lone_module")
    info = tmp_path / "lone_envs-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lone-envs\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[agentgym.envs]\nlone/Mine-v0 = lone_module:Mine\n")
    env = describe("lone/Mine-v0", {})
    assert (env.env, env.requirements, env.source) == ("lone/Mine-v0", ["lone-envs==1.2"], None)


NASTY = '$(touch x)"; import os #\n\'\'\' """ \\ {{ }} %s `id` \x7f é'


@pytest.mark.parametrize("project", TARGETS)
def test_texts_of_strangers_are_values_and_nothing_else(tmp_path, project):
    yaml = pytest.importorskip("yaml")
    trace = Trace("t/" + NASTY, 1, [NASTY])
    env = Packaged(
        env=f"m:ns/A{NASTY}-v0",
        description=NASTY,
        options={"text": NASTY},
        tools=[NASTY],
        sizes={NASTY: 3},
        tasks=[("t/" + NASTY, NASTY)],
        public=trace,
        solution=trace,
        canaries=[trace],
    )
    write(env, project, tmp_path / "out")
    values, found = [], {path.suffix for path in (tmp_path / "out").rglob("*")}
    for path in (tmp_path / "out").rglob("*.py"):
        tree = ast.parse(path.read_text())
        values += [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.Import) and node.names[0].name == "os"]
    assert env.env in values and NASTY in values
    for path in (tmp_path / "out").rglob("*.yaml"):
        servers = {env.name, f"{env.name}_gymnasium_agent", f"{env.name}_environment_server"}
        manifest = {"name", "version", "type", "runtime", "app", "port", "spec_version", "validation"}
        assert set(yaml.safe_load(path.read_text())) in (servers, manifest)
    if ".toml" in found:
        assert "touch x" in tomllib.loads((tmp_path / "out" / "pyproject.toml").read_text())["project"]["description"]
    if project == "openenv":
        assert NASTY not in (tmp_path / "out" / "Dockerfile").read_text()
        assert json.loads((tmp_path / "out" / "validation" / "runtime.json").read_text())["actions"] == [{"text": NASTY}]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"requirements": ["x; touch y"]}, "expected NAME==VERSION"),
        ({"requirements": ["--index-url=x"]}, "expected NAME==VERSION"),
        ({"options": {"f": print}}, "cannot be written as JSON"),
        ({"options": {"f": float("nan")}}, "cannot be written as JSON"),
    ],
)
def test_what_no_file_may_hold_is_refused(tmp_path, change, words):
    with pytest.raises(BadConfig, match=words):
        write(Packaged(**({"env": "a/B-v0", "description": "", "options": {}} | change)), "verifiers", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["guessnumber"], "Expected --for openenv or verifiers or nemo_gym."),
        (["guessnumber", "--for", "openev", "--out", "x"], "openenv"),
        (["guessnumber", "--for", "openenv"], "expected --out FOLDER"),
        (["verifiers:x", "--for", "openenv", "--out", "x"], "another project's environment"),
        (["nothing", "--for", "openenv", "--out", "x"], "MODULE:NAMESPACE/NAME-v0"),
    ],
)
def test_a_command_that_cannot_be_done_says_why(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    assert main(["package", *words]) == 2
    assert message in capsys.readouterr().err and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("env", "name"),
    [("frost/Lighthouse-v0", "frost_lighthouse"), ("m:rlvr/SQL-v0", "rlvr_sql"), ("a/9é-v2", "a_9_v2"), ("é/é-v0", "env")],
)
def test_names(env, name):
    assert Packaged(env, "", {}).name == name
