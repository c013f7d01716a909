"""Tasks of tau2-bench: which can be played, what is said where its package is absent, and a checkout's mock domain."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import agentgym
from agentgym.core.actions import spell
from agentgym.engines import Completion
from agentgym.envs.desk.tau2 import load, why_not
from agentgym.envs.desk.tau2_package import Case
from agentgym.envs.desk.tau2_repeat import refusal

PLACES = [os.environ.get("AGENTGYM_DATA"), Path(__file__).parents[4] / "shared" / "data"]
CHECKOUT = next((p for place in PLACES if place and (p := Path(place) / "tau2-bench" / "src").is_dir()), None)
needs_checkout = pytest.mark.skipif(
    CHECKOUT is None,
    reason="no checkout of sierra-research/tau2-bench (with what it imports): name its parent folder in $AGENTGYM_DATA",
)
MOCK = str(CHECKOUT.parent / "data" / "tau2" / "domains" / "mock") if CHECKOUT else ""
if CHECKOUT:
    sys.path.append(str(CHECKOUT))
TANGLED = "update_task_with_user_tools"
"""Its assertion wants a notification read that its expected database has unread: nothing earns its reward."""


def row(**more):
    action = {"action_id": "a", "name": "move", "arguments": {"to": "Oslo"}}
    task = {"id": "1", "user_scenario": {"instructions": "Move."}, "ticket": "Move it.", **more}
    return {"evaluation_criteria": {"actions": [action]}, **task}


def folder(tmp_path, *rows):
    """Write a domain's folder where a checkout has it."""
    place = tmp_path / "checkout" / "data" / "tau2" / "domains" / "parcels"
    place.mkdir(parents=True, exist_ok=True)
    (place / "tasks.json").write_text(json.dumps(rows or [row()]), encoding="utf-8")
    return place


@pytest.mark.parametrize(
    ("task", "solo", "other"),
    [
        (row(), "", ""),
        (row(ticket=None), "it has no ticket", ""),
        (row(evaluation_criteria=None), "nothing that a program can verify", "nothing that a program can verify"),
        (row(evaluation_criteria={"actions": []}), "it names no action", ""),
        (row(evaluation_criteria={"actions": [], "reward_basis": ["NL_ASSERTION"]}), "NL_ASSERTION", "NL_ASSERTION"),
        (row(initial_state={"message_history": [{"role": "user", "content": "Hi."}]}), "in the middle", ""),
        (row(initial_state={"message_history": [{"role": "assistant", "content": "Hi."}]}), "in the middle", ""),
        (row(initial_state={"message_history": [{"role": "assistant", "tool_calls": [{"name": "move"}]}]}), "", ""),
    ],
)
def test_which_tasks_can_be_played(task, solo, other, tmp_path):
    (read,) = load(str(folder(tmp_path, task))).library.tasks
    for why, reason in ((why_not(read, solo=True), solo), (why_not(read, solo=False), other)):
        assert reason in why and bool(why) is bool(reason)


def test_the_tasks_of_a_split_are_those_that_can_be_played(tmp_path):
    place = str(folder(tmp_path, row(), row(id="2", ticket=None), row(id="3")))
    assert [task.id for task in agentgym.make("rlvr/Desk-v0", data=place, split="all").tasks(2)] == ["1", "3"]
    assert agentgym.make("rlvr/Desk-v0", data=place, split="all", user=Customer()).size() == 3
    assert agentgym.make("rlvr/Desk-v0", data=place, split="all").find("2").data["ticket"] is None


@pytest.mark.parametrize(
    ("name", "call_arguments", "message"),
    [
        ("calculate", {"expression": "2 * (3 + 4)"}, ""),
        ("move", {"to": "**", "n": 1.5, "list": [{"a": None}]}, ""),
        ("calculate", {"expression": "9**9**9"}, "Error: Invalid characters in expression"),
        ("move", {"to": "\ud83d"}, "half a character"),
        ("move", {"to": ["x", {"n": float("nan")}]}, "a number that is none"),
        ("move", {"n": float("inf")}, "a number that is none"),
        ("move", {"to": json.loads("[" * 49 + "]" * 49)}, ""),
        ("move", {"to": json.loads("[" * 50 + "]" * 50)}, "nested more than 50 deep"),
        ("move", {"to": json.loads("[" * 500 + "]" * 500)}, "nested more than 50 deep"),
    ],
)
def test_calls_that_could_not_be_replayed_or_would_never_end_are_refused(name, call_arguments, message):
    reason = refusal(name, call_arguments)
    assert message in reason and bool(reason) is bool(message)


