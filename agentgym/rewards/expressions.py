"""Verifier of mathematical answers: numbers by `numeric`, expressions by math-verify (extra `math`).

The text of an answer may be hostile. It is never evaluated, and only LaTeX from an allowlist reaches math-verify, which
runs in a process with limits on time and memory (`bounded`). math-verify's own timeouts are off, since they use signals,
which work only in a main thread.
"""

import importlib
import importlib.util
import logging
import re
from functools import lru_cache
from typing import Any

from agentgym.errors import MissingExtra, how_to_install
from agentgym.rewards import answer_text
from agentgym.rewards.bounded import call
from agentgym.rewards.closeness import modules, numbers, same_value
from agentgym.rewards.numeric import read_number, same_number, unwrapped

LONGEST = 2000  # characters of an answer, or four times as many as the right one has
DEPTH = 15  # of nested brackets, whose parsing takes exponential time
DIGITS = 60  # per number
SECONDS = 10.0
_WARM = "agentgym.rewards.expressions:warm"

_FUNCTIONS = "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh ln log exp sqrt"
_WORDS = frozenset(f"{_FUNCTIONS} pi".split())
_COMMANDS = frozenset(
    f"{_FUNCTIONS} pi frac dfrac tfrac cfrac cdot times div left right big Big theta alpha beta gamma circ degree infty "
    "binom dbinom mathrm text operatorname quad cdots".split()
) - {"cdots", "mathrm", "text", "operatorname"}
_HEDGES = ("or", "and", "either")
_PLAIN_FUNCTION = re.compile(rf"(?<![\\A-Za-z])({'|'.join(sorted(_WORDS, key=len, reverse=True))})(?![A-Za-z])")


def installed() -> bool:
    """Return True if math-verify is installed."""
    return importlib.util.find_spec("math_verify") is not None


def verify(answer: str, gold: str) -> bool | None:
    """Return True if an answer equals the gold answer, else False; None if the answer cannot be parsed as one value.

    If the gold answer is a number, the answer must be a plain number, not a sum to evaluate. `gold` is trusted.
    Raises MissingExtra if an expression is expected and math-verify is not installed.
    """
    gold_number = read_number(gold)
    if gold_number is not None:
        number = read_number(answer)
        return None if number is None else same_number(number, gold_number)
    return same_expression(answer, gold)


def same_expression(answer: str, gold: str) -> bool | None:
    """Return True if two expressions are equal, else False; None if the answer is ambiguous or too complicated.

    Raises:
        MissingExtra: math-verify is not installed.
    """
    if not installed():
        raise MissingExtra(f"checking expressions needs math-verify: {how_to_install('math')}")
    if answer.split() == gold.split():
        return True
    short = len(answer) <= max(LONGEST, 4 * len(gold))
    if short and answer_text.plain(unwrapped(answer)) == answer_text.plain(unwrapped(gold)):
        return True  # `\text{(B)}` is B
    if answer_text.words(unwrapped(gold)) is not None:
        if short and answer_text.same_words(unwrapped(answer), unwrapped(gold)):
            return True
        return None if readable(answer, gold) is None else False
    latex, gold_latex = readable(answer, gold), _latex(answer_text.commas(unwrapped(gold)))
    if latex is None:
        return None
    if "\\text" in gold_latex and _units(latex) not in (set[str](), _units(gold_latex)):
        return False  # math-verify ignores units
    if "".join(latex.split()) == "".join(gold_latex.split()):
        return True
    if _bases(latex) not in ([], _bases(gold_latex)):
        return False  # math-verify reads 10_5 as 10
    if not answer_text.same_brackets(latex, gold_latex) or not _as_often(latex, gold_latex):
        return False  # math-verify equates the point (1, 2) with the set {1, 2}, and the list 1, 1, 2 with 1, 2
    right = _compared(latex, gold_latex)
    if right is False and latex.count("=") == 1 and not set(latex) & set("<>!,"):
        if gold.count("=") == 1:
            gold_latex = _latex(answer_text.commas(unwrapped(gold, variable=True)), variable=True)  # 2y = 4x is y = 2x
        lhs, _, rhs = latex.partition("=")  # math-verify distinguishes y = 2x from 2x = y
        return bool(_compared(latex, gold_latex) or _compared(f"{rhs.strip()} = {lhs.strip()}", gold_latex))
    return right


