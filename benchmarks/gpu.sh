#!/usr/bin/env bash
# Eight minutes on one GPU: five cells, each with its question and its own time limit.
#
#   benchmarks/gpu.sh [all | CELL…] OUT [--minutes 8] [--also FOLDER] [--rehearse]   measure; results.jsonl and log.txt in OUT
#   benchmarks/gpu.sh wheels FOLDER                               fetch what such a machine lacks, here, for Python 3.12
#
# CELL: a (does it compute right?), b (what does the published setting cost?), c (how far from the limit?), d (does the
# plan hold?), e (does it learn?). The same call goes on where the last one stopped: what is in OUT is not measured again.
# --also: copy both files there whenever a cell ends. --rehearse: the same code on a CPU, at tiny sizes. GPU_WHEELS: the
# folder of wheels (default .whl); they are put on the path from a folder in /tmp, and nothing of the machine is changed.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" = wheels ]; then
    [ $# = 2 ] || { echo "usage: benchmarks/gpu.sh wheels FOLDER" >&2; exit 2; }
    exec python3 -m pip download --quiet --no-deps --only-binary :all: --python-version 3.12 --implementation cp \
        --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 --platform manylinux_2_17_x86_64 \
        --platform manylinux2014_x86_64 --platform any --dest "$2" -r benchmarks/gpu_wheels.txt
fi
[ $# -ge 2 ] || { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }

python=${AGENTGYM_PYTHON:-python3}
wheels=${GPU_WHEELS:-.whl}
site=
if ! "$python" -c 'import gymnasium, bm25s, shtab, rapidfuzz, snowballstemmer, farama_notifications' 2>/dev/null; then
    site=/tmp/agentgym-gpu-site  # torch and transformers are the machine's
    "$python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps --no-compile --upgrade \
        --target "$site" "$wheels"/*.whl
fi
export PYTHONPATH="$PWD:$PWD/benchmarks${site:+:$site}${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
export HF_HUB_OFFLINE=1 HF_HUB_DISABLE_PROGRESS_BARS=1 TQDM_DISABLE=1 TOKENIZERS_PARALLELISM=false
exec "$python" -m gpu "$@"
