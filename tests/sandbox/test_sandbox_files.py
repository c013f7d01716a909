"""Files of a working folder that a model has made hostile: our own code reaches them, and nothing of theirs reaches it."""

import errno
import io
import tarfile
from collections.abc import Iterator
from typing import Any

import pytest

from agentgym.errors import BadData
from agentgym.sandbox import Limits, sandbox
from agentgym.sandbox.bubblewrap.sandbox import missing

LIMITS = Limits(timeout=5, memory=256 << 20, processes=40, disk=16 << 20, files=4000)


@pytest.fixture(params=["bubblewrap", "process"])
def box(request: Any) -> Iterator[Any]:
    if request.param == "bubblewrap" and missing():
        pytest.skip(missing())
    made: Any = sandbox(request.param, limits=LIMITS, **({"unsafe": True} if request.param == "process" else {}))
    yield made
    made.close()


def test_no_module_of_the_model_is_imported_by_our_own_code(box: Any) -> None:
    evil = b"open('seen', 'w').write('x')\nraise SystemExit(0)\n"
    for name in ("tarfile", "shutil", "stat", "types", "errno", "typing", "os", "copy", "struct", "files", "kernel"):
        box.write(f"{name}.py", evil)
    assert box.read("os.py") == evil
    state = box.snapshot()
    box.restore(state)
    assert len(state) > 10_000 and "seen" not in box.run("ls").text
    box.write("system.py", b"value = 'of the program'")  # a program finds its own modules, whatever ours are called
    assert box.python("import system; print(system.value)").text == "of the program\n"


def test_a_special_file_is_refused_and_never_waited_for(box: Any) -> None:
    kernel = box.kernel()
    box.run("mkfifo pipe held; ln -s pipe link; ln -s /dev/full full; mkdir folder")
    kernel.run("import os; kept = os.open('held', os.O_RDWR)")
    for name in ("pipe", "held", "link", "full", "folder"):
        with pytest.raises(OSError):
            box.write(name, b"x")
    with pytest.raises(IsADirectoryError):
        box.write("folder", b"x")
    with pytest.raises(NotADirectoryError):
        box.write("pipe/x", b"x")
    assert "pipe" not in box.read("/etc/hostname" if box.work != "/home/agent" else "/etc/hosts").decode()
    box.run("chmod +x run.sh", files={"run.sh": b"#!/bin/sh\necho 1\n"})
    box.write("run.sh", b"#!/bin/sh\necho 2\n")
    assert box.run("./run.sh").text == "2\n"  # and it is still executable


def test_a_full_folder_is_an_error_of_the_writer(box: Any) -> None:
    if box.work != "/home/agent":
        pytest.skip("no sandbox: its disk is the machine's")
    with pytest.raises(OSError) as caught:
        box.write("big", bytes(LIMITS.disk + 1))
    assert caught.value.errno in (errno.ENOSPC, errno.EFBIG)
    assert box.run("rm big; echo fine").text == "fine\n"


def test_closed_folders_and_files_come_back_as_they_were(box: Any) -> None:
    box.run("mkdir -p a/b c; echo 1 > a/b/f; echo 2 > c/g; chmod 000 a/b/f a/b a; chmod 400 c/g; chmod 500 c; chmod 300 .")
    state = box.snapshot()
    modes = box.run("chmod 700 .; stat -c '%a %n' a c; chmod 700 a; stat -c '%a %n' a/b").text
    assert modes == "0 a\n500 c\n0 a/b\n"
    box.run("chmod 000 a; mkdir -p z/z; chmod 000 z/z z .")
    box.restore(state)
    modes = box.run("stat -c '%a %n' a c z 2>/dev/null; chmod 700 a; chmod -R u+rwX a; cat a/b/f c/g").text
    assert modes == "0 a\n500 c\n1\n2\n"
    box.run("chmod -R u+rwX .; rm -rf *")


