"""Names of models: what a bare one should have been."""

from pathlib import Path

import pytest

pytest.importorskip("httpx2", reason="the extra `api` is not installed")

import agentgym
from agentgym.cli import main
from agentgym.engines.kinds import kind_of
from agentgym.errors import BadConfig, UnknownName


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("openai:gpt-5", "chat:openai/gpt-5"),
        ("anthropic:claude-x", "chat:anthropic/claude-x"),
        ("openrouter:a/b", "chat:openrouter/a/b"),
        ("together:a/b", "chat:together/a/b"),
        ("http://localhost:8000/v1", "chat:http://localhost:8000/v1#MODEL"),
        ("https://h/v1#m", "chat:https://h/v1#m"),
        ("gpt-5", "chat:openai/gpt-5"),
        ("gpt-5", "chat:URL#MODEL"),
        ("OWNER/NAME", "chat:openrouter/OWNER/NAME"),
        ("openai/gpt-5", "A model of its API is chat:openai/gpt-5"),
        ("anthropic/claude-x", "A model of its API is chat:anthropic/claude-x"),
        ("chat:gpt-5", "chat:openai/NAME"),
        ("chat:groq/llama", "chat:anthropic/NAME"),
        ("claude:opus", "chat:anthropic/opus"),
    ],
)
def test_every_failure_of_a_bare_name_says_the_form(
    name: str, form: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # no hub
    assert main(["eval", "guessnumber", "--model", name, "--out", str(tmp_path / "e")]) == 2
    assert form in capsys.readouterr().err.replace("\n", " ")
    with pytest.raises((BadConfig, UnknownName)):
        agentgym.engine(name)


def test_what_is_a_hub_id_stays_one() -> None:
    assert kind_of("hf:OWNER/NAME")[0].name == "hf"
    assert kind_of("chat:anthropic/x")[0].extra == "anthropic" and kind_of("chat:openai/x")[0].extra == "api"
