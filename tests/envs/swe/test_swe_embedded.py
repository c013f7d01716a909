"""The tasks that come with agentgym: every one is what it says; all are tried in sandboxes by `-m slow`, a sample always."""

import ast
import re
from collections import Counter

import pytest

from agentgym.envs.swe.maker.issue import gives_away
from agentgym.envs.swe.maker.mutate import OPERATORS
from agentgym.envs.swe.tasks import EMBEDDED, read
from agentgym.envs.swe.tasks.instance import edited
from agentgym.envs.swe.tasks.pytest_run import PACKAGES, run_tests
from agentgym.envs.swe.tasks.source import embedded
from agentgym.envs.swe.tasks.suite import function_of, is_protected
from agentgym.sandbox import Limits, sandbox

TASKS = read()


@pytest.fixture(scope="module")
def box():
    with sandbox(packages=PACKAGES, limits=Limits(timeout=60)) as made:
        yield made


def test_there_are_enough_and_they_are_small():
    assert len(TASKS) >= 300
    assert len({task.id for task in TASKS}) == len(TASKS)
    assert EMBEDDED.stat().st_size < 1_000_000
    assert {task.package for task in TASKS} == set(embedded())


def test_splits_share_no_package():
    packages = {split: {task.package for task in TASKS if task.split == split} for split in ("train", "valid", "test")}
    assert all(packages.values())
    assert sum(len(names) for names in packages.values()) == len(set().union(*packages.values()))
    assert {task.split for task in TASKS} == set(packages)


def test_bugs_are_of_many_kinds():
    kinds = Counter(kind for task in TASKS for kind in task.kind.split("+"))
    assert set(kinds) <= set(OPERATORS)
    assert len(kinds) >= 20
    assert max(kinds.values()) < 0.15 * sum(kinds.values())
    assert sum("+" in task.kind for task in TASKS) >= 0.15 * len(TASKS)
    assert len({task.difficulty for task in TASKS}) >= 4


def test_bugs_are_in_code_and_can_be_repaired():
    for task in TASKS:
        base, broken = task.base(), task.broken()
        assert not [edit.path for edit in task.bug if is_protected(edit.path)]
        repaired = edited(broken, task.gold)
        assert task.graded(repaired) == base
        assert {path: content for path, content in repaired.items() if not is_protected(path)} == {
            path: content for path, content in base.items() if not is_protected(path)
        }


def test_tests_that_notice_a_bug_are_hidden_and_the_rest_can_be_read():
    for task in TASKS:
        broken = task.broken()
        for path, *names in {function_of(test) for test in task.fail_to_pass}:
            assert not re.search(rf"def {names[-1]}\(", broken[path].decode())
            assert re.search(rf"def {names[-1]}\(", task.base()[path].decode())
            ast.parse(broken[path].decode())


def test_issues_give_nothing_away():
    for task in TASKS:
        clean, broken = task.base(), task.mutated()
        changed = {edit.path: (clean[edit.path].decode(), broken[edit.path].decode()) for edit in task.bug}
        assert not gives_away(task.issue, task.fail_to_pass, changed), task.id
        assert not re.search(r"\btest_|tests?/|line \d+, in|Traceback", task.issue), task.id


def check(box, task):
    """The bug fails exactly what it is said to; its repair, made in what the agent gets, restores all."""
    tests = [*task.fail_to_pass, *task.pass_to_pass]
    broken = run_tests(box, task.graded(task.mutated()), tests)
    assert {test for test in tests if broken[test] != "passed"} == set(task.fail_to_pass), task.id
    repaired = run_tests(box, task.graded(edited(task.broken(), task.gold)), tests)
    assert set(repaired.values()) == {"passed"}, task.id


def show(box, task):
    """The code in the issue finds all that it names: it runs on the clean repository."""
    tree, ids = task.base(), list[str]()
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", task.issue, re.DOTALL)):
        error = block.replace("\n", "\n        ")
        program = f"def test_{number}():\n    try:\n        {error}\n    except (NameError, ImportError):\n        raise\n"
        tree[f"test_block_{number}.py"] = (program + "    except Exception:\n        pass\n").encode()
        ids.append(f"test_block_{number}.py::test_{number}")
    assert set(run_tests(box, tree, ids).values()) <= {"passed"}, task.issue


def test_a_sample_is_valid(box):
    for place in range(7, len(TASKS), 55):
        check(box, TASKS[place])
        show(box, TASKS[place])


@pytest.mark.slow
@pytest.mark.parametrize("package", embedded())
def test_all_are_valid(box, package):
    for task in TASKS:
        if task.package == package:
            check(box, task)
            show(box, task)
