"""ScienceWorld: the published tasks and splits, machines that are shared, and the way back after a deviation."""

import gc
import multiprocessing
import shutil

import pytest

import agentgym
from agentgym.core.tasks import Task
from agentgym.envs.scienceworld import simulator, solve, tasks
from agentgym.envs.scienceworld.solve import way_between
from agentgym.errors import BadConfig, MissingExtra, UnknownName

pytest.importorskip("scienceworld", reason="needs the extra `scienceworld`")
needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="needs Java: apt install default-jre-headless")
QUICK = "find-animal"


@pytest.fixture(autouse=True, scope="module")
def no_machines_left():
    yield
    simulator.end_all()


def environment(**options):
    return agentgym.make("rlvr/ScienceWorld-v0", **{"tasks_of": QUICK, **options})


@needs_java
def test_variations_and_splits_are_those_of_the_package():
    assert sum(tasks.VARIATIONS.values()) == 7207
    with simulator.lent(Task()) as machine:
        assert sorted(machine.ask(30, "getTaskNames")) == sorted(tasks.VARIATIONS)
        for name in tasks.VARIATIONS:
            assert machine.ask(30, "getTaskMaxVariations", name) == tasks.VARIATIONS[name]
        for name in ("boil", "grow-plant", "identify-life-stages-1", "lifespan-longest-lived"):
            machine.ask(120, "load", name, 0, "", False)
            for split, method in (("train", "Train"), ("dev", "Dev"), ("test", "Test")):
                assert list(machine.ask(30, f"getVariations{method}")) == tasks.variations(name, split)


def test_the_way_through_the_house():
    assert way_between("bedroom", "kitchen") == [
        "open door to hallway",
        "go to hallway",
        "open door to kitchen",
        "go to kitchen",
    ]
    assert way_between("kitchen", "kitchen") == [] == way_between("moon", "kitchen")


@needs_java
def test_the_oracle_finds_back_and_the_score_is_a_measure():
    env = environment()
    env.reset(seed=0, options={"task": 3})
    gold = list(env.oracle())
    away = "bedroom" if "hallway" in gold[0] else "hallway"
    for command in (*gold[:2], "pick up nothing", f"open door to {away}", f"go to {away}", "wait1"):
        env.step(command)
    state = env.snapshot()
    while env._running:
        _, reward, *_, info = env.step(next(env.oracle()))
    assert reward == 1 and info["metrics"]["score"] == 1
    with_score = environment(shaping={"score": 0.5})
    with_score.restore(state)
    assert with_score.measures()["score"] == state.payload[1] / 100
    for one in (env, with_score):
        one.close()


@needs_java
def test_a_solution_with_capitals_is_found_once(monkeypatch):
    env, found = environment(tasks_of="use-thermometer"), []
    monkeypatch.setattr("agentgym.envs.scienceworld.env.plan", lambda *a: found.append(a) or solve.plan(*a))
    env.reset(seed=0, options={"task": "use-thermometer/405"})  # unknown substance B
    while env._running:
        env.step(next(env.oracle()))
        assert len(found) == 1
    assert env.success
    env.close()


@pytest.mark.slow
@needs_java
def test_a_solution_leaves_out_what_is_not_understood():
    env = environment(tasks_of="test-conductivity")
    env.reset(seed=0, options={"task": "test-conductivity/835"})  # `connect block terminal 1 …`
    while env._running:
        assert env.step(next(env.oracle()))[4]["valid"]
    assert env.success
    env.close()


@pytest.mark.long
@needs_java
def test_environments_share_machines_and_a_dead_one_ends_one_episode(monkeypatch):
    simulator.end_all()
    monkeypatch.setattr(simulator, "MOST", 1)
    one, two = environment(), environment()
    first = one.reset(seed=0, options={"task": 1})[0]
    two.reset(seed=0, options={"task": 2})
    assert one.step("look around")[0] in first  # its machine was lent to the other in between
    simulator._machines[0].process.kill()
    simulator._machines[0].process.wait()
    assert two.step("look around")[4]["valid"]  # it was not in it: a new one repeats what was done
    machine = simulator._machines[0]
    monkeypatch.setattr(
        machine, "ask", lambda *_: machine.call(1, lambda: machine.process.kill() or machine._api.getScore())
    )
    _, _, over, cut, info = two.step("inventory")
    assert (over, cut, info["success"], info["reason"]) == (False, True, None, "crash")
    assert two.reset(seed=0, options={"task": 1})[0] == first
    for env in (one, two):
        env.close()


