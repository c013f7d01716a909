"""An instance of SWE-bench in a container: an image of the name and layout of swebench's, and swebench's verdict."""

# ruff: noqa: E402

import importlib.util
import io
import json
import os
import subprocess
import sys
import tarfile
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
from test_swe_bench import ROW, write

import agentgym
from agentgym.contract import check
from agentgym.core.actions import spell
from agentgym.envs.swe.bench.env import SWEBench
from agentgym.envs.swe.scoring import score
from agentgym.envs.swe.tasks.pytest_run import PACKAGES

ACTIVATE = "conda() { :; }\n"
"""What stands for conda: the image's Python is the system's."""


def git(folder: Path, *words: str) -> str:
    setting = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(["git", *setting, *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def history(folder: Path) -> tuple[dict[str, Any], bytes]:
    """Make the repository with a bug, its repair and the test of it in later commits; return the row and the folder."""
    swe_files.make(folder)
    root = folder / "purse-1.0"
    tests = root / "tests" / "test_purse.py"
    right, wrong, _ = swe_files.BUGS["discount"]
    before, after = swe_files.TESTS.split("def test_total_with_a_discount")
    code = (root / "purse.py").read_text()
    (root / "purse.py").write_text(code.replace(right, wrong))
    tests.write_text(before + after[after.index("def test_share") :])
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "Before")
    base = git(root, "rev-parse", "HEAD")
    patches: list[str] = []
    for path, text in ((root / "purse.py", code), (tests, swe_files.TESTS)):
        path.write_text(text)
        patches.append(git(root, "diff") + "\n")
        git(root, "commit", "-qam", "The secret repair")
    git(root, "tag", "later")
    git(root, "reset", "-q", "--hard", base)
    script = (
        ROW["eval_script"].replace("0123456789abcdef", base).replace("EOF_114329324912\n", f"EOF_1\n{patches[1]}EOF_1\n", 1)
    )
    script = script.replace("'EOF_114329324912'\nEOF_1\n", "'EOF_1'\n").replace("EOF_1\nEOF_114329324912\n", "EOF_1\n")
    failing = [swe_files.ALL[1]]
    row = {
        **ROW,
        "base_commit": base,
        "patch": patches[0],
        "test_patch": patches[1],
        "eval_script": script,
        "FAIL_TO_PASS": json.dumps(failing),
        "PASS_TO_PASS": json.dumps([test for test in swe_files.ALL if test not in failing]),
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(root, "testbed")
        for name in {*PACKAGES, "py"}:
            found = importlib.util.find_spec(name)
            assert found and found.origin
            place = Path(found.origin)
            place = place.parent if place.name == "__init__.py" else place
            archive.add(place, f"usr/lib/python3/dist-packages/{place.name}", filter=without_caches)
        for name, text, mode in (
            ("opt/miniconda3/bin/activate", ACTIVATE, 0o644),
            ("usr/lib/python3/dist-packages/pluggy-1.dist-info/METADATA", "Name: pluggy\nVersion: 1\n", 0o644),
            ("usr/local/bin/pytest", '#!/bin/sh\nexec python3 -m pytest "$@"\n', 0o755),
        ):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(text), mode
            archive.addfile(member, io.BytesIO(text.encode()))
    return row, buffer.getvalue()


def without_caches(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    member.uid = member.gid = 0
    return None if "__pycache__" in member.name else member


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, Any]]]:
    import docker

    folder = tmp_path_factory.mktemp("bench")
    row, root = history(folder)
    build = folder / "build"
    build.mkdir()
    (build / "root.tar").write_bytes(root)
    (build / "Dockerfile").write_text("FROM agentgym-test/python\nADD root.tar /\n")
    client = docker.DockerClient(base_url=URL, timeout=300)
    client.images.build(path=str(build), tag=row["image"], rm=True)
    yield str(write(folder / "rows.jsonl", row)), row
    client.images.remove(row["image"], force=True)


@pytest.fixture
def environment(data: tuple[str, dict[str, Any]]) -> Iterator[SWEBench]:
    env = SWEBench(data=data[0], backend_options={"daemon": URL})
    env.reset(seed=0)
    yield env
    env.close()


def test_the_agent_works_in_the_repository_and_cannot_look_ahead(environment: SWEBench) -> None:
    output = environment.step("bash[pwd; git log --oneline --all; git tag; git fsck --lost-found; grep -c . purse.py]")[0]
    assert "\n/testbed\n" in output and output.count("The repository") == 1
    assert "secret" not in output and "later" not in output
    assert "[File: purse.py (" in environment.step("view[purse.py]")[0]
    assert "tests/test_purse.py" in environment.step("view[.]")[0]
    assert "passed" in environment.step("bash[pytest -q]")[0]


