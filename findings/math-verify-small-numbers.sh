#!/bin/sh
# math-verify 0.9.0 calls numbers equal that differ by less than 1e-15, however small they are.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/pip" install -q "math-verify==0.9.0" "sympy==1.14.0" "antlr4-python3-runtime==4.13.2"
"$place/venv/bin/python" - <<'PYTHON'
import importlib.metadata
import logging
import sys

from math_verify import LatexExtractionConfig, parse, verify

logging.disable(logging.CRITICAL)
print("math-verify", importlib.metadata.version("math-verify"), "sympy", importlib.metadata.version("sympy"))


def equal(gold, answer):
    read = [parse(f"${text}$", [LatexExtractionConfig()], parsing_timeout=None) for text in (gold, answer)]
    return verify(*read, timeout_seconds=None)


pairs = {
    (r"(5/6)^{200}", r"(5/6)^{199}"): "one is 5/6 of the other",
    (r"1/20!", r"1/21!"): "one is 1/21 of the other",
    (r"\frac{2^{2005}+1}{3\cdot 2^{2006}}", r"\frac{1}{3\cdot 2^{2006}}"): "about 1/6, and about 1e-604",
}
print("expected: not equal, three times")
seen = [equal(*pair) for pair in pairs]
for (gold, answer), why, value in zip(pairs, pairs.values(), seen):
    print(f"seen: {gold} and {answer} ({why}): {'equal' if value else 'not equal'}")
sys.exit(0 if all(seen) else 1)
PYTHON
