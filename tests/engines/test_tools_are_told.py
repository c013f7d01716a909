"""A model is told which tools exist: what each kind of engine is asked in every registered environment with tools."""

import asyncio
import importlib
import importlib.util
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the extra `serve` is not installed: pip install -e '.[serve]'")
import loopback
import tiny

import agentgym
from agentgym import BadConfig, ChatAgent, CompletionAgent, MessageAgent, SummaryAgent, Task, WindowAgent
from agentgym.cli import main
from agentgym.core.actions import Call, Tool, parse_call
from agentgym.engines import Completion, Sampling
from agentgym.engines.hf.engine import HFEngine
from agentgym.engines.openai.chat import OpenAIChatEngine
from agentgym.engines.openai.engine import OpenAIEngine
from agentgym.engines.scripted import ByteTokenizer, ScriptedEngine
from agentgym.episodes.episode import read_episodes
from agentgym.gateway import App, Gateway
from agentgym.registry import ENVS

INFO: dict[str, Any] = {"admissible": None, "valid": True}
HERMES = """{%- if tools %}<|im_start|>system
{{ messages[0].content if messages[0].role == 'system' }}
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif %}
{%- for message in messages %}
{%- if message.role == 'tool' %}<|im_start|>user
<tool_response>
{{ message.content }}
</tool_response><|im_end|>
{% elif not (loop.first and tools and message.role == 'system') %}<|im_start|>{{ message.role }}
{{ message.content }}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""  # as Qwen2.5 writes tools, calls and results


@cache
def tokenizer(native: bool) -> Any:
    """Return a byte tokenizer whose template shows tools, or one whose template cannot."""
    if not native:
        return ByteTokenizer()
    import transformers

    byte = ByteTokenizer()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=byte.backend_tokenizer, eos_token=byte.eos_token, pad_token="<|endoftext|>", chat_template=HERMES
    )


@cache
def offers() -> dict[str, tuple[dict[str, Tool], ...]]:
    """Return the sets of tools of each registered environment that has some; nothing outside this process is started."""
    found: dict[str, tuple[dict[str, Tool], ...]] = {}
    for id, (entry, _, _) in ENVS.items():
        module, _, name = entry.partition(":")
        kind: Any = getattr(importlib.import_module(module), name)
        marked = {
            member.__tool__.name: member.__tool__
            for part in reversed(kind.__mro__)
            for member in vars(part).values()
            if hasattr(member, "__tool__")
        }
        sets = [marked]
        if id == "rlvr/Desk-v0":  # its tools change with the task
            env = agentgym.make(id)
            sets = [dict(env.tools) for seed in range(12) if env.reset(seed=seed)]
        elif id == "rlvr/SWE-v0":
            sets.append({"bash": marked["bash"]})
        elif id == "rlvr/SearchR1-v0":  # its tags are no calls
            sets = [agentgym.make(id).tools]
        if any(sets):
            found[id] = tuple({tuple(one): one for one in sets}.values())
    return found


def test_every_environment_with_tools_is_here() -> None:
    assert set(offers()) >= {
        f"rlvr/{name}-v0"
        for name in ["Search", "Code", "SQL", "Math", "Terminal", "Harbor", "Web", "SWE", "MiniWoB", "Desk"]
    }
    assert {"rlvr/SWEBench-v0", "rlvr/TwentyQuestions-v0"} <= set(offers())
    assert len(offers()["rlvr/Desk-v0"]) > 4
    for id in ("rlvr/Search-v0", "rlvr/SQL-v0", "rlvr/Math-v0", "rlvr/TwentyQuestions-v0"):
        assert offers()[id] == (agentgym.make(id).tools,)


def check(text: str, tools: Mapping[str, Tool]) -> None:
    """Every tool's name stands in the text, with its description and its parameters."""
    for name, tool in tools.items():
        at = text.find(tool.description)
        assert at > 0, f"{name} is not described"
        line = text[max(0, at - 600) : at + 3000]
        assert name in line
        for parameter in tool.properties:
            assert parameter in line, f"{name} is described without {parameter}"


