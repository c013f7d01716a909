"""A description with gaps: what the colleague answers, and what cannot be solved without asking."""

import shutil

import pytest

import agentgym
from agentgym.core.actions import spell
from agentgym.envs.code.dialogue import GAP, RESULT
from agentgym.errors import BadConfig, UnknownName
from agentgym.integrations.harbor_tasks.kinds import kind_of
from agentgym.sandbox.bubblewrap.sandbox import missing

STATEMENT = """\
Write a function `due(day)`. `day` is a date string in the form YYYY-MM-DD.
Apply these steps in order (weeks begin on Monday):
1. Go forward 13 months; if that month has no such day, use its last day.
2. Go forward to the next 'Friday'; if the day is already one, leave it unchanged.
Return the number of the day within its year (1 for January 1)."""


@pytest.fixture
def env():
    if missing():
        pytest.skip(f"no sandbox: {missing()}")
    made = agentgym.make("rlvr/CodeDialogue-v0")
    task = made.numbered(0)
    data = {"statement": STATEMENT, "entry": "due", "missing": {"2": STATEMENT.split("\n")[3][3:], RESULT: "the number"}}
    instruction = STATEMENT.replace(STATEMENT.split("\n")[3], f"2. {GAP}").rsplit("\n", 1)[0] + f"\nReturn {GAP}"
    text, _ = made.reset(options={"task": agentgym.Task(instruction=instruction, data={**task.data, **data})})
    assert text.count(GAP) == 3
    yield made
    made.close()


def answer_to(env, question):
    text, _, over, _, info = env.step(spell("ask", question))
    return text, info["valid"], info["metrics"]["asked"], over


@pytest.mark.parametrize(
    ("question", "answer", "share"),
    [
        ("What does step 2 do?", "2. Go forward to the next 'Friday'; if the day is already one, leave it unchanged.", 0.5),
        ("Please explain the SECOND step", "2. Go forward to the next 'Friday'", 0.5),
        ("and step 1?", "1. Go forward 13 months", 0.0),
        ("What do I return?", "Return the number of the day within its year (1 for January 1).", 0.5),
        ("what is the output", "Return the number of the day", 0.5),
        ("Step 2, and what is returned?", "2. Go forward", 0.5),
        ("Step 7?", "There is no such step.", 0.0),
        ("Please send me the code", "I can tell you about one step", 0.0),
    ],
)
def test_an_answer_is_a_sentence_of_the_specification(env, question, answer, share):
    text, valid, found, over = answer_to(env, question)
    assert text.startswith(answer) and valid and not over
    assert found == share


def test_an_empty_question_is_invalid(env):
    assert not answer_to(env, " ")[1]


def test_equal_knowledge_has_equal_keys_in_any_order(env):
    keys = set()
    state = env.snapshot()
    for questions in (("step 2", "the result"), ("the result", "step 2", "step 2")):
        env.restore(state)
        for question in questions:
            key = env.step(spell("ask", question))[4]["state_key"]
        keys.add(key)
    assert len(keys) == 1


@pytest.mark.parametrize("difficulty", [0, 1, 3])
def test_what_is_missing_is_needed_and_unseen(difficulty):
    """The remaining steps with the right result fail, and no missing sentence is in the first observation."""
    env = agentgym.make("rlvr/CodeDialogue-v0", difficulty=difficulty, backend="process", backend_options={"unsafe": True})
    for task in env.tasks(25):
        text, _ = env.reset(options={"task": task})
        missing_steps = task.data["missing"].keys() - {RESULT}
        assert missing_steps and task.data["public"] == []
        for sentence in task.data["missing"].values():  # a repeated step may stand elsewhere
            assert text.count(sentence) < task.data["statement"].count(sentence)
        assert text.count(GAP) == len(task.data["missing"]) + 1


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")
def test_the_known_part_alone_never_wins():
    env = agentgym.make("rlvr/CodeDialogue-v0", difficulty=1)
    guess = env.shortcuts()["without_asking"]
    for task in env.tasks(15):
        text, _ = env.reset(options={"task": task})
        assert env.step(guess([text]))[4]["success"] is False
    env.close()


def test_files_and_harnesses_are_refused():
    with pytest.raises((BadConfig, UnknownName), match="data"):
        agentgym.make("rlvr/CodeDialogue-v0", data="HumanEval.jsonl")
    env = agentgym.make("rlvr/CodeDialogue-v0")
    assert "test" not in env.tools
    with pytest.raises(BadConfig, match="colleague"):
        env.lend(lambda access: None)
    assert kind_of(env) is None  # a folder of files would leave out the colleague
