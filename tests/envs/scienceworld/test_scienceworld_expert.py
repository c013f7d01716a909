"""ScienceWorld's expert: what it makes of texts that were shown, and that nothing else moves it."""

import shutil

import pytest

import agentgym
from agentgym.envs.scienceworld import answers, simulator, tasks
from agentgym.envs.scienceworld.expert import WAYS, Advisor
from agentgym.envs.scienceworld.expert.living import animals

needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="needs Java: apt install default-jre-headless")
OUTSIDE = (
    "This outside location is called the outside. Here you see: \n\tthe agent\n\ta substance called air\n\tan axe\n"
    "\ta baby beaver\n\ta fire pit (containing nothing)\n\ta fountain (containing nothing)\n\tthe ground\n\ta baby mouse\n"
    "\ta parrot egg\n\ta substance called wood\nYou also see:\n\tA door to the foundry (that is closed)\n"
    "\tA door to the greenhouse (that is closed)\n\tA door to the kitchen (that is closed)"
)
BATHROOM = (
    "This room is called the bathroom. In it, you see: \n\tthe agent\n\ta substance called air\n"
    "\ta bathtub, which is turned off. In the bathtub is: nothing.\n\ta glass cup (containing nothing)\n\ta picture\n"
    "\ta purple box (containing nothing)\n\ta yellow box (containing nothing)\n\tunknown substance B\n"
    "You also see:\n\tA door to the kitchen (that is closed)"
)
KITCHEN = (
    "This room is called the kitchen. In it, you see: \n\tthe agent\n\ta substance called air\n"
    "\ta cupboard. The cupboard door is closed. \n\ta lighter\n\ta table. On the table is: a glass cup (containing nothing)."
    "\n"
    "\ta thermometer, currently reading a temperature of 10 degrees celsius\n"
    "You also see:\n\tA door to the bathroom (that is open)\n\tA door to the hallway (that is closed)"
)
LONGEST = (
    "Find the animal with the longest life span, then the shortest life span. First, focus on the animal with the longest"
)
MEASURE = (
    "Your task is to measure the temperature of unknown substance B, which is located around the bathroom. First, focus on "
    "the thermometer. Next, focus on the unknown substance B. If the unknown substance B temperature is above 200.0 degrees "
    "celsius, place it in the yellow box. If the unknown substance B temperature is below 200.0 degrees celsius, place it "
    "in the purple box. The boxes are located around the bathroom."
)
MEASURED = [
    ("open door to kitchen", "The door is now open."),
    ("go to kitchen", "You move to the kitchen."),
    ("look around", KITCHEN),
    ("pick up thermometer", "You move the thermometer to the inventory."),
    ("focus on thermometer", "You focus on the thermometer."),
    ("go to bathroom", "You move to the bathroom."),
    ("pick up unknown substance b", "You move the unknown substance B to the inventory."),
    ("focus on unknown substance b", "You focus on the unknown substance B."),
]


@pytest.fixture(autouse=True, scope="module")
def no_machines_left():
    yield
    simulator.end_all()


def opening(task, room):
    return ("", f"Task Description:\n{task}\n\n{room}")


def replies(name, history):
    """Return what the advisor says after each part of a history, asked as it grows and asked once, which agree."""
    advisor = Advisor(name)
    actions = [advisor.after(history[: n + 1]) for n in range(len(history))]
    assert actions == [Advisor(name).after(history[: n + 1]) for n in range(len(history))]
    return actions


def test_the_life_spans_of_animals_in_sight():
    assert animals(OUTSIDE) == ["baby beaver", "baby mouse", "parrot egg"]
    name = "lifespan-longest-lived-then-shortest-lived"
    history = [opening(LONGEST, OUTSIDE), ("focus on parrot egg", "You focus on the parrot egg.")]
    assert replies(name, history) == ["focus on parrot egg", "focus on baby mouse"]


def test_where_no_animal_is_in_sight_it_looks_again():
    name, task = "lifespan-longest-lived-then-shortest-lived", LONGEST
    bare = OUTSIDE.replace("\ta baby beaver\n", "").replace("\ta baby mouse\n\ta parrot egg\n", "")
    history = [opening(task, bare), ("look around", bare), ("look around", OUTSIDE)]
    assert replies(name, history) == ["look around", "look around", "focus on parrot egg"]


def test_what_breaks_a_way_breaks_it_again(monkeypatch):
    """Equal histories, equal answers: an advisor that something escaped from says nothing that is out of date."""

    def way(memory):
        yield "wait"
        yield {"fine": "look around"}[memory.last]

    monkeypatch.setitem(WAYS, "boil", way)
    history, advisor = [opening("Boil it.", OUTSIDE), ("wait", "odd"), ("wait", "odd")], Advisor("boil")
    assert advisor.after(history[:1]) == "wait"
    for count in (2, 2, 3, 3):
        for one in (advisor, Advisor("boil")):
            with pytest.raises(KeyError, match="odd"):
                one.after(history[:count])
    assert advisor.after([history[0], ("wait", "fine")]) == "look around"


@pytest.mark.parametrize(("degrees", "box"), [("49", "purple"), ("201", "yellow"), ("-12", "purple")])
def test_the_thermometer_decides(degrees, box):
    text = f"the thermometer measures a temperature of {degrees} degrees celsius"
    history = [opening(MEASURE, BATHROOM), *MEASURED, ("use thermometer on unknown substance b", text)]
    actions = replies("use-thermometer", history)
    assert actions[:-1] == [action for action, _ in history[1:]]
    assert actions[-1] == f"move unknown substance b to {box} box"