def ask(agent: Any, tools: Mapping[str, Tool]) -> agentgym.Turn:
    """Take a first turn with the agent, as in an environment with these tools."""
    talk = agent.begin(Task(instruction="do it"), tools)
    return asyncio.run(talk.take("You are at work.", INFO, env=None, seed=1, session="s"))  # type: ignore[arg-type]


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("kind", [ChatAgent, WindowAgent, SummaryAgent])
def test_the_scripted_engine(kind: Any, native: bool) -> None:
    prompts: list[str] = []
    engine = ScriptedEngine(lambda prompt, turn: prompts.append(prompt) or "x", tokenizer(native))
    agent = kind(engine)
    for id, sets in offers().items():
        for tools in sets:
            ask(agent, tools)
            check(prompts[-1], tools)
            assert agent.fitted(tools).tools == ("native" if native and kind is ChatAgent else "text"), id


def test_text_is_as_asked_for_where_the_template_can_too() -> None:
    prompts: list[str] = []
    agent = ChatAgent(ScriptedEngine(lambda prompt, turn: prompts.append(prompt) or "x", tokenizer(True)), tools="text")
    for sets in offers().values():
        ask(agent, sets[0])
        check(prompts[-1], sets[0])
        assert '{"type": "function"' not in prompts[-1] and "\n- " in prompts[-1]


