"""The real openai, anthropic and openai-agents packages over all three APIs: wires.py BASE_URL ROUNDS TURNS > what was got.

Every conversation calls a tool as long as the model does. A line of JSON is printed for each: the texts that it was told.
"""

import asyncio
import random
import sys
from typing import Any

import agents as agents_package
import anthropic
import openai
from answers import tell

agents: Any = agents_package  # a checker takes the folder tests/agents for it
SCHEMA: Any = {"type": "object", "properties": {"command": {"type": "string"}}}
WORDS = ["the", "model", "wrote", "café", "<|im_end|>", "<tool_call>", "line\nof\ttext", "🙂", "", "two  "]
ASKED: dict[str, Any] = {"model": "model", "temperature": 0.9}


def words(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=30))


async def messages(url: str, name: str, turns: int, rng: random.Random, *, stream: bool = False) -> list[str]:
    client = anthropic.AsyncAnthropic(base_url=url.removesuffix("/v1"), api_key=f"x:{name}", max_retries=0)
    tool: Any = {"name": "bash", "description": "Run a command.", "input_schema": SCHEMA}
    history: list[Any] = [{"role": "user", "content": words(rng) or "go"}]
    texts: list[str] = []
    options: Any = {"model": "model", "max_tokens": 64, "tools": [tool], "system": [{"type": "text", "text": "Be brief."}]}
    options["extra_body"] = {"temperature": 0.9}  # which the package no longer has a parameter for
    for turn in range(turns):
        counted = await client.messages.count_tokens(model="model", messages=history, tools=[tool], system=options["system"])
        if stream:
            pieces: list[str] = []
            async with client.messages.stream(**options, messages=history) as events:
                async for piece in events.text_stream:
                    pieces.append(piece)
                got = await events.get_final_message()
            assert "".join(pieces) == "".join(block.text for block in got.content if block.type == "text")
        else:
            got = await client.messages.create(**options, messages=history)
        assert got.usage.input_tokens == counted.input_tokens and got.usage.output_tokens
        called = any(block.type == "tool_use" for block in got.content)
        assert got.stop_reason == "max_tokens" or (got.stop_reason == "tool_use") == called
        texts.append("".join(block.text for block in got.content if block.type == "text"))
        history.append({"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in got.content]})
        calls = [block.id for block in got.content if block.type == "tool_use"]
        heard: list[Any] = [{"type": "tool_result", "tool_use_id": id, "content": words(rng)} for id in calls]
        more = [] if calls and turn % 2 else [{"type": "text", "text": f"{turn} {words(rng)}"}]  # as Claude Code reminds
        history.append({"role": "user", "content": [*heard, *more]})
    return texts


async def responses(
    url: str, name: str, turns: int, rng: random.Random, *, stream: bool = False, previous: bool = False
) -> list[str]:
    client = openai.AsyncOpenAI(base_url=url, api_key=f"x:{name}", max_retries=0)
    tool: Any = {"type": "function", "name": "bash", "description": "Run a command.", "parameters": SCHEMA, "strict": False}
    options: Any = {**ASKED, "max_output_tokens": 64, "tools": [tool], "instructions": "Be brief."}
    new: list[Any] = [{"role": "user", "content": words(rng) or "go"}]
    sent: list[Any] = []
    texts: list[str] = []
    id = None
    for turn in range(turns):
        sent += new
        fields = {"input": new, "previous_response_id": id} if previous else {"input": sent}
        if stream:
            pieces: list[str] = []
            async with client.responses.stream(**options, **fields) as events:
                async for event in events:
                    if event.type == "response.output_text.delta":
                        pieces.append(event.delta)
                    if event.type in ("response.completed", "response.incomplete"):
                        got = event.response
            assert "".join(pieces) == got.output_text
        else:
            got = await client.responses.create(**options, **fields)
        id = got.id
        texts.append(got.output_text)
        sent += [item.model_dump(exclude_none=True) for item in got.output]
        calls = [item.call_id for item in got.output if item.type == "function_call"]
        new = [{"type": "function_call_output", "call_id": call, "output": words(rng)} for call in calls]
        new += [] if calls else [{"role": "user", "content": f"{turn} {words(rng)}"}]
    return texts


async def sdk(url: str, name: str, turns: int, rng: random.Random, *, chat: bool = False, stream: bool = False) -> list[str]:
    client = openai.AsyncOpenAI(base_url=url, api_key=f"x:{name}", max_retries=0)

    @agents.function_tool
    def bash(command: str = "") -> str:
        """Run a command."""
        return words(rng)

    kind = agents.OpenAIChatCompletionsModel if chat else agents.OpenAIResponsesModel
    agent = agents.Agent(
        name="agent",
        instructions="Be brief.",
        tools=[bash],
        model=kind(model="model", openai_client=client),
        model_settings=agents.ModelSettings(temperature=0.9, max_tokens=96),
    )
    texts: list[str] = []
    history: list[Any] = []
    for round in range(2):  # what was said is taken along into a second task
        history.append({"role": "user", "content": f"Task {round}."})
        try:
            if stream:
                done = agents.Runner.run_streamed(agent, history, max_turns=turns)
                async for _ in done.stream_events():
                    pass
            else:
                done = await agents.Runner.run(agent, history, max_turns=turns)
        except (agents.MaxTurnsExceeded, agents.exceptions.ModelBehaviorError) as error:  # or it calls what is not there
            texts.append(type(error).__name__)
            break
        history = done.to_input_list()
        texts.append(str(done.final_output))
    return texts


async def extras(url: str, name: str, turns: int, rng: random.Random) -> list[str]:
    """Stop strings, several choices, forced calls, what is refused: by the openai package."""
    client = openai.AsyncOpenAI(base_url=url, api_key=f"x:{name}", max_retries=0)
    tools: Any = [{"type": "function", "function": {"name": "bash", "parameters": SCHEMA}}]
    request: Any = {**ASKED, "messages": [{"role": "user", "content": "go"}], "max_tokens": 48}
    differences: list[str] = []
    got = await client.chat.completions.create(**request, n=3)
    differences.append(f"n {len(got.choices)}")
    stopped = await client.chat.completions.create(**request, stop=["e", "o"])
    assert "e" not in (stopped.choices[0].message.content or ""), stopped
    differences.append(f"stop {stopped.choices[0].finish_reason}")
    for choice in ("required", {"type": "function", "function": {"name": "bash"}}):
        forced = await client.chat.completions.create(**request, tools=tools, tool_choice=choice)
        calls = forced.choices[0].message.tool_calls
        differences.append("forced" if calls else "spoiled")
    parts = await client.chat.completions.create(**request, tools=tools, tool_choice="required", stream=True)
    differences.append("forced" if [part async for part in parts if part.choices[0].delta.tool_calls] else "spoiled")
    for option in ({"logit_bias": {"1": 1}}, {"frequency_penalty": 1}):
        try:
            await client.chat.completions.create(**request, **option)
        except openai.BadRequestError as error:
            differences.append(f"400 {error.body['param']}")  # pyright: ignore
    try:
        await client.responses.create(model="model", input="x", previous_response_id="resp_none")
    except openai.BadRequestError as error:
        differences.append(str(error.code))
    try:
        claude = anthropic.AsyncAnthropic(base_url=url.removesuffix("/v1"), api_key=f"x:{name}", max_retries=0)
        await claude.messages.create(model="other", max_tokens=4, messages=[{"role": "user", "content": "x"}])
    except anthropic.NotFoundError as error:
        differences.append(error.body["error"]["type"])  # pyright: ignore
    return differences


KINDS: Any = {
    "messages": (messages, {}),
    "messages-stream": (messages, {"stream": True}),
    "responses": (responses, {}),
    "responses-stream": (responses, {"stream": True}),
    "responses-previous": (responses, {"previous": True}),
    "sdk-responses": (sdk, {}),
    "sdk-responses-stream": (sdk, {"stream": True}),
    "sdk-chat": (sdk, {"chat": True}),
    "extras": (extras, {}),
}


async def play(url: str, kind: str, number: int, turns: int) -> None:
    function, options = KINDS[kind]
    name = f"{kind}-{number}"
    texts = await function(url, name, turns, random.Random(number), **options)
    client = openai.AsyncOpenAI(base_url=url, api_key=f"x:{name}", max_retries=0)
    end: Any = await client.post(f"/sessions/{name}/finish", body={"reward": 1, "task_id": name}, cast_to=object)
    tell({"name": name, "kind": kind, "texts": texts, "end": end})


async def main(url: str, rounds: int, turns: int) -> None:
    agents.set_tracing_disabled(True)
    await asyncio.gather(*(play(url, kind, number, turns) for number in range(rounds) for kind in KINDS))


asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
