"""Tool calls in the form of the model's own family: schemas, calls, results, the next call."""

import asyncio
import dataclasses
import json
import re
from contextlib import closing
from typing import Any

import pytest
from tokenizers_for_tests import survey

import agentgym
from agentgym import BadConfig, ChatAgent, Demonstrator, Task, WindowAgent
from agentgym.agents.native import ACT, NOT_EXECUTED
from agentgym.agents.tool_calls import FAMILIES
from agentgym.core.actions import Tool
from agentgym.engines import Completion
from agentgym.engines.scripted import ScriptedEngine
from agentgym.rollout.play import Job
from agentgym.rollout.pool import RolloutConfig, RolloutPool
from agentgym.trainers.segments import build

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
RESULT = 'a page\nabout "cups"'


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


@pytest.mark.parametrize("name", SOURCES)
def test_round_trip(name: str) -> None:
    """Schema, call, result, next call: the tokens are those the tokenizer makes of the template's own rendering."""
    talk = begun(name)
    template, tokenizer = talk.template, talk.agent.tokenizer
    first = list(talk.prompt_ids)
    shown = template.encoder.decode(first)
    assert all(tool.name in shown and tool.description in shown for tool in TOOLS.values())
    chat = [{"role": m["role"], "content": m["content"]} for m in talk.messages]
    arguments = {"query": 'who "made" the cup\n[1]?', "k": 3}
    held = first
    for result in (RESULT, "Nothing."):
        action = say(talk, call_text(talk, ("search", arguments)))
        assert json.loads(action) == {"name": "search", "arguments": arguments} and talk.parsed
        prompt = talk.prompt(result, {})
        assert prompt[: len(talk.held)] == talk.held and talk.held[: len(held)] == held  # extends, token for token
        held = prompt
        function = {"name": "search", "arguments": arguments}
        chat += [
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"type": "function", "id": "call00000", "function": function}],
            },
            {"role": "tool", "content": result, "name": "search", "tool_call_id": "call00000"},
        ]
        rendered = template.render_chat(chat)
        assert tokenizer.decode(prompt) == rendered
        assert prompt == tokenizer.encode(rendered, add_special_tokens=False)
        assert talk.messages == [{"role": "tool", "content": result}]


THINKING = ("qwen3_5_think", "qwen3_6", "qwen3_8", "nemotron_3_nano", "nemotron_3_super", "nemotron_3_5_lightning")


@pytest.mark.parametrize("name", THINKING)
def test_round_trip_with_thoughts(name: str) -> None:
    """As `test_round_trip`, where the generation prompt opens a thought and the template keeps it."""
    talk = ChatAgent(ScriptedEngine([], SURVEY.tokenizer_for(TEMPLATES[name])), tools="native").begin(Task(), TOOLS)
    prompt = talk.prompt("Who made the cup?", {})
    chat: list[dict[str, Any]] = list(talk.messages)
    function = {"name": "search", "arguments": {"query": "who\n</parameter>\n<made>", "k": 3}}
    for result in (RESULT, "Nothing."):
        asked = talk.template.encoder.decode(prompt)
        call = {"type": "function", "id": "call00000", "function": function}
        chat.append({"role": "assistant", "content": "", "reasoning_content": "Hm.", "tool_calls": [call]})
        chat.append({"role": "tool", "content": result, "name": "search", "tool_call_id": "call00000"})
        rendered = talk.template.render_chat(chat)
        assert rendered.startswith(asked)
        action = say(talk, rendered.removeprefix(asked).partition("<|im_end|>")[0])
        assert json.loads(action) == function and talk.parsed
        prompt = talk.prompt(result, {})
        assert prompt == talk.agent.tokenizer.encode(rendered, add_special_tokens=False)


@pytest.mark.parametrize("name", SOURCES)
def test_a_call_is_written_as_the_template_writes_it(name: str) -> None:
    talk = begun(name)
    arguments = {"query": "a <b>", "k": 2}
    action = json.dumps({"name": "search", "arguments": arguments})
    assert "".join(talk.written(action)) in call_text(talk, ("search", arguments))


