"""Reading Python from many threads at once."""

import ast
import sys
import threading

import pytest

from agentgym.rewards.programs import syntax


def test_threads_that_read_at_once_all_get_their_trees():
    source = "x = " + "-" * 60 + "1\n" + "def f(a, b):\n    return [a + b for _ in range(3)]\n" * 200
    wanted, wrong = ast.dump(ast.parse(source)), []

    def read(depth: int) -> None:
        if depth:
            return read(depth - 1)
        for _ in range(10):
            try:
                if ast.dump(syntax.parse(source)) != wanted:
                    wrong.append("another tree")
            except BaseException as error:
                wrong.append(repr(error))
        return None

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=read, args=(20 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(interval)
    assert not wrong


def test_what_python_got_wrong_is_read_again(monkeypatch):
    real, calls = ast.parse, []

    def fails_once(*args):
        calls.append(args)
        if len(calls) == 1:
            raise SystemError("AST constructor recursion depth mismatch (before=180, after=31)")
        return real(*args)

    monkeypatch.setattr(ast, "parse", fails_once)
    assert ast.unparse(syntax.parse("x=1")) == "x = 1" and len(calls) == 2


@pytest.mark.parametrize("source", ["(" * 300, "x = 1 +", "a\0b"])
def test_what_is_no_python_says_so(source):
    with pytest.raises((SyntaxError, ValueError, RecursionError, MemoryError)):
        syntax.parse(source)
