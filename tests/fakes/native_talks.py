"""Conversations in every form of tool calls, for the tests of agents/native.py."""

import re
from typing import Any

from tokenizers_for_tests import survey

from agentgym import ChatAgent, Task
from agentgym.core.actions import Tool
from agentgym.engines import Completion
from agentgym.engines.scripted import ScriptedEngine

SURVEY = survey()
TEMPLATES = SURVEY.templates()
MISTRAL = """{{ bos_token }}{%- for message in messages %}
{%- if message.role == "system" %}{{ "[SYSTEM_PROMPT]" + message.content + "[/SYSTEM_PROMPT]" }}
{%- elif message.role == "user" %}
{%- if tools and loop.index0 <= 1 %}{{ "[AVAILABLE_TOOLS] " + (tools | tojson) + "[/AVAILABLE_TOOLS]" }}{% endif %}
{{- "[INST]" + message.content + "[/INST]" }}
{%- elif message.tool_calls %}{{ "[TOOL_CALLS] [" }}
{%- for call in message.tool_calls %}{{ (call.function | tojson)[:-1] + ', "id": "' + call.id + '"}' }}
{{- ", " if not loop.last }}{% endfor %}{{ "]" + eos_token }}
{%- elif message.role == "assistant" %}{{ message.content + eos_token }}
{%- elif message.role == "tool" %}
{{- '[TOOL_RESULTS] {"content": ' + message.content + ', "call_id": "' + message.tool_call_id + '"}[/TOOL_RESULTS]' }}
{%- endif %}{%- endfor %}"""  # the form of mistral-common's v3; TRL ships none of Mistral's templates
MISTRAL_ARGS = MISTRAL.replace('"[TOOL_CALLS] ["', '""').replace(
    """(call.function | tojson)[:-1] + ', "id": "' + call.id + '"}'""",
    """"[TOOL_CALLS]" + call.function.name + "[ARGS]" + (call.function.arguments | tojson)""",
)
MISTRAL_ARGS = MISTRAL_ARGS.replace('", " if not loop.last', '""').replace('"]" + eos_token', "eos_token")
MISTRAL_IDS = MISTRAL_ARGS.replace('"[ARGS]"', '"[CALL_ID]" + call.id + "[ARGS]"')
SOURCES = {
    **{name: TEMPLATES[name] for name in ("qwen2_5", "qwen3", "qwen3_training", "qwen3_instruct_2507", "qwen3_vl")},
    **{name: TEMPLATES[name] for name in ("qwen3_5_nothink",)},
    **{name: TEMPLATES[name] for name in ("llama3_1", "llama3_2", "glm4moe", "glm4moe_training")},
    "mistral": MISTRAL,
    "mistral_args": MISTRAL_ARGS,
    "mistral_ids": MISTRAL_IDS,
}
TOOLS = {
    "search": Tool(
        "search",
        "Find pages about a query.",
        {
            "type": "object",
            "properties": {"query": {"type": "string"}, "k": {"type": "integer"}},
            "required": ["query", "k"],
        },
    ),
    "submit": Tool("submit", "Give the answer.", {"properties": {"answer": {"type": "string"}}, "required": ["answer"]}),
}


def agent_for(name: str, **options: Any) -> ChatAgent:
    return ChatAgent(ScriptedEngine([], SURVEY.tokenizer_for(SOURCES[name])), tools="native", **options)


def begun(name: str, tools: dict[str, Tool] = TOOLS, observation: str = "Who made the cup?") -> Any:
    talk = agent_for(name).begin(Task(), tools)
    talk.prompt(observation, {})
    return talk


def say(talk: Any, text: str, end: int | None = None) -> str:
    encoder = talk.template.encoder
    ids = [*encoder.encode([text]), talk.template.stop_ids[0] if end is None else end]
    return talk.reply(Completion(ids, [0.0] * len(ids), "stop"))


def call_text(talk: Any, *calls: tuple[str, dict[str, Any]]) -> str:
    """Return a reply with calls in the words of the template itself."""
    template = talk.template
    chat: list[dict[str, Any]] = [{"role": "user", "content": "x"}]
    before = template.render_chat(chat)
    functions = [
        {"type": "function", "id": f"call0000{i}", "function": {"name": n, "arguments": a}} for i, (n, a) in enumerate(calls)
    ]
    results = [{"role": "tool", "content": "R", "name": n, "tool_call_id": f"call0000{i}"} for i, (n, _) in enumerate(calls)]
    after = template.render_chat([*chat, {"role": "assistant", "content": "", "tool_calls": functions}, *results])
    assert after.startswith(before)
    return re.split(r"<\|im_end\|>|<\|eot_id\|>|<\|observation\|>|<eos>", after.removeprefix(before))[0]


EXAMPLES = {
    "qwen3": '<tool_call>\n{"name": "search", "arguments": {"query": "…", "k": 1}}\n</tool_call>',
    "llama3_2": '{"name": "search", "parameters": {"query": "…", "k": 1}}',
    "qwen3_5_nothink": "<tool_call>\n<function=search>\n<parameter=query>\n…\n</parameter>\n"
    "<parameter=k>\n1\n</parameter>\n</function>\n</tool_call>",
    "glm4moe": "<tool_call>search\n<arg_key>query</arg_key>\n<arg_value>…</arg_value>\n"
    "<arg_key>k</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
    "mistral": '[TOOL_CALLS] [{"name": "search", "arguments": {"query": "…", "k": 1}, "id": "call00000"}]',
}