def _as_often(answer: str, gold: str) -> bool:
    """Return False if the gold answer is a list with repeated values and the answer does not repeat them equally often."""
    parts, values = answer_text.parts(gold), answer_text.parts(answer)
    if len(set(parts)) == len(parts):
        return True
    for part in parts:
        found = next((value for value in values if value == part or _compared(value, part)), None)
        if found is None:
            return False
        values.remove(found)
    return not values


def _units(text: str) -> set[str]:
    r"""Return the units in a text: the content of each `\text{…}`, and letters after a number at the end."""
    units = re.findall(r"\\(?:text|mathrm|mbox)\s*\{([^{}]*)\}", text)
    return {"".join(unit.split()).casefold() for unit in (*units, *re.findall(r"\d\s*([A-Za-z]+)\s*$", text))}


def _bases(text: str) -> list[str]:
    """Return the bases of the numbers in a text (`1010_2`), sorted."""
    return sorted(re.findall(r"[0-9]\s*_\s*\{?\s*([0-9]+)", text))


@lru_cache(maxsize=1024)
def _compared(answer: str, gold: str) -> bool | None:
    reply = call("agentgym.rewards.expressions:compare", answer, gold, preload=(_WARM,), seconds=SECONDS)
    return None if reply.problem else reply.value


def warm() -> None:
    """Fill the caches of math-verify's parser in the fork server, so that every forked process inherits them."""
    numbers = ("\\frac{1}{2}", "\\frac{-3}{4}\\sqrt{3}", "\\{1,2\\}", "(1,2]", "x = 3")
    functions = ("3x^{2} - 2\\sin (5x)", "(-6)*x^{4}*1 + 9x \\cos (7*x)", "(2x+1)e^{3x} / 4 - 5e^{2*x}")
    for text in (*numbers, *functions):
        compare(text, text)
    compare("x(x+1)", "x^{2}+x")


def compare(latex: str, gold: str) -> bool | None:
    """Return True if two answers are equal according to math-verify; None if it cannot parse `latex`.

    Runs only in a process that `bounded` starts.
    """
    math_verify, (_, grader) = importlib.import_module("math_verify"), modules()
    kinds = [math_verify.LatexExtractionConfig()]  # the default would also evaluate text that looks like a number

    def read(text: str) -> list[object]:
        expressions = math_verify.parse(
            f"${text}$", kinds, "no_fallback", "first_match", parsing_timeout=None
        )  # `bounded` has a timeout
        return expressions[:1]

    if logging.root.manager.disable < logging.CRITICAL:  # each change clears the cache of every logger
        logging.disable(logging.CRITICAL)
    answer = read(latex)
    if not answer:
        return None
    numeric, symbolic = grader.sympy_numeric_eq, grader.sympy_symbolic_eq

    def same_symbols(a: Any, b: Any) -> bool:
        return not numbers(a, b) and symbolic(a, b)  # simplify expands powers without limit

    grader.sympy_numeric_eq = same_value
    grader.sympy_symbolic_eq = same_symbols
    try:
        return bool(math_verify.verify(read(gold), answer, timeout_seconds=None))
    finally:
        grader.sympy_numeric_eq, grader.sympy_symbolic_eq = numeric, symbolic


