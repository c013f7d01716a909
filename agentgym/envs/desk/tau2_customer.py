"""A tau2-bench customer played by a model: its prompt, its history, and its own tools."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentgym.core.actions import Call, parse_call
from agentgym.envs.desk.model_user import ModelUser
from agentgym.envs.desk.tau2_package import Case, RecordedCall, Utterance
from agentgym.envs.desk.tau2_repeat import refusal

WHY = "the customer is played by a model, whose words are not repeatable"
STOPS = ("###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###")
"""Markers that a tau2-bench customer writes to end a conversation."""
MOST_CALLS = 10
"""Maximum number of tool calls, valid or not, that a customer may make in a row; after these, it says "…"."""
SYSTEM = """\
You are the customer in a conversation with a service desk. Play the customer, never the desk. Say one or two short \
sentences at a time, as a person would. Tell only what you are asked for; volunteer nothing. What you do not find below \
you do not know, and you invent nothing. When your goal is met, write ###STOP###; when the desk hands you over to \
somebody else, write ###TRANSFER###.

{scenario}"""
HANDS = """

You can do things yourself, on your own device. To do one, write nothing but the call, for example \
{{"name": "{name}", "arguments": {{}}}}; its result comes back to you alone. You can call:
{tools}"""


def reply(
    model_user: ModelUser,
    case: Case,
    log: Sequence[Utterance | RecordedCall],
    seed: int,
    call: Callable[[str, Mapping[str, object]], RecordedCall],
) -> str:
    """Return the customer's next words; `call` executes the customer's tool calls. Raises Fault if the engine fails."""
    hands = case.customer_tools
    system = SYSTEM.format(scenario=case.task.user_scenario)
    if hands:
        listed = "\n".join(json.dumps(tool.schema()["function"]) for tool in hands.values())
        system += HANDS.format(name=next(iter(hands)), tools=listed)
    talk = [*_before(case.row), *_since(log)]
    for _ in range(MOST_CALLS):
        answer = model_user.reply(system, talk, seed)
        if not hands or not answer.startswith("{"):
            return answer
        tool_call = parse_call(answer, hands)
        wrong = refusal(tool_call.name, tool_call.arguments) if isinstance(tool_call, Call) else tool_call
        if isinstance(tool_call, Call) and not wrong:
            talk += _since([call(tool_call.name, tool_call.arguments)])
        else:
            talk += [("customer", answer), ("desk", f"(This is no call: {wrong})")]
    return "…"


def spelled(name: str, arguments: Mapping[str, object]) -> str:
    """Return a tool call as JSON."""
    return json.dumps({"name": name, "arguments": dict(arguments)}, sort_keys=True)


def history(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a task's initial messages."""
    state: dict[str, Any] = row.get("initial_state") or {}
    return state.get("message_history") or []


def _before(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    names = {"assistant": "desk", "user": "customer"}
    return [
        (names[message["role"]], message["content"])
        for message in history(row)
        if message["role"] in names and message.get("content")
    ]


def _since(log: Sequence[Utterance | RecordedCall]) -> list[tuple[str, str]]:
    """Return the conversation from the customer's view: all words, and the customer's own calls with their results."""
    lines: list[tuple[str, str]] = []
    for entry in log:
        if isinstance(entry, Utterance):
            lines.append(("desk" if entry.who == "assistant" else "customer", entry.text))
        elif entry.who == "user":
            lines += [("customer", spelled(entry.name, entry.arguments)), ("desk", f"(Result of your call: {entry.answer})")]
    return lines