@pytest.mark.parametrize("native", [False, True])
def test_the_hf_engine(native: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tiny.folder(tmp_path, max_position_embeddings=32768)
    tokenizer(native).save_pretrained(folder) if native else None
    engine, prompts = HFEngine(folder, slots=1), list[str]()
    generate = engine.generate

    async def watched(ids: Any, sampling: Sampling, session: str, **more: Any) -> Completion:
        prompts.append(engine.tokenizer.decode(ids))
        return await generate(ids, sampling, session, **more)

    monkeypatch.setattr(engine, "generate", watched)
    agent = ChatAgent(engine, turn_tokens=1)
    for sets in offers().values():
        turn = ask(agent, sets[0])
        check(prompts[-1], sets[0])
        assert engine.tokenizer.decode(turn.prompt_ids) == prompts[-1] and turn.output_ids


@pytest.fixture(scope="module", params=[False, True], ids=["plain template", "template with tools"])
def gateway(request: pytest.FixtureRequest) -> Iterator[tuple[str, list[str], bool]]:
    """Serve a scripted engine; yields the address, what the engine was asked, and whether its template shows tools."""
    prompts: list[str] = []
    engine = ScriptedEngine(lambda prompt, turn: prompts.append(prompt) or "x", tokenizer(request.param))
    with loopback.serving(App(Gateway(engine, "m"))) as url:
        yield f"{url}/v1", prompts, request.param


def test_token_servers(gateway: tuple[str, list[str], bool]) -> None:
    url, prompts, native = gateway
    agent = ChatAgent(OpenAIEngine(url, tokenizer=tokenizer(native)))
    for sets in offers().values():
        ask(agent, sets[0])
        check(prompts[-1], sets[0])


def test_the_gateway_shows_the_tools_of_a_request_or_says_what_to_do(gateway: tuple[str, list[str], bool]) -> None:
    url, prompts, native = gateway
    for sets in offers().values():
        agent = MessageAgent(OpenAIChatEngine(f"{url}#m"))
        if native:
            ask(agent, sets[0])
        else:
            with pytest.raises(BadConfig, match=r"no place for tools(.|\n)*--tools text"):
                ask(agent, sets[0])
            ask(MessageAgent(OpenAIChatEngine(f"{url}#m"), tools="text"), sets[0])
        check(prompts[-1], sets[0])


def answer(**message: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": "x", **message}, "finish_reason": "stop"}]}


@pytest.mark.parametrize(("options", "native"), [({}, True), ({"tools": "text"}, False), ({"window": 2}, False)])
def test_chat_servers(options: dict[str, Any], native: bool) -> None:
    with loopback.faulty([], then=answer()) as (server, url):
        agent = MessageAgent(OpenAIChatEngine(f"{url}#m"), **options)
        for sets in offers().values():
            for tools in sets:
                ask(agent, tools)
                body = server.bodies[-1]
                assert ("tools" in body) == native
                description = json.dumps(body["tools"]) if native else body["messages"][0]["content"]
                check(description.encode().decode("unicode_escape") if native else description, tools)
                if native:
                    assert body["tools"] == [tool.schema() for tool in tools.values()]


def test_without_tools_nothing_is_offered_and_the_prompt_is_the_one_of_commands() -> None:
    with loopback.faulty([], then=answer()) as (server, url):
        ask(MessageAgent(OpenAIChatEngine(f"{url}#m")), {})
    assert "tools" not in server.bodies[0] and "<action>" in server.bodies[0]["messages"][0]["content"]
    assert ChatAgent(ScriptedEngine([], tokenizer(True))).fitted({}).prompt.name == "react"


def test_an_agent_whose_prompt_shows_no_tools_is_refused_unless_the_prompt_was_asked_for_by_name(tmp_path: Path) -> None:
    tools = offers()["rlvr/SQL-v0"][0]
    with pytest.raises(BadConfig, match=r"CompletionAgent has no prompt that shows .*\(schema, query, answer\)"):
        ask(CompletionAgent(ScriptedEngine(["x"])), tools)
    ask(CompletionAgent(ScriptedEngine(["x"]), prompt="search-r1"), tools)
    ask(ChatAgent(ScriptedEngine(["x"]), prompt="bare"), tools)
    tags = {name: Tool(name, "") for name in ("search", "answer")}
    ask(CompletionAgent(ScriptedEngine(["x"])), tags)  # its own words have their names
    own = tmp_path / "own.txt"
    own.write_text("[turn]\nCall something. {observation}\n[reply]\ncall\n")
    with pytest.raises(BadConfig, match=r"prompt 'own' leaves it to .* no place for tools"):
        ask(ChatAgent(ScriptedEngine(["x"]), prompt=own), tools)
    assert ChatAgent(ScriptedEngine(["x"], tokenizer(True)), prompt=own).fitted(tools).tools == "native"
    named = tmp_path / "named.txt"
    named.write_text("[turn]\nCall schema, query or answer. {observation}\n[reply]\ncall\n")
    assert ChatAgent(ScriptedEngine(["x"], tokenizer(True)), prompt=named).fitted(tools).tools == "text"


def solving(native: bool) -> Any:
    """Return a server's answer to a request: it looks at the schema and tries a query at once, then gives the solution."""
    env, known = agentgym.make("rlvr/SQL-v0"), dict[str, str]()
    for task in env.tasks(4, "test"):
        observation, _ = env.reset(seed=0, options={"task": task})
        known[observation] = next(env.oracle())

    def answered(body: dict[str, Any]) -> dict[str, Any]:
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        solution = next(action for text, action in known.items() if text in [m["content"] for m in body["messages"]])
        actions = ["schema[]", "query[SELECT 1]"] if turn == 0 else [solution]
        if not native:
            return answer(content=f"<think>so</think>\n{actions[0]}")
        calls = [parse_call(action, env.tools) for action in actions]
        tools_shown = [
            {"id": f"c{turn}{n}", "type": "function", "function": {"name": c.name, "arguments": json.dumps(c.arguments)}}
            for n, c in enumerate(calls)
            if isinstance(c, Call)
        ]
        return answer(content=None, tool_calls=tools_shown)

    return answered


@pytest.mark.parametrize("native", [True, False])
def test_an_evaluation_over_plain_chat_as_a_stranger_types_it(
    native: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with loopback.faulty([], then=solving(native)) as (server, url):
        command = ["eval", "sql", "--model", f"chat:{url}#M", "--tasks", "4", "--out", str(tmp_path / "e")]
        assert main([*command, *([] if native else ["--tools", "text"])]) == 0
    episodes = read_episodes(tmp_path / "e" / "episodes.jsonl")
    assert [episode.success for episode in episodes] == [True] * 4
    assert {len(episode.turns) for episode in episodes} == {3 if native else 2}
    assert all(turn.valid and turn.parsed for episode in episodes for turn in episode.turns)
    options = json.loads((tmp_path / "e" / "manifest.json").read_text())["options"]
    assert (options["prompt"], options["tools"]) == (("tools", "native") if native else ("react-tools", "text"))
    last = max(server.bodies, key=lambda body: len(body["messages"]))["messages"]
    roles = ["system", "user", "assistant", *(["tool", "tool"] if native else ["user"])]
    assert [message["role"] for message in last] == roles


def test_a_server_that_takes_no_tools_ends_the_evaluation_at_once_and_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refusal = (400, {}, b'{"error": {"message": "\\"auto\\" tool choice requires --enable-auto-tool-choice"}}')
    with loopback.faulty([], then=refusal) as (server, url):
        assert main(["eval", "sql", "--model", f"chat:{url}#M", "--tasks", "2", "--out", str(tmp_path / "e")]) == 2
        assert server.requests <= 2
    assert "use --tools text (in Python: tools='text')" in capsys.readouterr().err


def test_a_call_that_the_server_itself_cannot_read_is_the_models_failure() -> None:
    """Groq refuses its own model's words (code `tool_use_failed`): that is no server without tools, and no fault."""
    error = {"message": "Failed to call a function.", "code": "tool_use_failed", "failed_generation": "<function=qu"}
    refusal = (400, {}, json.dumps({"error": error}).encode())
    with loopback.faulty([], then=refusal) as (_, url):
        (episode,) = agentgym.collect(MessageAgent(OpenAIChatEngine(f"{url}#m")), "rlvr/SQL-v0", tasks=1)
    assert not episode.fault and episode.success is False
    assert {(turn.text, turn.parsed, turn.valid) for turn in episode.turns} == {("<function=qu", False, False)}


def test_a_refusal_of_what_the_model_said_is_that_episodes_alone() -> None:
    """Else a model could end an evaluation with a call that its own server does not take back."""

    def answered(body: dict[str, Any]) -> Any:
        if any("odd" in json.dumps(message) for message in body["messages"][2:]):
            return 400, {}, b'{"error": {"message": "messages[2].tool_calls: bad arguments"}}'
        return answer(tool_calls=[{"id": "a", "function": {"name": "schema", "arguments": '{"odd": 1}'}}])

    with loopback.faulty([], then=answered) as (_, url):
        agent = MessageAgent(OpenAIChatEngine(f"{url}#m"))
        (episode,) = agentgym.collect(agent, "rlvr/SQL-v0", tasks=1)
    assert (episode.success, episode.reason, len(episode.turns)) == (False, "failure", 1)
    assert "status 400" in str(episode.error)


@pytest.mark.parametrize("tools", ["native", "text"])
@pytest.mark.parametrize("turns", [1, 2])
def test_a_server_that_refuses_the_form_of_later_turns_is_an_infrastructure_error(tools: str, turns: int) -> None:
    """It refuses every result of a tool (or every second user message), so nothing that the model wrote did it."""
    role = "tool" if tools == "native" else "user"

    def answered(body: dict[str, Any]) -> Any:
        if sum(message["role"] == role for message in body["messages"]) >= turns + (tools == "text"):
            return 400, {}, b'{"error": {"message": "unsupported role: tool"}}'
        if tools == "text":
            return answer(content="<think>so</think>\nschema[]")
        return answer(tool_calls=[{"id": "a", "function": {"name": "schema", "arguments": "{}"}}])

    with loopback.faulty([], then=answered) as (_, url):
        agent = MessageAgent(OpenAIChatEngine(f"{url}#m"), tools=tools)
        (episode,) = agentgym.collect(agent, "rlvr/SQL-v0", tasks=1)
    assert (episode.success, episode.reason, len(episode.turns)) == (None, "engine", turns)
    assert "status 400" in str(episode.error) and ("use --tools text" in str(episode.error)) == (tools == "native")
