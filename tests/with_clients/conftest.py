"""Tiny models, genuine templates, and a model taught to call a tool."""

from pathlib import Path

import pytest

CALL = '<tool_call>\n{"name": "bash", "arguments": {"command": "%s"}}\n</tool_call><|im_end|>'
TOLD = "Look.\n```mswea_bash_command\n%s\n```\n"
COMMANDS = ("ls", "cat a", "ls src", "pwd")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch
    from native_talks import SOURCES, SURVEY
    from taught import taught

    torch.set_num_threads(1)
    path = tmp_path_factory.mktemp("served") / "model"
    tokenizer = SURVEY.tokenizer_for(SOURCES["qwen2_5"])
    replies = [TOLD % command + CALL % command for command in COMMANDS]  # in either form
    taught(tokenizer, replies).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path
