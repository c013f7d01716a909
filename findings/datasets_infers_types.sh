#!/bin/sh
# datasets infers one type for a column of JSON lines: with one number in it, texts that look like numbers become numbers.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install "datasets==5.2.0"
mkdir "$folder/set"
cat > "$folder/set/train.jsonl" <<'ROWS'
{"question": "code?", "answer": "007"}
{"question": "number?", "answer": 7}
{"question": "nothing?", "answer": "null"}
ROWS
HF_HOME="$folder/home" HF_HUB_OFFLINE=1 "$folder/venv/bin/python" - "$folder/set" <<'CODE'
import json
import sys

import datasets

datasets.disable_progress_bars()
file = [json.loads(line)["answer"] for line in open(f"{sys.argv[1]}/train.jsonl")]
answers = [row["answer"] for row in datasets.load_dataset(sys.argv[1])["train"]]
print("datasets", datasets.__version__)
print("expected", file)
print("seen    ", answers)
sys.exit(0 if answers == [7, 7, None] else 1)
CODE
