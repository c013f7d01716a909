"""Task folders of Harbor, played in real containers."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

import agentgym
from agentgym.cli import main
from agentgym.contract import check
from agentgym.errors import RULED_OUT, Fault

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


def make(folder: Path, **options) -> Any:
    options = {"backend_options": {"daemon": PYTHON["daemon"]}, **options}
    return agentgym.make("rlvr/Harbor-v0", path=str(folder), **options)


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
    assert env.step(bash("ls -d /tests /solution /logs/verifier 2>&1 | sort"))[0].count("No such file") == 3
    assert env.step(bash("ls -A /logs/agent /logs/artifacts"))[0].split() == ["/logs/agent:", "/logs/artifacts:"]
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
    env.step(bash("mkdir -p /logs/verifier; echo '{\"reward\": 1}' > /logs/verifier/reward.json; cp /bin/true /bin/rm"))
    observation, reward, *_ = env.step("submit[]")
    assert reward == 0.0 and "could not be removed" in observation


def test_nothing_of_the_agent_runs_beside_the_tests(tmp_path):
    made: Any = make(write(tmp_path / "t", test=f"sleep 2\n{TEST}"))
    made.reset(seed=0)
    later = "until [ -e /tests ]; do sleep 0.1; done; "
    later += "while true; do echo 1 > /logs/verifier/reward.json; echo 1 > /app/alive; done"
    made.step(bash(f"(setsid nohup bash -c '{later}' > /dev/null 2>&1 &)"))
    assert made.step("submit[]")[1] == 0.0
    assert not made.sandbox.run("test -e /app/alive").ok
    made.close()


SERVICE = "python3 -m http.server 8000 --directory /app > /tmp/log 2>&1 &"
ASKS = """python3 -c "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8000/').status)" """


def test_a_service_outlives_its_command_where_the_caller_says_so(tmp_path):
    test = f"#!/bin/bash\n{ASKS} && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n"
    folder = write(tmp_path / "t", test=test)
    made: Any = make(folder, background=True, seconds=10)
    made.reset(seed=0)
    assert made.step(bash(f"{SERVICE} until {ASKS}; do sleep 0.1; done > /tmp/up 2>&1"))[0] == "[no output]"
    made.step(bash("sleep 60 & wait"))  # broken off, with its own children
    assert made.step(bash("ps -eo args | grep -c '[s]leep 60'"))[0].startswith("0")
    assert made.step(bash(ASKS))[0] == "200"
    assert made.step("submit[]")[1] == 1.0
    made.close()
    made = make(folder)
    made.reset(seed=0)
    made.step(bash(f"{SERVICE} sleep 1"))
    assert made.step("submit[]")[1] == 0.0
    made.close()


def test_a_snapshot_plays_the_commands_again(env):
    env.reset(seed=0)
    env.step(bash("echo 'Hello, world!' > hello.txt; cd /tmp"))
    state = env.snapshot()
    env.step(bash("rm /app/hello.txt"))
    env.restore(state)
    assert env.step(bash("pwd; cat /app/hello.txt"))[0] == "/tmp\nHello, world!"
    assert env.step("submit[]")[1] == 1.0


SILENT = {
    "too slow": ("sleep 60; echo 1 > /logs/verifier/reward.txt", "took too long"),
    "no file": ("exit 3", "wrote no reward"),
    "no number": ("echo fine > /logs/verifier/reward.txt", "holds no reward"),
    "a link": ("ln -s /etc/passwd /logs/verifier/reward.txt", "cannot be read"),
    "a folder": ("mkdir /logs/verifier/reward.json; echo 1 > /logs/verifier/reward.txt", "cannot be read"),
    "an empty file first": (
        ": > /logs/verifier/reward.json; echo 1 > /logs/verifier/reward.txt",
        "empty",
    ),
}


@pytest.mark.parametrize(
    "name", [name if name == "no file" else pytest.param(name, marks=pytest.mark.long) for name in SILENT]
)
def test_tests_that_give_no_reward_to_anybody_are_an_infrastructure_error(name, tmp_path):
    test, reason = SILENT[name]
    made = make(write(tmp_path / "t", test=test, seconds=2))
    made.reset(seed=0)
    *_, terminated, truncated, info = made.step("submit[]")
    assert (terminated, truncated, info["success"], info["reason"]) == (False, True, None, "crash")
    assert info["error"].startswith(RULED_OUT) and reason in info["error"]
    made.close()


CAUSED = {
    "slow": "printf '#!/bin/sh\nsleep 60\n' > /usr/bin/python3; chmod +x /usr/bin/python3",
    "no reward": "printf '#!/bin/sh\nkill -9 $PPID\n' > /usr/bin/python3; chmod +x /usr/bin/python3",
    "no place for one": "rm -rf /logs; echo > /logs",
    "nothing to remove with": "mkdir -p /tests; cp /bin/true /bin/rm",
    "no shell": "rm -f /bin/bash /usr/bin/bash",
    "folders without end": "mkdir -p /logs/verifier; cd /logs/verifier; n=$(printf %0200d 1); "
    "for i in $(seq 300); do mkdir $n; cd $n; done",
}


@pytest.mark.long
@pytest.mark.parametrize("name", CAUSED)
def test_an_agent_that_keeps_the_tests_from_a_reward_has_failed(name, tmp_path):
    made = make(write(tmp_path / "t", seconds=4), seconds=20)
    made.reset(seed=0)
    made.step(bash(CAUSED[name]))
    observation, reward, terminated, _, info = made.step("submit[]")
    assert (reward, terminated, info["success"], info["reason"]) == (0.0, True, False, "failure"), info["error"]
    assert "do not pass" in observation or "give no reward after this" in observation
    made.close()


def test_tests_that_are_silent_about_failures_are_no_way_to_a_fault(tmp_path):
    silent = "python3 /tests/test_outputs.py && echo 1 > /logs/verifier/reward.txt\n"
    made = make(write(tmp_path / "t", test=silent))
    made.reset(seed=0)
    observation, _, terminated, _, info = made.step("submit[]")
    assert (terminated, info["success"]) == (True, False) and "wrote no reward" in observation
    made.close()


@pytest.mark.parametrize(
    ("test", "test_rewards"),
    [
        ("echo '{\"reward\": 0.5}' > /logs/verifier/reward.json; echo 1 > /logs/verifier/reward.txt", 0.5),
        ("echo '{\"reward\": true}' > /logs/verifier/reward.json; exit 1", 1.0),
        ("printf +.75 > /logs/verifier/reward.txt", 0.75),
        ('echo \'{"a": 1, "b": 0.25}\' > /logs/verifier/reward.json', 0.25),
    ],
)
def test_rewards_of_tests(test, test_rewards, tmp_path):
    made = make(write(tmp_path / "t", test=test))
    made.reset(seed=0)
    _, reward, terminated, _, info = made.step("submit[]")
    assert (reward, terminated, info["metrics"]) == (float(test_rewards >= 1), True, {"reward": test_rewards})
    made.close()


def test_a_task_without_limits_has_none_and_caps_are_the_callers(tmp_path):
    (folder := write(tmp_path / "t") / "task.toml").write_text(f'[environment]\ndocker_image = "{PYTHON["image"]}"\n')
    free = make(folder.parent)
    free.reset(seed=0)
    capped = make(folder.parent, max_cpus=0.5, max_memory_mb=300, max_agent_seconds=1)
    capped.reset(seed=0)
    hosts = [env.sandbox.daemon.client.api.inspect_container(env.sandbox.container)["HostConfig"] for env in (free, capped)]
    assert hosts[0]["NanoCpus"] == 0 and hosts[1]["NanoCpus"] == 5e8
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert hosts[0]["Memory"] >= machine and hosts[1]["Memory"] == (300 + 256) << 20
    assert "ended after 1 seconds" in capped.step(bash("sleep 3"))[0] and "used up" in capped.step(bash("true"))[0]
    assert free.step(bash("sleep 1.5"))[0] == "[no output]"
    free.close(), capped.close()


def test_a_build_has_the_tasks_time_limit(tmp_path):
    folder = write(tmp_path / "t")
    (folder / "task.toml").write_text("[environment]\nbuild_timeout_sec = 2\n")
    (folder / "environment" / "Dockerfile").write_text(f"FROM {PYTHON['image']}\nRUN sleep 30\n")
    made = make(folder)
    with pytest.raises(Fault, match="took more than 2 seconds"):
        made.reset(seed=0)


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


def test_a_health_check_is_waited_for(tmp_path):
    folder, toml = write(tmp_path / "t"), TOML.format(image=PYTHON["image"], seconds=30)
    check = "echo x >> /app/tries; test $(wc -l < /app/tries) -ge 3"
    health = f'[environment.healthcheck]\ncommand = "{check}"\ninterval_sec = 0.1\nretries = '
    (folder / "task.toml").write_text(f"{toml}{health}3\n")
    made = make(folder)
    made.reset(seed=0)
    assert made.step(bash("wc -l < tries"))[0] == "3"
    made.close()
    (folder / "task.toml").write_text(f"{toml}{health}2\n")
    made = make(folder)
    with pytest.raises(Fault, match="health check failed 2 times"):
        made.reset(seed=0)
    (folder / "task.toml").write_text(f"{toml}{health}2\nstart_period_sec = 5\nstart_interval_sec = 0.1\n")
    made = make(folder)
    made.reset(seed=0)
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
    check_flags = [word for name in checks for word in ("--check", name)]
    code = main(["check", f"harbor:{folder}", "--env.backend-options", options, *check_flags, "--certificate", str(file)])
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
