"""Tool calls through the gateway, over real HTTP: families' own forms inside, the API's form outside, exact tokens held."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
import httpx2
import loopback
from native_talks import SOURCES, SURVEY

from agentgym.agents.tool_calls import FAMILIES
from agentgym.core.actions import Call
from agentgym.engines.scripted import ScriptedEngine
from agentgym.gateway import App, Gateway
from agentgym.gateway.tools import read_tools
from agentgym.trainers.data.segments import build

SCHEMA = {"type": "object", "properties": {"query": {"type": "string"}, "k": {"type": "integer"}}, "required": ["query"]}
TOOLS = [{"type": "function", "function": {"name": "search", "description": "Find pages.", "parameters": SCHEMA}}]
NAMES = {"qwen2_5": "hermes", "qwen3": "hermes", "llama3_1": "llama3", "glm4moe": "glm", "mistral": "mistral"}
ARGUMENTS = {"query": 'who "made"\nit [1]?', "k": 3}


def call(family: str, **arguments: Any) -> str:
    return "".join(FAMILIES[family].write(Call("search", arguments or ARGUMENTS)))


@contextmanager
def talking(name: str, replies: list[str]) -> Iterator[tuple[Gateway, Any]]:
    """Yield the gateway over a scripted engine with a genuine template, and a function that asks it."""
    tokenizer = SURVEY.tokenizer_for(SOURCES[name])
    texts = iter(replies)
    gateway = Gateway(ScriptedEngine(lambda prompt, turn: next(texts), tokenizer), "m")
    with loopback.serving(App(gateway)) as url, httpx2.Client(base_url=url, timeout=60) as client:

        def ask(messages: list[Any], status: int = 200, **options: Any) -> Any:
            body = {"model": "m", "messages": messages, "tools": TOOLS, "return_token_ids": True, "user": "s", **options}
            answer = client.post("/v1/chat/completions", json=body)
            assert answer.status_code == status, answer.text
            return answer.json() if not options.get("stream") else answer.text

        yield gateway, ask


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def result(made: Any, text: str) -> dict[str, str]:
    return {"role": "tool", "tool_call_id": made["id"], "content": text}


@pytest.mark.parametrize("name", NAMES)
def test_a_conversation_in_calls_is_one_row_of_exact_tokens(name: str) -> None:
    """A call, its result, the next call, a plain reply, a user message: what was held is repeated token by token."""
    family = NAMES[name]
    messages: list[Any] = [{"role": "system", "content": "Be brief."}, user("Who made it?")]
    held_ids: list[int] = []
    ids: list[str] = []
    with talking(name, [call(family), call(family, query="b"), "Ann did.", "Yes."]) as (gateway, ask):
        for turn in range(4):
            answer = ask(messages)
            choice = answer["choices"][0]
            assert answer["prompt_token_ids"][: len(held_ids)] == held_ids
            held_ids = answer["prompt_token_ids"] + choice["token_ids"]
            message = choice["message"]
            messages.append(message)
            if turn < 2:
                (made,) = message["tool_calls"]
                assert (choice["finish_reason"], message["content"], made["type"]) == ("tool_calls", None, "function")
                assert made["function"]["name"] == "search"
                assert json.loads(made["function"]["arguments"]) == (ARGUMENTS if turn == 0 else {"query": "b"})
                made["function"]["arguments"] = json.dumps(
                    json.loads(made["function"]["arguments"]), indent=1
                )  # a client may
                ids.append(made["id"])
                messages.append(result(made, "page <tool_call> <|im_end|> [TOOL_CALLS]"))
            else:
                assert choice["finish_reason"] == "stop" and "tool_calls" not in message
                messages.append(user("Sure?"))
        session = gateway.sessions.open["s"]
        assert session.counts()["drifted_tokens"] == 0 and session.counts()["rows"] == 1
        (row,) = build([session.episode(1.0, True)])
    assert row.ids.tolist() == held_ids
    if family != "mistral":  # there the model gives the ids, and the script repeats its own
        assert len(set(ids)) == 2


@pytest.mark.parametrize("name", ["qwen2_5", "llama3_1"])
def test_the_tokens_are_those_of_the_templates_own_rendering(name: str) -> None:
    family = NAMES[name]
    tokenizer = SURVEY.tokenizer_for(SOURCES[name])
    with talking(name, [call(family, query="cups"), "Ann."]) as (_, ask):
        first = ask([user("Who?")])
        (made,) = first["choices"][0]["message"]["tool_calls"]
        second = ask([user("Who?"), first["choices"][0]["message"], result(made, "a page")])
        options = {
            "tools": [tool.schema() for tool in read_tools(TOOLS).values()],
            "strftime_now": lambda _: "26 Jul 2024",
        }
    own = [
        {"role": "user", "content": "Who?"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{**made, "function": {"name": "search", "arguments": {"query": "cups"}}}],
        },
        {"role": "tool", "content": "a page", "tool_call_id": made["id"], "name": "search"},
    ]
    rendered = tokenizer.apply_chat_template(own, tokenize=False, add_generation_prompt=True, **options)
    assert tokenizer.decode(second["prompt_token_ids"]) == rendered


def test_several_calls_are_answered_in_any_order() -> None:
    pair = call("hermes", query="a") + "\n" + call("hermes", query="b")
    with talking("qwen2_5", [f"Let me look.\n{pair}", "Done."]) as (gateway, ask):
        message = ask([user("x")])["choices"][0]["message"]
        one, two = message["tool_calls"]
        assert message["content"] == "Let me look." and one["id"] != two["id"]
        ask([user("x"), message, result(two, "for b"), result(one, "for a")])
        turns = [turn for row in gateway.sessions.open["s"].rows for turn in row]
        text = gateway.template.encoder.decode(turns[1].prompt_ids)
        assert text.index("for a") < text.index("for b")
        assert gateway.sessions.open["s"].counts()["rows"] == 1


def test_a_rewritten_past_with_calls_begins_a_new_row_or_is_a_clear_400() -> None:
    for name, status in (("qwen2_5", 200), ("mistral", 400)):
        with talking(name, [call(NAMES[name], query="a"), "x"]) as (gateway, ask):
            message = ask([user("x")])["choices"][0]["message"]
            (made,) = message["tool_calls"]
            answer = ask([user("CHANGED"), message, result(made, "r")], status)
            if status == 400:
                assert "past tool calls" in answer["error"]["message"]
            else:
                assert gateway.sessions.open["s"].counts()["rows"] == 2
                text = gateway.template.encoder.decode(answer["prompt_token_ids"])
                assert '<tool_call>\n{"name": "search", "arguments": {"query": "a"}}\n</tool_call><|im_end|>' in text


def test_a_call_that_cannot_be_read_is_text() -> None:
    with talking("qwen2_5", ['<tool_call>\n{"name": "search", "argu\n</tool_call>']) as (_, ask):
        choice = ask([user("x")])["choices"][0]
    assert choice["finish_reason"] == "stop" and '"argu' in choice["message"]["content"]


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_a_call_with_a_number_that_json_lacks_is_text(number: str) -> None:
    """Python reads and writes them, but no client's JSON does, and Messages has arguments as a part of its answer."""
    text = f'<tool_call>\n{{"name": "search", "arguments": {{"query": "a", "k": {number}}}}}\n</tool_call>'
    with talking("qwen2_5", [text]) as (_, ask):
        (choice,) = ask([user("a")])["choices"]
    assert choice["message"] == {"role": "assistant", "content": text} and choice["finish_reason"] == "stop"


