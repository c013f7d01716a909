"""The real inspect_ai: its own evaluation plays our episodes with a model that is made up."""

from pathlib import Path

import pytest

pytest.importorskip("inspect_ai", reason="inspect_ai is not installed: ./dev test-integrations")
from inspect_ai import eval as evaluate
from inspect_ai.model import ModelOutput, ModelUsage, get_model

import agentgym
from agentgym.integrations.inspect_ai import KEY, environment_task

ENV = "rlvr/GuessNumber-v0"


def test_its_evaluation_plays_our_episodes(tmp_path: Path) -> None:
    tasks = agentgym.make(ENV).tasks(2, "test")
    secret = tasks[0].data["secret"]

    def says(messages, tools, tool_choice, config):
        turns = sum(message.role == "assistant" for message in messages)
        output = ModelOutput.from_content("mockllm/model", f"<action>{'hm' if turns == 0 else secret}</action>")
        output.usage = ModelUsage(input_tokens=3, output_tokens=2, total_tokens=5)  # else it fetches a tokenizer to count
        return output

    made = environment_task(ENV, split="test", tasks=2, horizon=3)
    (log,) = evaluate(
        made, model=get_model("mockllm/model", custom_outputs=says), log_dir=str(tmp_path), display="none", epochs=2
    )
    assert log.status == "success", log.error.message
    assert log.results.scores[0].metrics["accuracy"].value == 0.5
    for sample in log.samples:
        metadata = sample.metadata[KEY]
        won = sample.id == tasks[0].id
        assert (metadata["success"], metadata["reason"]) == (won, "success" if won else "horizon")
        assert (
            metadata["turns"] == (2 if won else 3)
            and metadata["invalid"] == 1
            and len(metadata["turn_rewards"]) == metadata["turns"]
        )
        assert sample.scores["success"].value == int(won)
        assert [message.role for message in sample.messages[-2:]] == ["user", "assistant"]
