#!/bin/sh
# Harbor's verifier takes a lone number in reward.json, and the result that it then makes refuses it.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for python in python3.12 python3.13 python3.14 python3 "$HOME"/.pyenv/versions/3.1[2-4].*/bin/python; do
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null && break
    python=
done
[ -n "$python" ] || { echo "this needs Python 3.12 or newer"; exit 2; }
"$python" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check harbor==0.26.0
cat >"$folder/probe.py" <<'END'
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from harbor.models.trial.paths import TrialPaths
from harbor.models.verifier.result import VerifierResult
from harbor.verifier.verifier import Verifier

EXPECTED = {
    # a file the tests wrote: what Harbor makes of it
    ("reward.json", b"1"): "ValidationError",
    ("reward.json", b"1.0"): "ValidationError",
    ("reward.json", b'{"reward": true}'): "{'reward': 1.0}",
    ("reward.json", b"{}"): "{}",
    ("reward.txt", b"1"): "{'reward': 1.0}",
    ("reward.txt", b"1_0"): "{'reward': 10.0}",
    ("reward.txt", b"\xef\xbb\xbf1"): "VerifierOutputParseError",
}


def read(name, content):
    paths = TrialPaths(Path(tempfile.mkdtemp(dir=sys.argv[1])))
    paths.verifier_dir.mkdir(parents=True)
    (paths.verifier_dir / name).write_bytes(content)
    verifier = Verifier.__new__(Verifier)
    verifier.trial_paths = paths
    try:
        parse = verifier._parse_reward_json if name.endswith("json") else verifier._parse_reward_text
        return repr(VerifierResult(rewards=parse()).rewards)
    except Exception as error:
        return type(error).__name__


print("harbor", version("harbor"))
print("expected: a number alone in reward.json is the reward, as it is in reward.txt")
seen = {key: read(*key) for key in EXPECTED}
for (name, content), result in seen.items():
    print(f"seen: {name} with {content!r}: {result}")
sys.exit(seen != EXPECTED)
END
"$folder/venv/bin/python" "$folder/probe.py" "$folder"
