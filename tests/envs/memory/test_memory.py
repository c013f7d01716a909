"""Memory by hand: what counts, what notes may hold, and what no shortcut can know."""

import json

import numpy as np
import pytest

import agentgym
from agentgym import BadConfig, Task
from agentgym.core.seeding import generator
from agentgym.envs.memory import expert, facts, generate, stories, ways
from agentgym.envs.memory.facts import Statement, answer, read, read_question, true_value, valid_after

ID = "rlvr/Memory-v0"


def present(*lines):
    return valid_after(statement for line in lines if (statement := read(line)))


@pytest.mark.parametrize(
    ("lines", "day", "value"),
    [
        ((), 1, "unknown"),
        (("Ada: My room is oak.",), 1, "oak"),
        (("Ada: My room is oak.", "Ada: Correction: my room is elm."), 1, "elm"),
        (("Ada: My room is oak.", "Ada: My room is elm."), 1, "elm"),
        (("Ada: My room is oak.", "Ben: I think Ada's room is elm."), 1, "oak"),
        (("Ben: I think Ada's room is elm.",), 1, "elm"),
        (("Ben: I think Ada's room is elm.", "Mina: I heard that Ada's room is fir."), 1, "fir"),
        (("Ben: I think Ada's room is elm.", "Ada: Please list my room as oak."), 1, "oak"),
        (("Ada: Until day 7, my room is oak.",), 7, "oak"),
        (("Ada: My room is oak, but only through day 7.",), 8, "unknown"),
        (("Ada: My room is oak.", "Ada: Until day 7, my room is elm."), 9, "unknown"),
        (("Ada: My room is oak.", "Ada: I no longer have a room."), 1, "unknown"),
        (("Ada: Please delete my room. I gave it up.", "Ben: I think Ada's room is elm."), 1, "unknown"),
        (("Ada: My car is red.", "Ben: My room is oak."), 1, "unknown"),
    ],
)
def test_what_counts_by_hand(lines, day, value):
    assert answer(read_question("What is Ada's room?"), present(*lines), day) == value


def test_owners_are_found_by_what_they_have_now():
    valid = present("Ada: My car is red.", "Ben: My car is blue.", "Ada: My car is now green.")
    assert [answer(read_question(f"Whose car is {v}?"), valid, 1) for v in ("green", "blue", "red")] == [
        "Ada",
        "Ben",
        "unknown",
    ]


def test_every_wording_is_read_as_what_it_states():
    for kind, wordings in facts.WORDINGS.items():
        for wording in wordings:
            line = wording.format(who="Ada", other="Ben", what="room", value="oak", day=7)
            value, day = ("" if kind == "given up" else "oak"), (7 if kind == "until" else 0)
            assert read(line) == Statement(kind, "Ada", "room", value, day)
    assert not any(read(line.format(who="Ada")) for line in facts.CHATTER)
    for statement in (
        Statement("own", "Ada", "car", "red"),
        Statement("heard", "Ada", "car", "red"),
        Statement("until", "Ada", "car", "red", 7),
        Statement("given up", "Ada", "car"),
    ):
        assert expert.read_note(expert.written(statement)) == statement
    assert expert.read_note("buy milk and bread now") is None


SESSIONS = [
    {"day": 1, "lines": ["Ada: My room is oak.", "Ben: See you at lunch."], "question": None},
    {"day": 3, "lines": ["Ada: My room is now elm."], "question": {"text": "What is Ada's room?", "answer": "elm"}},
    {
        "day": 5,
        "lines": ["Ben: Thanks, that helped."],
        "question": {"text": "Which car does Ada have?", "answer": "unknown"},
    },
]


def begun(**options):
    env = agentgym.make(ID, **options)
    env.reset(seed=0, options={"task": Task("…", {"watched": ["Ada"], "sessions": SESSIONS}, "train/0/0", "train")})
    return env


