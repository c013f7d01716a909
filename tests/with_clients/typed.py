"""Replies of a form, asked for by the real packages: typed.py BASE_URL > a line of JSON for each way.

Each way asks twice: session `good` is answered with JSON of the schema, session `bad` with text.
"""

import asyncio
import sys
from typing import Any

import agents as agents_package
import anthropic
import openai
from answers import tell
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, PromptedOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

agents: Any = agents_package  # a checker takes the folder tests/agents for it


class Place(BaseModel):
    city: str


async def openai_chat(client: Any, url: str, key: str) -> Any:
    messages: Any = [{"role": "user", "content": "Where?"}]
    return (
        (await client.chat.completions.parse(model="m", messages=messages, response_format=Place)).choices[0].message.parsed
    )


async def openai_responses(client: Any, url: str, key: str) -> Any:
    return (await client.responses.parse(model="m", input="Where?", text_format=Place)).output_parsed


async def anthropic_messages(client: Any, url: str, key: str) -> Any:
    claude = anthropic.AsyncAnthropic(base_url=url.removesuffix("/v1"), api_key=key, max_retries=0)
    form: Any = {"format": {"type": "json_schema", "schema": Place.model_json_schema()}}
    messages: Any = [{"role": "user", "content": "Where?"}]
    done: Any = await claude.messages.create(model="m", max_tokens=64, messages=messages, extra_body={"output_config": form})
    return Place.model_validate_json(done.content[0].text)


async def openai_agents(client: Any, url: str, key: str) -> Any:
    kinds = (agents.OpenAIChatCompletionsModel, agents.OpenAIResponsesModel)
    made = [agents.Agent(name="a", model=kind(model="m", openai_client=client), output_type=Place) for kind in kinds]
    first, second = [(await agents.Runner.run(agent, "Where?")).final_output for agent in made]
    assert first == second
    return first


async def pydantic_ai(client: Any, url: str, key: str) -> Any:
    model = OpenAIChatModel("m", provider=OpenAIProvider(openai_client=client))
    outputs = [
        (await Agent(model, output_type=kind(Place), retries=0).run("Where?")).output
        for kind in (NativeOutput, PromptedOutput)
    ]
    assert outputs[0] == outputs[1]
    return outputs[0]


async def main(url: str) -> None:
    agents.set_tracing_disabled(True)
    for way in (openai_chat, openai_responses, anthropic_messages, openai_agents, pydantic_ai):
        record: dict[str, Any] = {"way": way.__name__}
        for session in ("good", "bad"):
            client = openai.AsyncOpenAI(base_url=url, api_key=f"x:{session}", max_retries=0)
            try:
                record[session] = (await way(client, url, f"x:{session}")).model_dump()
            except Exception as error:
                record[session] = f"{type(error).__name__}: {error}"[:200]
        tell(record)


asyncio.run(main(sys.argv[1]))
