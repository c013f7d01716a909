"""Task folders of Harbor: what is read, and what is said of folders that are not what they should be."""

import io
import shutil
import tarfile

import pytest

import agentgym
from agentgym.envs.terminal.harbor import tables
from agentgym.envs.terminal.harbor.files import load, packed
from agentgym.envs.terminal.harbor.health import Health
from agentgym.envs.terminal.harbor.verifying import _content
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
    defaults = {
        "instruction__md": "<!-- canary GUID 1 -->\n# benchmark-canary\n\nMake `hello.txt`.\n",
        "environment__Dockerfile": "FROM x AS y\nWORKDIR /old\nFROM debian\nWORKDIR /srv\nWORKDIR app\n",
        "tests__test_sh": "#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n",
        "solution__solve_sh": "echo hello > hello.txt\n",
        "task__toml": toml,
        **files,
    }
    for name, text in defaults.items():
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
    (step,), place = task.steps, task.place
    assert (place.work, step.user, place.image, task.solved) == ("/srv/app", "", "", True)
    assert (step.seconds, step.verifier.seconds) == (300, 90)
    assert (place.cpus, place.memory_mb, place.storage_mb) == (2, 4096, 10240)
    assert step.verifier.variables == {"KEY": "value"} and task.solution_env == {} and step.verifier.place is None
    with tarfile.open(fileobj=io.BytesIO(packed(step.tests))) as archive:
        assert [(member.name, member.mode & 0o111) for member in archive] == [("test.sh", 0o111)]


def test_defaults_are_harbors(tmp_path):
    (task,) = load(write(tmp_path / "t", "", environment__Dockerfile="FROM debian\n", solution__solve_sh=None)).values()
    (step,), place = task.steps, task.place
    assert (step.seconds, place.cpus, place.memory_mb, place.storage_mb) == (None, None, None, None)
    assert (step.verifier.seconds, place.build_seconds, task.strategy) == (600, 600, "mean")
    assert (place.work, task.difficulty, task.solved) == ("/app", 0, False)