def test_an_episode_by_hand():
    env = begun()
    assert env.observation.endswith("Session 1 of 3, day 1\nAda: My room is oak.\nBen: See you at lunch.")
    assert "answer the question" not in env.observation.lower() and not env.step("answer[oak]")[4]["valid"]
    assert env.step("next[]")[0] == "Session 2 of 3, day 3\nAda: My room is now elm.\nQuestion: What is Ada's room?"
    assert not env.step("next[]")[4]["valid"]
    state = env.snapshot()
    assert env.step("answer[oak]")[4]["success"] is False
    env.restore(state)
    assert env.step('answer["Elm."]')[0].startswith("That is right.\nSession 3 of 3, day 5")
    *_, info = env.step("answer[unknown]")
    assert info["success"] is True and info["metrics"] == {"read": 2 / 3}


def test_notes_are_limited_found_and_deleted():
    env = begun(notes=2)
    assert env.step("note[Ada room  oak]")[0] == "Noted as number 1."
    assert not env.step("note[]")[4]["valid"] and not env.step(f"note[{'x' * 81}]")[4]["valid"]
    env.step("note[lunch]")
    assert not env.step("note[a third]")[4]["valid"]
    assert env.step("search_notes[the room of Ada]")[0] == "1: Ada room oak"
    assert env.step("search_notes[car]")[0] == "No note has any of these words."
    assert not env.step(f"search_notes[{'x' * 81}]")[4]["valid"] and not env.step("delete_note[3]")[4]["valid"]
    assert env.step("delete_note[1]")[0] == "Deleted: Ada room oak"
    assert env.step("search_notes[lunch]")[0] == "1: lunch"
    assert list(begun(notes=0).tools) == ["next", "answer"] and "notes" not in begun(notes=0).observation


@pytest.mark.parametrize("options", [{}, {"notes": 0}, {"notes": 3}])
@pytest.mark.parametrize("difficulty", [0, 2, 5])
def test_the_expert_answers_from_what_it_noted(difficulty, options):
    env = agentgym.make(ID, difficulty=difficulty, **options)
    for seed in range(12):
        env.reset(seed=seed)
        for action in env.expert():
            env.step(action)
            assert len(env.noted) <= env.notes
        assert env.success, (seed, env.observation)


@pytest.mark.parametrize("family", ["recall", "update", "hearsay", "expiry"])
def test_families_have_what_their_names_say(family):
    kinds = {"recall": {"own"}, "update": {"own", "changed", "given up"}, "hearsay": {"own", "heard"}, "expiry": {"until"}}
    env, met = agentgym.make(ID, families=family, difficulty=1), set()
    for task in env.tasks(25):
        watched = task.data["watched"]
        met |= {one.kind for _, one in generate.spoken(task.data["sessions"], 10**6) if one.who in watched}
    assert met == kinds[family]


@pytest.mark.parametrize("options", [{"preset": "tiny"}, *({"difficulty": d} for d in (0, 1, 3, 6)), {"families": "expiry"}])
def test_no_task_rewards_a_shortcut_and_the_ways_see_what_was_shown(options):
    env = agentgym.make(ID, **options)
    for task in env.tasks(30):
        for policy in env.shortcuts().values():
            texts = [env.reset(seed=0, options={"task": task})[0]]
            while env.success is None:
                texts.append(env.step(policy(texts))[0])
            assert env.success is False
        sessions = expert.sessions_in(played(env, task))
        assert [s["lines"] for s in sessions] == [s["lines"] for s in task.data["sessions"]]


def test_the_ways_by_hand():
    stated = [(0, Statement("own", "Ada", "room", "oak")), (1, Statement("own", "Ben", "room", "elm"))]
    stated += [(2, Statement("changed", "Ada", "room", "fir")), (3, Statement("heard", "Ada", "room", "ash"))]
    question = {"who": "Ada", "what": "room"}
    wrong = ways.wrong_ways(list(generate.FAMILIES))
    assert {name: way(question, stated, 4, 9) for name, way in wrong.items()} == {
        "always unknown": "unknown",
        "last two sessions": "ash",
        "last value of anybody": "ash",
        "first value of anybody": "oak",
        "first mention": "oak",
        "last mention": "ash",
    }
    assert wrong["last value of anybody"]({"value": "elm", "what": "room"}, stated, 4, 9) == "Ada"
    assert wrong["last two sessions"](question, stated, 5, 11) == "unknown"
    assert set(wrong) - set(ways.wrong_ways(["recall", "abstain"])) == {"first mention", "last mention"}


