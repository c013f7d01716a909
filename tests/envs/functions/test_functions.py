"""Functions by hand: the state decides and not the calls, what must not happen, and what is offered."""

import sys

import numpy as np
import pytest
from functions_by_hand import ADD, ASK, DROP, EVERYTHING, ID, LOOK, MOVE, PAY, WHICH, begun, ended, use
from surface import Listing, figure

import agentgym
from agentgym import BadConfig
from agentgym.core.env import TextEnv
from agentgym.envs.functions import catalog, wording
from agentgym.envs.functions.generate import BUILDERS, LEVELS
from agentgym.envs.functions.search import search
from agentgym.envs.functions.services import SERVICES


def test_the_state_decides_whatever_the_calls_were():
    env = begun(MOVE)
    assert ended(env) is False
    env = begun(MOVE)
    assert use(env, "calendar_set_event_room", event_id="E-102", room="Pine")[0] == "Done: the room of E-102 is now Pine."
    assert ended(env, message="anything") is True
    env = begun(MOVE)  # a detour: another value first, another record changed and changed back, looks at other things
    for key, room in (("E-102", "Oak"), ("E-101", "Pine"), ("E-102", "Pine"), ("E-101", "Oak")):
        use(env, "calendar_set_event_room", event_id=key, room=room)
    use(env, "bank_get_account", account_id="A-201")
    use(env, "calendar_preview_event_room", event_id="E-101", room="Elm")
    assert ended(env) is True
    env = begun(MOVE)
    use(env, "calendar_set_event_room", event_id="E-102", room="Pine")
    use(env, "calendar_set_event_room", event_id="E-101", room="Pine")
    observation, *_, info = use(env, "finish", message="done")
    assert info["success"] is False and observation == "1 of 1 requests are settled; unrequested changes: 1."


def test_what_nobody_asked_for_and_nothing_takes_back_ends_the_episode():
    payment = {"invoice_id": "I-301", "account_id": "A-201", "amount": 120}
    for name, arguments in (
        ("billing_pay_invoice", payment),
        ("billing_schedule_payment_of_invoice", payment),
        ("calendar_delete_event", {"event_id": "E-101"}),
        ("calendar_set_all_events_room", {"room": "Pine"}),
        ("calendar_request_event_room", {"event_id": "E-102", "room": "Pine"}),
        ("calendar_set_default_events_room", {"room": "Pine"}),
        ("calendar_create_event", {"title": "Team call", "day": "2026-03-05", "time": "09:30", "room": "Pine"}),
    ):
        assert ended(begun(MOVE), name, **arguments) is False, name


def test_a_payment_is_made_once_with_the_amount_that_was_read():
    paid = {"invoice_id": "I-301", "account_id": "A-201", "amount": 120}
    assert ended(begun(PAY), "billing_pay_invoice", **paid) is False  # the amount was not read: a guess
    env = begun(PAY)
    use(env, "billing_get_invoice", invoice_id="I-301")
    assert ended(env, "billing_pay_invoice", **{**paid, "amount": 121}) is False
    for again in (False, True):
        env = begun(PAY)
        use(env, "billing_get_invoice", invoice_id="I-301")
        assert use(env, "billing_pay_invoice", **paid)[0] == "Paid 120 for I-301 from A-201."
        assert (ended(env, "billing_pay_invoice", **paid) if again else ended(env)) is not again


def test_a_change_before_its_condition_was_read_is_a_failure():
    assert ended(begun(LOOK), "calendar_set_event_time", event_id="E-102", time="10:00") is False
    env = begun(LOOK)
    assert '"room": "Elm"' in use(env, "calendar_get_event", event_id="E-102")[0]
    assert ended(env, "calendar_set_event_time", event_id="E-102", time="11:00") == "not over"  # wrong, and taken back
    use(env, "calendar_set_event_time", event_id="E-102", time="10:00")
    assert ended(env) is True


