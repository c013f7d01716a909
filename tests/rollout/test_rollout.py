"""Rollouts: order, faults, retries, repeatability, worker processes, branching, Ctrl-C-safe files."""

import asyncio
import inspect
import json
import os
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass

import pytest

import agentgym
from agentgym.agents import OracleAgent, consult
from agentgym.engines.scripted import ScriptedEngine
from agentgym.envs.guess_number import GuessNumber
from agentgym.episodes.episode import Turn, groups, read_episodes
from agentgym.errors import BadConfig, EngineDead, Fault
from agentgym.rollout.collect import acollect, collect, jobs_of, play_out
from agentgym.rollout.pool import RolloutConfig, RolloutPool
from agentgym.rollout.workers import Workers


def next_of_expert(env):
    return next(iter(env.expert()))


@dataclass
class Talk:
    """Plays the environment's expert, after a wait that differs from turn to turn."""

    turns: int = 0

    async def take(self, observation, info, *, env, seed, session):
        self.turns += 1
        await asyncio.sleep(0)
        return Turn(observation, action=await consult(env, next_of_expert), extra={"seed": seed})

    def fork(self):
        return Talk(self.turns)


class Policy:
    engine = None
    sampling = agentgym.Sampling()

    def begin(self, task, tools):
        return Talk()


class Blocking(GuessNumber):
    """A guessing game that waits, hangs or dies when told so by its task number."""

    blocking = True

    def act(self, action):
        trouble = os.environ.get("AGENTGYM_TEST_TROUBLE", "")
        number = int(self.task.id.rsplit("/", 1)[1])
        if trouble == "hang" and number == 1:
            time.sleep(60)
        if trouble == "die" and number == 1:
            os._exit(3)
        if trouble == "raise" and number == 1:
            raise RuntimeError("boom")
        time.sleep(0.002)
        return super().act(action)


class Flaky(GuessNumber):
    """Fails once, as a browser would that needs a restart."""

    failures = 0

    def act(self, action):
        if Flaky.failures == 0 and self.task.id.endswith("/1"):
            Flaky.failures += 1
            raise Fault("lost the connection", reason="timeout")
        return super().act(action)


class Endless(GuessNumber):
    """Hangs in plain Python on one task."""

    def act(self, action):
        while self.task.id.endswith("/1"):
            pass
        return super().act(action)


class Grading(GuessNumber):
    """Takes longer for a step than the rollout allows, and says so."""

    step_seconds = 30.0

    def act(self, action):
        time.sleep(0.2)
        return super().act(action)


def without_seconds(path):
    rows = []
    for line in path.read_text().splitlines():
        row = json.loads(line)
        for turn in row["turns"]:
            del turn["seconds"]
        rows.append(json.dumps(row))
    return sorted(rows)


def played(kind, config, **how):
    """Play six tasks in a pool of one environment, which alone can be told to keep all episodes in step."""

    async def collected():
        with closing(RolloutPool({"env": kind}, config)) as pool:
            return await pool.collect(Policy(), jobs_of("env", pool.probe("env").tasks(6), attempts=1, seed=0), **how)

    return asyncio.run(collected())


def test_episodes_come_in_order_and_are_written_as_they_finish(tmp_path):
    seen = []
    episodes = collect(
        Policy(),
        "rlvr/GuessNumber-v0",
        tasks=5,
        attempts=3,
        out=tmp_path / "e.jsonl",
        progress=seen.append,
        config=RolloutConfig(4),
    )
    assert [(e.task_id, e.attempt) for e in episodes] == [(f"train/0/{n}", a) for n in range(5) for a in range(3)]
    assert all(e.success and e.reward == 1.0 and e.reason == "success" for e in episodes)
    assert len(seen) == 15
    assert {e.to_json() for e in read_episodes(tmp_path / "e.jsonl")} == {e.to_json() for e in episodes}
    assert [len(g) for g in groups(episodes)] == [3] * 5


def test_two_runs_write_the_same_file_whatever_the_concurrency(tmp_path):
    for name, concurrency in (("a", 3), ("b", 3), ("c", 1), ("d", 64)):
        config = RolloutConfig(concurrency)
        collect(Policy(), "rlvr/GuessNumber-v0", tasks=6, attempts=2, seed=5, out=tmp_path / name, config=config)
    first = without_seconds(tmp_path / "a")
    assert all(without_seconds(tmp_path / name) == first for name in "bcd")


def test_seeds_depend_on_run_task_attempt_and_turn_alone():
    episodes = collect(Policy(), "rlvr/GuessNumber-v0", tasks=3, attempts=2, seed=1)
    seeds = [t.extra["seed"] for e in episodes for t in e.turns]
    assert len(set(seeds)) == len(seeds)
    again = collect(Policy(), "rlvr/GuessNumber-v0", tasks=["train/0/2"], attempts=2, seed=1)
    assert [t.extra["seed"] for t in again[0].turns] == [t.extra["seed"] for t in episodes[4].turns]


