"""Environments on a Ray cluster of two nodes: the episodes that this process plays, whatever dies meanwhile."""

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

import agentgym
from agentgym import BadConfig, RolloutConfig, TextEnv
from agentgym.errors import MissingExtra
from agentgym.rollout import ray_workers, workers
from agentgym.rollout.pool import RolloutPool

ray = pytest.importorskip("ray", reason="workers on Ray need the ray package")
sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
from kills_victims import add_node  # noqa: E402

pytestmark = pytest.mark.long


class Slow(TextEnv):
    """Each turn waits a little, draws a number, and leaves the number of its process in `folder`."""

    horizon = 12
    folder = ""

    def __init__(self, folder=""):
        super().__init__()
        self.folder = folder

    def begin(self, task):
        self.drawn = []
        return "Begin."

    def act(self, action):
        if self.folder:
            node = ray.get_runtime_context().get_node_id() if ray.is_initialized() else ""
            Path(self.folder, str(os.getpid())).write_text(node)
        if action == "hang":
            time.sleep(60)
        if action == "exit":
            os._exit(1)
        time.sleep(0.02)
        self.drawn.append(int(self.np_random.integers(1_000_000)))
        return self.win("Done.") if len(self.drawn) == 10 else f"{self.drawn[-1]}"

    def state(self):
        return tuple(self.drawn)

    def expert(self):
        while True:
            yield f"{len(self.drawn)}"

    @staticmethod
    def generate(rng, difficulty):
        return agentgym.Task(data={"n": int(rng.integers(1000))})


def _locks(env):
    return threading.Lock()


def _same(env, lock):
    return lock


class Unreadable:
    """Can be sent, and not be read."""

    def __reduce__(self):
        return int, ("x",)


def _unreadable(env):
    return Unreadable()


class Make:
    """Makes an environment; an object of this module, which no node knows but by the path that is sent along."""

    def __init__(self, folder=""):
        self.folder = str(folder)

    def __call__(self):
        return Slow(self.folder)


