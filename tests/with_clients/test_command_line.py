"""Claude Code and Codex, as npm installs them, at a small task through the gateway: they write a file that they are told to.

A script stands in for the model: what is looked at is that the programs take its calls and that every token is held.
"""

import os
import subprocess
from pathlib import Path
from typing import Any

import loopback
import pytest
from native_talks import SOURCES, SURVEY

from agentgym.agents.tool_calls import FAMILIES
from agentgym.core.actions import Call
from agentgym.engines.scripted import ScriptedEngine
from agentgym.gateway import App, Gateway
from agentgym.trainers.data.segments import build

FOLDER = Path(os.environ.get("AGENTGYM_AGENTS", "none")).absolute()


def call(name: str, **arguments: Any) -> str:
    return "".join(FAMILIES["hermes"].write(Call(name, arguments)))


def claude(url: str, key: str, home: Path) -> tuple[list[str], dict[str, str]]:
    words = ["claude", "-p", "--model", "policy", "--dangerously-skip-permissions"]
    names = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": key, "ANTHROPIC_SMALL_FAST_MODEL": "policy"}
    return words, {**names, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "IS_SANDBOX": "1"}  # it may be root here


def codex(url: str, key: str, home: Path) -> tuple[list[str], dict[str, str]]:
    provider = {"name": "gym", "base_url": f"{url}/v1", "env_key": "GYM_KEY", "wire_api": "responses"}
    settings = {"model_provider": "gym", "web_search": "disabled"}
    settings |= {f"model_providers.gym.{name}": value for name, value in provider.items()}
    words = ["codex", "exec", "--skip-git-repo-check", "--sandbox", "danger-full-access", "-m", "policy"]
    words += ["--disable", "multi_agent", "--disable", "goals"]  # whose tools OpenAI's own models know
    words += [word for name, value in settings.items() for word in ("-c", f'{name}="{value}"')]
    return words, {"GYM_KEY": key, "CODEX_HOME": str(home)}


AGENTS: dict[str, Any] = {
    "claude": (
        claude,
        [call("Bash", command="ls", description="Look"), call("Write", file_path="answer.txt", content="42\n")],
    ),
    "codex": (codex, [call("exec_command", cmd="ls"), call("exec_command", cmd="echo 42 > answer.txt")]),
}


@pytest.mark.parametrize("name", AGENTS)
def test_a_command_line_agent_writes_a_file(name: str, tmp_path: Path) -> None:
    if not (FOLDER / name).exists():
        pytest.skip(f"{name} is not here: ./dev test-clients installs it where there is npm")
    command, (first, second) = AGENTS[name]
    replies = iter([f"I will look.\n{first}", second])
    engine = ScriptedEngine(lambda prompt, turn: next(replies, "Done."), SURVEY.tokenizer_for(SOURCES["qwen2_5"]))
    gateway = Gateway(engine, "policy")
    app = App(gateway, key="secret")
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    with loopback.serving(app) as url:
        words, names = command(url, app.session_key("attempt"), home)
        environment = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", **names}
        line = [str(FOLDER / words[0]), *words[1:], "Write 42 into answer.txt"]
        done = subprocess.run(
            line,
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert done.returncode == 0 and "Done." in done.stdout, (done.stdout[-2000:], done.stderr[-2000:])
    assert (work / "answer.txt").read_text() == "42\n"
    session = gateway.sessions.open["attempt"]
    counts = session.counts()
    assert counts["turns"] == 3 and counts["rows"] == 1 and counts["drifted_tokens"] == 0
    (row,) = build([session.episode(1.0, True)])
    assert row.trained == counts["output_tokens"]
    print(f"\n{name}: {counts}")
