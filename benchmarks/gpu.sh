#!/usr/bin/env bash
# The first hours on a GPU, one phase a call, each under nine minutes:
#
#   benchmarks/gpu.sh PHASE OUT [--before FOLDER] [--rehearse]   measure; results as JSON and a log in OUT
#   benchmarks/gpu.sh wheels FOLDER                               fetch what such a machine lacks, here, for Python 3.12
#
# PHASE: runs, sampling, step, published, learning, vllm. A phase is made of cells: those in FOLDER (an earlier OUT) are
# not measured again, and no cell is begun that would end after the ninth minute, so the same call goes on where the last
# one stopped. --rehearse runs the same code on a CPU at tiny sizes. GPU_WHEELS names the folder of wheels (gpu_wheels).
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" = wheels ]; then
    [ $# = 2 ] || { echo "usage: benchmarks/gpu.sh wheels FOLDER" >&2; exit 2; }
    exec python3 -m pip download --quiet --no-deps --only-binary :all: --python-version 3.12 --platform manylinux_2_28_x86_64 \
        --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 --platform any --dest "$2" -r benchmarks/gpu_wheels.txt
fi

phase=${1:-}
case $phase in
    runs | sampling | step | published | learning | vllm) ;;
    *) sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
[ $# -ge 2 ] || { echo "which folder is for the results?  benchmarks/gpu.sh $phase OUT" >&2; exit 2; }

python=${AGENTGYM_PYTHON:-python3}
wheels=${GPU_WHEELS:-gpu_wheels}
if [ -d "$wheels" ] && ! "$python" -c 'import gymnasium, bm25s' 2>/dev/null; then  # torch and transformers are the machine's
    "$python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps "$wheels"/*.whl
fi
mkdir -p "$2"
export PYTHONPATH="$PWD:$PWD/benchmarks${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1 HF_HUB_DISABLE_PROGRESS_BARS=1 TQDM_DISABLE=1
"$python" -m gpu "$@" 2>&1 | tee "$2/$phase.log"
