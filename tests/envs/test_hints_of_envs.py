"""Hints that guide and do not tell: what each environment says at a level, and that an echo of it wins nothing."""

import json

import pytest

import agentgym
from agentgym.contract.tasks import shown_in
from agentgym.core.actions import spell
from agentgym.core.hints import guidance
from agentgym.envs.code import hints as code_hints
from agentgym.envs.math import Math
from agentgym.envs.search import Search
from agentgym.envs.sql import hints as sql_hints
from agentgym.envs.swe import hints as swe_hints

BELOW = (0.25, 0.5, 0.75)
NAMES = ("Math", "Code", "SQL", "Search", "SWE")


def test_the_first_share_of_the_steps_is_told_and_an_answer_only_at_the_end() -> None:
    steps = ["Plan.", "It has 12 parts.", "Then 3 * 4.", "So 12."]
    hints = [guidance(steps, level, lambda: "The answer is 12.", ["12"]) for level in (0.25, 0.5, 0.75, 1)]
    assert hints[:3] == ["Plan.", "Plan.", "Plan.\nThen 3 * 4."]
    assert hints[3] == "\n".join([*steps, "The answer is 12."])
    assert guidance(["So 12, or 120."], 0.1, lambda: "", ["12"]) == "So ..., or 120."  # something is said in any case
    assert guidance([], 0.5, lambda: "", ["12"]) == ""


@pytest.mark.parametrize("name", NAMES)
def test_every_level_says_something_more_and_no_answer(name) -> None:
    env = agentgym.make(f"rlvr/{name}-v0")
    for seed in range({"SWE": 12, "Code": 25}.get(name, 60)):
        env.reset(seed=seed)
        low, middle, high = (env.hint(level) for level in BELOW)
        assert low and middle.startswith(low) and high.startswith(middle), (seed, low, middle, high)
        assert not shown_in(high, env, env.task) and not shown_in(low, env, env.task), (seed, high)
        answers = env.task.data["answers"] if name == "Search" else ()
        assert not [answer for answer in answers if answer in high]
        assert len(env.hint(1.0)) > len(high)


@pytest.mark.parametrize(
    ("name", "tool", "seeds"), [("Math", "answer", 30), ("SQL", "answer", 25), ("Search", "answer", 25)]
)
def test_a_policy_that_echoes_its_hint_wins_nothing(name, tool, seeds) -> None:
    env = agentgym.make(f"rlvr/{name}-v0")
    for seed in range(seeds):
        env.reset(seed=seed)
        start, hint = env.snapshot(), env.hint(0.75)
        words = [word.strip(".,;:()[]") for word in hint.split()]
        for echo in dict.fromkeys([hint, *hint.splitlines(), *words, *_endings(hint)]):
            for action in (echo, spell(tool, echo)):
                env.restore(start)
                info = env.step(action)[4]
                assert not info["success"], (seed, action)


def _endings(text):
    """Return what stands behind a verb of a line, such as an entity or a condition."""
    return [line.split(" ", number)[-1].rstrip(".") for line in text.splitlines() for number in (1, 2, 3)]


@pytest.mark.long
@pytest.mark.parametrize(("name", "seeds"), [("Code", 6), ("SWE", 2)])
def test_a_program_that_echoes_its_hint_wins_nothing(name, seeds) -> None:
    env = agentgym.make(f"rlvr/{name}-v0")
    for seed in range(seeds):
        env.reset(seed=seed)
        start, hint = env.snapshot(), env.hint(0.75)
        body = [line for line in hint.splitlines() if line.startswith("def ")]
        for action in (
            hint,
            spell("submit", hint),
            *(spell("submit", f"{line}\n    pass") for line in body),
            spell("submit"),
        ):
            env.restore(start)
            assert not env.step(action)[4]["success"], (seed, action)