def test_skip_leaves_out_what_was_played_before():
    done = {("train/0/0", 0), ("train/0/2", 1)}
    episodes = collect(Policy(), "rlvr/GuessNumber-v0", tasks=3, attempts=2, skip=done)
    assert len(episodes) == 4 and not done & {(e.task_id, e.attempt) for e in episodes}


def test_a_fault_is_retried_once():
    Flaky.failures = 0
    episodes = collect(Policy(), Flaky, tasks=3)
    assert [e.success for e in episodes] == [True] * 3 and Flaky.failures == 1


def test_a_hang_in_this_process_ends_that_episode_alone():
    episodes = collect(Policy(), Endless, tasks=3, config=RolloutConfig(step_seconds=0.2))
    assert [e.reason for e in episodes] == ["success", "timeout", "success"]
    assert episodes[1].success is None and episodes[1].fault


def test_an_environment_may_need_longer_steps_than_a_rollout_allows():
    assert [e.reason for e in collect(Policy(), Grading, tasks=2, config=RolloutConfig(step_seconds=0.05))] == [
        "success"
    ] * 2


@pytest.mark.long
@pytest.mark.parametrize(("trouble", "reason"), [("", "success"), ("hang", "timeout"), ("die", "crash"), ("raise", "crash")])
def test_environments_that_block_run_in_worker_processes(monkeypatch, trouble, reason):
    monkeypatch.setenv("AGENTGYM_TEST_TROUBLE", trouble)
    seconds = 1.0 if trouble == "hang" else 60.0
    episodes = collect(Policy(), Blocking, tasks=4, config=RolloutConfig(4, workers=2, step_seconds=seconds))
    assert episodes[1].reason == reason
    assert [e.success for e in episodes if e.task_id != "train/0/1"] == [True] * 3
    if trouble == "raise":
        assert "boom" in episodes[1].error


@pytest.mark.long
@pytest.mark.parametrize("lockstep", [False, True])
def test_a_dying_process_takes_no_neighbour_along(monkeypatch, lockstep):
    monkeypatch.setenv("AGENTGYM_TEST_TROUBLE", "die")
    episodes = played(Blocking, RolloutConfig(6, workers=1), lockstep=lockstep)
    assert [e.success for e in episodes] == [True, None, True, True, True, True]
    assert episodes[1].reason == "crash" and "died" in episodes[1].error


def test_lockstep_plays_the_same_episodes(tmp_path):
    for name, lockstep in (("free", False), ("lock", True)):
        with (tmp_path / name).open("w") as file:
            assert len(played(GuessNumber, RolloutConfig(4), lockstep=lockstep, file=file)) == 6
    assert without_seconds(tmp_path / "free") == without_seconds(tmp_path / "lock")


def test_a_notebook_whose_event_loop_runs_already_may_collect():
    async def cell():
        return collect(OracleAgent(), "rlvr/GuessNumber-v0", tasks=2)

    assert [episode.success for episode in asyncio.run(cell())] == [True, True]


def test_horizon_reaches_the_environment():
    episodes = collect(Policy(), "rlvr/GuessNumber-v0", tasks=4, horizon=1)
    assert {e.horizon for e in episodes} == {1}
    assert all(len(e.turns) == 1 for e in episodes)
    assert {e.reason for e in episodes} <= {"horizon", "success"}


def test_a_branch_goes_on_from_a_snapshot():
    env = agentgym.make("rlvr/GuessNumber-v0")
    env.reset(seed=3)
    env.step("50")
    state, talk = env.snapshot(), Talk(turns=1)
    branches = [play_out(env.restore(state, seed=k), Policy(), talk.fork(), seed=k) for k in range(3)]
    assert all(b.success for b in branches)
    assert len({len(b.turns) for b in branches}) == 1 and talk.turns == 1


def test_what_was_written_survives_an_interruption(tmp_path):
    class Stop(Exception):
        pass

    def stop(episode):
        if episode.task_id == "train/0/3":
            raise Stop

    with pytest.raises(Stop):
        config = RolloutConfig(1)
        asyncio.run(acollect(Policy(), "rlvr/GuessNumber-v0", tasks=8, out=tmp_path / "e", progress=stop, config=config))
    assert [e.task_id for e in read_episodes(tmp_path / "e")] == [f"train/0/{n}" for n in range(4)]


def test_a_cut_last_line_is_left_out_and_any_other_is_an_error(tmp_path):
    collect(Policy(), "rlvr/GuessNumber-v0", tasks=3, config=RolloutConfig(1), out=tmp_path / "e")
    text = (tmp_path / "e").read_text()
    (tmp_path / "e").write_text(text[:-40])
    assert len(read_episodes(tmp_path / "e")) == 2
    (tmp_path / "e").write_text("{broken\n" + text)
    with pytest.raises(agentgym.BadData, match="line 1"):
        read_episodes(tmp_path / "e")