@pytest.fixture(scope="module")
def cluster():
    """A head that takes no workers, and one node beside it that does."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        add_node(made)
        ray.init(address=made.address, log_to_driver=False)
        yield made
        ray.shutdown()
        made.shutdown()


CONFIG = RolloutConfig(8, workers=2, worker_backend="ray", step_seconds=20)
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]
"""Of the moments at which a worker or a node goes: one in CI, three in ./dev full."""


def _programs_below(env):
    """The process that holds an environment, and the names of the programs that it and its children have started."""
    parents, names = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            number, _, rest = path.read_text().partition(" (")
            name, _, fields = rest.rpartition(") ")
            parents[int(number)], names[int(number)] = int(fields.split()[1]), name
    below = {os.getpid()}
    while more := {number for number, parent in parents.items() if parent in below} - below:
        below |= more
    return os.getpid(), {names[number] for number in below - {os.getpid()}}


def course(episode):
    turns = [(turn.observation, turn.action, turn.reward) for turn in episode.turns]
    return episode.task_id, episode.attempt, turns, episode.success, episode.reason, episode.error


def played(make, config=CONFIG, tasks=16, agent=None, out=None):
    return agentgym.collect(agent or agentgym.ExpertAgent(), make, tasks=tasks, attempts=2, config=config, out=out)


@pytest.fixture(scope="module")
def expected():
    return [course(episode) for episode in played(Make(), RolloutConfig(8))]


def test_the_episodes_are_those_of_this_process(cluster, expected, tmp_path):
    assert [course(episode) for episode in played(Make(tmp_path))] == expected
    nodes = {path.read_text() for path in tmp_path.iterdir()}
    assert len(nodes) == 2 and os.getpid() not in {int(path.name) for path in tmp_path.iterdir()}


@pytest.mark.parametrize("env", ["rlvr/GuessNumber-v0", "rlvr/Math-v0"])
def test_environments_that_come_with_agentgym(cluster, env):
    there, here = (
        agentgym.collect(agentgym.RandomAgent(), env, tasks=6, config=config) for config in (CONFIG, RolloutConfig(8))
    )
    assert [course(episode) for episode in there] == [course(episode) for episode in here]


@pytest.mark.parametrize(("env", "program"), [("rlvr/Terminal-v0", "bwrap"), ("rlvr/Web-v0", "chrom")])
def test_sandboxes_and_browsers_start_below_the_worker(cluster, env, program):
    try:
        made = agentgym.make(env)
    except MissingExtra as error:
        pytest.skip(str(error))

    async def run():
        pool = workers.Workers([partial(agentgym.make, env)], 1, ray_workers.start_with({}))
        hosted = pool.hosted()
        try:
            await hosted.reset(0, {"task": made.tasks(1)[0]}, 60)
            return await hosted.consult(_programs_below)
        finally:
            pool.close()

    worker, names = asyncio.run(run())
    assert worker != os.getpid() and any(program in name for name in names), names


@pytest.mark.parametrize("seed", SEEDS)
def test_a_worker_that_dies_loses_no_episode(cluster, expected, tmp_path, seed):
    chance, killed = random.Random(seed), []

    def kill():
        while not killed:
            time.sleep(chance.uniform(0.05, 0.4))
            for path in list(tmp_path.iterdir())[:1]:
                os.kill(int(path.name), signal.SIGKILL)
                killed.append(path.name)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    file = tmp_path.parent / f"episodes{seed}.jsonl"
    episodes = played(Make(tmp_path), out=file)
    thread.join(60)
    assert killed and [course(episode) for episode in episodes] == expected
    assert len(file.read_text().splitlines()) == len(expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_that_leaves_and_one_that_joins(cluster, expected, tmp_path, seed, monkeypatch):
    monkeypatch.setattr(workers, "GATHER_SECONDS", 300.0)  # else a busy machine plays it all before a node has started
    head = ray.get_runtime_context().get_node_id()
    with ThreadPoolExecutor(1) as thread:  # a node is started in the main thread
        playing = thread.submit(played, Make(tmp_path), tasks=24)
        while not any(path.read_text() not in ("", head) for path in tmp_path.iterdir()):
            assert not playing.done(), "no environment was on the node that was to leave"
            time.sleep(0.02)
        time.sleep(random.Random(seed).uniform(0.1, 0.6))
        cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
        add_node(cluster)
        episodes = playing.result()
    assert [course(episode) for episode in episodes][: len(expected)] == expected
    assert len(episodes) == 48 and all(episode.success for episode in episodes)
    nodes = {path.read_text() for path in tmp_path.iterdir()}
    assert len(nodes) == 3, "the node that joined has had no environment"


@pytest.mark.parametrize("action, reason", [("hang", "timeout"), ("exit", "crash")])
def test_what_the_agent_brings_about_is_its_failure(cluster, action, reason):
    async def run():
        pool = workers.Workers([Make()], 1, ray_workers.start_with({}))
        env = pool.hosted()
        try:
            await env.reset(0, {}, 30)
            with pytest.raises(agentgym.Fault) as error:
                await env.step(action, 1)
            assert error.value.reason == reason and not env.usable
            env.close()
            again = pool.hosted()
            await again.reset(0, {}, 30)
            assert (await again.step("1", 5))[0]
        finally:
            pool.close()

    asyncio.run(run())


def test_what_cannot_be_sent_or_read_is_a_fault_and_the_worker_stays(cluster):
    async def run():
        pool = workers.Workers([Make()], 1, ray_workers.start_with({}))
        env = pool.hosted()
        try:
            await env.reset(0, {}, 30)
            with pytest.raises(agentgym.Fault, match="cannot be sent"):
                await env.consult(_locks)
            with pytest.raises(agentgym.BadConfig, match="lock"):
                await env.consult(_same, threading.Lock())
            with pytest.raises(agentgym.Fault, match="answer cannot be read here"):
                await env.consult(_unreadable)
            with pytest.raises(agentgym.Fault, match="cannot read the request"):
                await env.consult(_same, Unreadable())
            assert env.usable and (await env.step("1", 5))[0]
        finally:
            pool.close()

    asyncio.run(run())


def test_a_worker_whose_cluster_does_not_say_where_it_was_is_told_of(cluster, tmp_path, monkeypatch):
    async def run():
        pool = workers.Workers([Make(tmp_path)], 1, ray_workers.start_with({}))
        env = pool.hosted()
        try:
            await env.reset(0, {}, 30)
            await env.step("1", 5)
            monkeypatch.setattr(ray, "nodes", lambda: 1 / 0)
            with pytest.raises(workers.WorkerLost):
                await env.step("exit", 30)
        finally:
            pool.close()

    asyncio.run(run())


def test_a_cluster_without_room_says_so(cluster, monkeypatch):
    monkeypatch.setattr(workers, "START_SECONDS", 1.0)
    with pytest.raises(BadConfig, match="no worker could be started in 1 s"):
        played(Make(), RolloutConfig(4, worker_backend="ray", worker_options={"resources": {"tpu": 4}}), tasks=1)


def test_a_cluster_with_room_for_some_uses_them(cluster, monkeypatch, expected):
    monkeypatch.setattr(workers, "GATHER_SECONDS", 2.0)
    config = RolloutConfig(8, workers=5, worker_backend="ray")
    assert [course(episode) for episode in played(Make(), config)] == expected


def test_an_environment_that_cannot_be_made_there_ends_the_rollout(cluster):
    def make():
        if threading.current_thread() is threading.main_thread():
            return Slow()
        raise BadConfig("no such file there")

    with pytest.raises(BadConfig, match="no such file there"):
        played(make, tasks=1)


@pytest.mark.parametrize(
    "changes, why",
    [
        ({"worker_backend": "spark"}, "spark"),
        ({"worker_options": {"num_cpus": 2}}, r"worker_options \(num_cpus\) are those of a Ray actor"),
        ({"worker_backend": "ray", "worker_options": {"cpus": 2}}, "worker_options: .*cpus"),
        ({"worker_backend": "ray", "worker_options": {"max_restarts": 2}}, "max_restarts is not for a rollout"),
    ],
)
def test_mistakes_are_explained(cluster, changes, why):
    with pytest.raises((BadConfig, agentgym.UnknownName), match=why):
        played(Make(), RolloutConfig(4, **changes), tasks=1)


def test_without_the_package_one_sentence_says_how_to_install_it():
    script = "import sys; sys.modules['ray'] = None\nimport agentgym\n"
    script += "config = agentgym.RolloutConfig(worker_backend='ray')\n"
    script += "agentgym.collect(agentgym.RandomAgent(), 'rlvr/GuessNumber-v0', config=config)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert "workers on Ray need the ray package: " in done.stderr.splitlines()[-1]


def test_a_cluster_that_is_not_there_is_told_of_at_once():
    script = "import agentgym\nconfig = agentgym.RolloutConfig(worker_backend='ray')\n"
    script += "agentgym.collect(agentgym.RandomAgent(), 'rlvr/GuessNumber-v0', config=config)"
    env = {**os.environ, "RAY_ADDRESS": "127.0.0.1:9"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, env=env)
    assert "no Ray cluster answers at 127.0.0.1:9: " in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("flags", [[], ["--worker.num_cpus", "0.5", "--workers", "1"]])
def test_an_evaluation_on_a_cluster_is_that_of_this_process(cluster, tmp_path, flags):
    def courses(*more):
        command = [sys.executable, "-m", "agentgym", "eval", "guessnumber", "--policy", "oracle", "--tasks", "4", "--quiet"]
        subprocess.run([*command, "--out", tmp_path / str(len(more)), *more], check=True, timeout=120, env=env)
        return [course(episode) for episode in agentgym.read_episodes(tmp_path / str(len(more)) / "episodes.jsonl")]

    env = {**os.environ, "RAY_ADDRESS": cluster.address}
    assert sorted(courses("--worker-backend", "ray", *flags)) == sorted(courses())


def test_a_training_run_on_a_cluster_is_that_of_this_process(cluster, tmp_path):
    from agentgym.trainers import TrainConfig, train

    def metrics(backend):
        out = tmp_path / backend
        config = TrainConfig(
            env="rlvr/GuessNumber-v0", out=str(out), sft_episodes=8, steps=2, tasks_per_step=2, group_size=3, horizon=(4,),
            eval_every=0, test_tasks=2, workers=2, worker_backend=backend, threads=1, select="keep", turn_tokens=24,
        )  # fmt: skip
        train(config)
        return [
            (e.task_id, e.attempt, e.reward, [turn.output_ids for turn in e.turns])
            for e in agentgym.read_episodes(out / "episodes.jsonl")
        ]

    assert sorted(metrics("ray")) == sorted(metrics("process"))


def test_an_environment_of_a_script_is_sent_along(cluster, tmp_path):
    """Also one without `if __name__ == "__main__":`, with a state of a class of its own."""
    script = tmp_path / "script.py"
    script.write_text(
        "import agentgym, dataclasses\n"
        "@dataclasses.dataclass\nclass State:\n    n: int = 0\n"
        "class Mine(agentgym.TextEnv):\n"
        "    def begin(self, task):\n        self.held = State()\n        return 'Say yes.'\n"
        "    def act(self, action):\n        return self.win('Right.') if action == 'yes' else self.invalid('No.')\n"
        "    def state(self):\n        return self.held.n\n"
        "    def oracle(self):\n        yield 'yes'\n"
        "    @staticmethod\n"
        "    def generate(rng, difficulty):\n        return agentgym.Task(data={'n': int(rng.integers(9))})\n"
        "config = agentgym.RolloutConfig(2, worker_backend='ray')\n"
        "agentgym.register('me/Mine-v0', Mine, horizon=3)\n"
        "for env in (Mine, 'me/Mine-v0'):\n"
        "    print([e.success or e.error for e in agentgym.collect(agentgym.OracleAgent(), env, tasks=2, config=config)])\n"
    )
    env = {**os.environ, "RAY_ADDRESS": cluster.address}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=100, env=env)
    assert (done.returncode, done.stdout.splitlines()) == (0, ["[True, True]"] * 2), done.stderr


def test_several_environments_in_one_pool(cluster):
    async def run():
        with contextlib.closing(RolloutPool({"a": Make(), "b": Make()}, CONFIG)) as pool:
            jobs = [agentgym.rollout.play.Job(pool.probe(env).tasks(1)[0], 0, 0, env, env) for env in "ab"]
            return await pool.collect(agentgym.ExpertAgent(), jobs)

    assert [episode.success for episode in asyncio.run(run())] == [True, True]