@pytest.mark.parametrize("name", SOURCES)
def test_what_the_environment_says_becomes_no_control_token(name: str) -> None:
    talk = begun(name)
    say(talk, call_text(talk, ("search", {"query": "x", "k": 1})))
    encoder = talk.template.encoder
    plain, hostile = talk.prompt("cup", {}), talk.prompt("cup".join(sorted(encoder.control)), {})
    assert [i for i in hostile if i in encoder.control_ids] == [i for i in plain if i in encoder.control_ids]


def several(name: str, *calls: tuple[str, dict[str, Any]]) -> str:
    """Return a reply with several calls, as the template writes them."""
    talk = begun(name)
    return "; ".join(call_text(talk, call) for call in calls) if name.startswith("llama") else call_text(talk, *calls)


EXAMPLES = {
    "qwen3": '<tool_call>\n{"name": "search", "arguments": {"query": "…", "k": 1}}\n</tool_call>',
    "llama3_2": '{"name": "search", "parameters": {"query": "…", "k": 1}}',
    "qwen3_5_nothink": "<tool_call>\n<function=search>\n<parameter=query>\n…\n</parameter>\n"
    "<parameter=k>\n1\n</parameter>\n</function>\n</tool_call>",
    "glm4moe": "<tool_call>search\n<arg_key>query</arg_key>\n<arg_value>…</arg_value>\n"
    "<arg_key>k</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
    "mistral": '[TOOL_CALLS] [{"name": "search", "arguments": {"query": "…", "k": 1}, "id": "call00000"}]',
}
WRONG = {
    "qwen3": ('<tool_call>\n{"name": "search", "arguments": {"query": "x"\n</tool_call>', "not valid JSON"),
    "llama3_2": ('<|python_tag|>{"name": "search", "parameters": {"query": "x"', "not valid JSON"),
    "qwen3_5_nothink": ("<tool_call>\n<function=search>\n<parameter=query>\nx\n</tool_call>", "is not a tool call"),
    "glm4moe": ("<tool_call>search\n<arg_key>query</arg_key>\n</tool_call>", "is not a tool call"),
    "mistral": ('[TOOL_CALLS] [{"name": "search", "arguments": {"query": "x"', "not valid JSON"),
}


class Shop(agentgym.TextEnv):
    """An environment with the tools of this page."""

    @agentgym.tool
    def search(self, query: str, k: int) -> str:
        """Find pages about a query."""
        return f"{k} pages about {query}."

    @agentgym.tool
    def submit(self, answer: str) -> Any:
        """Give the answer."""
        return self.win("Right.") if answer == "cup" else self.lose("Wrong.")

    def begin(self, task: Task) -> str:
        return "What is it?"

    def state(self) -> int:
        return 0

    @staticmethod
    def generate(rng: Any, difficulty: int) -> Task:
        return Task(instruction="x", data={"n": int(rng.integers(1000))})


@pytest.mark.parametrize("name", EXAMPLES)
def test_bad_calls_are_answered_so_that_a_model_can_repair_them(name: str) -> None:
    talk = begun(name)
    broken, complaint = WRONG[name]
    unknown = call_text(talk, ("find", {"query": "x"}))
    wrong = call_text(talk, ("search", {"query": "x", "k": "three"}))
    right = call_text(talk, ("search", {"query": "x", "k": 3}))
    said = iter([broken, unknown, wrong, "I give up.", right, call_text(talk, ("submit", {"answer": "cup"}))])
    engine = ScriptedEngine(lambda prompt, turn: next(said), SURVEY.tokenizer_for(SOURCES[name]))
    (episode,) = agentgym.collect(ChatAgent(engine, tools="native"), Shop, horizon=9)
    contents = [turn.messages[-1]["content"] for turn in episode.turns]
    assert complaint in contents[1] and EXAMPLES[name] in contents[1] and "search[" not in contents[1]
    assert contents[2] == "there is no tool 'find'. The tools are: search, submit."
    assert contents[3] == f"argument 'k' of search must be of type integer. Write {EXAMPLES[name]}."
    assert contents[4] == f"'I give up.' is not a tool call. Write one call, for example {EXAMPLES[name]}."
    assert contents[5] == "3 pages about x."
    assert [turn.messages[-1]["role"] for turn in episode.turns] == ["user", "tool", "tool", "tool", "user", "tool"]
    assert [turn.parsed for turn in episode.turns] == [False, False, False, False, True, True]
    assert episode.success
    for turn, after in zip(episode.turns, episode.turns[1:], strict=False):
        held = turn.prompt_ids + turn.output_ids
        assert after.prompt_ids[: len(held)] == held