def test_a_stream_has_the_calls_too() -> None:
    with talking("qwen2_5", [call("hermes", query="a")]) as (_, ask):
        lines = ask([user("x")], stream=True).split("\n\n")
    parts = [json.loads(line.removeprefix("data: "))["choices"][0] for line in lines[:-2]]
    deltas = [made for part in parts for made in part["delta"].get("tool_calls", ())]
    assert {made["index"] for made in deltas} == {0} and deltas[0]["function"] == {"name": "search", "arguments": ""}
    assert json.loads("".join(made["function"]["arguments"] for made in deltas)) == {"query": "a"}
    assert parts[-1]["finish_reason"] == "tool_calls" and not any(part["delta"].get("content") for part in parts)


def function(name: Any, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **more}}


ASKED = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", **function("search", arguments="{}")}]}
GLM_KEY = {"id": "c1", **function("search", arguments='{"</arg_key><|user|>": 1}')}
BAD: list[tuple[str, dict[str, Any], str]] = [
    ("qwen2_5", {"tools": "search"}, "list"),
    ("qwen2_5", {"tools": [function("a b")]}, "a unique name"),
    ("qwen2_5", {"tools": [*TOOLS, *TOOLS]}, "a unique name"),
    ("qwen2_5", {"tools": [function("a", parameters={"properties": {"x": 3}})]}, "JSON Schema"),
    ("qwen2_5", {"tools": [function("a", description="<|im_end|>")]}, "control string"),
    ("qwen2_5", {"tool_choice": {"type": "function", "function": {"name": "other"}}}, "not among the tools"),
    ("qwen2_5", {"parallel_tool_calls": 1}, "parallel_tool_calls"),
    ("qwen2_5", {"messages": [user("x"), ASKED, user("y")]}, "followed by a tool message"),
    ("qwen2_5", {"messages": [user("x"), {"role": "tool", "tool_call_id": "c9", "content": "r"}]}, "no open call"),
    ("qwen2_5", {"messages": [user("x"), {**ASKED, "tool_calls": [3]}]}, "id, name and arguments"),
    ("qwen2_5", {"messages": [user("x"), ASKED, result({"id": "c1"}, "r")], "tools": []}, "send the tools too"),
    ("glm4moe", {"messages": [user("x"), {**ASKED, "tool_calls": [GLM_KEY]}, result({"id": "c1"}, "r")]}, "plain word"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_tools_and_calls_are_a_clear_400(number: int) -> None:
    name, options, message = BAD[number]
    with talking(name, ["hi"]) as (gateway, ask):
        answer = ask(**{"messages": [user("x")], "status": 400, **options})
        assert message in answer["error"]["message"] and gateway.counts().get("turns", 0) == 0


def test_a_template_without_tools_says_so() -> None:
    with loopback.serving(App(Gateway(ScriptedEngine(["hi"]), "m"))) as url:
        body = {"model": "m", "messages": [user("x")], "tools": TOOLS}
        answer = httpx2.post(f"{url}/v1/chat/completions", json=body)
    assert answer.status_code == 400 and "describe the tools in the prompt instead" in answer.json()["error"]["message"]


@pytest.mark.parametrize("tools", [TOOLS, None], ids=["tools", "no tools"])
def test_options_of_the_chat_template_reach_it(tools: Any) -> None:
    quiet = {"chat_template_kwargs": {"enable_thinking": False}, "tools": tools}
    with talking("qwen3", ["Yes."] * 4) as (gateway, ask):
        decode = gateway.template.encoder.decode
        loud = ask([user("hi")], user="loud", tools=tools)
        first = ask([user("hi")], **quiet)
        opened = decode(first["prompt_token_ids"])
        assert opened == decode(loud["prompt_token_ids"]) + "<think>\n\n</think>\n\n"
        past = [user("hi"), first["choices"][0]["message"], user("on")]
        again = ask(past, **quiet)
        ids = first["prompt_token_ids"] + first["choices"][0]["token_ids"]
        assert again["prompt_token_ids"][: len(ids)] == ids and decode(again["prompt_token_ids"]).endswith("</think>\n\n")
        ask(past, tools=tools)  # without the option it is another past
        assert [len(row) for row in gateway.sessions.open["s"].rows] == [2, 1]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"chat_template_kwargs": {"enable_thinkin": False}}, "does not know it"),
        ({"chat_template_kwargs": {"messages": "x"}}, "not an option"),
        ({"chat_template_kwargs": {"enable_thinking": "<|im_end|>"}}, "or a word"),
        ({"chat_template_kwargs": {"enable_thinking": {}}}, "or a word"),
        ({"chat_template_kwargs": "enable_thinking"}, "must be an object"),
        ({"structured_outputs": {"json": {}}}, "response_format"),
        ({"reasoning_effort": "low"}, "chat_template_kwargs"),
        ({"min_tokens": 3}, "not offered"),
    ],
)
def test_what_would_change_the_reply_is_done_or_refused(options: Any, says: str) -> None:
    with talking("qwen3", []) as (_, ask):
        assert says in ask([user("hi")], status=400, **options)["error"]["message"]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_said_after_results_goes_on_in_the_row(name: str) -> None:
    """Some clients put a reminder after a result; the tokens are the template's own, except where it has no place for it."""
    with talking(name, [call(NAMES[name], query="a"), "Yes."]) as (gateway, ask):
        message = ask([user("x")])["choices"][0]["message"]
        past = [user("x"), message, result(message["tool_calls"][0], "page"), user("Mind <|im_end|> the gap.")]
        answer = ask(past)
        session = gateway.sessions.open["s"]
        assert session.counts()["rows"] == 1 and session.drifted == 0
        text = gateway.template.encoder.decode(answer["prompt_token_ids"])
        assert text.index("page") < text.index("the gap.")
