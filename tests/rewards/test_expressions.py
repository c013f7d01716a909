"""Expressions are compared by the genuine math-verify, within bounds; what hedges, evaluates or explodes earns nothing."""

import signal
import sys
import threading

import pytest

from agentgym.rewards import bounded
from agentgym.rewards.expressions import readable, verify
from agentgym.rewards.numeric import read_number, same_number

math_verify = pytest.importorskip("math_verify", reason="needs the extra `math`")


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ("3x^2+2x", "3x^2 + 2x"),
        ("2x+3x**2", "3x^2 + 2x"),
        ("x*(3*x+2)", "3x^2 + 2x"),
        ("$3x^{2}+2x$", "3x^2 + 2x"),
        ("\\boxed{2x + 3x^2}", "3x^2 + 2x"),
        ("f'(x) = 2x+3x^2", "3x^2 + 2x"),
        ("f(x) = 2x+3x^2", "3x^2 + 2x"),
        ("2*exp(3*x)", "2e^(3x)"),
        ("2 e^{3x}", "2e^(3x)"),
        ("42*cos(7*x) - (60)*x^4 + (0)*x^0*1", "-60x^4 + 42cos(7x)"),
        ("sqrt(8)", "2\\sqrt{2}"),
        ("2.8284271", "2\\sqrt{2}"),
        ("\\tan^2(x)", "\\sec^2 x - 1"),
        ("Evelyn", "\\text{Evelyn}"),
        ("{4,3}", "\\{3,4\\}"),
        ("(3, 4)", "(3,4)"),
        ("\\frac{x}{2}+1", "(x+2)/2"),
        ("5", "x=5"),
        ("yx", "xy"),
        ("1,000x", "1000x"),
        ("x > 3", "x>3"),
        ("((((x+1))))", "x+1"),
        ("\\frac{\\pi}{3}", "\\dfrac{\\pi}{3}"),
        ("pi/3", "\\dfrac{\\pi}{3}"),
        ("2*x*e^(x^2)", "2x e^{x^{2}}"),
        ("x^2*e^(7*x) + x^2 e^(7x)", "2x^2 e^(7x)"),
    ],
)
def test_equal_expressions(answer: str, wanted: str) -> None:
    assert verify(answer, wanted) is True


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ("3x^2-2x", "3x^2 + 2x"),
        ("3x^2+2x+C", "3x^2 + 2x"),
        ("x^3", "3x^2"),
        ("2.83", "2\\sqrt{2}"),
        ("(4, 3)", "(3,4)"),
        ("x < 3", "x>3"),
        ("[1,2]", "[1,2)"),
        ("2e^(2x)", "2e^(3x)"),
    ],
)
def test_other_expressions(answer: str, wanted: str) -> None:
    assert not verify(answer, wanted)


HOSTILE = [
    *("", "nan", "oo", "inf", "x" * 1_000_000, "9" * 100_000, "x١", "x\x00", "\ud800"),
    *("3x^2 or 2x", "3x^2, 2x", "3x^2; 2x", "\\boxed{3x^2}\\boxed{2x}", "3x^2 = 2x", "\\pm x", "\\{3x^2, 2x\\}", "x | y"),
    *("9**9**9**9", "10^{10^{10}}", "10^(10^10)", "x^{99999}", "99999!", "9!!", "x^(2!)", "(9^9)^9^9", "2^{-99999}"),
    *("{" * 2000 + "x" + "}" * 2000, "(" * 2000 + "x" + ")" * 2000, "\\frac{" * 500, "\\sqrt{" * 40 + "x" + "}" * 40, "((x"),
    *("\\frac{d}{dx}(x^3)", "\\frac{d(x^3)}{dx}", "\\int_0^x 6t dt", "\\sum_{n=1}^{9999999} n", "\\lim_{x \\to 0} x"),
    *(
        "__import__('os').system('true')",
        "(lambda: 1)()",
        "x.__class__",
        "eval(x)",
        "\\input{/etc/passwd}",
        "\\def\\x{\\x\\x}\\x",
    ),
]


@pytest.mark.parametrize("answer", HOSTILE, ids=lambda text: ascii(text[:30]))
def test_hostile_answers_are_turned_away_before_anything_reads_them(answer: str) -> None:
    assert readable(answer, "3x^2") is None or not verify(answer, "3x^2")


def test_words_that_hedge_are_no_products_of_variables() -> None:
    assert readable("r + o", "o + r") is not None and readable("or", "ro") is None
    assert readable("o or r", "o + r") is None
    assert readable("r and o", "\\frac{dan}{or}") is None


