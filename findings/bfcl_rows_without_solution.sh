#!/bin/sh
# Five rows of BFCL v4 as shipped in bfcl-eval 2026.3.23 cannot be solved by any reply.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-deps bfcl-eval==2026.3.23
"$folder/venv/bin/python" - <<'END'
import importlib.metadata
import importlib.util
import json
import sys
from pathlib import Path

print("bfcl-eval", importlib.metadata.version("bfcl-eval"))
data = Path(next(iter(importlib.util.find_spec("bfcl_eval").submodule_search_locations))) / "data"


def rows(name):
    return {row["id"]: row for row in map(json.loads, (data / name).read_text().splitlines())}


found = []
for category in ("simple_python", "multiple", "parallel", "parallel_multiple", "live_simple", "live_multiple"):
    questions, answers = rows(f"BFCL_v4_{category}.json"), rows(f"possible_answer/BFCL_v4_{category}.json")
    for id, answer in answers.items():
        for expected in answer["ground_truth"]:
            ((name, allowed),) = expected.items()
            parameters = next(one["parameters"] for one in questions[id]["function"] if one["name"] == name)
            empty = [key for key in parameters["required"] if allowed.get(key) == []]
            unknown = [key for key, values in allowed.items() if key not in parameters["properties"] and "" not in values]
            if empty or unknown:
                found.append(id)
                why = f"required, and no value is allowed: {empty[0]}" if empty else f"expected, and no parameter: {unknown[0]}"
                print(f"{id}: {why}")
questions, answers = rows("BFCL_v4_multi_turn_miss_func.json"), rows("possible_answer/BFCL_v4_multi_turn_miss_func.json")
for id, row in questions.items():
    for turn, names in row["missed_function"].items():
        for place, calls in enumerate(answers[id]["ground_truth"][: int(turn)]):
            for call in calls:
                if call.partition("(")[0] in names:
                    found.append(id)
                    print(f"{id}: turn {place} expects {call}, which is offered from turn {turn} on")
print("expected: every row can be solved; seen:", len(found), "rows that no reply solves")
wanted = [
    "live_multiple_862-181-3",
    "live_multiple_964-207-0",
    "live_simple_106-63-0",
    "live_simple_112-68-0",
    "multi_turn_miss_func_49",
]
sys.exit(0 if sorted(found) == wanted else 1)
END