def test_requests_without_a_function_are_declined_and_no_others():
    left = [entry for entry in EVERYTHING if entry[1] != "delete"]
    env = begun({**DROP, "missing": True}, MOVE, functions=left)
    assert "calendar_delete_event" not in env.tools
    use(env, "calendar_set_event_room", event_id="E-102", room="Pine")
    assert ended(env) is False  # nobody was told
    env = begun({**DROP, "missing": True}, MOVE, functions=left)
    use(env, "calendar_set_event_room", event_id="E-102", room="Pine")
    assert not use(env, "decline", request=3)[4]["valid"] and use(env, "decline", request=1)[4]["valid"]
    assert ended(env) is True
    assert ended(begun({**DROP, "missing": True}, MOVE, functions=left), "decline", request=2) is False


def test_the_user_answers_questions_for_what_is_missing_alone():
    env = begun(ASK)
    assert use(env, "ask_user", question="Which time?")[0] == "I have nothing to add."
    assert use(env, "ask_user", question="Which room for Team lunch?")[0].startswith("I have nothing")
    assert use(env, "ask_user", question="To which Time should I move Team lunch?")[0] == (
        "The time of 'Team lunch' should be 13:15."
    )
    assert not use(env, "ask_user", question="time Team lunch " * 40)[4]["valid"]
    use(env, "calendar_set_event_time", event_id="E-101", time="13:15")
    assert ended(env) is True


def test_creation_deletion_and_questions_by_hand():
    env = begun(ADD, DROP, WHICH)
    assert use(env, "calendar_create_event", **ADD["ops"][0][2])[0] == "Created E-103."
    assert use(env, "calendar_delete_event", event_id="E-101")[0] == "Deleted E-101."
    assert not use(env, "calendar_get_event", event_id="E-101")[4]["valid"]
    assert use(env, "calendar_find_events", text="team")[0] == "E-102: Team call"
    state = env.snapshot()
    assert ended(env, message="2026-03-06") is False
    assert env.observation == "2 of 3 requests are settled; unrequested changes: 0."
    assert env.info()["metrics"] == {"settled": 2 / 3}
    assert ended(env.restore(state), message="2026-03-05 and 2026-03-06") is False
    for message in (" 2026-03-05 ", "2026-03-05.", '"2026-03-05"'):
        assert ended(env.restore(state), message=message) is True and env.info()["metrics"] == {"settled": 1.0}


def test_obstacles_are_said_and_removed():
    obstacles = {
        "locked": ["E-102"],
        "busy": {"calendar": 1},
        "sign_in": ["calendar"],
        "refused": [["calendar", "room", "Oak"]],
    }
    env = begun(MOVE, obstacles=obstacles)
    move = {"event_id": "E-102", "room": "Pine"}
    assert "Error: you are not signed in" in use(env, "calendar_set_event_room", **move)[0]
    assert use(env, "calendar_sign_in")[0] == "You are signed in to the calendar service."
    assert "busy" in use(env, "calendar_set_event_room", **move)[0]
    assert use(env, "calendar_set_event_room", **move)[0] == "Error: E-102 is locked. Unlock it first."
    assert '"locked": true' in use(env, "calendar_get_event", event_id="E-102")[0]
    assert use(env, "calendar_unlock_event", event_id="E-102")[0] == "E-102 is unlocked."
    assert "not available" in use(env, "calendar_set_event_room", **{**move, "room": "Oak"})[0]
    use(env, "calendar_set_event_room", **move)
    assert ended(env) is True


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("calendar_set_event_room", {"event_id": "E-999", "room": "Oak"}, "there is no event 'E-999'"),
        ("calendar_set_event_room", {"event_id": "E-101", "room": "Birch"}, "room must be one of Oak, Elm"),
        ("calendar_set_event_day", {"event_id": "E-101", "day": "2026-13-01"}, "a date such as"),
        ("calendar_set_event_day", {"event_id": "E-101", "day": "２026-01-01"}, "a date such as"),
        ("calendar_set_event_time", {"event_id": "E-101", "time": "24:00"}, "a time such as"),
        ("bank_set_account_limit", {"account_id": "A-201", "limit": -1}, "a number from 0"),
        ("calendar_find_events", {"text": "x" * 100}, "1 to 60 characters"),
        ("calendar_unlock_event", {"event_id": "E-101"}, "is not locked"),
        ("calendar_delete_all", {}, "there is no tool"),
        ("__class__", {}, "there is no tool"),
    ],
)
def test_calls_that_cannot_be_carried_out_change_nothing(name, arguments, words):
    env = begun(MOVE)
    before = env.info()["state_key"]
    observation, _, terminated, _, info = use(env, name, **arguments)
    assert words in observation and not info["valid"] and not terminated and info["state_key"] == before


