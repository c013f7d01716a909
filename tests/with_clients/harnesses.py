"""Agents of others as a training run names them: `harnesses:mini_swe` … at `rlvr/Terminal-v0`, whose shell is ours.

Every harness is one process of its own environment, which plays all attempts; see played.py.
"""

import asyncio
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from agentgym import Session
from agentgym.harness.gateway_agent import Access

HERE = Path(__file__).parent
BROKEN: list[str] = []
"""What harnesses raised that is no end of theirs."""


class Child:
    """The process of one harness, for one event loop."""

    def __init__(self, harness: str, python: str, script: str) -> None:
        self.harness, self.python, self.script = harness, python, script
        self.process: Any = None
        self.loop: Any = None
        self.heard: dict[str, asyncio.Queue[Any]] = {}
        self.number = 0

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        if self.loop is loop:
            return
        self.loop, self.heard = loop, {}
        self.stop()
        command = [self.python, str(HERE / self.script), self.harness]
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, limit=1 << 24)
        self.reading = asyncio.ensure_future(self.read(self.process))

    async def read(self, process: Any) -> None:
        while line := await process.stdout.readline():
            message = json.loads(line)
            self.heard[message["id"]].put_nowait(message)
        for heard in self.heard.values():
            heard.put_nowait({"end": f"the process of {self.harness} ended"})

    def say(self, **what: Any) -> None:
        self.process.stdin.write(json.dumps(what).encode() + b"\n")

    def stop(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.kill()

    async def play(self, task: Any, access: Access) -> tuple[float, bool]:
        await self.start()
        self.number += 1
        id = str(self.number)
        heard = self.heard[id] = asyncio.Queue()
        with Session("rlvr/Terminal-v0") as session:
            instruction = await asyncio.to_thread(session.reset, task)
            self.say(id=id, base_url=access.base_url, api_key=access.api_key, model=access.model, instruction=instruction)
            commands: list[str] = []
            while "end" not in (event := await heard.get()):
                commands.append(event["act"])
                observed = await asyncio.to_thread(session.call, "bash", {"command": event["act"]})
                self.say(id=id, observed=observed, done=session.done)
            if event["end"].startswith(("raised", "the process")):
                BROKEN.append(event["end"])
            # the task is far out of reach; looking around is not
            return session.reward + 0.5 * ("pwd" in commands) + 0.25 * len(set(commands)), bool(session.success)


CHILDREN = {
    name: Child(name, os.environ.get("AGENTGYM_CLIENTS", sys.executable), "played.py")
    for name in ("mini_swe", "openai_agents", "langgraph", "pydantic_ai")
}
mini_swe, openai_agents, langgraph, pydantic_ai = (CHILDREN[name].play for name in CHILDREN)


async def claude(task: Any, access: Access) -> tuple[float, bool]:
    """Let Claude Code play, by MCP: its own tools would run here what a model writes."""
    agents = Path(os.environ.get("AGENTGYM_AGENTS", "none")).absolute()
    with tempfile.TemporaryDirectory() as home:
        out, config = Path(home, "episodes.jsonl"), Path(home, "mcp.json")
        serve = ["-m", "agentgym", "serve", "mcp", "rlvr/Terminal-v0", "--task", task.id, "--rewards", "--out", str(out)]
        config.write_text(json.dumps({"mcpServers": {"env": {"command": sys.executable, "args": serve}}}))
        words = ["-p", "--model", access.model, "--system-prompt", "Use the tools.", "--strict-mcp-config", "--mcp-config"]
        words += [str(config), "--allowedTools", "mcp__env__*", "--tools", "", "--max-turns", "3", "--verbose"]
        url = access.base_url.removesuffix("/v1")
        names = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": access.api_key, "HOME": home, "IS_SANDBOX": "1"}
        names |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "96"}
        names |= {"MCP_CONNECTION_NONBLOCKING": "false"}  # else it asks before the environment's tools are there
        names |= {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "ANTHROPIC_SMALL_FAST_MODEL": access.model}
        process = await asyncio.create_subprocess_exec(
            str(agents / "claude"), *words, "--output-format", "stream-json", "--", "Call reset, then do the task.",
            cwd=home, env=names, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        output, _ = await process.communicate()
        rewards = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    lines = [json.loads(line) for line in output.decode().splitlines() if line.startswith("{")]
    blocks = [block for line in lines if line["type"] == "assistant" for block in line["message"]["content"]]
    commands = [str(block.get("input", {}).get("command")) for block in blocks]
    commands += re.findall(r'"command": "([a-z ]+)"', " ".join(str(block.get("text")) for block in blocks))
    if not blocks:
        BROKEN.append(output.decode()[-600:])
    reward = sum(row["reward"] for row in rewards)
    return reward + 0.5 * ("pwd" in commands) + 0.25 * len(set(commands)), bool(rewards and rewards[0]["success"])
