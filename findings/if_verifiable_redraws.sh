#!/bin/sh
# An IFEval row whose nth_paragraph exceeds num_paragraphs gets a random paragraph in if-verifiable 0.1.2, without a word.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet if-verifiable==0.1.2
"$folder/venv/bin/python" - 2>/dev/null <<'END'
import importlib.metadata
import sys

from if_verifiable.ifeval.instructions_registry import INSTRUCTION_DICT

print("if-verifiable", importlib.metadata.version("if-verifiable"))
name = "length_constraints:nth_paragraph_first_word"
reply = "ox here\n\ncow there"
drawn, verdicts = set(), set()
for _ in range(200):
    check = INSTRUCTION_DICT[name](name)
    check.build_description(num_paragraphs=2, nth_paragraph=3, first_word="ox")
    drawn.add(check.get_instruction_args()["nth_paragraph"])
    verdicts.add(check.check_following(reply))
print("the row asks for paragraph 3 of 2; expected: an error, or one verdict for one reply")
print("seen: paragraphs", sorted(drawn), "verdicts", sorted(verdicts))
sys.exit(0 if len(drawn) > 1 and verdicts == {True, False} else 1)
END
