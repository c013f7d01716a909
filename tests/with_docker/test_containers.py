"""What containers have that other sandboxes have not: images, users, networks, owners, daemons that die."""

import io
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import FOLDER, PYTHON, SHELL, URL
from test_sandboxes import LIMITS

import agentgym
from agentgym.errors import BadConfig
from agentgym.sandbox import SandboxFault, sandbox
from agentgym.sandbox.docker.daemon import LABEL, connect
from agentgym.sandbox.docker.sandbox import ROOT_CAPABILITIES
from agentgym.sandbox.env import SandboxEnv


def ours(api: Any) -> list[str]:
    return [found["Id"] for found in api.containers(all=True, filters={"label": LABEL})]


def kill(api: Any, container: str) -> None:
    os.kill(api.inspect_container(container)["State"]["Pid"], signal.SIGKILL)


def archive(**files: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as made:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            made.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def content(packed: bytes, name: str) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive_file:
        file = archive_file.extractfile(name)
        assert file is not None
        return file.read()


def test_what_the_daemon_was_told(api: Any) -> None:
    with sandbox("docker", limits=LIMITS, **PYTHON) as box:
        facts = api.inspect_container(box.container)
        host = facts["HostConfig"]
        assert host["NetworkMode"] == "none" and host["ReadonlyRootfs"] and facts["Config"]["User"] == "65534:65534"
        assert host["Memory"] == host["MemorySwap"] == LIMITS.memory + LIMITS.disk
        assert host["PidsLimit"] == LIMITS.processes + 8
        status = dict(line.split(":\t") for line in box.run("cat /proc/self/status").stdout.decode().splitlines())
        assert {status[name] for name in ("CapPrm", "CapEff", "CapBnd", "CapInh")} == {"0" * 16}
        assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2" and status["Uid"].split() == ["65534"] * 4
        assert box.run("ulimit -n; ls /sys/class/net").stdout == f"{LIMITS.open_files}\nlo\n".encode()
        assert box.run("stat -c '%u %a' . /tmp").stdout == b"65534 755\n0 1777\n"


def test_nothing_is_left_of_sandboxes(api: Any) -> None:
    def resources() -> tuple[list[str], int, str]:
        commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
        mounts = [line for line in Path("/proc/self/mounts").read_text().splitlines() if FOLDER in line]
        return ours(api), sum(FOLDER.encode() in c and b"conmon" in c for c in commands), "\n".join(sorted(mounts))

    before = resources()
    for options in (PYTHON, SHELL):
        with sandbox("docker", limits=LIMITS, **options) as box:
            box.run("(sleep 60 &) ; (setsid sleep 60 &)")
    deadline = time.monotonic() + 60  # conmon stays for a second or so
    while resources() != before and time.monotonic() < deadline:
        time.sleep(0.2)
    assert resources() == before


def test_containers_of_a_process_that_was_killed_are_removed(api: Any) -> None:
    code = f"""
import os, sys, time
from agentgym.sandbox import sandbox
sandboxes = [sandbox('docker', **options) for options in ({PYTHON!r}, {SHELL!r})]
kernel = sandboxes[0].kernel()
print(sandboxes[0].container, sandboxes[1].container, flush=True)
time.sleep(100)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        made = process.stdout.readline().split()
        assert len(made) == 2 and set(made) <= set(ours(api))
        connect(URL)._swept = False
        connect(URL).sweep()
        assert set(made) <= set(ours(api))  # their owner lives
        process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while set(made) & {found["Id"] for found in api.containers()} and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not set(made) & {found["Id"] for found in api.containers()}  # ended by themselves
    connect(URL)._swept = False
    connect(URL).sweep()
    assert not set(made) & set(ours(api))


def test_a_container_that_nobody_holds_any_more_ends(api: Any) -> None:
    box: Any = sandbox("docker", limits=LIMITS, **PYTHON)
    container = box.container
    del box
    assert container not in ours(api)


def test_an_image_without_python() -> None:
    with sandbox("docker", limits=LIMITS, **SHELL) as box:
        for need in (lambda: box.python("print(1)"), box.kernel):
            with pytest.raises(BadConfig, match=r"'agentgym-test/shell' has no python3.*image with Python"):
                need()
        box.write("a/b c.bin", bytes(range(256)) * 300)
        assert box.read("a/b c.bin") == bytes(range(256)) * 300
        for path, kind in (("nothing", FileNotFoundError), ("a", IsADirectoryError), ("/dev/zero", OSError)):
            with pytest.raises(kind):
                box.read(path)
        done = box.run("cat; echo out; echo err >&2; exit 3", stdin=b"in\n" * 100_000)
        assert done.stdout == b"in\n" * 100_000 + b"out\n" and done.stderr == b"err\n"
        assert (done.exit_code, done.reason) == (3, "exit")
        assert box.run("true", stdin=b"x" * 500_000).ok and box.run(["no-such"]).exit_code == 127
        assert box.run(["printf", "%s|", "a b", "'c'", "$d"]).stdout == b"a b|'c'|$d|"
        state = box.snapshot()
        box.run("rm -r a; echo 2 > .other; mkdir ..x")
        box.restore(state)
        assert box.run("find . | sort").stdout == b".\n./a\n./a/b c.bin\n"
        with pytest.raises(tarfile.TarError):
            box.restore(b"no archive")
        box.copy_in(archive(x=b"1"), "/tmp/deep/er")
        assert content(box.copy_out("/tmp/deep"), "deep/er/x") == b"1"


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("sleep 60", "timeout"),
        ("trap '' TERM INT HUP; while :; do sleep 1; done", "timeout"),
        ("kill -STOP $$", "timeout"),
        ("yes", "output"),
        ("yes >&2", "output"),
        ("b() { b | b & }; b; sleep 60", ""),
        ("kill -9 $PPID; sleep 60", ""),
        ("kill -9 -1", "killed"),
        ("(setsid sleep 60 &) ; (sleep 60 &); echo left", "exit"),
        ("x=x; while :; do x=$x$x; done", ""),
        ("exec >&- 2>&-; sleep 60", ""),
    ],
)
def test_nasty_without_python(program: str, reason: str) -> None:
    with sandbox("docker", limits=LIMITS, **SHELL) as box:
        started = time.monotonic()
        done = box.run(program, timeout=3)
        assert time.monotonic() - started < 60 and (done.reason == reason or not reason), done  # the sleep of none
        assert len(done.stdout) <= LIMITS.output and len(done.stderr) <= LIMITS.output
        left = box.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '; echo; echo fine")
        assert left.reason == "exit" and b"fine" in left.stdout and b"sleep" not in left.stdout and b"yes" not in left.stdout


def test_an_image_made_for_a_task(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(
        "FROM agentgym-test/python\nENV COLOUR=blue PATH=/opt/bin:/usr/bin:/bin\n"
        "RUN mkdir -p /app /opt/bin && echo 1 > /app/given && ln -s /bin/cat /opt/bin/show\n"
    )
    options = {**PYTHON, "image": "", "build": str(tmp_path), "work": "/app"}
    with sandbox("docker", limits=LIMITS, user="root", writable=True, capabilities=ROOT_CAPABILITIES, **options) as box:
        assert box.run("stat -c %U .").stdout == b"root\n"
        done = box.run("id -u; pwd; echo $COLOUR $HOME; show given; echo 2 >> given; chown nobody given; touch /etc/mine")
        assert done.stdout == b"0\n/app\nblue /root\n1\n" and done.ok, done
        box.copy_in(archive(**{"test.sh": b"#!/bin/sh\ncat /app/given > /logs/out\n"}), "/tests")
        assert box.run("mkdir /logs && /tests/test.sh").ok
        assert content(box.copy_out("/logs/out"), "out") == b"1\n2\n"
        with pytest.raises(FileNotFoundError, match=r"/logs/none"):
            box.copy_out("/logs/none")
        kernel = box.kernel()
        assert kernel.run("import os; os.getuid(), os.environ['COLOUR']").text == "(0, 'blue')\n"
        assert box.python("import os, signal\nos.kill(1, signal.SIGKILL)\nprint('goes on')").stdout == b"goes on\n"
        assert box.python("open('/proc/1/mem', 'rb')").exit_code == 1 and kernel.run("1").text == "1\n"
    with pytest.raises(BadConfig, match=r"work is '/app', where user '65534:65534' cannot write"):
        sandbox("docker", limits=LIMITS, writable=True, **options)
    with sandbox("docker", limits=LIMITS, **options) as box:  # in memory, in the place of the image's
        assert box.run("ls; touch x; ls").stdout == b"x\n"
    (tmp_path / "Dockerfile").write_text("FROM agentgym-test/python\nRUN echo because of this >&2; exit 7\n")
    with pytest.raises(BadConfig, match=r"could not be built(.|\n)*because of this"):
        sandbox("docker", **options)


def test_what_cannot_be_had() -> None:
    for options, says in (
        ({}, r"needs an image: image='python"),
        ({"image": "no/such"}, r"has no image 'no/such': \w+ pull no/such"),
        ({"image": "x", "netwrok": "host"}, r"no option of the docker sandbox 'netwrok'. Did you mean 'network'"),
        ({"image": "x", "work": "app"}, r"work is 'app'; expected the absolute path"),
        ({"image": "x", "capabilities": ("CHOWN",)}, r"capabilities are of use to root alone"),
        ({"build": "/nowhere"}, r"there is no Dockerfile"),
    ):
        with pytest.raises(BadConfig, match=says):
            sandbox("docker", **{"daemon": URL, **options})
    with pytest.raises(BadConfig, match=r"no container daemon answers at unix:///nowhere.*DOCKER_HOST="):
        sandbox("docker", image="x", daemon="unix:///nowhere")
    with pytest.raises(BadConfig, match=r"package 'no_such' cannot be imported in image 'agentgym-test/python'"):
        sandbox("docker", packages=["json", "no_such"], **PYTHON)


def test_executions_at_the_same_time() -> None:
    with sandbox("docker", limits=LIMITS, **PYTHON) as box:
        kernel = box.kernel()
        kernel.run("import subprocess; p = subprocess.Popen(['sleep', '100']); n = 0")
        wrong: list[Any] = []

        def work(number: int) -> None:
            for _ in range(20):
                done = box.run("cat; (sleep 50 &)", stdin=b"%d" % number * 5000)
                if done.stdout != b"%d" % number * 5000:
                    wrong.append(done)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(100):
            kernel.run("n += 1")
        for thread in threads:
            thread.join()
        assert not wrong and kernel.run("n, p.poll()").text == "(100, None)\n"  # the kernel's own child lives on
        assert box.run("cat /proc/[0-9]*/cmdline").stdout.count(b"sleep") == 1


def test_no_signal_reaches_process_1() -> None:
    with sandbox("docker", limits=LIMITS, **PYTHON) as box:
        kernel = box.kernel()
        kernel.run("x = 7")
        box.python("import os\nfor number in range(1, 65): os.kill(1, number)")
        assert box.run("echo fine").stdout == b"fine\n" and kernel.run("x").text == "7\n"


def test_a_kernel_that_takes_all_processes() -> None:
    with sandbox("docker", limits=LIMITS, **PYTHON) as box:
        kernel = box.kernel()
        kernel.run("import subprocess\ntry:\n    while True: subprocess.Popen(['sleep', '100'])\nexcept OSError: pass")
        done = box.run("echo")
        assert done.reason in ("exit", "killed") and not done.ok
        kernel.close()
        assert box.run("echo").ok


def test_a_container_that_dies_is_a_fault(api: Any) -> None:
    box: Any = sandbox("docker", limits=LIMITS, **PYTHON)
    kernel = box.kernel()
    threading.Timer(0.5, kill, [api, box.container]).start()
    with pytest.raises(SandboxFault, match="the container"):
        box.run("sleep 60", timeout=50)
    with pytest.raises(SandboxFault):
        kernel.run("1")
    with pytest.raises(agentgym.Fault):
        box.write("x", b"")
    box.close()


def test_an_episode_goes_on_in_a_new_container(api: Any) -> None:
    import test_sandbox_env

    env = test_sandbox_env.Shell(backend="docker", backend_options=PYTHON)
    assert isinstance(env, SandboxEnv)
    env.reset(seed=0)
    env.step("x = 20")
    box: Any = env.sandbox
    kill(api, box.container)
    assert env.step("x + 1")[0] == "21\n"
    env.close()


def test_doctor_says_which_daemon_answers() -> None:
    def doctor(**variables: str) -> str:
        environment = {**os.environ, "COLUMNS": "300", **variables}
        command = [sys.executable, "-m", "agentgym", "doctor"]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert f"{'Podman' if connect(URL).podman else 'Docker'} {connect(URL).version} at {URL}" in doctor(DOCKER_HOST=URL)
    assert URL not in doctor(DOCKER_HOST="unix:///nowhere")
