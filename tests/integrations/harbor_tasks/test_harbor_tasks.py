"""Task folders of Harbor, made from tasks of environments: what is in them, what is not, and how they are judged."""

import asyncio
import hashlib
import io
import json
import shutil
import subprocess
import tarfile
import tomllib
import zipfile
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest

import agentgym
from agentgym.cli import main
from agentgym.env_server.sessions import Limits, Sessions
from agentgym.errors import BadConfig
from agentgym.integrations.harbor_tasks import folder as folders
from agentgym.integrations.harbor_tasks import serve, verify
from agentgym.integrations.harbor_tasks.folder import ExportSpec, contents, write
from agentgym.integrations.harbor_tasks.kinds import PACKED, NoSubmission, _archive
from agentgym.integrations.harbor_tasks.leaks import HIDDEN, leaks
from agentgym.integrations.harbor_tasks.wheel import wheel
from agentgym.registry import Maker
from agentgym.rollout.session import Session

SERVED = ("guessnumber", "household", "functions")
BUILT = {"terminal": "home/agent/task", "code": "app", "sql": "app"}


def files_of(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def readable(root: Path) -> dict[str, bytes]:
    return {name: content for name, content in files_of(root).items() if not name.startswith(HIDDEN) and name != "task.toml"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """One folder of each environment, by its name."""
    root = tmp_path_factory.mktemp("folders")
    return {name: write(ExportSpec(name), 1, root / name)[0] for name in (*SERVED, *BUILT)}


@pytest.mark.parametrize("name", [*SERVED, *BUILT])
def test_a_folder_is_whole(name, made):
    facts = tomllib.loads((made[name] / "task.toml").read_text())
    env = agentgym.make(name)
    task = env.tasks(1)[0]
    about = facts["metadata"]
    assert (about["task"], about["seed"], about["version"]) == (task.id, 0, agentgym.__version__)
    assert about["license"] and about["environment"] == env.spec.id
    assert facts["schema_version"] == "1.4" and facts["verifier"]["environment_mode"] == "separate"
    assert facts["environment"]["network_mode"] == facts["verifier"]["environment"]["network_mode"] == "public"
    stored = json.loads((made[name] / "tests" / "task.json").read_text())
    assert (stored["env"], stored["task"], stored["seed"], stored["served"]) == (env.spec.id, task.id, 0, name in SERVED)
    for dockerfile in made[name].rglob("Dockerfile"):
        assert dockerfile.read_text().startswith(f"FROM {folders.BASE}\n")
    assert ("mcp_servers" in facts["environment"]) == (name in SERVED)


@pytest.mark.parametrize("name", [*SERVED, *BUILT])
def test_an_agent_reads_no_answer(name, made):
    """Neither the package, by which the task could be made with its answer, nor the task's id, nor the solution."""
    seen = readable(made[name])
    assert set(seen) >= {"instruction.md", "environment/Dockerfile"}
    task = agentgym.make(name).tasks(1)[0]
    for path, content in seen.items():
        assert not path.endswith(".whl") and task.id.encode() not in content, path
    if name == "guessnumber":
        assert str(task.data["secret"]).encode() not in seen["instruction.md"]
    if name == "sql":
        assert task.data["gold"].encode() not in b"".join(seen.values())


def test_leaks_are_found():
    env = agentgym.make("sql")
    task = env.tasks(1)[0]
    Session(env).reset(task, seed=0)
    clean = {"instruction.md": b"A question.", "solution/solve.sh": b"#!/bin/bash\nprintf 'a solution of some length'\n"}
    actions = [next(iter(env.oracle()))]
    assert leaks(env, clean, actions) == []
    for path, content, words in (
        ("instruction.md", f"Say {task.data['gold']} now".encode(), "action of the solution"),
        ("environment/x", clean["solution/solve.sh"], "file of the verifier"),
        ("environment/x.whl", b"", "file of the verifier"),
        ("environment/x", task.id.encode(), "names the task"),
    ):
        found = leaks(env, {**clean, path: content}, actions)
        assert any(words in sentence for sentence in found), (path, found)
    assert (
        leaks(env, {**clean, "tests/x": task.data["gold"].encode(), "environment/service/t": task.id.encode()}, actions)
        == []
    )


def test_a_line_that_a_repository_repeats_is_no_leak():
    """The path and the new text of an edit may be in the repository; a whole action of the solution may not."""
    with agentgym.make("rlvr/SWE-v0", toolset="files") as env:
        env.reset(options={"task": env.tasks(1)[0]})
        line = "                parts[-1] = Interval(parts[-1].start, part.end)\n"
        arguments = {"path": "src/spans/interval_set.py", "old": "                pass\n", "new": line}
        action = json.dumps({"name": "edit", "arguments": arguments})
        for natural in (line, arguments["path"]):
            assert leaks(env, {"environment/files.tar": natural.encode()}, [action]) == []
        assert leaks(env, {"environment/files.tar": action.encode()}, [action])
        assert leaks(env, {"instruction.md": line.encode()}, [action])


def test_a_shown_secret_is_a_leak(monkeypatch):
    """The check is made at export, of what is about to be written."""
    monkeypatch.setattr(folders, "_instruction", lambda env, first: f"{first} It is {env.secret}.")
    env = agentgym.make("guessnumber")
    with pytest.raises(BadConfig, match=r"cannot be exported: instruction\.md shows the answer"):
        contents(ExportSpec("guessnumber"), env, env.tasks(1)[0], "x")


def test_the_wheel_is_the_package():
    name, content = wheel()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        inside = {entry: archive.read(entry) for entry in archive.namelist()}
    stem = name.removesuffix("-py3-none-any.whl")
    assert inside["agentgym/core/env.py"] == (Path(agentgym.__file__).parent / "core" / "env.py").read_bytes()
    assert f"Version: {agentgym.__version__}".encode() in inside[f"{stem}.dist-info/METADATA"]
    rows = inside[f"{stem}.dist-info/RECORD"].decode().splitlines()
    assert len(rows) == len(inside) and not any("__pycache__" in entry for entry in inside)
    for row in rows[:50]:
        path, digest, size = row.rsplit(",", 2)
        made = urlsafe_b64encode(hashlib.sha256(inside[path]).digest()).rstrip(b"=").decode()
        assert (digest, int(size)) == (f"sha256={made}", len(inside[path]))


# Judging files


def agents_root(made: Path, name: str, root: Path, solved: bool) -> None:
    """Make what the verifier of a folder finds: the task, and what an agent handed in."""
    facts = json.loads((made / "tests" / "task.json").read_text())
    facts["options"] = {}  # on this machine the usual sandbox
    place = root / "opt/agentgym/task.json"
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps(facts))
    work = root / BUILT[name]
    work.mkdir(parents=True)
    if name == "terminal":
        with tarfile.open(made / "environment" / "files.tar") as archive:
            archive.extractall(root / "home/agent", filter="data")
    if solved:
        script = (made / "solution" / "solve.sh").read_text().replace(f"/{BUILT[name]}", str(work))
        subprocess.run(["bash", "-c", script], check=True, cwd=work)
    if name == "terminal":
        packed = root / PACKED.removeprefix("/")
        packed.parent.mkdir(parents=True)
        subprocess.run(["tar", "--format=pax", "-C", work.parent, "-cf", packed, "task"], check=True)


def reward(root: Path) -> float:
    assert verify.main(root) == 0
    return json.loads((root / "logs/verifier/reward.json").read_text())["reward"]


@pytest.mark.parametrize("name", BUILT)
@pytest.mark.parametrize("solved", [True, False])
def test_files_are_judged(name, solved, made, tmp_path):
    agents_root(made[name], name, tmp_path, solved)
    assert reward(tmp_path) == solved


def test_what_cannot_be_read_is_a_failure(made, tmp_path):
    """What an agent leaves decides nothing about how it is counted: a reward of 0, never an error of the trial."""
    agents_root(made["code"], "code", tmp_path, solved=False)
    place = tmp_path / "app/solution.py"
    for content in (b"\xff\xfe", b"x" * 200_000, b"", b"def ", b"\0"):
        place.write_bytes(content)
        assert reward(tmp_path) == 0
    place.unlink()
    place.symlink_to("/opt/agentgym/task.json")
    assert reward(tmp_path) == 0
    place.unlink()
    place.mkdir()
    assert reward(tmp_path) == 0


def sparse(size: int) -> bytes:
    header = tarfile.TarInfo("task/big")
    header.size = size
    return header.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize("content", [b"", b"no archive" * 100, sparse(1 << 40), b"\x1f\x8b" + bytes(600)])
def test_archives_of_strangers(content, tmp_path):
    place = tmp_path / PACKED.removeprefix("/")
    place.parent.mkdir(parents=True)
    place.write_bytes(content)
    with pytest.raises(NoSubmission):
        _archive(tmp_path, 1 << 20)


# The service


async def played(name: str, actions: list[str], out: Path) -> tuple[serve.OneEpisode, list[str]]:
    env = agentgym.make(name)
    env.reset(seed=0, options={"task": env.tasks(1)[0]})  # some tasks have tools of their own
    sessions = Sessions(Maker(env.spec.id, {}), Limits(sessions=4))
    server = serve.OneEpisode(sessions, name, fixed={"task": env.tasks(1)[0].id, "seed": 0}, out=out)
    try:
        await server.begin()
        answers = [(await server.act(serve.SESSION, action))[0] for action in actions]
        again = await server.call("another client of this service", server.reset_name, {})
        assert again[2], "no client starts the episode again"
        assert [tool["name"] for tool in server.tools()] == ([*env.tools] or ["act"])
        return server, [server.first, *answers]
    finally:
        server.sessions.close()


@pytest.mark.long
@pytest.mark.parametrize("name", SERVED)
def test_a_service_plays_the_solution(name, made, tmp_path):
    actions = [json.loads(line) for line in (made[name] / "solution" / "actions.jsonl").read_text().splitlines()]
    out = tmp_path / "result/episodes.jsonl"
    out.parent.mkdir()
    _, answers = asyncio.run(played(name, actions, out))
    assert answers[0] in (made[name] / "instruction.md").read_text()
    shutil.copytree(made[name] / "tests", tmp_path / "opt/agentgym")
    assert reward(tmp_path) == 1


@pytest.mark.long
def test_an_episode_that_was_not_ended_is_lost(made, tmp_path):
    out = tmp_path / "result/episodes.jsonl"
    out.parent.mkdir()
    shutil.copytree(made["guessnumber"] / "tests", tmp_path / "opt/agentgym")
    assert reward(tmp_path) == 0
    asyncio.run(played("guessnumber", ["0"], out))
    assert reward(tmp_path) == 0


def test_an_infrastructure_error_is_no_reward(made, tmp_path):
    shutil.copytree(made["guessnumber"] / "tests", tmp_path / "opt/agentgym")
    out = tmp_path / "result/episodes.jsonl"
    out.parent.mkdir()
    out.write_text(json.dumps({"turns": 1, "reason": "crash", "success": None, "reward": 0.0}) + "\n")
    assert verify.main(tmp_path) == 1
    assert not (tmp_path / "logs").exists()


# The command


def test_settings_of_this_machine_are_refused(tmp_path):
    for options in ({"backend": "process"}, {"backend_options": {"unsafe": True}}, {"data": "/etc/passwd"}):
        with pytest.raises(BadConfig, match="of this machine"):
            write(ExportSpec("code", options), 1, tmp_path / "x")
    with pytest.raises(BadConfig, match="expected the name of an image"):
        write(ExportSpec("guessnumber", base="x\nRUN curl evil"), 1, tmp_path / "x")
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "y").touch()
    with pytest.raises(BadConfig, match="is not empty"):
        write(ExportSpec("guessnumber"), 1, tmp_path / "x")


