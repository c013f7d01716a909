"""browser-use's newest release at `rlvr/Web-v0` over CDP, asking the gateway."""

import json
from typing import Any

import browsing
import loopback
from native_talks import SOURCES, SURVEY

import agentgym
from agentgym.engines.scripted import ScriptedEngine
from agentgym.gateway import App, Gateway
from agentgym.harness.gateway_agent import Access


def test_a_task_is_solved_through_the_gateway() -> None:
    """A script stands in for the model: it opens a page of our sites, and gives the right answer."""
    task = next(task for task in agentgym.make(browsing.ENV).tasks(40) if task.data["answers"])
    (answer, *_) = task.data["answers"]
    replies: list[Any] = [[{"navigate": {"url": "http://shop.test/", "new_tab": False}}]]
    replies.append([{"done": {"text": str(answer), "success": True}}])
    texts = iter(json.dumps({"memory": "", "action": action}) for action in replies)
    engine = ScriptedEngine(lambda prompt, turn: next(texts), SURVEY.tokenizer_for(SOURCES["qwen2_5"]))
    gateway = Gateway(engine, "policy", temperature=1.0)
    app = App(gateway, key="secret")
    with loopback.serving(app) as url:
        access = Access(f"{url}/v1", app.session_key("one"), "policy")
        record, right = browsing.attempt(task, access, 400, 4)
    assert record["errors"] == [] and record["steps"] == 2, record
    turns = [turn for row in gateway.sessions.open["one"].rows for turn in row]
    prompts = [gateway.template.encoder.decode(turn.prompt_ids) for turn in turns]
    assert "shop.test" in prompts[1] and "JSON Schema" in prompts[0]
    counts = gateway.sessions.open["one"].counts()
    print(f"\n{counts}, right: {right}, answers {task.data['answers']!r:.80}")
    assert counts["turns"] == 2 and counts["drifted_tokens"] == 0
    assert right
