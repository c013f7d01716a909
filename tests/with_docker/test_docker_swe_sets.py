"""SWE-bench, SWE-rebench-V2, SWE-Gym, R2E-Gym, SWE-bench Pro and Multi-SWE-bench in containers of our own in each layout."""

# ruff: noqa: E402

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = os.environ.get("AGENTGYM_DOCKER", "")
URL = f"unix://{FOLDER}/daemon.sock" if FOLDER else ""
if not URL:
    pytest.skip("there is no daemon of the tests' own: ./dev test-docker", allow_module_level=True)
pytest.importorskip("swebench", reason="the extra `swebench` is not installed")
sys.path.append(str(Path(__file__).parents[1] / "envs" / "swe"))
import swe_files
import swe_sets
from native_talks import SOURCES, SURVEY
from test_docker_swe import git, history
from test_harnesses import BESIDE_OWN, IMAGE, INSTALL, OWN, played, scripted
from test_swe_bench import write

from agentgym.core.actions import spell
from agentgym.envs.swe.bench.env import SWEBench
from agentgym.envs.swe.scoring import score
from agentgym.trainers.data.segments import build

pytestmark = pytest.mark.long
SETS = ("classic", *swe_sets.SETS)
LAYOUTS = {
    "classic": "",
    "rebench": "mv /testbed /purse",
    "gym": """
cat > /usr/local/bin/pytest << 'END'
#!/bin/sh
shift  # -n0, the option of xdist that comes first in the fork's commands
exec python3 -m pytest "$@"
END
""",
    "r2e": """
cd /testbed
mkdir -p /r2e_tests .venv/bin
git show later:tests/test_purse.py > /r2e_tests/test_1.py
echo 'python3 -m pytest -rA --color=no r2e_tests' > run_tests.sh
echo secret > parsed_commit.json
printf '#!/bin/sh\\necho the environment\\n' > .venv/bin/which-one
chmod +x .venv/bin/which-one
""",
    "pro": "mv /testbed /app; ln -s python3 /usr/bin/python",
    "multi": """
mkdir -p /home
mv /testbed /home/cli
cd /home/cli
git diff HEAD later -- purse.py > /home/fix.patch
git diff HEAD later -- tests > /home/test.patch
cat > /home/fix-run.sh << 'END'
set -e
cd /home/cli
git apply /home/test.patch /home/fix.patch
python3 -m pytest -rA --color=no | sed -E 's/^([A-Z]{4})ED /--- \\1: /'
END
""",
}
"""What is done to an image with the repository in `/testbed`, as a shell script."""
SECRETS = (
    "git log --all --oneline; git fsck --lost-found; cat /home/*.patch /r2e_tests/* /testbed/run_tests.sh *commit.json; ls"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, Any]]]:
    """Build an image of each set's name and layout, and return the options of the environment by set."""
    import docker

    folder = tmp_path_factory.mktemp("sets")
    row, root = history(folder)
    failing = [swe_files.ALL[1]]
    passing = [test for test in swe_files.ALL if test not in failing]
    later = git(folder / "purse-1.0", "rev-parse", "later")
    rows = swe_sets.rows(row["patch"], row["test_patch"], row["base_commit"], later, failing, passing) | {"classic": row}
    folders = swe_sets.checkouts(folder / "checkouts")
    (folder / "build").mkdir()
    (folder / "build" / "root.tar").write_bytes(root)
    client = docker.DockerClient(base_url=URL, timeout=300)
    options: dict[str, dict[str, Any]] = {}
    images: list[str] = []
    for name in SETS:
        if name == "multi" and importlib.util.find_spec("multi_swe_bench") is None:
            continue
        (folder / "build" / "layout.sh").write_text(f"set -e\n{LAYOUTS[name]}\n")
        (folder / "build" / "Dockerfile").write_text(
            f"FROM {IMAGE or 'agentgym-test/python'}\nADD root.tar /\nCOPY layout.sh /var/layout.sh\n"
            "RUN git config --global --add safe.directory '*' && sh /var/layout.sh && rm /var/layout.sh\n"
        )
        data = str(write(folder / f"{name}.jsonl", rows[name]))
        options[name] = {"data": data, "checkout": folders.get(name), "backend_options": {"daemon": URL, **INSTALL}}
        (item,) = SWEBench(**options[name]).library.items
        client.images.build(path=str(folder / "build"), tag=item.image, rm=True)
        images.append(item.image)
    yield options
    for image in images:
        client.images.remove(image, force=True)


@pytest.fixture(params=SETS)
def options(request: pytest.FixtureRequest, made: dict[str, dict[str, Any]]) -> dict[str, Any]:
    if request.param not in made:
        pytest.skip("multi-swe-bench is not installed")
    return made[request.param]


