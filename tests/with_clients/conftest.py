"""The tiny models of tests/engines and the genuine templates of tests/agents, and a model taught to call a tool."""

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in ("engines", "agents")]

CALL = '<tool_call>\n{"name": "bash", "arguments": {"command": "%s"}}\n</tool_call><|im_end|>'
TOLD = "Look.\n```mswea_bash_command\n%s\n```\n"
COMMANDS = ("ls", "cat a", "ls src", "pwd")
HERE = Path(__file__).parent


def taught(tokenizer: Any) -> Any:
    """Return a tiny model that mostly says one of a few calls, so that clients have something to go on with."""
    import tiny
    import torch

    from agentgym.trainers.optim.optimizers import optimizers

    model = tiny.model(vocab_size=len(tokenizer), max_position_embeddings=8192, tie_word_embeddings=True)
    for parameter in model.parameters():  # what tests of engines begin with is too wild to learn from quickly
        torch.nn.init.normal_(parameter, std=0.1) if parameter.dim() == 2 else torch.nn.init.ones_(parameter)
    replies = [tokenizer.encode(TOLD % c + CALL % c, add_special_tokens=False) for c in COMMANDS]  # in either form
    opened = tokenizer.encode("<|im_end|>\n<|im_start|>assistant\n", add_special_tokens=False)
    prose = tokenizer.encode((HERE / "prose.txt").read_text() * 3, add_special_tokens=False)  # what it learns depends on it
    used = optimizers(model, 2e-3, muon=True)
    draw = torch.Generator().manual_seed(0)
    for step in range(400):
        far = step >= 60 and step % 3 == 0  # as far in as in a real conversation
        before = int(torch.randint(300, 4000, (), generator=draw)) if far else 40
        start = int(torch.randint(len(prose) - before, (), generator=draw))
        chosen = [replies[step // 3 % len(replies)]] if far else replies
        rows = [[*prose[start : start + before], *opened, *reply] for reply in chosen]
        longest = max(map(len, rows))
        ids = torch.tensor([[0] * (longest - len(row)) + row for row in rows])
        labels = ids.clone()
        for place, reply in enumerate(chosen):
            labels[place, : longest - len(reply)] = -100
        loss = model(ids, labels=labels).loss
        loss.backward()
        for optimizer in used:
            optimizer.step()
            optimizer.zero_grad()
    return model.eval()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch
    from test_native import SOURCES, SURVEY

    torch.set_num_threads(1)
    path = tmp_path_factory.mktemp("served") / "model"
    tokenizer = SURVEY.tokenizer_for(SOURCES["qwen2_5"])
    taught(tokenizer).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path
