"""Task folders of Harbor, played in real containers."""

import json
from pathlib import Path
from typing import Any

import pytest

import agentgym
from agentgym.cli import main
from agentgym.contract import check

try:
    from conftest import PYTHON
except ImportError:
    pytest.skip("the tests' own daemon is not there: run ./dev test-docker", allow_module_level=True)

TOML = '[environment]\ndocker_image = "{image}"\nmemory_mb = 256\nworkdir = "/app"\n[verifier]\ntimeout_sec = {seconds}\n'
TEST = """#!/bin/bash
set -u
echo "looking" ; python3 /tests/test_outputs.py && reward=1 || reward=0
echo $reward > /logs/verifier/reward.txt
"""
OUTPUTS = "import pathlib; assert pathlib.Path('/app/hello.txt').read_text() == 'Hello, world!\\n'\n"
SOLVE = 'cp "$(dirname "$0")/greeting.txt" hello.txt\n'


def write(folder: Path, *, test: str = TEST, seconds: float = 30) -> Path:
    files = {
        "task.toml": TOML.format(image=PYTHON["image"], seconds=seconds),
        "instruction.md": "Write `Hello, world!` and a line feed to `/app/hello.txt`.\n",
        "environment/Dockerfile": f"FROM {PYTHON['image']}\n",
        "tests/test.sh": test,
        "tests/test_outputs.py": OUTPUTS,
        "solution/solve.sh": SOLVE,
        "solution/greeting.txt": "Hello, world!\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def make(folder: Path, **options):
    return agentgym.make("rlvr/Harbor-v0", path=str(folder), backend_options={"daemon": PYTHON["daemon"]}, **options)


def bash(command: str) -> str:
    return json.dumps({"name": "bash", "arguments": {"command": command}})


@pytest.fixture(scope="module")
def env(tmp_path_factory):
    made = make(write(tmp_path_factory.mktemp("tasks") / "hello"), seconds=20)
    yield made
    made.close()


def test_the_oracle_solves_it(env):
    env.reset(seed=0)
    for action in env.oracle():
        *_, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            break
    assert info["success"] is True and info["metrics"] == {"reward": 1.0}


def test_tests_and_solution_are_not_there_before(env):
    env.reset(seed=0)
    assert env.step(bash("ls -d /tests /solution /logs 2>&1 | sort"))[0].count("No such file") == 3
    assert env.step("submit[]")[1] == 0.0


def test_the_shell_goes_on(env):
    observation, _ = env.reset(seed=0)
    assert "Hello, world!" in observation and "`/app`" in observation
    assert (
        env.step(bash("pwd; id -u; mkdir -p sub; cd sub; export NAME=x; echo 'Hello, world!' > ../hello.txt"))[0]
        == "/app\n0"
    )
    assert env.step(bash("pwd; echo $NAME"))[0] == "/app/sub\nx"
    assert env.step("submit[]")[1] == 1.0


def test_a_reward_of_ones_own_counts_nothing(env):
    env.reset(seed=0)
    env.step(bash("mkdir -p /logs/verifier /tests; echo 1 | tee /logs/verifier/reward.txt > /logs/verifier/reward.json"))
    env.step(bash("echo > /tests/test_outputs.py"))
    assert env.step("submit[]")[1] == 0.0


def test_planted_files_that_cannot_be_removed_count_nothing(env):
    env.reset(seed=0)
    env.step(bash("mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.json; cp /bin/true /bin/rm"))
    observation, reward, *_ = env.step("submit[]")
    assert reward == 0.0 and "could not be removed" in observation


def test_nothing_of_the_agent_runs_beside_the_tests(tmp_path):
    made: Any = make(write(tmp_path / "t", test=f"sleep 2\n{TEST}"))
    made.reset(seed=0)
    later = "sleep 1; while true; do echo 1 > /logs/verifier/reward.json; echo 1 > /app/alive; done"
    made.step(bash(f"(setsid nohup bash -c '{later}' > /dev/null 2>&1 &)"))
    assert made.step("submit[]")[1] == 0.0
    assert not made.sandbox.run("test -e /app/alive").ok
    made.close()


def test_a_snapshot_plays_the_commands_again(env):
    env.reset(seed=0)
    env.step(bash("echo 'Hello, world!' > hello.txt; cd /tmp"))
    state = env.snapshot()
    env.step(bash("rm /app/hello.txt"))
    env.restore(state)
    assert env.step(bash("pwd; cat /app/hello.txt"))[0] == "/tmp\nHello, world!"
    assert env.step("submit[]")[1] == 1.0


@pytest.mark.parametrize(
    ("test", "said"),
    [
        ("sleep 60; echo 1 > /logs/verifier/reward.txt", "ended (timeout)"),
        ("exit 3", "wrote no reward"),
        ("echo fine > /logs/verifier/reward.txt", "holds no reward"),
        ("ln -s /etc/passwd /logs/verifier/reward.txt", "holds no reward"),
        ("echo '{\"reward\": 0.5}' > /logs/verifier/reward.json; echo 1 > /logs/verifier/reward.txt", "reward is 0.5"),
    ],
)
def test_tests_that_give_no_whole_reward(test, said, tmp_path):
    made = make(write(tmp_path / "t", test=test, seconds=2))
    made.reset(seed=0)
    observation, reward, terminated, *_ = made.step("submit[]")
    assert (reward, terminated) == (0.0, True) and said in observation
    made.close()


def test_it_keeps_the_contract(tmp_path):
    checks = [
        "nasty actions",
        "info schema",
        "outcome alone",
        "horizons",
        "bad options are refused",
        "infrastructure errors",
    ]
    report = check(make(write(tmp_path / "t")), checks=checks)
    assert report.ok, str(report)


def test_images_are_built_from_the_dockerfile(tmp_path):
    folder = write(tmp_path / "t")
    (folder / "task.toml").write_text('[environment]\nworkdir = "/app"\nmemory_mb = 256\n')
    (folder / "environment" / "note.txt").write_text("built\n")
    (folder / "environment" / "Dockerfile").write_text(f"FROM {PYTHON['image']}\nCOPY note.txt /app/note.txt\n")
    made = make(folder)
    made.reset(seed=0)
    assert made.step(bash("cat note.txt"))[0] == "built"
    made.close()


FORGEABLE = """#!/bin/bash
python3 /tests/test_outputs.py && echo 1 > reward.txt
[ -e reward.txt ] && cp reward.txt /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt
"""


@pytest.mark.parametrize("defect", ["", "shortcuts", "oracle", "leaks", "determinism"])
def test_a_folder_has_a_certificate_unless_it_has_a_defect(defect, tmp_path, capsys):
    folder = write(tmp_path / "hello", test=FORGEABLE if defect == "shortcuts" else TEST)
    if defect == "oracle":
        (folder / "solution/greeting.txt").write_text("Hello, word!\n")
    if defect == "determinism":
        (folder / "tests/test.sh").write_text("#!/bin/bash\necho $((RANDOM % 2)) > /logs/verifier/reward.txt\n")
    if defect == "leaks":
        (folder / "task.toml").write_text('[environment]\nworkdir = "/app"\nmemory_mb = 256\n')
        (folder / "environment" / "test_outputs.py").write_text(OUTPUTS)
        (folder / "environment" / "Dockerfile").write_text(f"FROM {PYTHON['image']}\nCOPY test_outputs.py /app/old/t.py\n")
    file = tmp_path / "certificate.json"
    options = json.dumps({"daemon": PYTHON["daemon"]})
    checks = ["same verdict", "oracle solves", "tests stay hidden", "shortcut policies fail"]
    asked = [word for name in checks for word in ("--check", name)]
    code = main(["check", f"harbor:{folder}", "--env.backend-options", options, *asked, "--certificate", str(file)])
    made = json.loads(file.read_text())
    verdicts = {name: claim["verdict"] for name, claim in made["claims"].items()}
    assert code == (1 if defect else 0), capsys.readouterr().out
    if defect != "determinism":  # there a coin decides what else is broken
        expected = dict.fromkeys(("determinism", "oracle", "shortcuts", "leaks"), "holds") | {"splits": "not checked"}
        assert verdicts == expected | ({defect: "broken"} if defect else {})
    why = made["claims"].get(defect, {}).get("why", "")
    if defect == "shortcuts":
        assert "'forged reward file' has success 1.00" in why and made["shortcuts"]["reading tests"]["success"] == 0.0
    if defect == "leaks":
        assert "/app/old/t.py (tests/test_outputs.py)" in why
    if not defect:
        before = made["tasks"]["sha256"]
        (folder / "tests/test_outputs.py").write_text(OUTPUTS + "# another\n")
        assert main(["check", f"harbor:{folder}", "--env.backend-options", options, "--verify", str(file)]) == 1
        out = " ".join(capsys.readouterr().out.split())
        assert "tasks: sha256: the certificate says" in out and before[:20] in out