@pytest.mark.parametrize(("named", "offered"), [(None, ["look", "pay"]), ([], []), (["pay", "fly"], ["pay"])])
def test_the_customer_has_the_tools_that_the_file_names(named, offered):  # versions before 1ef2aea4 drop the field
    case = object.__new__(Case)
    schemas = [{"function": {"name": name, "description": "", "parameters": {}}} for name in ("look", "pay")]
    tools = [SimpleNamespace(openai_schema=schema) for schema in schemas]
    case.environment = SimpleNamespace(user_tools=tools, get_user_tools=lambda: tools)
    case.row = row(user_tools=named)
    assert list(case.customer_tools) == offered


def refused(data, path=""):
    """Return what `reset` says in a process that finds packages at the path, too."""
    code = (
        "import sys, agentgym\n"
        "try: agentgym.make('rlvr/Desk-v0', data=sys.argv[1], split='all').reset(seed=0)\n"
        "except (agentgym.BadConfig, ImportError) as error: print(type(error).__name__, error)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(path), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-c", code, str(data)], env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def package(place, **files):
    (place / "tau2" / "environment").mkdir(parents=True)
    for name, text in {"__init__": "", **files}.items():
        (place / "tau2" / f"{name}.py").write_text(text, encoding="utf-8")


def test_what_to_install_is_said(tmp_path):
    error = refused(folder(tmp_path))
    assert error.startswith("MissingExtra these tasks are listed, and are played with the tools of tau2-bench: git clone")
    assert "pip install -e tau2-bench" in error and "\n" not in error


def test_the_other_program_of_that_name_is_told_apart(tmp_path):
    package(tmp_path, hysteresis="")
    error = refused(folder(tmp_path), tmp_path)
    assert error.startswith("MissingExtra the package `tau2` at ") and "is another program than tau2-bench" in error


def test_a_checkout_that_lacks_something_says_so(tmp_path):
    src = tmp_path / "checkout" / "src"
    package(src, **{"environment/toolkit": "", "registry": "import no_such_module_of_tau2"})
    error = refused(folder(tmp_path), src)
    assert error.startswith(f"MissingExtra tau2-bench at {src / 'tau2'} cannot be imported (No module named")


def test_code_beside_the_data_is_not_imported(tmp_path):
    evil = "import pathlib; pathlib.Path(__file__).with_name('was_run').write_text('')"
    package(tmp_path / "checkout" / "src", **{"environment/toolkit": evil, "registry": evil, "__init__": evil})
    assert refused(folder(tmp_path)).startswith("MissingExtra these tasks are listed")
    assert not list(tmp_path.rglob("was_run"))


class Customer:
    """A chat engine that says what it was given, one after the other, and keeps what it was sent."""

    def __init__(self, *words):
        self.words, self.sent = list(words), []

    async def chat(self, messages, tools, sampling, session):
        self.sent.append(messages)
        return Completion([], [], "stop", text=self.words.pop(0))


def desk(task, data=MOCK, **options):
    env = agentgym.make("rlvr/Desk-v0", data=data, split="all", **options)
    env.reset(seed=0, options={"task": task})
    return env


def use(env, name, **arguments):
    return env.step(json.dumps({"name": name, "arguments": arguments}))


def solo():
    return [task.id for task in agentgym.make("rlvr/Desk-v0", data=MOCK, split="all").library.tasks] if CHECKOUT else ["-"]


@needs_checkout
@pytest.mark.parametrize("task", solo())
def test_the_tasks_own_actions_earn_the_reward_and_nothing_earns_none(task):
    env = desk(task)
    for action in env.oracle():
        _, reward, over, _, info = env.step(action)
        assert info["valid"]
        if over:
            break
    assert reward == (0.0 if task == TANGLED else 1.0), env.observation
    assert desk(task).step("done[]")[1] == 0.0


@needs_checkout
def test_a_ticket_by_hand():
    env = desk("create_task_1")
    assert "1. Each task must have a title" in env.observation and env.observation.endswith(
        "'Important Meeting' for user_1."
    )
    genuine = {one.name: one.openai_schema for one in env._case.environment.get_tools()}
    assert {name: env.tools[name].schema() for name in genuine} == genuine and "create_task" in genuine
    before = env.state_key()
    text, reward, over, _, info = use(env, "create_task", user_id="nobody", title="x")
    assert (text, reward, over, info["valid"]) == ("Error: User nobody not found", 0.0, False, False)
    assert info["error"] == text and env.state_key() == before
    assert not use(env, "create_task", user_id="user_1", title="\ud83d")[4]["valid"]
    assert json.loads(env.step("get_users[]")[0])[0]["tasks"] == ["task_1"]
    made = use(env, "create_task", user_id="user_1", title="Important Meeting")
    assert json.loads(made[0])["task_id"] == "task_2" and env.state_key() != before
    other = desk("update_task_1").restore(env.snapshot())
    assert other.state_key() == env.state_key() and list(other.tools) == list(env.tools)
    use(env, "create_task", user_id="user_1", title="Another")
    assert env.step("done[]")[:2] == ("The conversation is over. DB 0, COMMUNICATE 1.", 0.0)
    assert other.step("done[]")[:2] == ("The conversation is over. DB 1, COMMUNICATE 1.", 1.0)
    assert other.info()["metrics"] == {"db": 1.0, "communicate": 1.0}


