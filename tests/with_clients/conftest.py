"""The tiny models of tests/engines and the genuine templates of tests/agents, and a model taught to call a tool."""

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in ("engines", "agents")]

CALL = '<tool_call>\n{"name": "bash", "arguments": {"command": "%s"}}\n</tool_call><|im_end|>'
TOLD = "Look.\n```mswea_bash_command\n%s\n```\n"
COMMANDS = ("ls", "cat a", "ls src", "pwd")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch
    from taught import taught
    from test_native import SOURCES, SURVEY

    torch.set_num_threads(1)
    path = tmp_path_factory.mktemp("served") / "model"
    tokenizer = SURVEY.tokenizer_for(SOURCES["qwen2_5"])
    replies = [TOLD % command + CALL % command for command in COMMANDS]  # in either form
    taught(tokenizer, replies).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path