@pytest.mark.parametrize("name", SOURCES)
def test_several_calls_of_a_reply_are_turns_that_share_its_tokens(name: str) -> None:
    words = ("alpha", "bravo", "delta")
    calls = [("search", {"query": word, "k": k}) for k, word in enumerate(words, 1)]
    said = iter([several(name, *calls), several(name, ("submit", {"answer": "cup"}))])
    engine = ScriptedEngine(lambda prompt, turn: next(said), SURVEY.tokenizer_for(SOURCES[name]))
    agent = ChatAgent(engine, tools="native")
    (episode,) = agentgym.collect(agent, Shop, horizon=9)
    assert [json.loads(turn.action)["arguments"] for turn in episode.turns] == [*(c[1] for c in calls), {"answer": "cup"}]
    assert [turn.observation for turn in episode.turns[1:]] == [
        f"{k} pages about {word}." for k, word in enumerate(words, 1)
    ]
    assert episode.success and all(turn.parsed and turn.valid and turn.output_ids for turn in episode.turns)
    for turn, after in zip(episode.turns[:2], episode.turns[1:3], strict=True):
        assert after.prompt_ids == turn.prompt_ids + turn.output_ids  # nothing between the calls of one reply
    decode = SURVEY.tokenizer_for(SOURCES[name]).decode
    texts = [decode(turn.output_ids) for turn in episode.turns[:3]]
    assert [[word in text for word in words] for text in texts] == [[i == k for i in range(3)] for k in range(3)]
    assert all(text.lstrip("\n;, ").startswith(("<tool_call>", "[TOOL_CALLS]", "{")) for text in texts[1:]), texts
    last = episode.turns[3]
    held = episode.turns[2].prompt_ids + episode.turns[2].output_ids
    assert last.prompt_ids[: len(held)] == held
    added = decode(last.prompt_ids[len(held) :])
    assert sorted(added.index(f"pages about {word}.") for word in words) == [added.index(f"about {w}.") - 6 for w in words]
    assert last.messages == [{"role": "tool", "content": "3 pages about delta."}]
    (row,) = build([episode])
    assert row.trained == sum(len(turn.output_ids) for turn in episode.turns)


@pytest.mark.parametrize("name", SOURCES)
def test_calls_after_a_failed_one_are_not_executed(name: str) -> None:
    calls = [("search", {"query": "a", "k": 1}), ("search", {"query": "b", "k": "two"}), ("submit", {"answer": "cup"})]
    said = iter([several(name, *calls), several(name, ("submit", {"answer": "cup"}))])
    engine = ScriptedEngine(lambda prompt, turn: next(said), SURVEY.tokenizer_for(SOURCES[name]))
    (episode,) = agentgym.collect(ChatAgent(engine, tools="native"), Shop, horizon=9)
    assert [turn.valid for turn in episode.turns] == [True, False, True] and episode.success
    assert [turn.parsed for turn in episode.turns] == [True, False, True]
    contents = [message["content"] for message in episode.turns[2].messages]
    assert contents[0].startswith("argument 'k' of search must be of type integer") and contents[1:] == [NOT_EXECUTED]
    added = SURVEY.tokenizer_for(SOURCES[name]).decode(episode.turns[2].prompt_ids)
    assert added.index("1 pages about a.") < added.index("must be of type integer") < added.index(NOT_EXECUTED)


def test_a_fork_between_two_calls_of_a_reply_goes_on_with_the_second() -> None:
    calls = [("search", {"query": "a", "k": 1}), ("submit", {"answer": "cup"})]
    engine = ScriptedEngine(lambda prompt, turn: several("qwen3", *calls), SURVEY.tokenizer_for(SOURCES["qwen3"]))
    env = Shop()
    observation, info = env.reset(seed=0)
    talk = ChatAgent(engine, tools="native").begin(env.task, env.tools)
    turn = asyncio.run(talk.take(observation, info, env=env, seed=0, session="s"))
    observation, _, _, _, info = env.step(turn.action)
    for branch in (talk.fork(), talk):
        again = asyncio.run(branch.take(observation, info, env=env, seed=1, session="s"))
        assert json.loads(again.action)["name"] == "submit" and again.observation == observation


