"""Bringing new weights to the engine; nothing computed under old ones is used again."""

import shutil
from pathlib import Path
from typing import Any

from agentgym.engines.hf import HFEngine


async def push(model: Any, tokenizer: Any, engine: Any, version: int, folder: Path) -> None:
    """Make the engine sample from the model's present weights, as policy version `version`.

    The engine in this process shares the trainer's tensors and only forgets its caches; any other is given a folder.
    """
    await engine.pause()
    if isinstance(engine, HFEngine) and engine.model is model:
        await engine.load_weights(model.named_parameters(), version)
    else:
        path = folder / "sync"
        shutil.rmtree(path, ignore_errors=True)
        model.save_pretrained(path)
        tokenizer.save_pretrained(path)
        await engine.load_weights(path, version)
    await engine.resume()


async def prove(server: Any, model: Any, tokenizer: Any) -> None:
    """Hold a server to the trainer's model: BadConfig unless it scores at temperature 0.7 as the model does."""
    if not server.accepted:
        await server.qualify(HFEngine(model, tokenizer, slots=1))
