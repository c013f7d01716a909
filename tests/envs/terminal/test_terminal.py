"""The terminal environment: a shell that goes on, what is shown of it, what is kept, who plays."""

import hashlib
import json

import pytest

import agentgym
from agentgym.core.env import Task
from agentgym.envs.terminal import Terminal
from agentgym.envs.terminal import tree as trees
from agentgym.envs.terminal.scenario import FAMILIES, scenario
from agentgym.envs.terminal.shortcuts import SHORTCUTS
from agentgym.errors import BadConfig, MissingExtra, UnknownName
from agentgym.sandbox.bubblewrap.sandbox import missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "there is a sandbox")


def bash(command):
    return json.dumps({"name": "bash", "arguments": {"command": command}})


@pytest.fixture(scope="module")
def environment():
    env = agentgym.make("rlvr/Terminal-v0", seconds=3, horizon=100)
    yield env
    env.close()


@pytest.fixture
def say(environment):
    """A function that runs a command in a fresh episode's shell and returns what is shown."""
    environment.reset(seed=0, options={"task": 0})
    return lambda command: environment.step(bash(command))[0]


def test_folder_and_exported_variables_stay(say):
    assert say("pwd") == "/home/agent/task"
    assert say("mkdir -p a/b && cd a/b && export NAME='two words' && unset LANG; here=1") == "[no output]"
    assert say('pwd; echo "$NAME$LANG$here"') == "/home/agent/task/a/b\ntwo words"
    assert say("cd - && cd -") == "/home/agent/task\n/home/agent/task/a/b"
    assert say("f() { echo called; }; export -f f") == "[no output]"
    assert say("f") == "called"
    assert say("cd ..; exit 3") == "[exit code 3]"
    assert say("pwd") == "/home/agent/task/a"
    assert say("rmdir b; cd ..; rmdir a; cd /usr/share; pwd") == "/usr/share"


def test_the_tool_says_whether_temporary_files_stay(environment, say, monkeypatch):
    stays = "exported variables, /tmp and /dev/shm persist between commands"
    text = environment.tools["bash"].description
    assert "/tmp and everything else do not." in text and stays not in text
    say("touch /tmp/x")
    assert "No such file" in environment.step(bash("cat /tmp/x"))[0]
    monkeypatch.setattr(Terminal, "requires", lambda self: None)
    for backend, options in (("docker", {"image": "i"}), ("harbor", {"image": "i"}), ("process", {"unsafe": True})):
        text = Terminal(backend=backend, backend_options=options).tools["bash"].description
        assert stays in text and ("no network, no root" in text) is (backend != "process")
    assert environment.tools["bash"].description.endswith("No input, no network, no root.")


def test_a_folder_that_is_gone_is_said(say):
    say("mkdir gone; cd gone; rmdir ../gone")
    assert say("pwd") == "[the folder /home/agent/task/gone is gone: back in /home/agent]\n/home/agent"


def test_what_is_shown(say):
    assert say("echo out; echo err >&2; echo out") == "out\nerr\nout"
    assert say("false") == "[exit code 1]"
    assert say("kill -9 $$") == "[exit code 137]"
    assert say("sleep 60") == "[ended after 3 seconds, with all that it had started]"
    assert say("cat; read x; echo done") == "done"
    assert say("printf 'a\\377b'") == "a\\xffb"
    output = say("seq 100000")
    assert output.startswith("1\n2\n") and output.endswith("\n99999\n100000")
    assert "line ends left out …]" in output and len(output) < 8200
    assert say("yes").endswith("[ended: it printed too much; print less, or into a file]")
    assert "command not found" in say("no-such-program") and "unexpected" in say("if then")
    assert say("set -eux; trap 'echo bye' EXIT; cd /usr; false").endswith("bye\n[exit code 1]")
    assert say("pwd") == "/home/agent/task"  # a shell with a trap of its own says nothing of itself


def test_what_runs_in_the_background_ends_with_the_command(say):
    say("(while true; do echo x >> beat; sleep 0.1; done) & sleep 0.3")
    first = say("wc -l < beat; sleep 0.5; wc -l < beat").split()
    assert first[0] == first[1]


def test_listings_and_commits_do_not_depend_on_the_day(environment, say):
    def play():
        environment.reset(seed=0, options={"task": 0})
        commands = (
            "mkdir x; echo 1 > x/y",
            "ls -laR --time-style=full-iso",
            "git init -q g; cd g; echo 1 > f; git add f",
            "git commit -qm m; git log",
            "ls -la",  # what a command itself has changed shows the real time until it ends
            "touch -d 2020-02-02 f; ls -l",
        )
        return [environment.step(bash(command))[0] for command in commands]

    once = play()
    assert once == play()
    assert "2025-01-01 12:01:00.0" in once[1] and "Jan 1 12:04:00 2025" in once[3] and "Feb  2  2020" in once[5]


