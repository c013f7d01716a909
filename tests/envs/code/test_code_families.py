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
    for number in range(40):
        draft = family(name).draw(generator("differ", name, number), 1)
        statements.add(draft.plan.statement())
        shown = [repr(given) for given, _ in draft.public]
        assert not set(shown) & {repr(given) for given, _ in draft.hidden}
        assert len({repr(expected) for _, expected in draft.hidden}) >= 2
    assert len(statements) >= 38


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
    ("name", "statement", "given", "expected"),
    [
        (
            "strings",
            "Write a function `tidy(text)`. `text` is a string of letters, digits, spaces and punctuation; it "
            "may be empty.\n"
            "Take these steps, in this order:\n"
            "1. Replace each digit by that many copies of '*' (so 0 disappears).\n2. Write the text backwards.\n"
            "Return the text.",
            ["a3b0"],
            "b***a",
        ),
        (
            "dates",
            "Write a function `due(day)`. `day` is a date written as YYYY-MM-DD.\n"
            "Take these steps, in this order (weeks begin on Monday):\n"
            "1. Go 13 months on; where the month has no such day, take its last one.\nReturn the date as YYYY-MM-DD.",
            ["2023-01-31"],
            "2024-02-29",
        ),
        (
            "graphs",
            "Write a function `route(n, edges)`. A graph has the nodes 0 to `n` - 1; `edges` is a list of "
            "tuples (a, b, weight), "
            "each a one-way edge from a to b with a weight from 1. There may be several edges between two "
            "nodes, and edges from "
            "a node to itself.\nChange the edges step by step, in this order:\n1. Add 1 to the weight of every edge.\n"
            "Return the smallest sum of weights on a way from node 0 to node 2, or -1 where there is no way "
            "(0 where they are the same).",
            [3, [{"t": [0, 2, 9]}, {"t": [0, 1, 3]}, {"t": [1, 2, 4]}]],
            9,
        ),
        (
            "dynamic",
            "Write a function `best(n)`. `n` is a whole number from 0.\nFirst take these steps, in this order:\n"
            "1. Add 1 to `n`.\nReturn the smallest number of coins of the values [3, 4, 6], each used as often "
            "as one likes, "
            "that add up to `n`, or -1 where there is no way.",
            [7],
            2,
        ),
        (
            "bits",
            "Write a function `mix(x)`. `x` is a number of 8 bits (from 0 to 2 ** 8 - 1).\nTake these steps, in this order; "
            "bit 0 is the least significant one and bits beyond that width are always dropped:\n"
            "1. Rotate `x` to the left by 3: what leaves on the left comes back on the right.\nReturn `x`.",
            [0b11010001],
            0b10001110,
        ),
        (
            "classes",
            "Write a class `Device(hour, minute)`. An object is a clock of 24 hours that shows `hour` and "
            "`minute` at first. "
            "`go(minutes)` lets it go on and returns a tuple (hour, minute).\nIts other methods:\n"
            "1. `text()` returns the time as on a clock of 12 hours, such as 12:05 am, 9:30 am, 12:00 pm, 11:59 pm.",
            [[23, 50], [["text", []], ["go", [15]], ["text", []]]],
            ["11:50 pm", {"t": [0, 5]}, "12:05 am"],
        ),
    ],
)
def test_references_by_hand(name, statement, given, expected):
    plan = family(name).read(statement)
    assert plan is not None
    assert outcome(plan.solution(), plan.entry, plan.start.kind, given) == [expected]


def test_the_split_is_that_of_the_statement_whatever_the_function_is_called():
    env = Code(split="test", families=("lists",))
    for task in env.tasks(10):
        renamed = dict(task.data, entry="other", statement=task.data["statement"].replace(task.data["entry"], "other", 1))
        assert env.split_of(task) == "test" == env.split_of(type(task)(data=renamed))


@pytest.mark.parametrize("name", FAMILIES)
def test_there_are_tasks_at_any_difficulty(name):
    draft = family(name).draw(generator("deep", name), 12)
    assert len(draft.plan.steps) >= 5 and len(draft.hidden) == HIDDEN