@needs_java
def test_a_machine_that_hangs_is_ended_and_garbage_collection_leaves_it_alone(caplog):
    """A finalizer that logs can run inside `ast.parse`, which CPython 3.11 does not survive when logging parses as well."""
    with simulator.lent(Task()) as machine:
        objects = [machine.ask(30, "getTaskNames"), machine._gateway.jvm.java.util.ArrayList()]
        with pytest.raises(agentgym.Fault, match="took longer than"):
            machine.call(0.2, lambda: machine._gateway.jvm.java.lang.Thread.sleep(60_000))
        assert not machine.alive()
        caplog.clear()
        objects.clear()
        gc.collect()
    assert not [record.message for record in caplog.records if record.name.startswith("py4j")]


def test_options_are_checked(monkeypatch):
    with pytest.raises(UnknownName, match="boil"):
        environment(tasks_of="boill")
    with pytest.raises(BadConfig, match="none but 0"):
        environment(difficulty=1)
    with pytest.raises(UnknownName, match="has 0 to 29"):
        environment().find("boil/30")
    monkeypatch.setattr(simulator.shutil, "which", lambda _: None)
    with pytest.raises(MissingExtra, match="needs Java"):
        environment()


@pytest.mark.slow
@needs_java
@pytest.mark.parametrize("name", tasks.VARIATIONS)
def test_the_oracle_solves_every_task(name):
    env = environment(tasks_of=name, split="test")
    for task in env.tasks(min(1 if name.startswith("mendelian") else 7, env.size())):
        env.reset(seed=0, options={"task": task})
        while env._running:
            env.step(next(env.oracle()))
        assert env.success, task.id
    env.close()


def steps_in_a_fork(queue):
    inherited = len(simulator._machines)
    env = environment()
    env.reset(seed=0, options={"task": 1})
    *_, info = env.step("look around")
    queue.put((inherited, info["valid"], info["reason"]))
    simulator.end_all()


@needs_java
def test_a_forked_process_has_machines_of_its_own():
    first = environment()
    first.reset(seed=0, options={"task": 0})
    first.step("look around")
    machines = list(simulator._machines)
    context = multiprocessing.get_context("fork")  # as Gymnasium's AsyncVectorEnv does
    queue = context.SimpleQueue()
    child = context.Process(target=steps_in_a_fork, args=(queue,))
    child.start()
    assert queue.get() == (0, True, None)
    child.join()
    assert machines and all(machine.alive() for machine in machines) and simulator._machines == machines
    assert first.step("look around")[4]["valid"]
    first.close()


@needs_java
def test_the_preset_published_ends_where_the_package_does(monkeypatch) -> None:
    """scienceworld 1.2.3 side by side: looking takes no move, `wait1` 2, `wait` 11, and more than 100 end an episode."""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")  # as our own machines are started
    package = pytest.importorskip("scienceworld").ScienceWorldEnv("find-animal", envStepLimit=100)
    env = agentgym.make("rlvr/ScienceWorld-v0", preset="published", tasks_of="find-animal")
    env.reset(options={"task": "find-animal/0"})
    package.load("find-animal", 0)
    monkeypatch.setattr(package, "get_valid_action_object_combinations", list)  # thousands a step, and none is a limit
    try:
        ended = False
        for action in ["look around", "inventory", "wait1", *["wait", "look around"] * 12]:
            _, _, ended, infos = package.step(action)
            _, _, terminated, truncated, info = env.step(action)
            assert (terminated or truncated) == ended, (action, infos["moves"])
            if ended:
                break
        assert ended and infos["moves"] == 101 and info["reason"] == "failure"
        assert env.limit == 1000  # looking is free in the package: turns only bound how often
    finally:
        package.close()
        env.close()
