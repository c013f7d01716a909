#!/bin/sh
# datasets 5.2.0: the feature Json cuts the digits of floats and raises at integers beyond 64 bits.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q datasets==5.2.0 pandas==3.1.1
"$folder/venv/bin/python" - <<'PY'
import datasets
from datasets import Json

print("datasets", datasets.__version__)
read = Json().decode_example
print("expected: 0.0011130284222642395, seen:", read("0.0011130284222642395"))
try:
    print("expected: 18446744073709551616, seen:", read("18446744073709551616"))
    raise SystemExit(1)
except ValueError as error:
    print("expected: 18446744073709551616, seen: ValueError:", error)
raise SystemExit(read("0.0011130284222642395") == 0.0011130284222642395)
PY