def test_keys_come_back_and_tell_states_apart(environment, say):
    start = environment.state_key()
    say("ls")
    assert environment.state_key() == start
    say("echo 1 > new")
    changed = environment.state_key()
    say("chmod 600 new")
    assert len({start, changed, environment.state_key()}) == 3
    say("rm new")
    assert environment.state_key() == start
    say("cd /")
    assert environment.state_key() != start
    say("cd -; export X=1")
    assert environment.state_key() != start


def test_git_status_changes_no_key(environment):
    scene = scenario("git-find", 1, 1, 0)
    data = {"family": "git-find", "ask": 1, "fill": 1, "level": 0, "answers": list(scene.answers)}
    environment.reset(seed=0, options={"task": Task(scene.instruction, data, id="train/0/0", split="train")})
    key, top = environment.state_key(), scene.instruction.split("`")[1]
    assert (
        environment.step(bash(f"git -C {top} status --short; git -C {top} fsck; touch {top}/*.cfg; git -C {top} status"))[0]
        == "On branch main\nnothing to commit, working tree clean"
    )
    assert environment.state_key() == key


def test_a_snapshot_goes_on_elsewhere_without_playing_again(environment, say):
    say("date +%N > time; cd /usr; export A=1")
    state, read = environment.snapshot(), say("cat ~/task/time; pwd; echo $A")
    other = agentgym.make("rlvr/Terminal-v0", seconds=3, horizon=100).restore(state)
    assert other.step(bash("cat ~/task/time; pwd; echo $A"))[0] == read
    other.close()


def test_a_sandbox_that_breaks_is_replaced(environment, say):
    say("date +%N > time; cd /usr")
    before = say("cat ~/task/time")
    environment._sandbox._process.kill()
    assert say("cat ~/task/time; pwd") == f"{before}\n/usr"


def test_a_folder_that_its_owner_closed_harms_nobody(environment, say):
    say("mkdir -p x/y; chmod 0 x")
    assert say("echo on") == "on"
    environment.reset(seed=0, options={"task": 0})
    assert say("echo on; ls -d x 2>&1") == "on\nls: cannot access 'x': No such file or directory\n[exit code 2]"


def test_the_mode_of_the_home_folder_neither_breaks_nor_outlives_an_episode(environment, say):
    for mode in ("000", "400", "2751"):
        assert say("stat -c %a ~") == "700"
        assert say(f"chmod {mode} ~; echo done") == "done"
        assert say("pwd; echo $?").endswith("task\n0")
        say("chmod 777 ~")
        environment.reset(seed=0, options={"task": 0})


def test_nothing_of_an_episode_is_in_the_next(environment, say):
    say("echo mine > ~/mine; echo mine > /tmp/mine; echo mine > /dev/shm/mine; (sleep 50 &); ln -s / ~/task/root")
    environment.reset(seed=0, options={"task": 1})
    output = environment.step(bash("ls -A ~ /tmp /dev/shm; ls task/root; ps ax 2>/dev/null | grep -c '[s]leep'"))[0]
    assert "mine" not in output and "No such file" in output


def test_commands_that_cannot_be_run_are_invalid(environment, say):
    for command in ("", " \n", "a\0b", "\ud800", "x" * 100_001, "é" * 60_000):
        action = json.dumps({"name": "bash", "arguments": {"command": command}})
        assert not environment.step(action)[4]["valid"], command[:10]


def test_what_is_not_spoken_of_must_stay(environment):
    task = agentgym.make("rlvr/Terminal-v0", families="csv").tasks(1)[0]
    for extra, reward in (("echo note > scratch.txt", 1.0), ("for f in *; do echo >> $f; done", 0.0)):
        environment.reset(seed=0, options={"task": task})
        for command in scenario("csv", *(task.data[key] for key in ("ask", "fill", "level"))).solution:
            environment.step(bash(command))
        environment.step(bash(extra))
        assert environment.step("submit[]")[1] == reward


def test_the_oracle_puts_back_what_was_destroyed(environment):
    task = environment.tasks(1)[0]
    environment.reset(seed=0, options={"task": task})
    for command in ("rm -rf ~/task", "export PATH=/nowhere; f() { :; }; export -f f", "cd /; unset HOME", "ls() { rm x; }"):
        environment.step(bash(command))
    for action in environment.oracle():
        *_, terminated, truncated, info = environment.step(action)
        if terminated or truncated:
            break
    assert info["success"] is True


@pytest.mark.slow
def test_experts_of_all_families_succeed():
    env = agentgym.make("rlvr/Terminal-v0", difficulty=1, split="valid")
    seen = set()
    for number in range(200):
        task = env.numbered(number)
        if task.data["family"] in seen:
            continue
        seen.add(task.data["family"])
        env.reset(seed=0, options={"task": task})
        for action in env.expert():
            *_, terminated, truncated, info = env.step(action)
            if terminated or truncated:
                break
        assert info["success"] is True, task
    assert seen == set(FAMILIES)
    env.close()


