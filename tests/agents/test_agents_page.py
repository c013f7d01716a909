"""What docs/guides/agents.md says is so."""

import re
from pathlib import Path

import pytest

import agentgym
from agentgym.agents.prompt import FIELDS, FOLDER, load_prompt
from agentgym.agents.token_agent import option_names
from agentgym.agents.tool_calls import FAMILIES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "agents.md").read_text(encoding="utf-8")


def test_the_program_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (program,) = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "import agentgym" in block]
    (tmp_path / "replies.jsonl").write_text('"look"\n')
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(program, names)
    assert len(names["episodes"]) == 10  # type: ignore[arg-type]


def test_options_of_the_table_are_the_options() -> None:
    section = PAGE.partition("Options of `ChatAgent`")[2].partition("## ")[0]
    listed = set(re.findall(r"^\| `(\w+)`", section, re.MULTILINE))
    assert listed == {"tokenizer", *option_names(agentgym.ChatAgent)}


def test_prompts_fields_and_reply_forms_are_listed() -> None:
    for field in FIELDS:
        assert f"`{{{field}}}`" in PAGE
    for file in FOLDER.glob("*.txt"):
        (form,) = re.findall(rf"^\| `{file.stem}` \|.*\| `([^`]+)` \|$", PAGE, re.MULTILINE)
        reply = load_prompt(file.stem).reply
        names = [reply.tag] if reply.kind in ("tag", "block") else reply.until
        words = [*(["think"] if reply.think else []), reply.kind, *names]
        assert form.split() == words


def test_every_family_of_tool_calls_is_listed() -> None:
    section = PAGE.partition("## Native tool calls")[2].partition("## ")[0]
    assert set(re.findall(r"^\| `([\w-]+)`", section, re.MULTILINE)) == set(FAMILIES)


def test_every_agent_is_listed() -> None:
    from agentgym.agents import EXPORTS

    for name in EXPORTS:
        assert f"`{name}" in PAGE, name
        assert getattr(agentgym, name).__name__ == name