def test_sentences_of_a_files_solution_without_the_answer(tmp_path) -> None:
    rows = [
        {"question": "Tom has 20 boxes of 21 pens. He finds 3. How many?",
         "answer": "The boxes hold 20*21=<<20*21=420>>420 pens.\nThe total is 420+3=<<420+3=423>>423.\n#### 423"},
        {"problem": "Half of a third?", "solution": "Divide by two. So it is $\\boxed{\\frac{1}{6}}$."},
        {"question": "What is 2 + 3?", "answer": "5"},
    ]  # fmt: skip
    path = tmp_path / "test.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    env = Math(data=str(path), split="test", families=())
    first, second, bare = env.tasks(3)
    env.reset(options={"task": first})
    assert env.hint(0.5) == env.hint(0.75) == "The boxes hold 20*21=<<20*21=420>>420 pens."
    assert env.hint(1).endswith("423.\nA solution begins with:\nanswer[423]")
    env.reset(options={"task": second})
    assert env.hint(0.25) == "Divide by two."
    env.reset(options={"task": bare})
    with pytest.raises(NotImplementedError, match="an answer and no solution"):
        env.hint(0.5)


def test_the_plan_the_signature_and_a_test_that_is_not_shown() -> None:
    data = {
        "reference": "def f(a, b=2):\n    for n in range(a):\n        b += n\n    return b\n", "entry": "f",
        "kind": "function", "public": [[[1], 2], [[2], 3], [[3], 5]],
    }  # fmt: skip
    assert code_hints.steps(data) == [
        "Plan: a solution has about 4 statements and uses a loop, range().",
        "Define:\ndef f(a, b=2):",
        "Test case: f(3)\n  expected: 5",
    ]
    with pytest.raises(NotImplementedError, match="neither a reference solution nor a public test"):
        code_hints.steps({**data, "reference": "", "public": []})


@pytest.mark.parametrize(
    ("query", "expected_hint"),
    [
        (
            "SELECT COUNT(*) FROM nights AS t JOIN telescopes AS j1 ON j1.id = t.telescope_id WHERE j1.kind = 'FROM moon'",
            ("nights and telescopes", "telescopes.id = nights.telescope_id.", "COUNT, WHERE."),
        ),
        ("select name from town", ("the table town", "no tables", "a plain SELECT")),
        (
            'WITH big AS (SELECT id FROM "my town") SELECT id FROM big ORDER\n BY id LIMIT 1',
            ("the table my town", "no tables", "ORDER BY, LIMIT, 1 query inside it."),
        ),
    ],
)
def test_the_tables_the_joins_and_the_clauses_of_a_query(query, expected_hint) -> None:
    steps = sql_hints.steps(query)
    assert all(part in step for part, step in zip(expected_hint, steps, strict=True)), steps


def test_the_next_hop_moves_on_with_the_episode() -> None:
    env = Search(hops=2, difficulty=1)
    env.reset(seed=3)
    first, second = (env._documents.find(id).title for id in env.task.data["evidence"])
    assert env.hint(0.25) == f"Look up {first} next."
    assert env.hint(0.75) == f"Look up {first} next.\nThen look up {second}."
    env.step(spell("open", first))
    assert env.hint(0.25) == f"Look up {second} next."
    env.step(spell("open", second))
    assert env.hint(0.75).startswith("Every document that the answer needs is open")


def test_file_and_place_of_a_published_patch() -> None:
    patch = (
        "diff --git a/pkg/a.py b/pkg/a.py\n--- a/pkg/a.py\n+++ b/pkg/a.py\n@@ -3,2 +3,2 @@ def area(r):\n-    x\n+    y\n"
    )
    assert swe_hints.steps_of_patch(patch, "tests/test_a.py::test_area") == [
        "The change belongs in pkg/a.py.",
        "It is in or below `def area(r):`.",
        "A hidden test that fails until the issue is fixed: tests/test_a.py::test_area",
    ]


def test_the_function_around_an_edit() -> None:
    env = agentgym.make("rlvr/SWE-v0")
    env.reset(seed=0)
    instance = env.unwrapped.item
    steps = swe_hints.steps_of(instance)
    assert instance.gold[0].path in steps[0] and instance.fail_to_pass[0] in steps[2]
    name = steps[1].removeprefix("It is in ").rstrip(".").split(".")[-1].split(" and ")[0]
    assert f"def {name}(" in instance.broken()[instance.gold[0].path].decode()