def readable(answer: str, gold: str) -> str | None:
    """Return an answer as LaTeX for math-verify; None if it has several values, is no expression, or is out of bounds."""
    if len(answer) > max(LONGEST, 4 * len(gold)):
        return None
    text = unwrapped(answer)
    if "=" not in gold:
        text = re.sub(r"^[A-Za-z]'?\s*(?:\(\s*[A-Za-z]\s*\))?\s*=", "", text).strip()
    if not re.search(r"\\in(?![A-Za-z])", gold):
        text = re.sub(r"^[A-Za-z]\s*\\in(?![A-Za-z])", "", text).strip()
    if "\\infty" in gold:
        text = re.sub(r"(?<![A-Za-z\\])(?:oo|inf|infty|infinity)(?![A-Za-z])|∞", r"\\infty ", text)
    text = answer_text.commas(text, separate=", " in answer_text.commas(unwrapped(gold)))
    if not text.isascii() or not text.isprintable() or not _one_value(text, gold) or not _within_bounds(text):
        return None
    return _latex(text)


def _one_value(text: str, gold: str) -> bool:
    """Return True if every sign, command and word of the text is common in expressions or occurs in the gold answer."""
    if any(re.sub(r"\\log\s*_", "", text).count(sign) > gold.count(sign) for sign in "=<>;,&~?#@\"'`$:|_"):
        return False
    commands = set(re.findall(r"\\([A-Za-z]+)", text)) | set(re.findall(r"\\([^A-Za-z\s])", text))
    if not commands <= _COMMANDS | set("%{}") | set(re.findall(r"\\([A-Za-z]+|[^A-Za-z\s])", gold)):
        return False
    words = re.findall(r"(?<![\\A-Za-z])[A-Za-z]{2,}", text)
    known = {*_WORDS, *re.findall(r"[A-Za-z]{2,}", gold)}
    letters = set(re.findall(r"[A-Za-z]", gold))
    return all(w in known or (w not in _HEDGES and set(w) <= letters) for w in words)


def _within_bounds(text: str) -> bool:
    """Return True if brackets are balanced and at most DEPTH deep, numbers shorter than DIGITS, and powers small."""
    depth = 0
    for character in text:
        depth += 1 if character in "({[" else -1 if character in ")}]" else 0
        if not 0 <= depth <= DEPTH:
            return False
    squeezed = "".join(text.replace("**", "^").split())
    if depth or re.search(rf"\d{{{DIGITS}}}|\d{{4}}!|!!", squeezed):
        return False
    return all(_small_power(squeezed, at + 1) for at, character in enumerate(squeezed) if character == "^")


def _small_power(text: str, start: int) -> bool:
    """Return True if the exponent at `start` is small: without five digits in a row, a factorial, or another power."""
    simple = re.compile(r"[+-]?(?:\d+(?:\.\d+)?|[A-Za-z]|\\[A-Za-z]+)").match(text, start)
    end = simple.end() if simple else start
    depth = 0
    while not simple and end < len(text):
        depth += 1 if text[end] in "({[" else -1 if text[end] in ")}]" else 0
        end += 1
        if depth <= 0:
            break
    return text[end : end + 1] != "^" and not re.search(r"\d{5}|[\d)}\]]\^|!", text[start:end])


def _latex(text: str, *, variable: bool = False) -> str:
    """Return plain notation (`3*x**2 + sqrt(2)`) as LaTeX, and LaTeX almost unchanged; `variable` keeps a leading `x =`."""
    body = unwrapped(text, variable=variable).replace("**", "^")
    body = re.sub(r"\^\s*([+-]?\d+)", r"^{\1}", body)
    body = _PLAIN_FUNCTION.sub(r"\\\1 ", body)
    for name, opener, closer in (("\\sqrt ", "\\sqrt{", "}"), ("^", "^{", "}")):
        body = _braced(body, name, opener, closer)
    return body.replace("\\exp ", "e^") if "\\exp {" in body else body


def _braced(text: str, before: str, opener: str, closer: str) -> str:
    """Return the text with each `before(…)` replaced by `opener…closer`."""
    start = 0
    while (at := text.find(before + "(", start)) >= 0:
        depth, end = 0, at + len(before)
        while end < len(text):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            if depth == 0:
                break
            end += 1
        text = text[:at] + opener + text[at + len(before) + 1 : end] + closer + text[end + 1 :]
        start = at + len(opener)
    return text