def test_tools_are_those_of_the_task_also_after_a_restore():
    env, other = agentgym.make(ID, difficulty=1), agentgym.make(ID, difficulty=1)
    env.reset(seed=1)
    other.reset(seed=2)
    assert set(env.tools) != set(other.tools) and len(env.tools) >= 20 + 3
    state, tools = env.snapshot(), other.tools
    other.restore(state)
    assert other.tools is tools and list(other.tools) == list(env.tools)


def test_names_and_descriptions_tell_functions_apart():
    for style in range(12):
        for draw in range(0, 100, 7):
            made = [
                catalog.function(*meaning, 100 * style + draw)
                for service in SERVICES.values()
                for meaning in catalog.meanings(service)
            ]
            assert len({function.name for function in made}) == len(made) > 200
            assert len({function.tool.description for function in made}) == len(made)
            assert all(catalog.by_description()[function.tool.description] == function.meaning for function in made)
            assert not [function.name for function in made if hasattr(TextEnv, function.name)]
            assert not [function.name for function in made if function.name in ("ask_user", "decline", "finish")]


@pytest.mark.parametrize("difficulty", [0, 1, 2, 5])
def test_every_request_is_read_back_as_it_was_said(difficulty):
    env = agentgym.make(ID, difficulty=difficulty)
    kinds = set()
    for task in env.tasks(80):
        for request in task.data["requests"]:
            kind, parts = wording.read(request["text"])
            kinds.add(kind)
            assert request["text"] in [wording.say(kind, parts, place) for place in range(len(wording.WORDINGS[kind]))]
    assert kinds == {name for name in BUILDERS if LEVELS[name] <= difficulty}


def test_numbers_of_functions_and_requests_grow():
    sizes = [agentgym.make(ID, difficulty=d).tasks(3) for d in (0, 2, 16, 40)]
    assert [max(len(task.data["functions"]) for task in tasks) for tasks in sizes] == [8, 32, 200, 200]
    assert [len(tasks[0].data["requests"]) for tasks in sizes] == [1, 2, 9, 21]
    least = agentgym.make(ID, functions_offered=5, families="set").tasks(20)
    assert min(len(task.data["functions"]) for task in least) == 5


def test_searched_functions_are_the_ones_that_are_meant():
    env = agentgym.make(ID, search_mode=True, difficulty=3)
    env.reset(seed=4)
    assert list(env.tools) == ["ask_user", "decline", "finish", "search_tools", "call_function"]
    made = {f.name: f for entry in EVERYTHING for f in [catalog.function(*entry)]}
    for function in made.values():
        assert function in search(function.tool.description, made), function.name
    env = begun(MOVE, search_mode=True)
    assert "calendar_set_event_room(event_id: string, room: Oak|Elm" in env.step("search_tools[set the room of an event]")[0]
    assert not use(env, "call_function", name="calendar_set_event_room", arguments={"event_id": "E-102"})[4]["valid"]
    assert not use(env, "call_function", name="finish", arguments={"message": "done"})[4]["valid"]
    use(env, "call_function", name="calendar_set_event_room", arguments={"event_id": "E-102", "room": "Pine"})
    assert ended(env) is True


