"""`rlvr/Web-v0` in a browser that others drive."""

import atexit
import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conftest import PYTHON

import agentgym
from agentgym.browser.chromium import arguments, chromium
from agentgym.browser.server import Server
from agentgym.harness.gateway_agent import Access

ENV = "rlvr/Web-v0"


class OneEpisode(Server):
    """Our sites for one episode: whatever browser asks is that episode's."""

    def answer(self, environ: dict[str, Any], start_response: Any) -> Any:
        environ["HTTP_X_AGENTGYM_EPISODE"] = "one"
        return super().answer(environ, start_response)


@contextlib.contextmanager
def browser(task: Any) -> Iterator[tuple[str, str, Any]]:
    """Start Chromium over a task's sites; yields its CDP address, the first page, and a judge of answers."""
    env: Any = agentgym.make(ENV).unwrapped
    state, url = env.start(task)
    server = OneEpisode()
    server.open("one", state)

    def judge(answer: str | None) -> bool:
        with state.lock:
            return bool(answer and env._family(task).check(state, answer, task.data))

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        words = ["--headless", "--remote-debugging-port=0", f"--user-data-dir={home}", "about:blank"]
        command = [str(chromium()), *arguments(f"http://127.0.0.1:{server.port}"), *words]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
        try:
            assert process.stderr is not None
            line = next(line for line in process.stderr if "DevTools listening" in line)
            port = re.search(r":(\d+)/", line)
            assert port, line
            yield f"http://127.0.0.1:{port[1]}", url, judge
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # Debian's is a shell around the browser
            process.wait(30)
            server.close("one")
            server.http.close()


class Agents:
    """The process that browser-use runs in, an attempt at a time."""

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.process: subprocess.Popen[str] | None = None

    def ask(self, job: dict[str, Any]) -> dict[str, Any]:
        with self.turn:
            if self.process is None or self.process.poll() is not None:
                command = [PYTHON, str(Path(__file__).with_name("browsed.py"))]
                self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                atexit.register(self.process.kill)
            assert self.process.stdin is not None and self.process.stdout is not None
            self.process.stdin.write(json.dumps(job) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
            assert line, "the process of browser-use ended"
            return json.loads(line)


AGENTS = Agents()


def attempt(task: Any, access: Access, tokens: int, steps: int) -> tuple[dict[str, Any], bool]:
    """Let browser-use play an attempt; return what it told, and whether its answer was right."""
    with browser(task) as (cdp, url, judge):
        job = {"cdp": cdp, "instruction": f"{task.instruction}\nStart at {url}", "tokens": tokens, "steps": steps}
        job |= {"base_url": access.base_url, "api_key": access.api_key, "model": access.model}
        record = AGENTS.ask(job)
        assert "broken" not in record, "browser-use raised, or took too long; standard error says how"
        return record, judge(record["answer"])
