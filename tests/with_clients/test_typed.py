"""Output types of the real packages over the gateway: JSON of the schema is read, anything else is their own error."""

import json
import os
import subprocess
from pathlib import Path

import loopback
import pytest

from agentgym.engines.scripted import ByteTokenizer, ScriptedEngine
from agentgym.gateway import App, Gateway

CLIENTS = os.environ.get("AGENTGYM_CLIENTS", "")
pytestmark = pytest.mark.skipif(not CLIENTS, reason="the clients have an environment of their own: ./dev test-clients")
SCRIPT = Path(__file__).with_name("typed.py")


class BySession(ScriptedEngine):
    """Answers JSON in the session `good`, else text."""

    async def generate(self, prompt_ids, sampling, session, **options):
        self.now = '{"city": "Oslo"}' if session.startswith("good") else "Oslo, I think."
        return await super().generate(prompt_ids, sampling, session, **options)


def test_output_types_of_real_clients() -> None:
    engine = BySession(lambda prompt, turn: engine.now, ByteTokenizer())
    gateway = Gateway(engine, "m", temperature=1.0)
    with loopback.serving(App(gateway)) as url:
        done = subprocess.run([CLIENTS, str(SCRIPT), f"{url}/v1"], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [got["good"] for got in records] == [{"city": "Oslo"}] * 5, records
    assert all(isinstance(got["bad"], str) for got in records), records
    for session in ("good", "bad"):  # sampled freely: every reply is trained, the broken ones too
        turns = [turn for row in gateway.sessions.open[session].rows for turn in row]
        assert len(turns) >= 5 and all(turn.extra.get("train", True) for turn in turns)
        prompts = [gateway.template.encoder.decode(turn.prompt_ids) for turn in turns]
        assert sum("eply with one JSON object" in prompt for prompt in prompts) >= 5, prompts
    print("\n" + "\n".join(f"{got['way']}: {got['bad']}" for got in records))
