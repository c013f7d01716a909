"""Task folders of Harbor: what is read, and what is said of folders that are not what they should be."""

import io
import tarfile

import pytest

import agentgym
from agentgym.envs.terminal.harbor.files import load
from agentgym.envs.terminal.harbor.health import Health
from agentgym.envs.terminal.harbor.verifying import _content, own_variables
from agentgym.errors import BadConfig, BadData, UnknownName

TOML = """
version = "1.0"
[metadata]
difficulty = "medium"
tags = ["a"]
[verifier]
timeout_sec = 90.0
env = { KEY = "value" }
[agent]
timeout_sec = 300
[environment]
cpus = 2
memory = "4G"
storage = "10G"
"""


def write(folder, toml=TOML, **files):
    """Write a task folder; a name with None is left out, `__` in a name stands for a slash."""
    given = {
        "instruction__md": "<!-- canary GUID 1 -->\n# benchmark-canary\n\nMake `hello.txt`.\n",
        "environment__Dockerfile": "FROM x AS y\nWORKDIR /old\nFROM debian\nWORKDIR /srv\nWORKDIR app\n",
        "tests__test_sh": "#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n",
        "solution__solve_sh": "echo hello > hello.txt\n",
        "task__toml": toml,
        **files,
    }
    for name, text in given.items():
        if text is not None:
            head, _, tail = name.rpartition("__")
            stem = f"{head}/{tail}" if head in ("environment", "tests", "solution") else f"{head}.{tail}"
            path = folder / (stem if stem.endswith("Dockerfile") else stem.replace("_sh", ".sh").replace("_yaml", ".yaml"))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return folder


def test_a_folder_is_read(tmp_path):
    (task,) = load(write(tmp_path / "hello")).values()
    assert (task.name, task.instruction, task.difficulty) == ("hello", "Make `hello.txt`.", 1)
    assert (task.work, task.user, task.image, task.solved) == ("/srv/app", "root", "", True)
    assert (task.agent_seconds, task.verifier_seconds, task.cpus, task.memory_mb) == (300, 90, 2, 4096)
    assert task.verifier_env == {"KEY": "value"} and task.solution_env == {}
    with tarfile.open(fileobj=io.BytesIO(task.packed("tests"))) as archive:
        assert [(member.name, member.mode & 0o111) for member in archive] == [("test.sh", 0o111)]


def test_defaults_are_harbors(tmp_path):
    (task,) = load(write(tmp_path / "t", "", environment__Dockerfile="FROM debian\n", solution__solve_sh=None)).values()
    assert (task.agent_seconds, task.cpus, task.memory_mb) == (None, None, None)
    assert (task.verifier_seconds, task.build_seconds) == (600, 600)
    assert (task.work, task.difficulty, task.solved) == ("/app", 0, False)


def test_newer_spellings(tmp_path):
    toml = '[environment]\nmemory_mb = 512\nmemory = ".5G"\ncpus = 0.5\nworkdir = "/testbed"\ndocker_image = "img:1"\n'
    toml += 'skills_dir = "/skills"\n'
    toml += '[agent]\nuser = "me"\n'
    (task,) = load(write(tmp_path / "t", toml + '[verifier]\nuser = "me"\n', environment__Dockerfile=None)).values()
    assert task.skills == "/skills"
    assert (task.memory_mb, task.cpus, task.work, task.image, task.user) == (512, 0.5, "/testbed", "img:1", "me")