def played(env, task):
    texts = [env.reset(seed=0, options={"task": task})[0]]
    for action in env.oracle():
        texts.append(env.step(action)[0])
    assert env.success
    return texts


def test_answers_are_those_of_the_lines_alone():
    for task in agentgym.make(ID, difficulty=4).tasks(10):
        for place, session in enumerate(task.data["sessions"]):
            if session["question"]:
                valid = valid_after(one for _, one in generate.spoken(task.data["sessions"], place))
                question = read_question(session["question"]["text"])
                assert answer(question, valid, session["day"]) == session["question"]["answer"]
    assert true_value(None, 3) == "unknown"


@pytest.mark.parametrize("difficulty", [0, 1, 3, 8])
def test_people_have_different_answers_and_at_most_one_of_them_is_unknown(difficulty):
    env = agentgym.make(ID, difficulty=difficulty)
    for task in env.tasks(20):
        stream, facts_of = task.data["sessions"], {}
        for _, one in generate.spoken(stream, len(stream)):
            facts_of.setdefault(one.what, {})[one.who] = True
        sizes = generate.shape(difficulty, facts.VALUES, 0, env.notes, env.talk)
        assert len(facts_of) == sizes.attributes and sizes.watched * sizes.attributes <= env.notes
        for place in (place for place, session in enumerate(stream) if session["question"]):
            what = read_question(stream[place]["question"]["text"])["what"]
            valid = valid_after(one for _, one in generate.spoken(stream, place))
            answers = [answer({"who": who, "what": what}, valid, stream[place]["day"]) for who in facts_of[what]]
            missing = sizes.people - len(answers)
            assert len(set(answers)) == len(answers) and answers.count("unknown") + missing <= 1


def test_the_second_person_is_a_permutation_of_the_first():
    allowed = np.array([[0, 1, 1, 0], [1, 0, 0, 1], [1, 1, 0, 1], [0, 0, 1, 0]], dtype=bool)
    orders = {tuple(generate._matched(generator("memory test", seed), allowed)) for seed in range(40)}
    assert orders == {(1, 0, 3, 2), (1, 3, 0, 2)}
    assert generate._matched(generator("memory test"), np.array([[1, 0], [1, 0]], dtype=bool)) is None


@pytest.mark.parametrize(
    ("families", "people", "most"),
    [("recall", 6, 0), ("recall,abstain", 6, 1), ("expiry", 6, 3), ("expiry,hearsay", 6, 1), ("update,hearsay", 4, 1)],
)
def test_how_many_answers_may_be_unknown(families, people, most):
    assert stories.most_unknown(families.split(","), people) == most


@pytest.mark.long
@pytest.mark.parametrize("sessions", [100, 1000])
def test_long_streams_are_read_to_the_end(sessions):
    env = agentgym.make(ID, difficulty=3, sessions=sessions)
    env.reset(seed=1)
    for action in env.expert():
        env.step(action)
    assert env.success and env.place == sessions - 1 and len(json.dumps(env.snapshot().payload)) < 2000


def test_only_the_attributes_of_the_option_occur():
    env, seen = agentgym.make(ID, preset="tiny", attributes="room,car,badge"), set()
    for task in env.tasks(60):
        text = json.dumps(task.data["sessions"])
        assert "locker" not in text and "team" not in text
        seen |= {one.value for _, one in generate.spoken(task.data["sessions"], 4) if one.what == "car" and one.value}
    assert seen == set(facts.VALUES["car"][:6])
    assert env.attribute_names == ["room", "car", "badge"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"families": "updates"}, "update"),
        ({"families": "abstain"}, "state nothing"),
        ({"attributes": "rooms"}, "room"),
        ({"families": "expiry", "difficulty": 0}, "higher difficulty"),
        ({"sessions": 3}, "from 4 to 1000"),
        ({"values": 5}, "from 6 to 15"),
        ({"talk": -2}, "from 0 to 100, or -1"),
        ({"notes": 1}, "from 2 to 100"),
        ({"notes": True}, "from 2 to 100"),
    ],
)
def test_bad_options_are_refused(options, words):
    with pytest.raises((BadConfig, LookupError), match=words):
        agentgym.make(ID, **options)
