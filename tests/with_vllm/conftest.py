"""Real vLLM, quiet, on the tiny models of tests/fakes."""

import asyncio
import os
from collections.abc import Iterator

import pytest

os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")  # or each of its workers takes the same cores
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner
