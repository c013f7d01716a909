"""Chats over the openai package, run in the clients' environment: openai_chats.py BASE_URL CHATS TURNS > what was got.

Of every four chats one streams, one rewrites its past half-way, one calls tools; a line of JSON is printed for each.
"""

import asyncio
import json
import random
import sys
from typing import Any

import openai
from answers import tell

IDS = {"return_token_ids": True}
TOOL = {"name": "bash", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}
TOOLS: list[Any] = [{"type": "function", "function": {**TOOL, "description": "Run a command."}}]
WORDS = [
    "the",
    "model",
    "wrote",
    "café",
    "<|im_end|>",
    "<tool_call>",
    "a",
    "line\nof\ttext",
    "12",
    "🙂",
    "日本",
    "",
    "two  ",
]


async def whole(client: Any, options: dict[str, Any]) -> dict[str, Any]:
    answer = await client.chat.completions.create(**options, logprobs=True, extra_body=IDS)
    choice = answer.choices[0]
    got = {"prompt": answer.prompt_token_ids, "ids": choice.token_ids, "version": answer.policy_version}
    got["logprobs"] = [token.logprob for token in choice.logprobs.content]
    return {**got, "message": choice.message.model_dump(exclude_none=True), "finish": choice.finish_reason}


async def streamed(client: Any, options: dict[str, Any]) -> dict[str, Any]:
    got: dict[str, Any] = {"message": {"role": "assistant", "content": ""}, "logprobs": []}
    stream = await client.chat.completions.create(**options, logprobs=True, stream=True, extra_body=IDS)
    async for part in stream:
        choice = part.choices[0]
        got["message"]["content"] += choice.delta.content or ""
        got["logprobs"] += [token.logprob for token in choice.logprobs.content] if choice.logprobs else []
        if hasattr(part, "prompt_token_ids"):
            got |= {"prompt": part.prompt_token_ids, "ids": [], "version": part.policy_version}
        got["ids"] += getattr(choice, "token_ids", [])
        got["finish"] = choice.finish_reason
    return got


async def chat(url: str, number: int, turns: int) -> dict[str, Any]:
    rng, kind, name = random.Random(number), ("plain", "stream", "rewrite", "tools")[number % 4], f"chat-{number}"
    client = openai.AsyncOpenAI(base_url=url, api_key=f"x:{name}", max_retries=0, timeout=300)
    messages: list[Any] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"Task {number}."}]
    log: list[Any] = []
    for turn in range(turns):
        options: dict[str, Any] = {"model": "model", "messages": messages, "max_tokens": 96, "temperature": 0.9}
        if kind == "tools":
            options["tools"] = TOOLS
        got = await (streamed if kind == "stream" else whole)(client, options)
        log.append({"sent": json.loads(json.dumps(messages)), **got})
        message = got["message"]
        messages.append({**message, "content": (message.get("content") or "").strip() or None} if turn % 2 else message)
        text = " ".join(rng.choices(WORDS, k=60))
        calls = message.get("tool_calls", [])
        messages += [{"role": "tool", "tool_call_id": call["id"], "content": text} for call in calls]
        messages += [] if calls else [{"role": "user", "content": text}]
        if kind == "rewrite" and turn == turns // 2:
            messages = [
                {"role": "user", "content": f"In short: {text}"},
                {"role": "assistant", "content": "Yes."},
                *messages[-1:],
            ]
    end = await client.post(f"/sessions/{name}/finish", body={"reward": 1, "task_id": name}, cast_to=object)
    return {"name": name, "kind": kind, "log": log, "end": end}


async def main(url: str, chats: int, turns: int) -> None:
    for found in await asyncio.gather(*(chat(url, number, turns) for number in range(chats))):
        tell(found)


asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