@pytest.mark.parametrize("name", SHORTCUTS)
def test_shortcut_policies_fail_in_every_family(name, environment):
    for place, family in enumerate(FAMILIES):
        if place % len(SHORTCUTS) != list(SHORTCUTS).index(name):  # the contract tries the others
            continue
        scene = scenario(family, 1, 2, 0)
        data = {"family": family, "ask": 1, "fill": 2, "level": 0, "answers": list(scene.answers)}
        observations = [environment.reset(seed=0, options={"task": Task(scene.instruction, data, id="x", split="train")})[0]]
        for _ in range(3):
            observation, reward, terminated, *_ = environment.step(SHORTCUTS[name](observations))
            observations.append(observation)
            if terminated:
                break
        assert terminated and reward == 0.0, (name, family)


def test_families_can_be_chosen():
    env = agentgym.make("rlvr/Terminal-v0", families="git-find, csv")
    assert {task.data["family"] for task in env.tasks(20)} == {"git-find", "csv"}
    with pytest.raises(UnknownName, match="git-find"):
        agentgym.make("rlvr/Terminal-v0", families="git-fnd")
    with pytest.raises(BadConfig, match="Did you mean 'max_chars'"):
        agentgym.make("rlvr/Terminal-v0", shown=500)  # its name until 2026-11-28
    with pytest.raises(BadConfig, match="seconds"):
        agentgym.make("rlvr/Terminal-v0", seconds=0)


def test_programs_that_are_missing_are_named(monkeypatch):
    from agentgym.envs.terminal import env as module

    monkeypatch.setattr(module, "NEEDED", ("bash", "no-such-program"))
    monkeypatch.setattr(module, "_STARTED", {})
    with pytest.raises(MissingExtra, match="no-such-program"):
        agentgym.make("rlvr/Terminal-v0")
    monkeypatch.setattr(
        module.Terminal, "requires", lambda self: None
    )  # a container may lack it where this machine does not
    with pytest.raises(BadConfig, match="no-such-program"):
        agentgym.make("rlvr/Terminal-v0").reset(seed=0)


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 200_000])
def test_what_is_stored_is_read_by_all(size):
    import gzip
    import zlib

    from agentgym.envs.terminal.stored import gzipped, zlibbed

    content = bytes(range(256)) * (size // 256 + 1)
    assert gzip.decompress(gzipped(content[:size])) == zlib.decompress(zlibbed(content[:size])) == content[:size]


def test_tasks_are_the_same_on_every_machine():
    env = agentgym.make("rlvr/Terminal-v0", difficulty=2)
    instructions = "".join(f"{task.instruction}{env.split_key(task)}" for task in map(env.numbered, range(60)))
    assert hashlib.sha256(instructions.encode()).hexdigest()[:16] == "5058031a0cdc42c8"


def test_trees_are_packed_alike_and_links_are_followed():
    tree = {
        "a/b": trees.file("x", 0o600),
        "a/c": trees.link("b"),
        "d": trees.link("/home/agent/task/a"),
        "e": trees.link("e"),
    }
    packed = trees.pack(tree, "task")
    assert packed == trees.pack(dict(reversed(tree.items())), "task")
    back = trees.below(trees.unpack(packed), "task")
    assert {**back, "a": None} == {**tree, "a": None}
    assert trees.at(back, "d/c", "/home/agent/task") == ("a/b", tree["a/b"])
    assert trees.at(back, "e", "/home/agent/task") == ("e", None)
    assert trees.at(back, "d/../../x", "/home/agent/task")[1] is None


def test_a_second_name_of_a_file_is_no_copy(environment):
    """The next command tells them apart, so their keys differ; and 20,000 names are hashed as fast as one file."""
    keys, seen = [], []
    for make in ("cp -p x y", "ln x y"):
        environment.reset(seed=0, options={"task": 0})
        environment.step(bash("rm -rf x y; head -c 9000000 /dev/zero > x"))
        keys.append(environment.step(bash(make))[4]["state_key"])
        seen.append(environment.step(bash("echo more >> x; cmp -s x y && echo same || echo other"))[0])
    assert seen == ["other", "same"] and len(set(keys)) == 2

    class Counted:
        def update(self, part):
            sizes.append(len(part))

        def hexdigest(self):
            return ""

    sizes: list[int] = []
    one = trees.file("x" * 1000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trees.hashlib, "blake2b", lambda **_: Counted())
        trees.digest({f"a/{n}": one for n in range(20_000)})
    assert sum(size == 1000 for size in sizes) == 1
