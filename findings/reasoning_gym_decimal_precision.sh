#!/bin/sh
# Making a task of reasoning-gym 0.1.25 changes the decimal precision of the whole process.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet reasoning-gym==0.1.25
"$folder/venv/bin/python" - <<'END'
import importlib.metadata
import sys
from decimal import Decimal, getcontext

import reasoning_gym

print("reasoning-gym", importlib.metadata.version("reasoning-gym"))
before = getcontext().prec, str(Decimal(1) / Decimal(7))
for place in range(20):
    reasoning_gym.create_dataset("decimal_arithmetic", size=20, seed=1)[place]
after = getcontext().prec, str(Decimal(1) / Decimal(7))
print("before: precision", *before)
print("after: ", "precision", *after)
print("expected: a generator leaves the process's decimal context alone; seen: 1/7 has other digits from then on")
sys.exit(0 if before[0] == 28 and after[0] != 28 and before[1] != after[1] else 1)
END
