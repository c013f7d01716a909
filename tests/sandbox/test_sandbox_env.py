"""Environments with a sandbox: what an episode did comes back after a snapshot, and after the sandbox broke."""

import gc
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from agentgym.core.env import Outcome
from agentgym.core.tasks import Task
from agentgym.errors import EpisodeOver
from agentgym.sandbox import Limits, SandboxFault, warm_pool
from agentgym.sandbox import env as environment
from agentgym.sandbox.bubblewrap.sandbox import missing
from agentgym.sandbox.env import SandboxEnv
from agentgym.sandbox.warm_pool import take

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


class Shell(SandboxEnv):
    """Python lines; `$ …` goes to the shell, and `>name text` into a file."""

    limits = Limits(timeout=30, memory=256 << 20, processes=40, disk=16 << 20, files=4000)
    seconds = 20.0

    def begin(self, task: Task) -> str:
        return "Compute."

    def prepare(self, sandbox) -> None:
        sandbox.write("given.txt", b"given\n")

    def act(self, action: str) -> str | Outcome:
        if action.startswith(">"):
            name, _, text = action[1:].partition(" ")
            try:
                self.write(name, text.encode())
            except OSError as error:
                return f"{type(error).__name__} {error.filename}"
            return "written"
        result = (
            self.run(action[1:], timeout=self.seconds)
            if action.startswith("$")
            else self.compute(action, timeout=self.seconds)
        )
        return result.text

    def oracle(self) -> Iterator[str]:
        yield ""

    @staticmethod
    def generate(rng: np.random.Generator, difficulty: int) -> Task:
        return Task(data={"number": int(rng.integers(1 << 30))})


@pytest.fixture(name="environment")
def shell():
    env = Shell()
    env.reset(seed=0)
    yield env
    env.close()


def kill(sandbox) -> None:
    sandbox._process.kill()
    sandbox._process.wait()
    time.sleep(0.2)  # until all in it has heard of that


def test_variables_and_files_come_back_in_another_instance(environment):
    environment.step("x = 20")
    environment.step("$echo more >> given.txt")
    state = environment.snapshot()
    environment.step("x = 1")
    other = Shell().restore(state)
    assert other.step("x + 1")[0] == "21\n"
    assert other.step("$cat given.txt")[0] == "given\nmore\n"
    other.close()
    environment.restore(state)
    assert environment.step("x + 2")[0] == "22\n"


def test_a_broken_sandbox_is_replaced_and_the_episode_goes_on(environment):
    environment.step("x = 20")
    kill(environment._sandbox)
    assert environment.step("x + 1")[0] == "21\n"


def test_a_python_that_is_lost_leaves_its_files_and_replays_begin_there(environment):
    environment.step("open('made.txt', 'w').write('made'); x = 1")
    environment.step("import os; os._exit(3)")
    assert environment.step("print(open('made.txt').read())")[0] == "made\n"
    assert "NameError" in environment.step("x")[0]
    assert [step.text for step, _ in environment.journal] == ["print(open('made.txt').read())", "x"]


def test_a_replay_that_gives_something_else_ends_the_episode_as_a_fault(environment):
    environment.step("import time; print(time.time_ns())")
    environment.restore(environment.snapshot())
    _, _, terminated, truncated, info = environment.step("1")
    assert (terminated, truncated, info["reason"], info["success"]) == (False, True, "crash", None)
    assert environment.reset(seed=1)[0] == "Compute."


def test_a_failure_to_start_is_not_kept_for_the_next_caller():
    with pytest.raises(Exception, match="no_such_package"):
        take(packages=("no_such_package",))
    with pytest.raises(Exception, match="no_such_package"):
        take(packages=("no_such_package",))


def test_two_faults_end_the_episode_and_the_next_one_works(environment, monkeypatch):
    environment.step("x = 1")
    calls = []

    def dead(*args, **options):
        sandbox = take(*args, **options)
        kill(sandbox)
        calls.append(sandbox)
        return sandbox

    kill(environment._sandbox)
    with monkeypatch.context() as patch:
        patch.setattr("agentgym.sandbox.env.take", dead)
        _, reward, terminated, truncated, info = environment.step("x")
    assert (reward, terminated, truncated, info["reason"], info["success"]) == (0, False, True, "crash", None)
    assert "sandbox is gone" in info["error"] and len(calls) == 1 and environment._sandbox is None
    with pytest.raises(EpisodeOver):
        environment.step("x")
    environment.reset(seed=1)
    assert environment.step("1 + 1")[0] == "2\n"


def test_what_took_too_long_is_replayed_as_such(environment):
    environment.step("import itertools, time\nseen = []")
    environment.seconds = 1.0
    assert (
        "KeyboardInterrupt"
        in environment.step("for n in itertools.count(): seen.append(n); print(n) if n < 99 else time.sleep(0.001)")[0]
    )
    environment.step("$echo a; sleep 9; echo b")
    environment.step("y = 3")
    state = environment.snapshot()
    other = Shell().restore(state)
    assert other.step("y")[0] == "3\n" and int(other.step("len(seen)")[0]) > 99
    other.close()


def test_addresses_do_not_matter_to_a_replay(environment):
    assert " at 0x" in environment.step("class A: pass\nA()")[0]
    environment.restore(environment.snapshot())
    assert environment.step("A.__name__")[0] == "'A'\n"


def test_chance_and_sets_are_the_same_in_a_replay(environment):
    environment.step("import random\nprint(random.random(), {'a', 'b', 'c'}, hash('x'))")
    environment.restore(environment.snapshot())
    assert environment.step("1")[0] == "1\n"


