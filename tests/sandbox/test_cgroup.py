"""Control groups of version 2, on a made-up tree, where what the kernel would do is said here."""

import contextlib
import os
from pathlib import Path

import pytest

from agentgym.cli import doctor
from agentgym.sandbox.bubblewrap.sandbox import missing
from agentgym.sandbox.local import cgroup
from agentgym.sandbox.local.cgroup import ControlGroup, find_places
from agentgym.sandbox.warm_pool import take

MADE_BY_KERNEL = {"memory": ("memory.max", "memory.swap.max", "memory.events"), "pids": ("pids.max",), "cpu": ("cpu.max",)}


class Tree:
    """A version 2 hierarchy: a group has the files of what its parent hands down; one with processes hands nothing down."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.mkdir, self.rmdir, self.write = Path.mkdir, Path.rmdir, Path.write_text
        self.add(root, "memory pids cpu")
        monkeypatch.setattr(Path, "mkdir", lambda path, *args, **options: self.make(path, *args, **options))
        monkeypatch.setattr(Path, "rmdir", lambda path: self.remove(path))
        monkeypatch.setattr(Path, "write_text", lambda path, text: self.written(path, text))

    def add(self, path: Path, controllers: str, handed_down: str = "", processes: str = "") -> Path:
        path.is_dir() or self.mkdir(path)
        self.write(path / "cgroup.controllers", controllers)
        self.write(path / "cgroup.subtree_control", handed_down)
        self.write(path / "cgroup.procs", processes)
        for kind in controllers.split() if path != self.root else ():
            for name in MADE_BY_KERNEL[kind]:
                self.write(path / name, "oom_kill 0\n" if name == "memory.events" else "max")
        return path

    def make(self, path: Path, *args: object, exist_ok: bool = False) -> None:
        if not (exist_ok and path.is_dir()):
            self.mkdir(path)
            self.add(path, (path.parent / "cgroup.subtree_control").read_text())

    def remove(self, path: Path) -> None:
        if (path / "cgroup.procs").read_text().strip():
            raise OSError(16, "busy")
        for file in path.iterdir():
            file.unlink()
        self.rmdir(path)

    def written(self, path: Path, text: str) -> int:
        if not path.exists():
            raise PermissionError(13, "the kernel makes the files", str(path))
        if path.name == "cgroup.subtree_control":
            if (path.parent / "cgroup.procs").read_text() and path.parent != self.root:
                raise OSError(16, "busy: processes of its own")
            kind = text.removeprefix("+")
            if kind not in (path.parent / "cgroup.controllers").read_text().split():
                raise OSError(2, "no such controller")
            text = " ".join(sorted({*path.read_text().split(), kind}))
        if path.name == "cgroup.procs":
            text = path.read_text() + text + "\n"
        return self.write(path, text)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    return Tree(tmp_path / "cgroup", monkeypatch)


def placed(tree: Tree, own: str) -> dict[str, Path]:
    membership = tree.root.parent / "membership"
    tree.write(membership, f"0::{own}\n")
    return find_places(tree.root, membership)


def test_a_group_beside_our_own_where_the_parent_hands_down(tree: Tree) -> None:
    app = tree.add(tree.root / "app.slice", "memory pids", "memory pids")
    tree.add(app / "shell.scope", "memory pids", processes="17\n")
    assert placed(tree, "/app.slice/shell.scope") == {"memory": app, "pids": app}
    assert sorted(path.name for path in app.iterdir() if path.is_dir()) == ["shell.scope"]


def test_both_limits_in_one_group(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    app = tree.add(tree.root / "app", "memory pids", "memory pids")
    monkeypatch.setattr(cgroup, "places", lambda: placed(tree, "/app"))
    group = ControlGroup.make(1000, 20)
    (path,) = [path for path in app.iterdir() if path.is_dir()]
    assert (path / "memory.max").read_text() == "1000" and (path / "memory.swap.max").read_text() == "0"
    assert (path / "pids.max").read_text() == str(20 + cgroup.OURS)
    assert group.bounds_memory and group.bounds_processes
    group.add(4711)
    assert (path / "cgroup.procs").read_text() == "4711\n"
    assert group.kills() == 0
    tree.write(path / "memory.events", "low 0\nhigh 0\nmax 31\noom 3\noom_kill 2\n")
    assert group.kills() == 2
    tree.write(path / "cgroup.procs", "")
    group.close()
    assert not path.exists()


def test_controllers_are_asked_for_where_they_are_not_handed_down(tree: Tree) -> None:
    ours = tree.add(tree.root / "ours", "memory pids")
    assert placed(tree, "/ours") == {"memory": ours, "pids": ours}
    assert (ours / "cgroup.subtree_control").read_text() == "memory pids"


def test_what_is_not_there_is_not_bounded(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.write(tree.root / "cgroup.controllers", "pids")
    tree.add(tree.root / "own", "pids", processes="17\n")
    found = placed(tree, "/own")
    assert found == {"pids": tree.root}
    monkeypatch.setattr(cgroup, "places", lambda: found)
    group = ControlGroup.make(1000, 20)
    assert (group.bounds_memory, group.bounds_processes) == (False, True)
    group.close()


def test_a_group_that_takes_no_limit_is_not_used(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    app = tree.add(tree.root / "app", "memory pids", "memory pids")
    monkeypatch.setattr(cgroup, "places", lambda: {"memory": app, "pids": tree.root.parent})
    group = ControlGroup.make(1000, 20)
    assert (group.bounds_memory, group.bounds_processes) == (True, False)
    group.close()
    assert [path for path in app.iterdir() if path.is_dir()] == []


def test_groups_of_the_dead_are_swept_up(tree: Tree) -> None:
    app = tree.add(tree.root / "app", "memory pids", "memory pids")
    dead, alive = app / f"{cgroup.PREFIX}4194305-0", app / f"{cgroup.PREFIX}{os.getpid()}-7"
    dead.mkdir()
    alive.mkdir()
    placed(tree, "/app")
    assert not dead.exists() and alive.exists()


def test_no_membership_no_groups(tree: Tree) -> None:
    assert find_places(tree.root, tree.root.parent / "absent") == {}


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_the_doctor_says_what_bounds_a_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    places = cgroup.places()
    by = {kind: "a control group" if kind in places else "a" for kind in ("memory", "pids")}
    assert f"memory is bounded by {by['memory']}" in (doctor._sandbox() or "")
    assert f"processes by {by['pids']}" in (doctor._sandbox() or "")
    monkeypatch.setattr(cgroup, "places", dict)
    assert "a supervisor that looks every 20 to 100 ms, processes by a resource limit" in (doctor._sandbox() or "")


@pytest.mark.skipif(bool(missing()), reason=f"no sandbox here: {missing()}")
def test_work_of_a_kernel_is_counted_and_waiting_is_not():
    with contextlib.closing(take()) as sandbox, contextlib.closing(sandbox.kernel()) as kernel:
        if not sandbox.group.bounds_memory:
            pytest.skip("no control groups can be made here")
        kernel.run("import time\nbegun = time.process_time()\nwhile time.process_time() < begun + 0.5: pass", 60.0)
        spun = sandbox.group.worked()
        kernel.run("time.sleep(0.5)", 60.0)
        assert spun >= 0.45 and sandbox.group.worked() - spun < 0.25
