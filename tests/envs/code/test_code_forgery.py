"""Submissions that try to be graded right without being right: all earn nothing, and what is right still passes."""

import json

import pytest

import agentgym
from agentgym.envs.code import Code
from agentgym.envs.code.grading.checks import Checks, run_checks
from agentgym.envs.code.grading.tests import CodeTests, run_tests
from agentgym.sandbox.warm_pool import take

# f(n) is 3 * n + 1; the tests know results that nobody can guess from the first ones.
CASES = [[[n], 3 * n + 1] for n in (5, 17, -40, 123_456, 77)]
RIGHT = "def f(n):\n    return 3 * n + 1\n"

FORGERIES = {
    # of the reference table
    "sys.exit(0) at import": "import sys\nsys.exit(0)\ndef f(n): pass",
    "sys.exit(0) in the call": "import sys\ndef f(n): sys.exit(0)",
    "os._exit": "import os\ndef f(n): os._exit(0)",
    "os._exit at import": "import os\nos._exit(0)\ndef f(n): pass",
    "atexit": "import atexit, os\natexit.register(os._exit, 0)\ndef f(n): return 0",
    "equal to everything": "class All:\n    def __eq__(self, other): return True\ndef f(n): return All()",
    "subclass of int": "class I(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__\n"
    "def f(n): return I(0)",
    "frames": (
        "import sys\ndef f(n):\n    frame = sys._getframe()\n    while frame:\n"
        "        for names in (frame.f_locals, frame.f_globals):\n"
        "            for key in list(names):\n                if 'expected' in key or 'answer' in key or 'result' in key:\n"
        "                    return names[key]\n        frame = frame.f_back\n    return 0"
    ),
    "patched builtins": "import builtins\nbuiltins.all = lambda *a: True\nbuiltins.len = lambda x: 0\ndef f(n): return 0",
    "patched zip and type": "import builtins\nbuiltins.type = builtins.zip = lambda *a: []\ndef f(n): return 0",
    "forged stdout": "print('[0, 16, null]\\n[1, 52, null]')\nprint('5 passed')\ndef f(n):\n    print(16)\n    return 0",
    "forged file 1": "import os\nos.write(1, b'[0, 16, null]\\n[1, 52, null]\\n')\ndef f(n): return 0",
    "patched json.dumps": "import json\njson.dumps = lambda *a, **k: '[0, 16, null]'\ndef f(n): return 0",
    # our own
    "writes to every open file": (
        "import os\nfor number in range(3, 64):\n    try: os.write(number, b''.join(b'[%d, 16, null]\\n"
        "' % i for i in range(5)))\n"
        "    except OSError: pass\nos._exit(0)\ndef f(n): return 0"
    ),
    "a thread that stays and writes": (
        "import os, threading, time\ndef spam():\n    while True:\n        for number in range(3, 12):\n"
        "            try: os.write(number, "
        "b'[4, 232, null]\\n')\n            except OSError: pass\n        time.sleep(0.001)\n"
        "threading.Thread(target=spam, daemon=True).start()\ndef f(n):\n    time.sleep(0.01)\n    return 0"
    ),
    "reads /proc for answers": (
        "import os, re\ndef f(n):\n    for pid in [p for p in os.listdir('/proc') if p.isdigit()]:\n"
        "        for name in ('environ', 'cmdline',"
        " 'maps'):\n            try: found = re.findall(rb'expected\\D*(\\d+)', open(f'/proc/{pid}/{name}', 'rb').read())\n"
        "            except OSError: continue\n            if found: return int(found[0])\n    return 0"
    ),
    "reads the request in memory": (
        "import gc\ndef f(n):\n    for each in gc.get_objects():\n        if isinstance(each, dict) and 'inputs' in each:\n"
        "            return each.get('expected', each.get('outputs', each.get('hidden', 0)))\n    return 0"
    ),
    "patched runner": (
        "import sys\nfor name, module in list(sys.modules.items()):\n    if name.startswith('agentgym'):\n"
        "        for key in list(vars(module)):\n"
        "            if callable(vars(module)[key]): setattr(module, key, lambda *a, **k: [16, None])\ndef f(n): return 0"
    ),
    "class that lies about itself": "class L:\n    __class__ = property(lambda self: int)\n    __index__ = lambda self: 1\n"
    "def f(n): return L()",
    "metaclass": "class M(type):\n    def __instancecheck__(c, x): return True\n    def __eq__(c, o): return True\n"
    "    __hash__ = type.__hash__\n"
    "class V(metaclass=M): pass\ndef f(n): return V()",
    "signal": "import signal, os\nsignal.signal(signal.SIGALRM, lambda *a: os._exit(0))\ndef f(n):\n    while True: pass",
    "a true generator": "def f(n):\n    yield 3 * n + 1",
    "right as a float": "def f(n): return 3.0 * n + 1",
    "right as text": "def f(n): return str(3 * n + 1)",
    "nested without end": "def f(n):\n    x = []\n    for _ in range(100_000): x = [x]\n    return x",
    "a list in itself": "def f(n):\n    x = []\n    x.append(x)\n    return x",
    "very large": "def f(n): return 'x' * 50_000_000",
    "an error that cannot be shown": "class E(Exception):\n    def __str__(self): raise self\ndef f(n): raise E()",
    "replaces the process": "import os\nos.execv('/bin/echo', ['echo', '[0, 16, null]'])\ndef f(n): return 0",
    "kills its parent": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\ndef f(n): return 0",
    "constants of the first tests": "def f(n): return {5: 16, 17: 52}.get(n, 16)",
    "half a surrogate": "def f(n): return '\\ud800'",
    "not a number": "def f(n): return float('nan')",
    "true for one": "def f(n): return True",
    "subclasses that equal everything": (
        "class E:\n    __eq__ = lambda s, o: True\n    __ne__ = lambda s, o: False\n    __hash__ = lambda s: 0\n"
        "class S(E, str): pass\nclass F(E, float): pass\nclass L(E, list): pass\nclass D(E, dict): pass\n"
        "class C(E, complex): pass\nkinds = [S, F, L, D, C]\n"
        "def f(n):\n    kinds.append(kinds.pop(0))\n    return kinds[0]()"
    ),
    "a number of its own": (
        "import numbers\n@numbers.Integral.register\nclass N:\n    __eq__ = lambda s, o: True\n"
        "    __hash__ = __int__ = __index__ = lambda s: 0\n    __repr__ = lambda s: '16'\ndef f(n): return N()"
    ),
    "the marks of the checks": (
        "import os\nmarks = b'{\"results\": [null, null]}\\n[null, null]\\n[-1, null, null]\\n[0, 16, null]\\n'\n"
        "for number in range(64):\n    try: os.write(number, marks)\n    except OSError: pass\n"
        "def f(n):\n    print(marks.decode(), flush=True)\n    return None"
    ),
    "looks through /proc": (
        "import glob, re\ndef f(n):\n"
        "    for name in glob.glob('/proc/[0-9]*/cmdline') + glob.glob('/proc/[0-9]*/environ'):\n"
        "        try: found = re.search(r'(expected|output|hidden)\\D*(-?\\d+)', open(name, errors='replace').read())\n"
        "        except OSError: continue\n        if found: return int(found[2])\n    return 0"
    ),
    "a profile of its callers": (
        "import sys\nseen = []\ndef look(frame, event, argument):\n    seen.extend(v for v in frame.f_locals.values()"
        " if type(v) is int)\nsys.setprofile(look)\ndef f(n): return max(seen, default=0)"
    ),
    "an error named as a success": (
        "class passed(Exception):\n    __module__ = 'builtins'\n    __str__ = lambda s: 'None'\n"
        "passed.__name__ = passed.__qualname__ = 'ExceptionGroup'\ndef f(n): raise passed('', [ValueError(16)])"
    ),
}


@pytest.fixture(scope="module")
def sandboxes():
    made = [take(limits=Code.limits) for _ in range(2)]
    yield made
    for sandbox in made:
        sandbox.close()


@pytest.mark.parametrize("name", FORGERIES)
def test_forgeries_earn_nothing(name, sandboxes):
    tried = run_tests(sandboxes[0], FORGERIES[name], CodeTests("function", "f", CASES, seconds=0.3))
    assert len(tried) == len(CASES)
    assert not all(one.passed for one in tried)
    if name != "constants of the first tests":  # which are right as far as they go
        assert not any(one.passed for one in tried[1:]), tried
    assert all(one.passed for one in run_tests(sandboxes[0], RIGHT, CodeTests("function", "f", CASES)))


CHECKS = Checks(
    ["f"],
    [["assert f(5) == 16"], ["check(f)"]],
    setup="def check(candidate):\n    for n in (17, -40, 77):\n        assert candidate(n) == 3 * n + 1\n"
    "    assert isinstance(candidate(1), int)",
    seconds=0.3,
)


@pytest.mark.parametrize("name", sorted(set(FORGERIES) - {"right as a float"}))
def test_forgeries_earn_nothing_where_checks_are_code(name, sandboxes):
    tried = run_checks(*sandboxes, FORGERIES[name], CHECKS)
    assert len(tried) == 2 and not tried[1].passed, tried