@pytest.mark.parametrize("text", ['a"b\n[verifier]\n', "\x7f\x00\x1f\u2028", "\ud800", "😀", "\\"])
def test_texts_stay_texts(text):
    assert tomllib.loads(f"a = {folders._toml(text)}")["a"] == text.encode("utf-8", "replace").decode()


def test_names_are_harmless():
    task = agentgym.Task(id="../../etc/ß x/" + "y" * 300)
    name = folders._name("rlvr/SQL-v0", task, [])
    assert name.startswith("sql-etc-x-y") and len(name) <= 80 and folders._name("rlvr/SQL-v0", task, [name]) != name


def test_the_command(tmp_path, capsys):
    words = ["export", "guessnumber", "--as", "harbor", "--out"]
    assert main([*words, str(tmp_path / "a"), "--tasks", "2", "--split", "test"]) == 0
    assert "2 task folders" in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["guessnumber-test-0-0", "guessnumber-test-0-1"]
    assert main([*words, str(tmp_path / "b")]) == 2
    assert "--tasks is 0" in capsys.readouterr().err
    assert main(["export", "runs", "--out", "x.parquet", "--tasks", "2"]) == 2
    assert "--tasks goes with --as harbor" in capsys.readouterr().err


def test_tasks_of_a_run(tmp_path, capsys):
    (tmp_path / "run").mkdir()
    episodes = agentgym.collect(agentgym.ExpertAgent(), "guessnumber", tasks=2, out=tmp_path / "run" / "episodes.jsonl")
    assert main(["export", str(tmp_path / "run"), "--as", "harbor", "--out", str(tmp_path / "a")]) == 0
    stored = {json.loads(path.read_text())["task"] for path in (tmp_path / "a").glob("*/tests/task.json")}
    assert stored == {episode.task_id for episode in episodes}
    capsys.readouterr()
    text = (tmp_path / "run" / "episodes.jsonl").read_text().replace("from 1 to 100.", "from 1 to 10.")
    (tmp_path / "run" / "episodes.jsonl").write_text(text)
    assert main(["export", str(tmp_path / "run"), "--as", "harbor", "--out", str(tmp_path / "b")]) == 2
    assert "does not begin as in the run" in capsys.readouterr().err