def test_odd_names_and_links_come_back(box: Any) -> None:
    made = box.python(
        "import os\n"
        "for name in (b'\\xff\\xfe', b'a\\nb', b' ', b'-rf', b'\\x01', 'é'.encode() * 120, b'dir/' + b'n' * 255):\n"
        "    os.makedirs(os.path.dirname(name) or b'.', exist_ok=True)\n"
        "    open(name, 'wb').write(name)\n"
        "os.symlink('/etc/passwd', 'out'); os.symlink('nowhere', 'broken'); os.symlink('.', 'loop')\n"
        "os.link('-rf', 'second'); os.mkfifo('pipe')\n"
        "import socket; socket.socket(socket.AF_UNIX).bind('socket')\n"
    )
    assert made.ok, made
    look = (
        "import os\nfor place, folders, names in sorted(os.walk(b'.')):\n"
        "    for name in sorted(folders + names):\n"
        "        path = os.path.join(place, name)\n"
        "        if name in (b'pipe', b'socket'): continue\n"
        "        link = os.readlink(path) if os.path.islink(path) else None\n"
        "        print(path, link, open(path, 'rb').read() if link is None and os.path.isfile(path) else None)\n"
        "print(os.stat('second').st_nlink)\n"
    )
    before = box.python(look)
    state = box.snapshot()
    box.python("import os; os.unlink(b'\\xff\\xfe'); open(b'\\xfe', 'w').close(); os.unlink('second')")
    box.restore(state)
    assert box.python(look).stdout == before.stdout and before.ok and before.stdout.endswith(b"\n2\n")
    assert box.read("\udcff\udcfe") == b"\xff\xfe"


@pytest.mark.parametrize("deep", [30, 1500])
def test_deep_folders(box: Any, deep: int) -> None:
    box.write("kept", b"1")
    before = box.snapshot()
    made = box.python(f"import os\nfor _ in range({deep}): os.mkdir('d' * 100); os.chdir('d' * 100)\nopen('f', 'w').close()")
    assert made.ok, made
    if deep * 101 < 4000:
        box.restore(box.snapshot())
        assert box.run("find . -name f | wc -l").text == "1\n"
    else:
        with pytest.raises(OSError):  # a path that no call of the system takes
            box.snapshot()
    box.restore(before)
    assert box.run("ls -A").text == "kept\n"


def test_files_with_holes_cannot_blow_a_snapshot_up(box: Any) -> None:
    made = box.python("for i in range(3): open(f'hole{i}', 'wb').truncate(8 << 20)")
    assert made.ok, made
    with pytest.raises(OSError) as caught:  # 24 MB of nothing, which would be something in the folder restored
        box.snapshot()
    assert caught.value.errno == errno.EFBIG


def test_odd_times_and_owners_can_be_restored(box: Any) -> None:
    times = "(-1 << 62, (1 << 63) - 1, 0, 10 ** 18)"
    code = (
        f"import os\nfor n, t in enumerate({times}):\n    open(f't{{n}}', 'w').close()\n    os.utime(f't{{n}}', ns=(t, t))"
    )
    assert box.python(code).ok
    box.restore(box.snapshot())
    assert box.run("ls -l --time-style=+%Y | awk '{print $6, $7}' | tail -n +2").text.startswith("1970 t0\n")


def test_what_is_no_snapshot_is_refused_before_anything_is_deleted(box: Any) -> None:
    box.write("kept", b"1")
    for state in (b"", b"no archive", bytes(range(256)) * 100):
        with pytest.raises(BadData, match="not an archive of a snapshot"):
            box.restore(state)
    assert box.read("kept") == b"1"


@pytest.mark.parametrize("name", ["/tmp/out", "../out", "a/../../out"])
def test_an_archive_does_not_lead_out(box: Any, name: str) -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    with pytest.raises(BadData, match="leads out of the folder"):
        box.restore(file.getvalue())


def test_a_sandbox_without_memory_or_processes_is_no_fault_of_the_machine(box: Any) -> None:
    if box.work != "/home/agent":
        pytest.skip("no sandbox")
    kernel = box.kernel()
    kernel.run("import os, time\nfor _ in range(200):\n    if not os.fork(): time.sleep(600)")
    box.write("x", b"1")  # there are some in reserve
    assert box.read("x") == b"1" and box.run(["true"]).reason in ("exit", "killed")
