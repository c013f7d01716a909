"""Generated programming tasks: references pass, wrong solutions fail, sentences can be read back, splits mean something."""

import pytest

from agentgym.core.seeding import generator
from agentgym.envs.code import Code
from agentgym.envs.code.families import FAMILIES, family, read
from agentgym.envs.code.families.family import HIDDEN, PUBLIC, outcome
from agentgym.envs.code.grading.tests import CodeTests, run_tests
from agentgym.sandbox.warm_pool import take


@pytest.fixture(scope="module")
def sandbox():
    made = take(limits=Code.limits)
    yield made
    made.close()


def test_there_are_twelve_families():
    assert len(FAMILIES) == len(set(FAMILIES)) >= 12


@pytest.mark.parametrize("name", FAMILIES)
def test_hidden_tests_pass_the_reference_and_reject_every_wrong_solution_in_a_sandbox(name, sandbox):
    for difficulty in (0, 2):
        draft = family(name).draw(generator("wrong", name), difficulty)
        plan = draft.plan
        tests = CodeTests(plan.start.kind, plan.entry, draft.hidden, tolerance=family(name).tolerance)
        assert len(draft.public) == PUBLIC and len(draft.hidden) == HIDDEN
        assert all(one.passed for one in run_tests(sandbox, plan.solution(), tests))
        assert len(draft.wrong) >= 2
        for code in draft.wrong:
            assert not all(one.passed for one in run_tests(sandbox, code, tests)), code


@pytest.mark.parametrize("name", FAMILIES)
def test_statements_are_read_back_whole(name):
    for number in range(25):
        plan = family(name).draw(generator("read", name, number), number % 5).plan
        found = read(plan.statement())
        assert found is not None and found.solution() == plan.solution(), plan.statement()


@pytest.mark.parametrize("name", FAMILIES)
def test_tasks_differ_and_hidden_inputs_are_not_public(name):
    statements = set()
    for number in range(20):
        draft = family(name).draw(generator("differ", name, number), 1)
        statements.add(draft.plan.statement())
        public_inputs = [repr(value) for value, _ in draft.public]
        assert not set(public_inputs) & {repr(value) for value, _ in draft.hidden}
        assert len({repr(expected) for _, expected in draft.hidden}) >= 2
    assert len(statements) >= 19


@pytest.mark.parametrize("name", FAMILIES)
def test_difficulty_adds_steps(name):
    def steps(difficulty):
        return sum(len(family(name).draw(generator("steps", name, i), difficulty).plan.steps) for i in range(8))

    assert steps(0) < steps(1) < steps(3)


def test_text_that_is_no_statement_is_not_read():
    plan = family("lists").draw(generator("no statement"), 1).plan
    assert read("Write a poem.") is None
    assert read(plan.statement() + "\n3. Do something else.") is None


@pytest.mark.parametrize(
    ("name", "statement", "inputs", "expected"),
    [
        (
            "strings",
            "Write a function `tidy(text)`. `text` is a string of letters, digits, spaces and punctuation; it "
            "may be empty.\n"
            "Apply these steps in order:\n"
            "1. Replace each digit with that many copies of '*' (so 0 disappears).\n2. Reverse the text.\n"
            "Return the text.",
            ["a3b0"],
            "b***a",
        ),
        (
            "dates",
            "Write a function `due(day)`. `day` is a date string in the form YYYY-MM-DD.\n"
            "Apply these steps in order (weeks begin on Monday):\n"
            "1. Go forward 13 months; if that month has no such day, use its last day.\nReturn the date as YYYY-MM-DD.",
            ["2023-01-31"],
            "2024-02-29",
        ),
        (
            "graphs",
            "Write a function `route(n, edges)`. A directed graph has the nodes 0 to `n` - 1; `edges` is a list of "
            "tuples (a, b, weight), each an edge from a to b with a weight of at least 1. There may be several edges "
            "between two nodes, and edges from a node to itself.\nApply these steps to the edges in order:\n"
            "1. Add 1 to the weight of every edge.\n"
            "Return the smallest sum of weights along a path from node 0 to node 2, or -1 if there is no path "
            "(0 if they are the same node).",
            [3, [{"t": [0, 2, 9]}, {"t": [0, 1, 3]}, {"t": [1, 2, 4]}]],
            9,
        ),
        (
            "dynamic",
            "Write a function `best(n)`. `n` is a non-negative integer.\nFirst apply these steps in order:\n"
            "1. Add 1 to `n`.\nReturn the smallest number of coins that add up to `n`, where the coin values are "
            "[3, 4, 6] and each may be used any number of times, or -1 if it is impossible.",
            [7],
            2,
        ),
        (
            "bits",
            "Write a function `mix(x)`. `x` is an unsigned 8-bit integer (from 0 to 2 ** 8 - 1).\n"
            "Apply these steps in order. Bit 0 is the least significant bit, "
            "and bits beyond that width are always dropped:\n"
            "1. Rotate `x` left by 3: bits that leave on the left come back on the right.\nReturn `x`.",
            [0b11010001],
            0b10001110,
        ),
        (
            "classes",
            "Write a class `Device(hour, minute)`. An object is a 24-hour clock that starts at `hour` and `minute`. "
            "`go(minutes)` advances it and returns a tuple (hour, minute).\nIts other methods:\n"
            "1. `text()` returns the time in 12-hour format, such as 12:05 am, 9:30 am, 12:00 pm, 11:59 pm.",
            [[23, 50], [["text", []], ["go", [15]], ["text", []]]],
            ["11:50 pm", {"t": [0, 5]}, "12:05 am"],
        ),
    ],
)
def test_references_by_hand(name, statement, inputs, expected):
    plan = family(name).read(statement)
    assert plan is not None
    assert outcome(plan.solution(), plan.entry, plan.start.kind, inputs) == [expected]


def test_the_split_is_that_of_the_statement_whatever_the_function_is_called():
    env = Code(split="test", families=("lists",))
    for task in env.tasks(10):
        renamed = dict(task.data, entry="other", statement=task.data["statement"].replace(task.data["entry"], "other", 1))
        assert env.split_of(task) == "test" == env.split_of(type(task)(data=renamed))


@pytest.mark.parametrize("name", FAMILIES)
def test_there_are_tasks_at_any_difficulty(name):
    draft = family(name).draw(generator("deep", name), 12)
    assert len(draft.plan.steps) >= 5 and len(draft.hidden) == HIDDEN
