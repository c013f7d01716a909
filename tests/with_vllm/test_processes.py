"""vLLM's processes and the one that made them: neither outlives the other without a word."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("vllm", reason="vLLM is not in this environment: ./dev test-vllm")

import tiny

from agentgym.engines import Sampling
from agentgym.engines.vllm.engine import VLLMEngine
from agentgym.errors import EngineDead

OWNER = """
import asyncio, sys, time
from agentgym.engines import Sampling
from agentgym.engines.vllm.engine import VLLMEngine

async def main():
    engine = VLLMEngine(sys.argv[1], dtype="float32", context=256, enforce_eager=True, kv_cache_memory_bytes=32 << 20)
    await engine.generate([1, 2, 3], Sampling(max_tokens=4), "a")
    print("ready", flush=True)
    await asyncio.sleep(600)

if __name__ == "__main__":
    asyncio.run(main())
"""


def of_session(session: int) -> dict[int, str]:
    """Return the names of the processes of a session, zombies left out."""
    found: dict[int, str] = {}
    for path in Path("/proc").iterdir():
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found[int(path.name)] = (path / "comm").read_text().strip()
        except (OSError, ValueError):
            continue
    return found


def until_gone(session: int) -> dict[int, str]:
    deadline = time.monotonic() + 60
    while (left := of_session(session)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return left


def test_no_process_of_vllm_outlives_a_killed_owner(tmp_path: Path) -> None:
    (tmp_path / "owner.py").write_text(OWNER)
    command = [sys.executable, str(tmp_path / "owner.py"), str(tiny.folder(tmp_path / "a"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True, text=True) as owner:
        assert owner.stdout and any(line == "ready\n" for line in owner.stdout)
        assert any(name.startswith("VLLM") for name in of_session(owner.pid).values())
        os.kill(owner.pid, signal.SIGKILL)
        owner.wait()
        left = until_gone(owner.pid)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
    assert not left


def made(folder: Path) -> VLLMEngine:
    return VLLMEngine(tiny.folder(folder), dtype="float32", context=256, enforce_eager=True, kv_cache_memory_bytes=32 << 20)


def of_engine(before: set[int]) -> dict[int, str]:
    """Return vLLM's processes of this session that were not there before."""
    return {pid: name for pid, name in of_session(os.getsid(0)).items() if pid not in before and name.startswith("VLLM::")}


def core(before: set[int]) -> int:
    return next(pid for pid, name in of_engine(before).items() if name.startswith("VLLM::EngineCor"))


def test_a_process_that_does_not_end_by_itself_is_gone_when_the_engine_is_closed(tmp_path: Path) -> None:
    async def play() -> None:
        before = set(of_session(os.getsid(0)))
        engine = made(tmp_path / "a")
        await engine.generate([1, 2, 3], Sampling(max_tokens=4), "a")
        os.kill(core(before), signal.SIGSTOP)
        engine.close()
        assert not of_engine(before)

    asyncio.run(play())


def test_a_killed_engine_process_is_said_in_a_sentence(tmp_path: Path) -> None:
    async def play() -> None:
        before = set(of_session(os.getsid(0)))
        engine = made(tmp_path / "a")
        try:
            await engine.generate([1, 2, 3], Sampling(max_tokens=4), "a")
            os.kill(core(before), signal.SIGKILL)
            with pytest.raises(EngineDead, match="engine process has ended"):
                while True:
                    await engine.generate([1, 2, 3], Sampling(max_tokens=4), "b")
        finally:
            engine.close()

    asyncio.run(play())