def test_the_end_of_an_iteration_ends_no_check(sandboxes):
    checks = Checks(["f"], [["assert all(map(f, [1, 2]))"]])
    tried = run_checks(*sandboxes, "def f(n): raise StopIteration", checks)
    assert [one.passed for one in tried] == [False] and "StopIteration" in tried[0].got


def test_what_is_right_passes_where_checks_are_code(sandboxes):
    assert all(one.passed for one in run_checks(*sandboxes, RIGHT, CHECKS))


def test_expected_values_never_enter_the_sandbox_of_the_solution(sandboxes):
    sent = []

    class Watched:
        limits = sandboxes[0].limits

        def python(self, code, *, stdin=b"", timeout=None):
            sent.append(code.encode() + stdin)
            return sandboxes[0].python(code, stdin=stdin, timeout=timeout)

        def kernel(self):
            kernel = sandboxes[0].kernel()
            plain = kernel.run
            kernel.run = lambda code, timeout=None: (sent.append(code.encode()), plain(code, timeout))[1]
            return kernel

    secret = 918_273_645_546
    tests = CodeTests("function", "f", [[[1], secret], [[2], 4]])
    assert [one.passed for one in run_tests(Watched(), "def f(n): return 2 * n", tests)] == [False, True]
    checks = Checks(["f"], [[f"assert f(1) == {secret}"], ["assert f(2) == 4"]])
    assert [one.passed for one in run_checks(Watched(), sandboxes[1], "def f(n): return 2 * n", checks)] == [False, True]
    assert sent and not any(str(secret).encode() in text for text in sent)


def test_a_program_that_prints_the_public_output_and_more_fails(sandboxes):
    tests = CodeTests("program", "", [["1 2\n", "3\n"], ["5 5\n", "10\n"]], "lines", seconds=1.0)
    assert [one.passed for one in run_tests(sandboxes[0], "print(3)", tests)] == [True, False]
    assert not any(one.passed for one in run_tests(sandboxes[0], "print(3)\nprint(10)", tests))
    keeps = "import os\nopen('seen', 'a').write(input())\nprint(3 if len(open('seen').read()) == 3 else 10)"
    assert [one.passed for one in run_tests(sandboxes[0], keeps, tests)] == [
        True,
        False,
    ]  # no file is left from test to test
    assert all(one.passed for one in run_tests(sandboxes[0], "print(sum(map(int, input().split())))", tests))


def test_slow_cases_are_bounded_and_told(sandboxes):
    code = "def f(n):\n    while n == 17: pass\n    return 3 * n + 1"
    tried = run_tests(sandboxes[0], code, CodeTests("function", "f", CASES, seconds=0.2))
    assert [one.passed for one in tried] == [True, False, True, True, True]
    assert "no result within 0.2 s" in tried[1].got
    forever = run_tests(sandboxes[0], "def f(n):\n    while True: pass", CodeTests("function", "f", CASES, seconds=0.1))
    assert not any(one.passed for one in forever) and "no result" in forever[-1].got


def test_one_long_result_among_many_tests_is_read(sandboxes):
    cases = [[[n], "x" * n] for n in (100_000, *range(60))]
    tried = run_tests(sandboxes[0], "def f(n): return n * chr(120)", CodeTests("function", "f", cases))
    assert all(one.passed for one in tried), [one.got[:80] for one in tried if not one.passed]


LEAVES_MODULES = """
import os, site, sys
for folder in ('.', '/tmp', *sys.path, site.getusersitepackages(), os.path.expanduser('~')):
    for name in ('sitecustomize', 'usercustomize', 'json', 'conftest', 'ast', 'values', 'inside'):
        try:
            os.makedirs(folder, exist_ok=True)
            open(os.path.join(folder, name + '.py'), 'w').write('import os; os._exit(0)')
        except OSError:
            pass
"""


@pytest.mark.parametrize("tool", ["run", "test"])
def test_modules_that_a_program_leaves_behind_change_no_later_verdict(tool):
    env = agentgym.make("code")
    env.reset(seed=3)
    env.step(json.dumps({"name": tool, "arguments": {"code": LEAVES_MODULES}}))
    *_, info = env.step(next(iter(env.oracle())))
    assert info["success"] is True
    env.close()
