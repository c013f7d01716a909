"""The engine that follows a script, and its tokenizer."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.engines import Sampling, engine
from agentgym.engines.scripted import ByteTokenizer, ScriptedEngine
from agentgym.errors import BadConfig, BadData, Fault


def ask(made: ScriptedEngine, session: str = "s", sampling: Sampling | None = None) -> str:
    got = asyncio.run(made.generate([72, 105], sampling or Sampling(), session))
    return f"{made.tokenizer.decode(got.ids)}|{got.finish}"


def test_a_list_is_every_sessions_script() -> None:
    made = ScriptedEngine(["look", "take"])
    assert [ask(made, "a"), ask(made, "b"), ask(made, "a")] == [
        "look<|im_end|>|stop",
        "look<|im_end|>|stop",
        "take<|im_end|>|stop",
    ]
    with pytest.raises(Fault, match="2 replies"):
        ask(made, "a")


def test_a_mapping_a_function_and_cuts() -> None:
    assert ask(ScriptedEngine({"s": ["hers"]})) == "hers<|im_end|>|stop"
    assert ask(ScriptedEngine(lambda prompt, turn: f"{prompt}{turn}")) == "Hi0<|im_end|>|stop"
    assert ask(ScriptedEngine(["abcdef"]), sampling=Sampling(max_tokens=3)) == "abc|length"
    assert ask(ScriptedEngine(["ab. cd"]), sampling=Sampling(stop_ids=(ord("."),))) == "ab.|stop"


def test_a_file(tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text('"look"\n\n"go \\u00e9"\n', encoding="utf-8")
    made = engine(f"scripted:{script}")
    assert [ask(made), ask(made)] == ["look<|im_end|>|stop", "go é<|im_end|>|stop"]
    script.write_text('"look"\n{"text": 1}\n')
    with pytest.raises(BadData, match="line 2"):
        ScriptedEngine(script)
    with pytest.raises(BadData, match="cannot be read"):
        ScriptedEngine(tmp_path / "absent")


def test_pace_lets_short_replies_end_first() -> None:
    async def play() -> list[str]:
        made, order = ScriptedEngine({"long": ["x" * 30], "short": ["y"]}, pace=1), []

        async def one(session: str) -> None:
            await made.generate([1], Sampling(), session)
            order.append(session)

        await asyncio.gather(one("long"), one("short"))
        return order

    assert asyncio.run(play()) == ["short", "long"]


def test_versions_and_close() -> None:
    made = ScriptedEngine(["a", "b"])
    asyncio.run(made.load_weights([], 4))
    assert asyncio.run(made.generate([1], Sampling(), "s")).policy_version == 4
    made.close()
    with pytest.raises(Fault, match="closed"):
        ask(made)
    with pytest.raises(BadConfig):
        asyncio.run(made.generate([], Sampling(), "s"))


def test_close_ends_what_waits_during_a_pause() -> None:
    async def play() -> str:
        made = ScriptedEngine(["a"])
        await made.pause()
        waiting = asyncio.create_task(made.generate([1], Sampling(), "s"))
        await asyncio.sleep(0)
        made.close()
        with pytest.raises(Fault, match="closed"):
            await asyncio.wait_for(made.generate([1], Sampling(), "s"), 10)
        return (await asyncio.wait_for(waiting, 10)).finish

    assert asyncio.run(play()) == "abort"


@given(st.lists(st.sampled_from(["a", "é", "😀", "\n", "<|im_end|>", "<|im_start|>", "<|"])).map("".join))
def test_bytes_there_and_back(text: str) -> None:
    tokenizer = ByteTokenizer()
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert ids == tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids


def test_the_template_says_what_the_method_does() -> None:
    import jinja2

    tokenizer = ByteTokenizer()
    chat = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]
    for generate in (True, False):
        want = jinja2.Template(tokenizer.chat_template, keep_trailing_newline=True).render(
            messages=chat, add_generation_prompt=generate
        )
        assert tokenizer.apply_chat_template(chat, add_generation_prompt=generate) == want