def test_a_file_with_a_cut_last_line_is_written_on(tmp_path):
    collect(Policy(), "rlvr/GuessNumber-v0", tasks=2, config=RolloutConfig(1), out=tmp_path / "e")
    text = (tmp_path / "e").read_text()
    (tmp_path / "e").write_text(text[:-40])
    collect(Policy(), "rlvr/GuessNumber-v0", tasks=2, config=RolloutConfig(1), out=tmp_path / "e", skip={("train/0/0", 0)})
    assert [e.task_id for e in read_episodes(tmp_path / "e")] == ["train/0/0", "train/0/1"]


class Closing(GuessNumber):
    """Counts how many of its environments are open."""

    opened = 0

    def setup(self):
        type(self).opened += 1

    def close(self):
        type(self).opened -= 1


class ClosingRemote(Closing):
    blocking = True


@pytest.mark.parametrize(("kind", "tasks"), [(Closing, 5), (ClosingRemote, 1), (Closing, [])])
def test_every_environment_is_closed_once(kind, tasks):
    collect(Policy(), kind, tasks=tasks, config=RolloutConfig(3))
    assert kind.opened == 0


class Where(GuessNumber):
    """Says the number of its process."""

    blocking = True

    def begin(self, task):
        return f"{super().begin(task)} {os.getpid()}"


def test_all_environments_of_a_pool_share_its_workers():
    async def run(workers):
        with closing(RolloutPool({"a": Where, "b": Where}, RolloutConfig(32, workers))) as pool:
            jobs = [job for env in "ab" for job in jobs_of(env, pool.probe(env).tasks(8), 1, 0)]
            return [episode.turns[0].observation.rsplit(" ", 1)[1] for episode in await pool.collect(Policy(), jobs)]

    places = asyncio.run(run(3))
    assert len(set(places)) == 3 and set(places[:8]) == set(places[8:]) and str(os.getpid()) not in places
    assert Counter(places).most_common()[-1][1] >= 4, "one holds few"


class Unreadable:
    """Can be sent, and not be read."""

    def __reduce__(self):
        return int, ("x",)


def unreadable(env):
    return Unreadable()


def first_of(env, *args):
    return args[0]


def test_what_cannot_be_read_is_the_trouble_of_its_environment_alone():
    async def run():
        with closing(Workers([Where], 1)) as workers:
            env, other = workers.hosted(), workers.hosted()
            for each in (env, other):
                await each.reset(0, {}, 30)
            waits = asyncio.create_task(other.consult(asleep, 1.0))
            await asyncio.sleep(0.2)
            with pytest.raises(Fault, match="answer cannot be read here"):
                await env.consult(unreadable)
            with pytest.raises(Fault, match="cannot read the request"):
                await env.consult(first_of, Unreadable())
            assert await waits == 1.0 and env.usable and await env.consult(first_of, 5) == 5

    asyncio.run(run())


def asleep(env, seconds):
    time.sleep(seconds)
    return seconds


@pytest.mark.parametrize(
    "cores, processes, requested, count",
    [(1, 1, 0, 2), (8, 1, 0, 8), (8, 4, 0, 2), (64, 1, 0, 16), (8, 1, 3, 3), (8, 1, 200, 128)],
)
def test_workers_are_as_many_as_cores(monkeypatch, cores, processes, requested, count):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(cores))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(processes))
    assert RolloutConfig(workers=requested).worker_count() == count


def test_bad_options_are_refused():
    with pytest.raises(BadConfig, match="concurrency"):
        collect(Policy(), "rlvr/GuessNumber-v0", config=RolloutConfig(0))
    with pytest.raises(agentgym.UnknownName, match="GuessNumber"):
        collect(Policy(), "rlvr/GuesNumber-v0")


@pytest.mark.parametrize("error", [BadConfig("the key is wrong"), EngineDead("it has ended")])
def test_what_no_episode_would_escape_ends_the_rollout_and_keeps_what_was_finished(tmp_path, error):
    class Failing(ScriptedEngine):
        calls = 0

        async def generate(self, *arguments, **options):
            self.calls += 1
            if self.calls > 5:
                raise error
            return await super().generate(*arguments, **options)

    agent = agentgym.ChatAgent(Failing(lambda prompt, turn: "7"), prompt="bare")
    with pytest.raises(type(error), match=str(error)):
        agentgym.collect(agent, "rlvr/GuessNumber-v0", tasks=8, horizon=2, config=RolloutConfig(1), out=tmp_path / "e.jsonl")
    assert len(agentgym.read_episodes(tmp_path / "e.jsonl")) == 2


def test_collect_has_the_signature_of_acollect_and_the_concurrency_of_its_config(monkeypatch):
    assert inspect.signature(collect) == inspect.signature(acollect) and not inspect.iscoroutinefunction(collect)
    used = []

    def noted(envs, config):
        pool = RolloutPool(envs, config)
        used.append(pool.config)
        return pool

    monkeypatch.setattr("agentgym.rollout.collect.RolloutPool", noted)
    collect(Policy(), "rlvr/GuessNumber-v0", tasks=1, config=RolloutConfig(concurrency=3))
    collect(Policy(), "rlvr/GuessNumber-v0", tasks=1)
    assert [config.concurrency for config in used] == [3, RolloutConfig().concurrency]