@needs_checkout
def test_the_database_begins_as_the_task_says_and_what_has_to_be_told_counts():
    env = desk("update_task_with_initialization_data")
    assert json.loads(env.step("get_users[]")[0])[0]["tasks"] == ["task_1", "task_2"]
    use(env, "update_task_status", task_id="task_2", status="completed")
    first, second = env.task.data["criteria"]["communicate_info"]
    env.step(spell("say", f"Well: {first}, and {second.upper()}!"))
    state = env.snapshot()
    assert env.step("done[]")[1] == 1.0
    other = desk("create_task_1").restore(state)
    assert json.loads(other.step("get_users[]")[0])[0]["tasks"] == ["task_1", "task_2"]
    again = desk("update_task_with_initialization_actions")
    assert json.loads(again.step("get_users[]")[0])[0]["tasks"] == ["task_1", "task_2"]


@needs_checkout
def test_an_assertion_about_what_is_not_there_fails():
    text, reward, over, *_ = desk("create_task_1_with_env_assertions").step("done[]")
    assert reward == 0.0 and over and text.endswith("cannot be judged: Task task_2 not found.")


@needs_checkout
def test_a_conversation_that_has_begun_goes_on_with_a_customer_played_by_a_model():
    engine = Customer("Please complete it.", "Thanks.  ###STOP###")
    env = desk("update_task_with_message_history", user=engine)
    assert "\n\nCustomer: I need to create a task for the project review meeting." in env.observation
    assert '\n\n{"task_id":"task_2",' in env.observation and '> {"arguments": {"text": "I\'ve created' in env.observation
    assert "not repeatable" in env.declared.nondeterministic
    assert env.step("say[Anything else?]")[0] == "Customer: Please complete it."
    assert "Now you want to mark the task as completed" in engine.sent[0][0]["content"]
    assert [one["role"] for one in engine.sent[0][1:]] == ["assistant", "user", "user"]
    use(env, "update_task_status", task_id="task_2", status="completed")
    text, reward, over, *_ = env.step("say[It is done.]")
    assert over and reward == 1.0 and text.startswith("The customer has ended the conversation. DB 1")
    with pytest.raises(agentgym.BadConfig, match=r"has no ticket, so tau2's solo mode cannot play it"):
        desk("update_task_with_message_history")


@needs_checkout
def test_a_model_customer_uses_its_own_tools_which_the_agent_has_not():
    if TANGLED not in solo():
        pytest.skip("this checkout's mock domain gives the customer no tools")
    calls = ['{"name": "dismiss_notification", "arguments": {}}', '{"name": "check_notifications", "arguments": {}}']
    engine = Customer(*calls, "notif_1 says that task_1 is mine.")
    env = desk(TANGLED, user=engine)
    assert "check_notifications" not in env.tools and "check_notifications" in desk(TANGLED).tools
    assert env.step("say[Hello?]")[0] == "Customer: notif_1 says that task_1 is mine."
    last = [one["content"] for one in engine.sent[-1]]
    assert "This is no call: dismiss_notification needs the argument" in last[-3] and '"notif_1"' in last[-1]
    other = desk(TANGLED, user=Customer("Bye. ###STOP###")).restore(env.snapshot())
    assert other.state_key() == env.state_key() and other.step("say[Goodbye.]")[1] == 0.0


@needs_checkout
def test_telecom_is_the_same_whatever_was_played_before():
    """Its tools name new bills by chance, and one of its models is changed for all episodes of a process."""
    telecom = Path(MOCK).with_name("telecom")
    if not (telecom / "tasks.json").is_file():
        pytest.skip("this checkout has no telecom")
    tasks = agentgym.make("rlvr/Desk-v0", data=str(telecom), split="all").library.tasks
    begins = {task.id: [one["func_name"] for one in task.data["initial_state"]["initialization_actions"]] for task in tasks}
    broken = next(id for id, calls in begins.items() if "break_vpn" in calls)
    plain = next(id for id, calls in begins.items() if "turn_roaming_off" in calls and "break_vpn" not in calls)

    def played():
        env = desk(plain, data=str(telecom))
        refuel = ("refuel_data", {"customer_id": "C1002", "line_id": "L1004", "gb_amount": 2.0})
        calls = [("toggle_roaming", {}), ("connect_vpn", {}), ("run_speed_test", {}), refuel]
        return [
            use(env, name, **call_arguments)[0] for name, call_arguments in [*calls, ("get_details_by_id", {"id": "C1002"})]
        ], env

    first, _ = played()
    assert "connected" in first[1]
    desk(broken, data=str(telecom))
    second, env = played()
    assert first == second
    assert desk(plain, data=str(telecom)).restore(env.snapshot()).step("get_details_by_id[C1002]")[0] == first[-1]
