"""A tiny model taught to give one of a few replies, so that agents of others have something to go on with."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tiny
import torch

from agentgym.trainers.learners.optimizers import optimizers

PROSE = Path(__file__).parents[1] / "with_clients" / "prose.txt"  # what it learns depends on it


def taught(tokenizer: Any, replies: Sequence[str], context: int = 8192) -> Any:
    """Return a model that mostly gives one of the replies wherever the assistant's turn is opened."""
    model = tiny.model(vocab_size=len(tokenizer), max_position_embeddings=context, tie_word_embeddings=True)
    for parameter in model.parameters():  # what tests of engines begin with is too wild to learn from quickly
        torch.nn.init.normal_(parameter, std=0.1) if parameter.dim() == 2 else torch.nn.init.ones_(parameter)
    encoded = [tokenizer.encode(reply, add_special_tokens=False) for reply in replies]
    opened = tokenizer.encode("<|im_end|>\n<|im_start|>assistant\n", add_special_tokens=False)
    prose = tokenizer.encode(PROSE.read_text() * 3, add_special_tokens=False)
    used = optimizers(model, 2e-3, muon=True)
    draw = torch.Generator().manual_seed(0)
    for step in range(400):
        far = step >= 60 and step % 3 == 0  # as far in as in a real conversation
        before = int(torch.randint(300, 4000, (), generator=draw)) if far else 40
        start = int(torch.randint(len(prose) - before, (), generator=draw))
        chosen = [encoded[step // 3 % len(encoded)]] if far else encoded
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
