"""Environments of installed packages: which entry points count, and what a broken package costs."""

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from agentgym import registry
from agentgym.core.installed import GROUP, installed


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, GROUP)


def test_an_entry_point_is_an_id_and_a_class():
    envs, problems = installed([point("frost/Lighthouse-v0", "frost_envs:Lighthouse")])
    assert [(env.id, env.entry_point) for env in envs] == [("frost/Lighthouse-v0", "frost_envs:Lighthouse")] and not problems


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("rlvr/Household-v0", "evil:Env", "agentgym's own"),
        ("RLVR/Household-v0", "evil:Env", "agentgym's own"),
        ("Lighthouse-v0", "frost:Env", "expected NAMESPACE/NAME-v0"),
        ("frost/Light\x1b[31m-v0", "frost:Env", "expected NAMESPACE/NAME-v0"),
        ("frost/Lighthouse", "frost:Env", "expected NAMESPACE/NAME-v0"),
        ("frost/Lighthouse-v0", "frost", "expected MODULE:CLASS"),
        ("frost/Lighthouse-v0", "frost:Env()", "expected MODULE:CLASS"),
    ],
)
def test_what_is_no_environment_is_a_sentence(name, value, says):
    envs, problems = installed([point(name, value)])
    assert not envs and len(problems) == 1 and says in problems[0]


def test_two_packages_with_one_id_are_reported():
    envs, problems = installed([point("a/X-v0", "one:X"), point("a/X-v0", "two:X")])
    assert [env.entry_point for env in envs] == ["one:X"] and "remove one of them" in problems[0]


def test_short_names_are_ours_first_and_never_ambiguous(monkeypatch):
    others = {"zzz/Household-v0": "", "aaa/Household-v0": "", "one/Tower-v0": "", "two/Tower-v0": "", "one/Frost-v0": ""}
    monkeypatch.setattr(registry, "DESCRIPTIONS", {**registry.DESCRIPTIONS, **others})
    short = registry.short_names()
    assert short["household"] == "rlvr/Household-v0" and short["frost"] == "one/Frost-v0" and "tower" not in short


@pytest.fixture
def package(tmp_path: Path):
    """A folder on the path with the metadata of an installed package, as pip leaves it."""

    def make(name: str, module: str, entry_points: str) -> None:
        (tmp_path / f"{name}.py").write_text(module)
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{GROUP}]\n{entry_points}\n")

    def run(code: str) -> str:
        path = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); "
        done = subprocess.run([sys.executable, "-c", path + code], capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    make.run = run
    return make


LAMP = """
import agentgym
class Lamp(agentgym.TextEnv):
    "Switch on."
    def begin(self, task): return "A lamp."
    def act(self, action): return self.win("On.")
    @staticmethod
    def generate(rng, difficulty): return agentgym.Task("on", {"salt": int(rng.integers(10**6))})
"""


def test_gymnasium_makes_an_installed_environment_which_is_not_imported_before(package):
    package("lamps", LAMP, "lamps/Lamp-v0 = lamps:Lamp")
    out = package.run(
        "import gymnasium; import agentgym; print('lamps' in sys.modules); print(gymnasium.make('lamps/Lamp-v0').reset()[0])"
    )
    assert out.splitlines() == ["False", "A lamp."]
    assert package.run("import gymnasium; print(gymnasium.make('agentgym:lamps/Lamp-v0').reset()[0])") == "A lamp.\n"


def test_a_package_that_cannot_be_imported_costs_one_line(package):
    package("lamps", LAMP, "lamps/Lamp-v0 = lamps:Lamp")
    package("broken", "import nothing_of_this_name", "broken/Env-v0 = broken:Env")
    package("angry", "raise KeyError('angry')", "angry/Env-v0 = angry:Env\nrlvr/Shop-v0 = angry:Env")
    rows = (
        "import json; from agentgym import registry; from agentgym.cli import envs; "
        "registry.ENVS.clear(); names = ['lamps/Lamp-v0', 'broken/Env-v0', 'angry/Env-v0']; "
        "print(json.dumps([envs._as_json(name).get('missing', '') for name in names])); "
        "print(*registry.PROBLEMS, sep='\\n'); "
        "print([bool(registry.missing(name)) for name in names])"
    )
    first, problems, missing = package.run(rows).splitlines()
    assert first.startswith('["", ') and "nothing_of_this_name" in first and "angry.py, line 1: KeyError" in first
    assert problems == "angry 1.0 names an environment 'rlvr/Shop-v0'; the namespace rlvr is agentgym's own"
    assert missing == "[False, True, True]"