BROKEN = {
    "not TOML": (dict(toml="[agent\n"), "task.toml.*TOML"),
    "a number for a table": (dict(toml="agent = 3\n"), r"agent is 3; expected a table \[agent\]"),
    "a negative limit": (dict(toml="[agent]\ntimeout_sec = -1\n"), "timeout_sec is -1"),
    "a limit that is a text": (dict(toml='[verifier]\ntimeout_sec = "90"\n'), "timeout_sec is '90'"),
    "a size that is none": (dict(toml='[environment]\nmemory = "much"\n'), "memory is 'much'.*2G"),
    "a size without a unit": (dict(toml='[environment]\nmemory = "2048"\n'), "memory is '2048'.*2G"),
    "two sizes": (
        dict(toml='[environment]\nmemory = "2G"\nmemory_mb = 512\n'),
        "memory_mb is 512",
    ),
    "a limit without end": (dict(toml="[agent]\ntimeout_sec = inf\n"), "timeout_sec is inf"),
    "variables that are none": (dict(toml='[verifier]\nenv = ["A"]\n'), r"env of \[verifier\]"),
    "two users": (dict(toml='[agent]\nuser = "me"\n'), "different users"),
    "no instruction": (dict(instruction__md=None), "instruction.md is missing"),
    "an empty instruction": (dict(instruction__md="\n"), "instruction.md is empty"),
    "no tests": (dict(tests__test_sh=None), "no tests/test.sh"),
    "no image": (dict(environment__Dockerfile=None), "neither environment/Dockerfile nor docker_image"),
    "a working folder nobody knows": (dict(environment__Dockerfile="FROM x\nWORKDIR $HOME/x\n"), "working folder"),
    "several containers": (dict(**{"environment__docker-compose_yaml": "services: {}\n"}), "docker-compose"),
    "steps": (dict(toml='[[steps]]\nname = "a"\n'), "asks for steps"),
    "GPUs": (dict(toml="[environment]\ngpus = 1\n"), "asks for GPUs"),
    "TPUs": (dict(toml='[environment.tpu]\ntype = "v4"\ntopology = "2x2"\n'), "asks for TPUs"),
    "a verifier's own image": (dict(toml="[verifier.environment]\ncpus = 1\n"), "of its own for the verifier"),
    "hooks": (dict(toml='[[verifier.collect]]\ncommand = "true"\n'), "asks for hooks"),
    "a verifier elsewhere": (dict(toml='[verifier]\nenvironment_mode = "separate"\n'), "of its own for the verifier"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_is_said(name, tmp_path):
    changes, words = BROKEN[name]
    write(tmp_path / "fine")
    write(tmp_path / "wrong", **changes)
    with pytest.raises(BadData, match=words) as caught:
        load(tmp_path)
    assert str(tmp_path / "wrong") in str(caught.value)


def test_folders_that_hold_nothing(tmp_path):
    with pytest.raises(BadData, match="no folder"):
        load(tmp_path / "absent")
    with pytest.raises(BadData, match="holds no task"):
        load(tmp_path)


def test_tasks_have_the_names_of_their_folders_and_splits_by_name(tmp_path):
    for number in range(40):
        write(tmp_path / f"task-{number}", instruction__md=f"Do {number}.")
    env = agentgym.make("rlvr/Harbor-v0", path=str(tmp_path))
    assert [task.id for task in env.tasks(3)] == ["task-0", "task-1", "task-10"]
    assert env.size() == 40 == sum(env.size(split) for split in ("train", "valid", "test"))
    assert env.find("task-7").instruction == "Do 7." and env.find("task-7").difficulty == 1
    for split in ("train", "valid", "test"):
        env = agentgym.make("rlvr/Harbor-v0", path=str(tmp_path), split=split)
        assert all(task.split == split == env.split_of(task) for task in env.tasks(env.size()))
    with pytest.raises(UnknownName, match="task-7"):
        env.find("task-77777")
    with pytest.raises(BadConfig, match="path=FOLDER"):
        agentgym.make("rlvr/Harbor-v0")


@pytest.mark.parametrize("line", ["healthcheck = 3", "healthcheck = {}", 'healthcheck = {command = "x", retries = 1.5}'])
def test_health_checks_are_tables_with_a_command(line, tmp_path):
    with pytest.raises(BadData, match="healthcheck"):
        load(write(tmp_path / "t", f"[environment]\n{line}\n"))


def test_a_health_check_has_harbors_defaults(tmp_path):
    (task,) = load(write(tmp_path / "t", '[environment]\nhealthcheck = {command = "true"}\n')).values()
    assert task.health == Health("true", 5.0, 30.0, 0.0, 5.0, 3)  # harbor 0.26.0


@pytest.mark.parametrize("value", [0, -1, True, "2", float("nan")])
@pytest.mark.parametrize("name", ["max_agent_seconds", "max_cpus", "max_memory_mb"])
def test_caps_are_numbers_above_0(name, value, tmp_path):
    write(tmp_path / "t")
    with pytest.raises(BadConfig, match=f"{name} of Harbor is"):
        agentgym.make("rlvr/Harbor-v0", path=str(tmp_path), **{name: value})


def test_links_in_tests_are_not_followed(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    folder = write(tmp_path / "tasks" / "t")
    (folder / "tests" / "link").symlink_to(secret)
    (task,) = load(folder).values()
    with tarfile.open(fileobj=io.BytesIO(task.packed("tests"))) as archive:
        assert archive.getmember("link").issym()


def test_a_reward_that_is_no_small_file_is_none():
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        member = tarfile.TarInfo("reward.txt")
        member.size = 2_000_000
        archive.addfile(member, io.BytesIO(b"1" * 2_000_000))
    with pytest.raises(OSError, match="1 MiB"):
        _content(made.getvalue())


def test_no_variable_of_this_machine_is_handed_on(tmp_path, monkeypatch):
    monkeypatch.setenv("API_KEY", "secret")
    (task,) = load(write(tmp_path / "t", '[verifier.env]\nKEY = "${API_KEY}"\n')).values()
    with pytest.raises(BadData, match=r"KEY of \[verifier.env\]"):
        own_variables(task.verifier_env, task, "verifier")