def test_without_a_python_a_snapshot_is_the_folder_and_nothing_is_done_again(environment):
    environment.step("$date +%N > made; echo $RANDOM >> made; chmod 000 made")
    environment.seconds = 1.0
    environment.step("$sleep 9")
    state = environment.snapshot()
    before = environment.step("$chmod 600 made; cat made")[0]
    other = Shell().restore(state)
    assert other.journal == () and other.step("$chmod 600 made; cat made")[0] == before
    assert other.step("$cat given.txt")[0] == "given\n"
    other.close()


def test_a_write_that_fails_is_part_of_what_happened(environment):
    environment.step("x = 1")
    assert environment.step(">given.txt/a text")[0] == "NotADirectoryError given.txt/a"
    assert environment.step(">a/b/given.txt text")[0] == "written"
    environment.restore(environment.snapshot())
    assert environment.step("print(open('a/b/given.txt').read(), x)")[0] == "text 1\n"
    assert environment.read("given.txt") == b"given\n"
    with pytest.raises(FileNotFoundError):
        environment.read("nothing")


def test_a_folder_that_cannot_be_packed_is_made_again_step_by_step(environment):
    environment.step("$python3 -c \"import os\nfor _ in range(1200): os.mkdir('d' * 90); os.chdir('d' * 90)\"; echo 1 > x")
    environment.step("import os; os._exit(1)")
    assert len(environment.journal) == 2
    other = Shell().restore(environment.snapshot())
    text, *_, info = other.step("$cat x; ls -d d*")
    assert text == "1\n" + "d" * 90 + "\n", info
    other.close()


def test_before_a_reset_and_after_the_end(environment):
    env = Shell()
    with pytest.raises(EpisodeOver):
        env.step("1")
    env.close()
    env.close()
    env.reset(seed=0)
    env.step("x = 5")
    env.close()
    assert env._sandbox is None
    assert env.step("x")[0] == "5\n"  # in another sandbox
    env.close()


def test_a_sandbox_that_prepare_could_not_fill_is_not_used(monkeypatch):
    tries = []

    class Fails(Shell):
        def prepare(self, sandbox):
            tries.append(sandbox)
            super().prepare(sandbox)
            if len(tries) == 1:
                raise SandboxFault("the first time")

    env = Fails()
    env.reset(seed=0)
    assert env.step("$cat given.txt")[0] == "given\n"
    assert len(tries) == 2 and tries[0]._process.returncode is not None
    env.close()


def test_grading_elsewhere_survives_one_broken_sandbox_and_leaves_the_episode_its_own(environment):
    environment.step("x = 7")
    mine, tries = environment._sandbox, []

    def grade(sandbox):
        tries.append(sandbox)
        if len(tries) == 1:
            kill(sandbox)
        return sandbox.run("ls").text

    assert environment.elsewhere(grade) == "" and len(tries) == 2
    assert environment._sandbox is mine and environment.step("x")[0] == "7\n"
    assert all(sandbox._process.returncode is not None for sandbox in tries)


def test_an_environment_that_nobody_holds_closes_its_sandbox():
    env = Shell()
    env.reset(seed=0)
    env.step("x = 1")
    pid = env._sandbox._process.pid
    del env
    gc.collect()
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists():
            return
        time.sleep(0.05)
    raise AssertionError(f"process {pid} still runs")


def test_a_snapshot_goes_on_in_another_process(environment, tmp_path):
    environment.step("x = 20")
    environment.step("$echo more >> given.txt")
    (tmp_path / "state").write_bytes(pickle.dumps(environment.snapshot()))
    code = (
        "import pickle, sys\nfrom pathlib import Path\nfrom test_sandbox_env import Shell\n"
        f"env = Shell().restore(pickle.loads(Path({str(tmp_path / 'state')!r}).read_bytes()))\n"
        "print(env.step('x + 1')[0], env.step('$cat given.txt')[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, text=True)
    assert done.stdout == "21\n given\nmore\n\n", done


def test_sandboxes_wait_for_their_taker_and_each_is_used_once():
    first, second = take(limits=Limits(files=123)), take(limits=Limits(files=123))
    first.write("mine", b"1")
    assert second.run("ls").text == "" and first is not second
    first.close()
    second.close()
    waiting = next(line for kind, line in warm_pool._waiting.items() if "files=123" in kind)
    assert len(waiting) == warm_pool.AHEAD
    waiting.clear()
    assert environment.SandboxEnv.blocking


def test_a_rare_kind_waits_once_it_was_asked_for_often_and_the_oldest_kinds_are_closed():
    limits = [Limits(files=700 + number) for number in range(warm_pool.KINDS + 1)]

    def waiting(number: int) -> int:
        return sum(len(line) for kind, line in warm_pool._waiting.items() if f"files={700 + number}," in kind)

    counts = []
    for _ in range(warm_pool.OFTEN + 2):
        take("process", limits=limits[0], options={"unsafe": True}, rare=True).close()
        counts.append(waiting(0))
    assert counts == [0] * warm_pool.OFTEN + [1, 1]
    spare = next(line for kind, line in warm_pool._waiting.items() if "files=700," in kind)[0].result()
    closed = []
    spare.close = lambda: closed.append(True)
    for other in limits[1:]:
        take("process", limits=other, options={"unsafe": True}, rare=True).close()
    assert closed == [True] and waiting(0) == 0