FAILING = [("search", {"query": "a", "k": 1}), ("search", {"query": "b", "k": "two"}), ("submit", {"answer": "cup"})]


@pytest.mark.parametrize("name", SOURCES)
def test_an_episode_with_several_calls_a_reply_is_gone_through_again(name: str) -> None:
    good = [("search", {"query": "a", "k": 1}), ("search", {"query": "b", "k": 2})]
    said = iter([several(name, *good), several(name, *FAILING), several(name, ("submit", {"answer": "cup"}))])
    engine = ScriptedEngine(lambda prompt, turn: next(said), SURVEY.tokenizer_for(SOURCES[name]))
    agent = ChatAgent(engine, tools="native")
    with closing(RolloutPool({"shop": Shop}, RolloutConfig(2))) as pool:
        job = Job(pool.probe("shop").tasks(1)[0], 0, 0, "g", "shop", 9)
        (episode,) = asyncio.run(pool.collect(agent, [job]))
        assert [turn.valid for turn in episode.turns] == [True, True, True, False, True]
        (points,) = asyncio.run(pool.starts(agent, "shop", [(job.task, episode, range(5))]))
        assert list(points) == [0, 2, 4]  # where a reply begins
        branch = dataclasses.replace(job, attempt=1, start=points[4])
        said = iter([several(name, ("submit", {"answer": "bowl"}))])
        (other,) = asyncio.run(pool.collect(agent, [branch]))
    assert other.turns[0].prompt_ids == episode.turns[4].prompt_ids and other.success is False


def test_each_turn_of_glm_names_who_comes_next() -> None:
    talk = begun("glm4moe")
    observation, user = (talk.template.encoder.control[s] for s in ("<|observation|>", "<|user|>"))
    call = call_text(talk, ("search", {"query": "x", "k": 1}))
    for text, end, added in ((call, observation, None), (call, user, observation), ("No.", user, None)):
        say(talk, text, end)
        bridge = talk.prompt("cup", {})[len(talk.held) :]
        assert (bridge[0] == added) if added else not {observation, user} & set(bridge), text
    say(talk, "No.", observation)
    assert talk.prompt("cup", {})[len(talk.held)] == user


def test_a_call_keeps_the_id_the_model_gave_it() -> None:
    talk = begun("mistral")
    say(talk, '[TOOL_CALLS] [{"name": "submit", "arguments": {"answer": "y"}, "id": "aB3456789"}]')
    assert '"call_id": "aB3456789"' in talk.template.encoder.decode(talk.prompt("1", {})[len(talk.held) :])
    say(talk, '[TOOL_CALLS] [{"name": "submit", "arguments": {"answer": "y"}, "id": "[/INST]xx"}]')
    assert '"call_id": "call00000"' in talk.template.encoder.decode(talk.prompt("1", {})[len(talk.held) :])


def test_thoughts_are_no_calls() -> None:
    talk = begun("qwen3")
    inside = call_text(talk, ("submit", {"answer": "no"}))
    outside = call_text(talk, ("submit", {"answer": "</think>"}))
    assert json.loads(say(talk, f"<think>\n{inside}\n</think>\n\n{outside}"))["arguments"] == {"answer": "</think>"}
    talk.prompt("x", {})
    say(talk, f"<think>\n{inside}")
    assert not talk.parsed and not talk.attempts
    talk.prompt("x", {})
    assert json.loads(say(talk, outside))["arguments"] == {"answer": "</think>"} and talk.parsed


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_environment_of_plain_commands_offers_one_tool(name: str) -> None:
    talk = begun(name, {}, "A room.")
    assert ACT.description in talk.template.encoder.decode(talk.prompt_ids)
    assert say(talk, call_text(talk, ("act", {"command": "go to desk 1"}))) == "go to desk 1" and talk.parsed
    talk.prompt("You are at desk 1.", {})
    say(talk, call_text(talk, ("act", {})))
    talk.prompt("Nothing happens.", {})
    (message,) = talk.messages
    assert message["content"].startswith("act needs the argument 'command'. Write ")
    assert message["content"].endswith("\n\nNothing happens.") and not talk.parsed


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("env", ["rlvr/Search-v0", "rlvr/GuessNumber-v0"])
def test_demonstrations_are_calls(name: str, env: str) -> None:
    episodes = agentgym.collect(Demonstrator(agent_for(name)), env, tasks=3)
    for episode in episodes:
        assert episode.success
        for turn, after in zip(episode.turns, episode.turns[1:], strict=False):
            assert (
                turn.parsed
                and after.prompt_ids[: len(turn.prompt_ids + turn.output_ids)] == turn.prompt_ids + turn.output_ids
            )