def test_after_other_actions_it_goes_on_from_there():
    history = [opening(MEASURE, BATHROOM), *MEASURED[:5], ("open door to hallway", "The door is now open.")]
    assert replies("use-thermometer", history)[-1] == "go to bathroom"  # the thermometer is held and was focused on
    history.append(("go to hallway", "You move to the hallway."))
    assert replies("use-thermometer", history)[-1] == "go to kitchen"  # its door was seen open


def test_a_reset_takes_back_what_was_focused_on_and_nothing_else():
    history = [opening(MEASURE, BATHROOM), *MEASURED[:6], ("reset task", "You reset the goal progress and focus.")]
    assert replies("use-thermometer", history)[-1] == "focus on thermometer"  # which is held
    history.append(("focus on thermometer", "You focus on the thermometer."))
    assert replies("use-thermometer", history)[-1] == "pick up unknown substance b"  # in the room that it went to


def test_where_it_teleported_to_no_door_was_opened():
    history = [opening(MEASURE, BATHROOM), ("teleport to kitchen", "You teleport to the kitchen.")]
    assert replies("use-thermometer", history)[-1] == "look around"
    hidden = KITCHEN.replace("bathroom (that is open)", "bathroom (that is closed)")
    history += [("look around", hidden), *MEASURED[3:5]]
    assert replies("use-thermometer", history)[-1] == "open door to bathroom"


def test_a_question_of_another_action_is_not_answered():
    text = "Ambiguous request: Please enter the number for the action you intended (or blank to cancel):\n0:\tfocus on a\n"
    history = [opening(LONGEST, OUTSIDE), ("focus on egg", text)]
    name = "lifespan-longest-lived-then-shortest-lived"
    assert replies(name, history)[-1] == "cancel"
    history += [("help", answers.HELP), ("", f"''{answers.NO_ACTION}"), ("é", f"'é'{answers.NO_ACTION}")]
    assert replies(name, history)[2:] == ["cancel"] * 3  # the simulator did not hear of these: it still asks
    history.append(("xyzzy", "Unknown action.  Type 'help' for a list of actions"))
    assert replies(name, history)[-1] == "focus on parrot egg"


def test_one_task_has_no_expert():
    without = [name for name in tasks.VARIATIONS if not any(name.startswith(beginning) for beginning in WAYS)]
    assert without == ["mendelian-genetics-unknown-plant"]
    assert Advisor(without[0]).after([opening("Determine whether …", OUTSIDE)]) is None


def environment(**options):
    pytest.importorskip("scienceworld", reason="needs the extra `scienceworld`")
    return agentgym.make("rlvr/ScienceWorld-v0", **options)


@pytest.mark.long
@needs_java
@pytest.mark.parametrize(("name", "variation"), [("find-non-living-thing", 230), ("lifespan-shortest-lived", 94)])
def test_oracle_and_expert_solve_quick_tasks(name, variation):
    env = environment(tasks_of=name)
    for policy in (env.oracle, env.expert):
        env.reset(seed=0, options={"task": f"{name}/{variation}"})
        while env._running:
            env.step(next(policy()))
        assert env.success
    env.close()


@needs_java
def test_the_expert_asks_no_simulator_and_outlives_a_snapshot():
    env, other = environment(), environment()
    env.reset(seed=0, options={"task": "find-animal/230"})
    for _ in range(3):
        env.step(next(env.expert()))
    env.step("dance")
    env.step("inventory")
    action = next(env.expert())
    other.restore(env.snapshot())
    for machine in simulator._machines:
        machine.process.kill()
        machine.process.wait()
    assert next(other.expert()) == next(env.expert()) == action


@needs_java
def test_a_question_stays_open_until_the_simulator_is_answered():
    env = environment(tasks_of="boil")
    env.reset(seed=0, options={"task": "boil/0"})
    assert env.step("open door")[0].startswith(simulator.QUESTION)
    for action in ("help", "", "é", "a" * 201):
        text = env.step(action)[0]
        assert answers.own(text) and env.last.startswith(simulator.QUESTION)
        assert next(env.expert()) == "cancel"
    assert not answers.own(env.step("cancel")[0])
    assert next(env.expert()) != "cancel"
    env.close()


@needs_java
def test_tasks_have_the_turns_that_their_solutions_take():
    env = environment()
    env.reset(seed=0, options={"task": "boil/29"})
    assert env.limit == 250
    env.reset(seed=0, options={"task": "boil/29", "horizon": 7})
    assert env.limit == 7 and environment(horizon=30).limit_of(env.task) == 30


@pytest.mark.slow
@needs_java
@pytest.mark.parametrize("name", [name for name in tasks.VARIATIONS if name != "mendelian-genetics-unknown-plant"])
def test_the_expert_solves_most_of_every_task(name):
    env = environment(tasks_of=name, split="test")
    first_tasks = env.tasks(min(5, env.size()))
    won = 0
    for task in first_tasks:
        env.reset(seed=0, options={"task": task})
        while env._running and (action := next(env.expert(), None)):
            env.step(action)
        won += env.success is True
    env.close()
    assert won >= 0.6 * len(first_tasks)