@pytest.mark.parametrize("family", [name for name in LEVELS if name != "missing"])
@pytest.mark.parametrize("options", [{}, {"search_mode": True}])
def test_the_expert_knows_every_family(family, options):
    env = agentgym.make(ID, families=f"{family},missing", difficulty=3, **options)
    for seed in range(6):
        env.reset(seed=seed)
        for action in env.expert():
            env.step(action)
        assert env.success, (seed, env.observation)


def test_the_functions_can_be_listed_in_the_first_observation():
    env = agentgym.make(ID, difficulty=0, functions_offered=5, show_functions=True)
    for seed in range(20):
        observation, _ = env.reset(seed=seed)
        assert all(name in observation for name in env.functions) and len(observation) < 1500


def test_the_tiny_preset_is_short():
    env = agentgym.make(ID, preset="tiny")
    for seed in range(20):
        observation, _ = env.reset(seed=seed)
        assert len(observation) < 500
        for action in env.expert():
            env.step(action)
        assert env.success and env.turn <= 3


def test_plain_functions_have_one_name_and_ids_few_numbers():
    described, keys = dict[str, set[str]](), set[str]()
    for plain, several in ((True, False), (False, True)):
        env = agentgym.make(ID, difficulty=0, services="home", plain=plain)
        described.clear(), keys.clear()
        for task in env.tasks(60):
            env.reset(seed=0, options={"task": task})
            keys |= set(task.data["tables"]["home"])
            for function in env.functions.values():
                described.setdefault(repr(function.meaning), set()).add(f"{function.name}: {function.tool.description}")
            if env.requests[0]["text"].startswith("Set "):
                assert ('": ' in env.requests[0]["text"]) is plain
        assert any(len(texts) > 1 for texts in described.values()) is several
        assert (max(int(key[2:]) for key in keys) <= 100 + 9 * 8) is plain and min(int(key[2:]) for key in keys) > 100


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"families": "sets"}, "sets"),
        ({"services": "calender"}, "calendar"),
        ({"functions_offered": 201}, "from 0 to 200"),
        ({"functions_offered": True}, "from 0 to 200"),
        ({"search_mode": True, "show_functions": True}, "leave one of the two out"),
        ({"attack": "page"}, "note"),
        ({"families": "each"}, "begin at a higher difficulty"),
        ({"families": "missing", "difficulty": 3}, "begin at a higher difficulty"),
    ],
)
def test_bad_options_are_refused(options, words):
    with pytest.raises((BadConfig, LookupError), match=words):
        agentgym.make(ID, **options)


def drawn(families, count=400):
    env = agentgym.make(ID, families=families, difficulty=2)
    for task in env.tasks(count):
        for request in task.data["requests"]:
            if request["ops"] and isinstance(request["ops"][0][2], str):
                yield task, request


def test_which_record_is_meant_does_not_show_in_the_records():
    lists = []
    for task, request in drawn("set,delete,copy"):
        rows = task.data["tables"][request["ops"][0][1]]
        entries = [{"id": key, "title": row["title"]} for key, row in rows.items()]
        lists.append(Listing(entries, frozenset({list(rows).index(request["ops"][0][2])})))
    assert not figure(lists).above, figure(lists)


@pytest.mark.parametrize("family", ["condition", "above", "fallback"])
def test_which_way_is_right_does_not_show_in_the_request(family):
    lists = []
    for _, request in drawn(family):
        _, parts = wording.read(request["text"])
        ways = [parts["value"], parts["other"]]
        entries = [{"way": way, "test": parts.get("is", ""), "title": parts["ref"]} for way in ways]
        lists.append(Listing(entries, frozenset({ways.index(str(request["ops"][0][4]))})))
    assert 0.4 < np.mean([0 in one.right for one in lists]) < 0.6
    assert not figure(lists).above, figure(lists)


def test_long_play_keeps_the_state_small():
    env = begun(MOVE, horizon=3000)
    for number in range(1000):
        use(env, "calendar_find_events", text=f"x{number % 7}")
        use(env, "calendar_set_event_room", event_id="E-101", room="Elm")
    assert len(repr(env.state())) < 2000 and sys.getsizeof(env.snapshot().payload) < 10_000