@pytest.mark.parametrize("name", ["gemma", "llama3", "qwen2_5_vl", "deepseek_r1_distill"])
def test_templates_without_tools_are_refused(name: str) -> None:
    with pytest.raises(BadConfig, match="no place for tools, calls and their results: use tools='text'"):
        ChatAgent(ScriptedEngine([], SURVEY.tokenizer_for(TEMPLATES[name])), tools="native")


def test_an_unknown_form_is_refused_and_a_family_can_be_named() -> None:
    with pytest.raises(BadConfig, match=r"no form that is known here: .*tools='glm'"):
        ChatAgent(ScriptedEngine([], SURVEY.tokenizer_for(TEMPLATES["gemma4"])), tools="native")
    tokenizer = SURVEY.tokenizer_for(TEMPLATES["llama3_2"].replace('{"name": "', '{ "name": "'))
    with pytest.raises(BadConfig, match="no form that is known"):
        ChatAgent(ScriptedEngine([], tokenizer), tools="native")
    named = ChatAgent(ScriptedEngine([], tokenizer), tools="llama3")
    assert named.tool_template({}).family is FAMILIES["llama3"]


def test_each_form_is_told_apart() -> None:
    named = {name: agent_for(name).tool_template({}).family for name in SOURCES}
    found = {name: next(key for key, family in FAMILIES.items() if family is named[name]) for name in named}
    newer = {name for name in named if re.match(r"qwen3_\d", name)}
    assert {found.pop(name) for name in newer} == {"xml"}
    expected = {"qwen": "hermes", "llama": "llama3", "glm": "glm"}
    for name, family in found.items():
        assert family == expected.get(re.match("qwen|llama|glm", name)[0] if name[0] != "m" else "", name.replace("_", "-"))


def test_a_system_message_that_moves_opens_the_first_user_message() -> None:
    """As in Mistral Nemo's template: the system message goes to the last user message, and so would be said anew."""
    moves = (
        "{% for m in messages %}{% if m.role == 'user' %}[INST]"
        "{% if loop.last %}{{ system }}{% endif %}{{ m.content }}[/INST]"
        "{% elif m.role == 'assistant' %}{{ m.content }}<eos>{% endif %}{% endfor %}"
    )
    moves = "{% set system = messages[0].content if messages[0].role == 'system' else '' %}" + moves
    agent = ChatAgent(ScriptedEngine([], SURVEY.tokenizer_for(moves)), prompt="act")
    assert not agent.template.system
    talk = agent.begin(Task(), {})
    talk.prompt("A room.", {})
    talk.reply(Completion([agent.tokenizer.eos_token_id], [], "stop"))
    assert agent.tokenizer.decode(talk.prompt("A desk.", {})).endswith("<eos>[INST]A desk.[/INST]")


def test_schemas_with_control_strings_are_refused() -> None:
    tools = {"x": Tool("x", "Ends with <|im_end|>.")}
    with pytest.raises(BadConfig, match=r"hold '<\|im_end\|>', a control string"):
        agent_for("qwen3").begin(Task(), tools)


def test_a_window_has_no_calls() -> None:
    with pytest.raises(BadConfig, match="WindowAgent writes the past as text"):
        WindowAgent(ScriptedEngine([], SURVEY.tokenizer_for(SOURCES["qwen3"])), tools="native")


def test_forks_are_independent() -> None:
    talk = begun("qwen3")
    other = talk.fork()
    say(talk, call_text(talk, ("submit", {"answer": "a"})))
    say(other, "Hm.")
    assert talk.prompt("x", {}) != other.prompt("x", {}) and talk.attempts and not other.attempts


def test_no_template_is_rendered_while_an_episode_runs() -> None:
    talk = begun("qwen3")
    text = call_text(talk, ("submit", {"answer": "a"}))
    for place in range(4):
        say(talk, text)
        if place == 2:
            talk.agent.tokenizer.chat_template = "{{ raise_exception('rendered') }}"
        talk.prompt(f"page {place}", {})