@pytest.fixture
def env(options: dict[str, Any]) -> Iterator[SWEBench]:
    env = SWEBench(**options)
    env.reset(seed=0)
    yield env
    env.close()


def test_the_oracle_resolves_it_and_the_agent_sees_no_test(env: SWEBench) -> None:
    seen = env.step(spell("bash", SECRETS))[0]
    assert "test_total_with_a_discount" not in seen and "secret" not in seen and "whole - whole" not in seen
    assert "later" not in seen and "purse.py" in seen and seen.count("The repository") == 1
    for action in env.oracle():
        env.step(action)
    assert env.success and env.info()["metrics"] == {"fail_to_pass": 1.0, "pass_to_pass": 1.0}, env.observation


EASY = "printf 'def test_a():\\n    pass\\n' > tests/test_purse.py"
CHANGES = {
    "nothing of use": "echo > notes.txt",
    "another bug": "sed -i 's/whole + whole/whole - 2 * whole/' purse.py",
    "easier tests": EASY,
    "no tests": "rm -r tests",
    "a conftest": "printf 'import pytest\\ndef pytest_collection_modifyitems(items): items.clear()\\n' > conftest.py",
    "an end of the process": "printf 'import os\\nos._exit(0)\\n' > purse.py",
    "the runner": "echo 'echo PASSED a::b' > run_tests.sh; mkdir -p r2e_tests; cp run_tests.sh r2e_tests/",
}
REPAIR = "sed -i 's/whole + whole/whole - whole/' purse.py"


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_resolves_nothing(env: SWEBench, name: str) -> None:
    env.step(spell("bash", CHANGES[name]))
    assert env.step("submit[]")[1] == 0.0, env.observation


@pytest.mark.parametrize("name", ["easier tests", "no tests", "nothing of use"])
def test_a_repair_beside_other_changes(env: SWEBench, name: str) -> None:
    env.step(spell("bash", f"{REPAIR}; {CHANGES[name]}"))
    assert env.step("submit[]")[1] == 1.0, env.observation


def test_predictions_are_scored(options: dict[str, Any]) -> None:
    env = SWEBench(**options)
    id, patch = env.library.items[0].id, env.library.items[0].row["patch"]
    more = {name: options[name] for name in ("checkout", "backend_options")}
    assert score(options["data"], {id: patch}, **more)["resolved_ids"] == [id]
    wrong = patch.replace("+    return whole -", "+    return whole *")
    assert score(options["data"], {id: wrong}, **more)["unresolved_ids"] == [id]


def test_the_programs_of_r2e_come_first(made: dict[str, dict[str, Any]]) -> None:
    env = SWEBench(**made["r2e"])
    env.reset(seed=0)
    assert "the environment" in env.step("bash[which-one; git status --short]")[0]
    assert ".venv" not in env.patch()
    paths: list[str] = []
    env.lend(lambda lent: paths.append(lent.variables["PATH"]))
    assert paths[0].startswith("/testbed/.venv/bin:/") and paths[0].count("/bin") > 3
    env.close()


EVERYWHERE = "grep -rlsE 'test_total_with_a_discount|whole - whole' / --exclude-dir=proc --exclude-dir=sys; env; ps aux"
"""Looks for hidden tests and the repair as root, in every file of the container."""


@pytest.mark.parametrize("repaired", [True, False])
@pytest.mark.parametrize("name", ["own", *BESIDE_OWN[:3]])
def test_a_harness_in_the_image_of_its_row(options: dict[str, Any], name: str, repaired: bool, tmp_path: Path) -> None:
    """It works as root beside its tools and finds no answer; the hidden tests decide."""
    (tmp_path / "own.toml").write_text(OWN)
    harness = f"harness:{name if name != 'own' else tmp_path / 'own.toml'}"
    tokenizer = None if name == "own" else SURVEY.tokenizer_for(SOURCES["qwen2_5"])
    env = SWEBench(**options)
    (task,) = env.tasks(1)
    reply = scripted(name, [EVERYWHERE, REPAIR if repaired else "echo > notes.txt"])
    (episode,) = played(harness, reply, [task], env="rlvr/SWEBench-v0", options=options, tokenizer=tokenizer)
    assert episode.success == bool(episode.reward) == repaired, episode.error
    found = episode.turns[1].observation
    assert "127.0.0.1" in found and not [line for line in found.splitlines() if line.startswith("/")], found
    keys = [turn.state_key for turn in episode.turns]
    assert keys[0] == keys[1] != keys[2] and None not in keys
    assert episode.metrics["drifted_tokens"] == 0 and len(build([episode])) == 1
