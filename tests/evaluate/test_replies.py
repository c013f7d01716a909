"""How replies end: an evaluation says first that they were cut, withheld or declined, and the model is told."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx2", reason="the extra `api` is not installed")
import loopback

import agentgym
from agentgym.agents.cut import CUT
from agentgym.agents.spec import AgentSpec
from agentgym.cli import main
from agentgym.episodes.episode import Episode, Turn, read_episodes
from agentgym.evaluate.replies import cut_warning, finishes
from agentgym.report.run_folder import open_run

ASKED = {"role": "user", "content": "?"}


def reply(text: str | None = "7", finish: str = "stop", **message: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
    return {"choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 2}}


def evaluated(script: list[Any], then: Any, out: Path, *flags: str) -> loopback.Faulty:
    with loopback.faulty(script, then=then) as (server, url):
        command = [
            "eval",
            "guessnumber",
            "--model",
            f"chat:{url}#m",
            "--tasks",
            "2",
            "--concurrency",
            "1",
            "--out",
            str(out),
        ]
        assert main([*command, *flags]) == 0
    return server


def test_a_model_whose_thoughts_never_end_is_the_first_line_of_the_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluated([], reply(None, "length"), tmp_path / "e", "--turn-tokens", "256")
    episodes = read_episodes(tmp_path / "e" / "episodes.jsonl")
    turns = sum(len(episode.turns) for episode in episodes)
    first = f"{turns} of {turns} replies (100.0%) were cut by length (the limit is 256 tokens): raise --turn-tokens"
    output = capsys.readouterr().out.splitlines()
    assert output[0] == first and any(line.endswith("cut") for line in output)
    summary = json.loads((tmp_path / "e" / "summary.json").read_text())
    assert summary["finish"] == {"stop": 0.0, "length": 1.0, "filter": 0.0, "refusal": 0.0}
    assert summary["replies"] == turns
    text = (tmp_path / "e" / "summary.md").read_text()
    assert "were cut by length" in text and "| cut |" in text
    assert first in (tmp_path / "e" / "report.html").read_text()
    assert open_run(tmp_path / "e").summary == summary


def test_every_way_to_end_is_one_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = [reply("", "length"), reply(None, "content_filter"), reply(None, "stop", refusal="I will not"), reply("7")]
    evaluated(script, reply("7"), tmp_path / "e", "--tools", "text")
    first = read_episodes(tmp_path / "e" / "episodes.jsonl")[0]
    assert [turn.finish for turn in first.turns[:4]] == ["length", "filter", "refusal", "stop"]
    assert first.turns[2].text == "I will not"
    output = capsys.readouterr().out.splitlines()[0]
    for words in ("were cut by length", "were withheld by a filter", "were declined by the model"):
        assert words in output
    turns = sum(len(episode.turns) for episode in read_episodes(tmp_path / "e" / "episodes.jsonl"))
    assert (
        output.startswith(f"1 of {turns} replies")
        and "by length (the limit is 4096 tokens): raise --turn-tokens. 1 of" in output
    )
    assert output.endswith("were declined by the model: they count as what the model did")


def test_replies_that_end_by_themselves_are_no_news(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evaluated([], reply("7"), tmp_path / "e", "--quiet")
    assert "replies" not in capsys.readouterr().out


@pytest.mark.parametrize("tools", ["native", "text"])
def test_the_model_is_told_that_its_reply_was_cut(tools: str, tmp_path: Path) -> None:
    """The next message begins with the notice, and the one after a whole reply does not; the server sees them."""
    script = [reply("I think it may be", "length"), reply("7"), reply("8")]
    server = evaluated(script, reply("9"), tmp_path / "e", "--tools", tools, "--turn-tokens", "99")
    conversations = [body["messages"] for body in server.bodies[:4]]
    notice = CUT.format(99)
    assert conversations[1][-1]["content"].startswith(notice) and conversations[1][-2]["content"] == "I think it may be"
    assert [notice in str(messages[-1]) for messages in conversations[:3]] == [False, True, False]


@pytest.mark.parametrize(("prompt", "noticed"), [("window", True), ("alfworld@verl-agent", False)])
def test_a_window_is_told_too_but_a_published_prompt_stays_as_it_is(prompt: str, noticed: bool, tmp_path: Path) -> None:
    script = [reply("I think it may be", "length"), reply("7"), reply("8")]
    flags = ["--agent", "window", "--prompt", prompt, "--turn-tokens", "99"]
    server = evaluated(script, reply("9"), tmp_path / "e", *flags)
    conversations = [str(body["messages"]) for body in server.bodies[:3]]
    notice = CUT.format(99)
    assert [notice in text for text in conversations] == [False, noticed, False]  # and not in the history of the third


def test_a_call_that_was_cut_is_told_in_its_result(tmp_path: Path) -> None:
    cut = {"id": "a", "type": "function", "function": {"name": "act", "arguments": '{"command": "1'}}
    answer = reply(None, "length", tool_calls=[cut])
    server = evaluated([answer], reply("9"), tmp_path / "e", "--turn-tokens", "99", "--tools", "native")
    result = server.bodies[1]["messages"][-1]
    assert result["role"] == "tool" and result["content"].startswith(CUT.format(99))


@pytest.mark.parametrize(
    ("flags", "expected"), [([], 4096), (["--turn-tokens", "77"], 77)], ids=["by the engine", "as the flag says"]
)
def test_the_limit_of_a_reply_follows_from_the_engine(flags: list[str], expected: int, tmp_path: Path) -> None:
    server = evaluated([], reply("7"), tmp_path / "e", *flags)
    assert {body["max_tokens"] for body in server.bodies} == {expected}


def test_the_rule_is_one_for_every_caller() -> None:
    class Silent:
        async def chat(self, *_: Any) -> Any: ...
        def abort(self, session: str) -> None: ...
        def close(self) -> None: ...

    assert (AgentSpec().reply_tokens, AgentSpec(messages=True).reply_tokens) == (256, 4096)
    assert AgentSpec(messages=True, turn_tokens=5).reply_tokens == 5
    assert agentgym.MessageAgent(Silent()).sampling.max_tokens == 4096
    assert agentgym.MessageAgent(Silent(), sampling=agentgym.Sampling(max_tokens=8)).sampling.max_tokens == 8
    with pytest.raises(agentgym.errors.BadConfig, match="turn_tokens is 0"):
        AgentSpec(turn_tokens=0)


def test_a_suite_of_short_episodes_cuts_no_thoughts(tmp_path: Path) -> None:
    with loopback.faulty([], then=reply("7")) as (server, url):
        main(["eval", "smoke", "--model", f"chat:{url}#m", "--tasks", "1", "--attempts", "1", "--out", str(tmp_path / "e")])
    assert {body["max_tokens"] for body in server.bodies} == {4096}


def turn(finish: str = "stop", **more: Any) -> Turn:
    return Turn("o", messages=[ASKED], finish=finish, **more)


def test_replies_are_counted_once_however_many_calls_they_make() -> None:
    calls = [turn("length", extra={"call": 0}), turn(extra={"call": 1}), turn(extra={"call": 2}), turn("filter")]
    split = [  # one reply over tokens, of which each call has its share
        turn(prompt_ids=[1, 2], output_ids=[3]),
        turn("length", prompt_ids=[1, 2, 3], output_ids=[4]),
        turn(prompt_ids=[1, 2, 3, 4, 9], output_ids=[5]),
    ]
    policy = [Turn("o", action="look")]
    episodes = [Episode("e", "t", "g", 0, turns=turns) for turns in (calls, split, policy)]
    assert finishes(episodes[:1]) == {"stop": 0, "length": 1, "filter": 1, "refusal": 0}
    assert sum(finishes(episodes[1:2]).values()) == 2 and sum(finishes(episodes[2:]).values()) == 0


def test_a_protocol_fixes_the_limit_so_that_no_flag_is_named() -> None:
    row = {"replies": 8, "finish": {"stop": 0.75, "length": 0.25}}
    options: dict[str, Any] = {"turn_tokens": 512, "suite": "s@p", "protocol": {}}
    assert cut_warning(row, options) == (
        "2 of 8 replies (25.0%) were cut by length (the limit is 512 tokens): protocol s@p fixes that limit"
    )


@pytest.mark.parametrize("row", [{}, {"replies": "8", "finish": {}}, {"replies": 8, "finish": {"length": "x"}}])
def test_a_damaged_summary_has_no_warning(row: dict[str, Any]) -> None:
    assert cut_warning(row, {}) == ""


def test_the_page_holds_what_was_played_with_and_the_reasoning(tmp_path: Path) -> None:
    """The page's script draws its head from these."""
    call = {"id": "a", "type": "function", "function": {"name": "act", "arguments": '{"command": "7"}'}}
    evaluated(
        [],
        reply(None, "tool_calls", tool_calls=[call], reasoning_content="in the middle"),
        tmp_path / "e",
        "--tools",
        "native",
    )
    page = (tmp_path / "e" / "report.html").read_text()
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    assert data["manifest"]["options"]["model"].endswith("#m") and data["manifest"]["sessions"][0]["started"]
    assert data["summary"]["usage"]["input"] == 9 * data["summary"]["replies"]
    turn = data["episodes"][0]["turns"][0]
    assert (turn["text"], turn["action"], turn["reasoning"], turn["advantage"]) == ("", "7", "in the middle", None)