def test_what_takes_too_long_in_spite_of_that_is_ended(monkeypatch) -> None:
    monkeypatch.setattr("agentgym.rewards.expressions.SECONDS", 1.0)
    assert readable("(((9^{9999})^{9999})^{9999})^{99}", "3x^2") is not None
    assert verify("(((9^{9999})^{9999})^{9999})^{99}", "3x^2") is None
    assert verify("x + 2x^2 + x^2 - x", "3x^2") is True  # and the next answer is none the worse for it


def test_it_works_in_threads_where_math_verify_by_itself_does_not() -> None:
    found: list[object] = []

    def ask() -> None:
        found.append(verify("x + x", "2x"))
        try:
            math_verify.parse("$x$")
        except ValueError as error:
            found.append(str(error)[:11])

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert found == [True, "Math-Verify"]


def test_where_a_number_is_wanted_a_sum_to_be_worked_out_is_no_answer() -> None:
    for answer in ("2+2", "2^2", "\\sqrt{16}", "8/4*2", "\\binom{4}{1}"):
        assert verify(answer, "4") is None


NUMBERS = [
    *(
        "42",
        "-42",
        "42.0",
        "1,234",
        "1234",
        "0.5",
        "1/2",
        "\\frac{1}{2}",
        "-\\frac{1}{2}",
        "0.3333333",
        "1/3",
        "0.333",
        "-1/3",
    ),
    *("2.5e3", "2500", "7/3", "2\\frac{1}{3}", "1000000", "1,000,000", "0.1", "1/10", "3.14159", "22/7", "12.50", "12.5"),
]


def test_numbers_are_judged_as_math_verify_judges_them() -> None:
    """Side by side over all pairs, with the few differences named."""
    ours_alone, theirs_alone = set(), set()
    parsed = {number: math_verify.parse(f"${number}$") for number in NUMBERS}
    for wanted in NUMBERS:
        for answer in NUMBERS:
            ours = same_number(read_number(answer), read_number(wanted))
            theirs = math_verify.verify(parsed[wanted], parsed[answer])
            if ours != theirs:
                (ours_alone if ours else theirs_alone).add((answer, wanted))
    # math-verify reads 2.5e3 as 2.5 times Euler's number times 3
    assert {pair for pair in ours_alone if "2.5e3" not in pair} == set()
    assert theirs_alone == set()
    assert ("2.5e3", "2500") in ours_alone


def test_a_call_has_time_memory_and_a_process_of_its_own() -> None:
    assert bounded.call("math:factorial", 5) == bounded.Reply(120)
    assert bounded.call("time:sleep", 60, seconds=0.2).problem == "timeout"
    assert bounded.call("operator:mul", "x", 10**10).problem == "memory"
    assert bounded.call("os:_exit", 3).problem == "killed"
    assert bounded.call("math:sqrt", -1).problem.startswith("ValueError: ")
    assert bounded.call("os:getpid").value != bounded.call("os:getpid").value
    assert bounded.call("os:getenv", "HOME").value is None


def test_an_interrupted_call_leaves_no_reply_behind() -> None:
    class Interrupted(Exception):
        pass

    def interrupt(*_) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(Interrupted):
            bounded.call("time:sleep", 1.0)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert bounded.call("math:factorial", 5).value == 120


def test_the_server_of_calls_is_replaced_when_it_is_gone() -> None:
    bounded.call("math:sqrt", 4)
    server = bounded._server(())
    server._process.kill()
    server._process.wait()
    assert bounded.call("math:sqrt", 4).value == 2.0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has it")
def test_a_call_ends_with_the_server_that_limits_its_time() -> None:
    assert bounded.call("death_signal:death_signal") == bounded.Reply(int(signal.SIGKILL))


def test_a_number_in_another_base_is_another_number() -> None:
    assert verify("1010_{2}", "1010_2") and verify("1010", "1010_2") and verify("1010 _ 2", "1010_{2}")
    assert verify("1010_3", "1010_2") is False and verify("1010_{16}", "1010_{12}") is False
    assert verify("\\log_{2} 3", "\\log_2 3")


def test_an_equation_may_be_written_from_right_to_left() -> None:
    assert verify("2x+3=y", "y = 2x + 3") and verify("3+2x=y", "y = 2x + 3")
    assert verify("2x+4=y", "y = 2x + 3") is False and verify("x = 2y + 3", "y = 2x + 3") is False