def test_newer_spellings(tmp_path):
    toml = '[environment]\nmemory_mb = 512\nmemory = ".5G"\ncpus = 0.5\nworkdir = "/testbed"\ndocker_image = "img:1"\n'
    toml += 'skills_dir = "/skills"\n'
    toml += '[agent]\nuser = "me"\n'
    (task,) = load(write(tmp_path / "t", toml + "[verifier]\nuser = 1000\n", environment__Dockerfile=None)).values()
    (step,), place = task.steps, task.place
    assert task.skills == "/skills" and (step.user, step.verifier.user) == ("me", "1000")
    assert (place.memory_mb, place.cpus, place.work, place.image) == (512, 0.5, "/testbed", "img:1")


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
    "no instruction": (dict(instruction__md=None), "instruction.md is missing"),
    "an empty instruction": (dict(instruction__md="\n"), "instruction.md is empty"),
    "no tests": (dict(tests__test_sh=None), "no tests/test.sh"),
    "no image": (dict(environment__Dockerfile=None), "neither environment/Dockerfile nor docker_image"),
    "a working folder nobody knows": (dict(environment__Dockerfile="FROM x\nWORKDIR $HOME/x\n"), "working folder"),
    "several containers of the verifier": (
        dict(**{"tests__docker-compose_yaml": "services: {}\n"}, toml='[verifier]\nenvironment_mode = "separate"\n'),
        "several containers for the verifier",
    ),
    "GPUs": (dict(toml="[environment]\ngpus = 1\n"), "asks for GPUs"),
    "TPUs": (dict(toml='[environment.tpu]\ntype = "v4"\ntopology = "2x2"\n'), "asks for TPUs"),
    "Windows": (dict(toml='[environment]\nos = "windows"\n'), "asks for Windows"),
    "an MCP server without an address": (
        dict(toml='[[environment.mcp_servers]]\nname = "a"\nurl = "x"\n'),
        "url of MCP server a",
    ),
    "an MCP server of another kind": (
        dict(toml='[[environment.mcp_servers]]\nname = "a"\ntransport = "tcp"\n'),
        "transport of MCP server a is 'tcp'",
    ),
    "an MCP server without a command": (
        dict(toml='[[environment.mcp_servers]]\nname = "a"\ntransport = "stdio"\n'),
        "needs a command",
    ),
    "two MCP servers of one name": (
        dict(toml='[[environment.mcp_servers]]\nname = "a"\nurl = "http://h:1/m"\n' * 2),
        "two MCP servers are called 'a'",
    ),
    "an MCP server with a secret": (
        dict(toml='[[environment.mcp_servers]]\nname = "a"\nurl = "http://h/m"\nheaders = { A = "${HOME}" }\n'),
        "a variable of this machine",
    ),
    "a GPU of the verifier": (dict(toml="[verifier.environment]\ngpus = 1\n"), "asks for GPUs"),
    "steps that are none": (dict(toml="steps = 3\n"), r"steps is 3; expected tables \[\[steps\]\]"),
    "a step without a folder": (dict(toml='[[steps]]\nname = "a"\n'), "no folder steps/a"),
    "a step that leads out": (dict(toml='[[steps]]\nname = ".."\n'), "a step is called '..'"),
    "a step of another folder": (dict(toml='[[steps]]\nname = "a/../../b"\n'), "a step is called"),
    "a hook without a command": (dict(toml="[[verifier.collect]]\nuser = 1\n"), "has no command"),
    "a hook elsewhere": (dict(toml='[[verifier.collect]]\ncommand = "true"\nservice = "db"\n'), "service is 'db'"),
    "an artifact that leads out": (dict(toml='artifacts = ["/app/../etc"]\n'), "artifact's source is '/app/../etc'"),
    "an artifact that is everything": (dict(toml='artifacts = ["/"]\n'), "artifact's source is '/'"),
    "a mode that is none": (dict(toml='[verifier]\nenvironment_mode = "own"\n'), "environment_mode is 'own'"),
    "a shared verifier with an environment": (
        dict(toml='[verifier]\nenvironment_mode = "shared"\n[verifier.environment]\ncpus = 1\n'),
        "'shared' has an environment",
    ),
    "a strategy that is none": (dict(toml='multi_step_reward_strategy = "max"\n'), "multi_step_reward_strategy is 'max'"),
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
    assert task.place.health == Health("true", 5.0, 30.0, 0.0, 5.0, 3)  # harbor 0.26.0


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
    with tarfile.open(fileobj=io.BytesIO(packed(task.steps[0].tests))) as archive:
        assert archive.getmember("link").issym()
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test.sh").write_text("secret")
    shutil.rmtree(folder / "tests")
    (folder / "tests").symlink_to(tmp_path / "tests")
    with pytest.raises(BadData, match="tests is a link that leads out"):
        load(folder)


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
    toml = '[verifier.env]\nKEY = "${API_KEY}"\n[solution.env]\nKEY = "${API_KEY:-none}/x"\n'
    (task,) = load(write(tmp_path / "t", toml)).values()
    with pytest.raises(BadData, match=r"KEY of \[verifier.env\]"):
        tables.resolved(task.steps[0].verifier.variables, "verifier", task.file)
    assert tables.resolved(task.solution_env, "solution", task.file) == {"KEY": "none/x"}


@pytest.mark.parametrize("name", ["environment/Dockerfile", "environment/docker-compose.yaml", "environment/web/Dockerfile"])
def test_links_among_what_this_machine_reads_are_refused(name, tmp_path):
    (tmp_path / "theirs").write_text("WORKDIR /secret\n")
    folder = write(tmp_path / "t")
    (folder / name).unlink(missing_ok=True)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).symlink_to(tmp_path / "theirs")
    with pytest.raises(BadData, match=f"{name} is a link that leads out"):
        load(folder)
