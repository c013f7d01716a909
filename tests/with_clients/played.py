"""Harnesses of others at an environment of ours, run in their environment: played.py HARNESS.

Attempts come as lines of JSON on standard input (id, base_url, api_key, model, instruction) and are played at once. What an
agent does is a line of JSON too (id, act), answered by a line (id, observed, done); so is its end (id, end).
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from answers import tell

os.environ |= {"MSWEA_SILENT_STARTUP": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "ANONYMIZED_TELEMETRY": "false"}
STEPS, TOKENS = 3, 96
Act = Callable[[str], Awaitable[tuple[str, bool]]]
Job = dict[str, Any]


def blocking(act: Act) -> Callable[[str], tuple[str, bool]]:
    """Return `act` for harnesses that run in a thread."""
    loop = asyncio.get_running_loop()
    return lambda command: asyncio.run_coroutine_threadsafe(act(command), loop).result()


async def mini_swe(job: Job, act: Act) -> str:
    import yaml
    from minisweagent import package_dir
    from minisweagent.agents.default import DefaultAgent
    from minisweagent.exceptions import Submitted
    from minisweagent.models.litellm_model import LitellmModel

    carry_out = blocking(act)

    class Env:
        config: dict[str, Any] = {}  # noqa: RUF012

        def execute(self, action: dict[str, Any], cwd: str = "") -> dict[str, Any]:
            text, done = carry_out(action["command"])
            if done:
                raise Submitted({"role": "exit", "content": "", "extra": {"exit_status": "over", "submission": text}})
            return {"output": text, "returncode": 0, "exception_info": ""}

        def get_template_vars(self, **_: Any) -> dict[str, Any]:
            return {"system": "Linux", "release": "6.1", "version": "1", "machine": "x86_64"}

        def serialize(self) -> dict[str, Any]:
            return {}

    config = yaml.safe_load((package_dir / "config" / "mini.yaml").read_text())
    access = {"api_base": job["base_url"], "api_key": job["api_key"], "max_tokens": TOKENS}
    options = {**config["model"], "model_kwargs": {**config["model"]["model_kwargs"], **access}}
    model = LitellmModel(model_name=f"openai/{job['model']}", cost_tracking="ignore_errors", **options)
    wanted = {name: config["agent"][name] for name in ("system_template", "instance_template")}
    agent = DefaultAgent(model, Env(), **wanted, step_limit=STEPS, max_consecutive_format_errors=0)
    return str((await asyncio.to_thread(agent.run, job["instruction"]))["exit_status"])


async def openai_agents(job: Job, act: Act) -> str:
    import agents as agents_package
    import openai

    agents: Any = agents_package  # a checker takes the folder tests/agents for it
    agents.set_tracing_disabled(True)
    client = openai.AsyncOpenAI(base_url=job["base_url"], api_key=job["api_key"], max_retries=0)

    @agents.function_tool
    async def bash(command: str) -> str:
        """Run a command."""
        return (await act(command))[0]

    model = agents.OpenAIResponsesModel(model=job["model"], openai_client=client)
    settings = agents.ModelSettings(max_tokens=TOKENS)
    agent = agents.Agent(name="a", instructions="Use bash.", tools=[bash], model=model, model_settings=settings)
    return str((await agents.Runner.run(agent, job["instruction"], max_turns=STEPS)).final_output)


async def langgraph(job: Job, act: Act) -> str:
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from langgraph.prebuilt import create_react_agent

    @tool
    async def bash(command: str) -> str:
        """Run a command."""
        return (await act(command))[0]

    options: Any = {"base_url": job["base_url"], "api_key": job["api_key"], "max_tokens": TOKENS, "max_retries": 0}
    agent = create_react_agent(ChatOpenAI(model=job["model"], **options), [bash], prompt="Use bash.")
    state: Any = {"messages": [("user", job["instruction"])]}
    done = await agent.ainvoke(state, {"recursion_limit": 2 * STEPS + 1})
    return str(done["messages"][-1].content)


async def pydantic_ai(job: Job, act: Act) -> str:
    from pydantic import BaseModel
    from pydantic_ai import Agent, NativeOutput
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.usage import UsageLimits

    class Answer(BaseModel):
        done: bool

    provider = OpenAIProvider(base_url=job["base_url"], api_key=job["api_key"])
    model = OpenAIChatModel(job["model"], provider=provider)
    agent = Agent(model, output_type=NativeOutput(Answer), instructions="Use bash.", model_settings={"max_tokens": TOKENS})

    @agent.tool_plain
    async def bash(command: str) -> str:
        """Run a command."""
        return (await act(command))[0]

    return str((await agent.run(job["instruction"], usage_limits=UsageLimits(request_limit=STEPS))).output)


ENDS = {
    "MaxTurnsExceeded",
    "ModelBehaviorError",
    "GraphRecursionError",
    "UnexpectedModelBehavior",
    "UsageLimitExceeded",
    "OutputTokenLimitExceeded",
}
"""How harnesses end an attempt whose model goes on for too long, or says what they cannot read: the model's failure."""


async def main(harness: str) -> None:
    play = globals()[harness]
    answers: dict[str, asyncio.Queue[Any]] = {}
    running: set[Any] = set()
    reader = asyncio.StreamReader(limit=1 << 24)
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)

    async def one(job: Job) -> None:
        async def act(command: str) -> tuple[str, bool]:
            tell({"id": job["id"], "act": command})
            answer = await answers[job["id"]].get()
            return answer["observed"], answer["done"]

        try:
            end = await play(job, act)
        except Exception as error:
            known = type(error).__name__ in ENDS
            end = type(error).__name__ if known else f"raised {error!r}"
        tell({"id": job["id"], "end": str(end)})

    while line := await reader.readline():
        message = json.loads(line)
        if "observed" in message:
            answers[message["id"]].put_nowait(message)
        else:
            answers[message["id"]] = asyncio.Queue()
            running.add(asyncio.ensure_future(one(message)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
