"""The bash-only agent against the real mini-swe-agent: the same outputs shown, the same commands read."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from agentgym.agents.prompt import load_prompt
from agentgym.core.actions import Call, Tool, parse_call
from agentgym.envs.swe.views import SUBMITTED, formatted_output

CLIENTS = os.environ.get("AGENTGYM_CLIENTS", "")
pytestmark = pytest.mark.skipif(not CLIENTS, reason="the clients have an environment of their own: ./dev test-clients")
OUTPUTS = [
    ("", 0, ""),
    ("a\nb\n", 1, ""),
    ("no newline", 127, ""),
    ("x" * 9_999, 0, ""),
    ("x" * 10_000, 0, ""),
    ("a" * 9_000 + "\n" + "b" * 9_000 + "\n", 2, ""),
    ("before\n", -1, "it took too long"),
    ("y" * 20_000, -1, "it took too long"),
]
REPLIES = [
    "THOUGHT: so\n\n```mswea_bash_command\nls -la\n```\n",
    "```mswea_bash_command\ncat <<'EOF' > a\n]\n```\nb\nEOF\n```",
    "```mswea_bash_command  \n  ls  \n\n```",
    "```mswea_bash_command\nls\n```\n```mswea_bash_command\npwd\n```",
    "```bash\nls\n```",
    "```mswea_bash_command ls```",
    "nothing",
    "```mswea_bash_command\n\n```",
    "before ```mswea_bash_command\nls\n``` after",
]
BASH = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}


def test_outputs_and_replies() -> None:
    outputs = [{"output": text, "returncode": code, "exception_info": ended} for text, code, ended in OUTPUTS]
    lines = [json.dumps(one) for one in [*outputs, *({"reply": reply} for reply in REPLIES)]]
    script = str(Path(__file__).parent / "mini_swe_forms.py")
    done = subprocess.run(
        [CLIENTS, script], input="\n".join(lines), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    *rendered, templates = [json.loads(line) for line in done.stdout.splitlines()]
    for (text, code, ended), theirs in zip(OUTPUTS, rendered, strict=False):
        assert formatted_output(text, code, ended) == theirs
    form = load_prompt("mini-swe")
    for reply, theirs in zip(REPLIES, rendered[len(OUTPUTS) :], strict=True):
        parsed = form.reply.parse(reply, {"bash": Tool("bash", "", BASH)})
        call = parse_call(parsed.action, {"bash": Tool("bash", "", BASH)}) if parsed.has_action else None
        assert (call.arguments["command"] if isinstance(call, Call) else None) == theirs, reply
    system, first = templates
    assert "".join(form.system.pieces).strip() == system.strip()
    known = {line.strip() for line in first.splitlines()}
    ours = {line.strip() for line in form.first.pieces[2].splitlines()}
    assert not {line for line in ours - known if line}  # theirs, with words about macOS and the system left out
    assert SUBMITTED in first
