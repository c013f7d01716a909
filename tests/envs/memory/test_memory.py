"""Memory by hand: what counts, what notes may hold, and what no shortcut can know."""

import json

import pytest
from surface import Listing, figure

import agentgym
from agentgym import BadConfig, Task
from agentgym.core.seeding import generator
from agentgym.envs.memory import expert, facts, generate
from agentgym.envs.memory.facts import Statement, answer, read, read_question, taken_in, true_value

ID = "rlvr/Memory-v0"


def present(*lines):
    return taken_in(statement for line in lines if (statement := read(line)))


@pytest.mark.parametrize(
    ("lines", "day", "value"),
    [
        ((), 1, "unknown"),
        (("Ada: My room is oak.",), 1, "oak"),
        (("Ada: My room is oak.", "Ada: Correction: my room is elm."), 1, "elm"),
        (("Ada: My room is oak.", "Ada: My room is elm."), 1, "elm"),
        (("Ada: My room is oak.", "Ben: I think Ada's room is elm."), 1, "oak"),
        (("Ben: I think Ada's room is elm.",), 1, "elm"),
        (("Ben: I think Ada's room is elm.", "Mina: Somebody says that Ada's room is fir."), 1, "fir"),
        (("Ben: I think Ada's room is elm.", "Ada: For my room, put down oak."), 1, "oak"),
        (("Ada: Until day 7 my room is oak.",), 7, "oak"),
        (("Ada: My room is oak, but only up to day 7.",), 8, "unknown"),
        (("Ada: My room is oak.", "Ada: Until day 7 my room is elm."), 9, "unknown"),
        (("Ada: My room is oak.", "Ada: I no longer have a room."), 1, "unknown"),
        (("Ada: Please forget my room, I gave it up.", "Ben: I think Ada's room is elm."), 1, "unknown"),
        (("Ada: My car is red.", "Ben: My room is oak."), 1, "unknown"),
    ],
)
def test_what_counts_by_hand(lines, day, value):
    assert answer(read_question("What is Ada's room?"), present(*lines), day) == value


def test_owners_are_found_by_what_they_have_now():
    held = present("Ada: My car is red.", "Ben: My car is blue.", "Ada: My car is now green.")
    assert [answer(read_question(f"Whose car is {v}?"), held, 1) for v in ("green", "blue", "red")] == [
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
        said = [one for one in generate.spoken(task.data["sessions"], 10**6) if one.who in watched]
        met |= {one.kind for one in said}
    assert met == kinds[family]


def test_no_task_rewards_a_shortcut_and_the_ways_see_what_was_shown():
    for difficulty in (0, 1, 3):
        names = [name for name, level in generate.FAMILIES.items() if level <= difficulty]
        ways = generate.wrong_ways(names)
        assert len(ways) == (4 if difficulty == 0 else 5)
        env = agentgym.make(ID, difficulty=difficulty)
        for task in env.tasks(30):
            assert not any(generate._passes(task.data, way) for way in ways.values())
            shown = expert.sessions_in(played(env, task))
            assert [s["lines"] for s in shown] == [s["lines"] for s in task.data["sessions"]]


def played(env, task):
    texts = [env.reset(seed=0, options={"task": task})[0]]
    for action in env.oracle():
        texts.append(env.step(action)[0])
    assert env.success
    return texts


def test_answers_are_those_of_the_lines_alone():
    data = generate.draw(generator("memory test"), 4, list(generate.FAMILIES), facts.VALUES, 0, 12)
    for place, session in enumerate(data["sessions"]):
        if session["question"]:
            held = taken_in(generate.spoken(data["sessions"], place))
            assert answer(read_question(session["question"]["text"]), held, session["day"]) == session["question"]["answer"]
    assert true_value(None, 3) == "unknown"


def spoken_of(stream, place):
    """Return whoever the question's attribute was stated of, as a reader sees them who leaves names out."""
    question, lives = read_question(stream[place]["question"]["text"]), {}
    for number, session in enumerate(stream[: place + 1]):
        for one in map(read, session["lines"]):
            if one is not None and one.what == question["what"]:
                lives.setdefault(one.who, []).append((number, one))
    entries = [
        {
            "first": life[0][0] / place,
            "last": life[-1][0] / place,
            "statements": float(len(life)),
            "kinds": " ".join(one.kind for _, one in life),
            "value": life[-1][1].value,
        }
        for life in lives.values()
    ]
    return list(lives), entries, question.get("who", stream[place]["question"]["answer"])


@pytest.mark.parametrize(("difficulty", "tasks"), [(1, 80), (3, 50)])
def test_who_is_asked_about_does_not_show_in_the_stream(difficulty, tasks):
    lists = []
    for task in agentgym.make(ID, difficulty=difficulty).tasks(tasks):
        stream = task.data["sessions"]
        for place in (place for place, session in enumerate(stream) if session["question"]):
            people, entries, who = spoken_of(stream, place)
            if who in people:
                lists.append(Listing(entries, frozenset({people.index(who)})))
    assert all(len(one.entries) > generate.TWINS for one in lists)
    found = figure(lists)  # those who have the same story cannot be told apart, so chance is that of the twins
    assert found.hits <= 1 / (1 + generate.TWINS) + max(4 * found.error, 2 / found.tasks), found


def test_twins_have_the_same_story_with_other_values():
    for task in agentgym.make(ID, difficulty=2, values=3).tasks(20):
        lives = {}
        for number, session in enumerate(task.data["sessions"]):
            for one in map(read, session["lines"]):
                if one is not None:
                    lives.setdefault((one.who, one.what), []).append((number, one))
        stories = {pair: [(n, one.kind, one.day, bool(one.value)) for n, one in life] for pair, life in lives.items()}
        for (who, what), story in stories.items():
            if who in task.data["watched"]:
                same = [pair for pair in stories if pair[1] == what and pair[0] != who and stories[pair] == story]
                assert len([pair for pair in same if pair[0] not in task.data["watched"]]) >= generate.TWINS


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
        seen |= {one.value for one in generate.spoken(task.data["sessions"], 4) if one.what == "car" and one.value}
    assert seen == set(facts.VALUES["car"][:4])
    assert env.attribute_names == ["room", "car", "badge"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"families": "updates"}, "update"),
        ({"families": "abstain"}, "state nothing"),
        ({"attributes": "rooms"}, "room"),
        ({"attributes": "room,car,room"}, "at least 3 different"),
        ({"families": "expiry", "difficulty": 0}, "higher difficulty"),
        ({"sessions": 3}, "from 4 to 1000"),
        ({"values": 2}, "from 3 to 15"),
        ({"notes": 1}, "from 2 to 100"),
        ({"notes": True}, "from 2 to 100"),
    ],
)
def test_bad_options_are_refused(options, words):
    with pytest.raises((BadConfig, LookupError), match=words):
        agentgym.make(ID, **options)