def test_edits_snapshots_and_the_verdict(environment: SWEBench, data: tuple[str, dict[str, Any]]) -> None:
    arguments = {"path": "purse.py", "old": "whole + whole", "new": "whole - whole"}
    assert "whole - whole * discount" in environment.step(json.dumps({"name": "edit", "arguments": arguments}))[0]
    environment.step("bash[echo x > new.txt; mkdir sub; printf '\\377' > sub/bytes; git add -A; git commit -qm done]")
    state, key = environment.snapshot(), environment.state_key()
    other = SWEBench(data=data[0], backend_options={"daemon": URL}).restore(state)
    assert other.state_key() == key
    output = other.step("bash[cat new.txt; od -An -c sub/bytes]")[0]
    assert "\nx\n 377\n</output>" in output
    other.close()
    observation, reward, *_, info = environment.step("submit[]")
    assert (reward, info["metrics"]) == (1.0, {"fail_to_pass": 1.0, "pass_to_pass": 1.0})
    assert "-    return whole + whole" in observation and "new file mode" in observation


@pytest.mark.parametrize(
    "command",
    [
        "echo >> purse.py",
        "sed -i 's/whole + whole/whole - 2 * whole/' purse.py",
        "printf '[pytest]\\naddopts = --co\\n' > pytest.ini",
        "printf 'import os\\nos._exit(0)\\n' > purse.py",
        "rm -r tests",
        "rm -rf .git; echo > purse.py",
    ],
)
def test_what_does_not_resolve_it(environment: SWEBench, command: str) -> None:
    environment.step(spell("bash", command))
    assert environment.step("submit[]")[1] == 0.0


def test_a_hook_in_conftest_does_not_help(environment: SWEBench) -> None:
    hook = "import pytest\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n"
    hook += "    outcome = yield\n    report = outcome.get_result()\n    report.outcome, report.longrepr = 'passed', None\n"
    environment.step(spell("bash", f"cat > conftest.py <<'EOF'\n{hook}EOF\npytest -q"))
    assert environment.step("submit[]")[1] == 0.0


def test_predictions_are_scored_as_swebench_does(data: tuple[str, dict[str, Any]]) -> None:
    path, row = data
    options = {"backend_options": {"daemon": URL}}
    assert score(path, {row["instance_id"]: row["patch"]}, **options)["resolved_ids"] == [row["instance_id"]]
    wrong = row["patch"].replace("+    return whole -", "+    return whole *")
    assert score(path, {row["instance_id"]: wrong}, **options)["unresolved_ids"] == [row["instance_id"]]
    assert score(path, {row["instance_id"]: "no patch\n"}, **options)["unresolved_ids"] == [row["instance_id"]]


def test_a_row_of_swe_smith(data: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    _, row = data
    fixed = {
        "instance_id": "fix",
        "repo": "a/b",
        "patch": row["patch"],
        "image_name": row["image"],
        "problem_statement": "?",
    }
    tests = [test for test in swe_files.ALL if test != swe_files.ALL[1]]
    # its "bug" is the repair: what is to be done is to put the bug back, and the tests that the image has pass either way
    path = write(tmp_path / "smith.jsonl", {**fixed, "FAIL_TO_PASS": tests[:1], "PASS_TO_PASS": tests[1:]})
    environment = SWEBench(data=str(path), backend_options={"daemon": URL})
    environment.reset(seed=0)
    assert "whole - whole" in environment.step("bash[grep discount purse.py; git log --oneline]")[0]
    for action in environment.oracle():
        environment.step(action)
        if environment.success is not None:
            break
    assert environment.success and "whole + whole" in environment.observation
    environment.close()


def test_a_little_of_the_contract(data: tuple[str, dict[str, Any]]) -> None:
    checks = [
        "spellings",
        "info schema",
        "snapshots elsewhere",
        "oracle solves",
        "oracle recovers",
        "infrastructure errors",
    ]
    report = check(SWEBench(data=data[0], backend_options={"daemon": URL}), checks=checks)
    assert report.ok, str(report)


def test_an_image_that_is_not_there_is_said_so(data: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", {**data[1], "image": "swebench/none:latest"})
    environment = SWEBench(data=str(path), backend_options={"daemon": URL})
    environment.reset(seed=0)
    with pytest.raises(agentgym.BadConfig, match="no image 'swebench/none:latest'"):
        environment.step("bash[ls]")
