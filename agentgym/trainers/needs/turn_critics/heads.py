"""Building blocks of turn critics: small networks that can be saved in checkpoints."""

# torch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import io
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


class Head(nn.Module):
    """Maps a vector to a number through `hidden` ReLU units, or linearly if `hidden` is 0; the initial output is 0."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        last = nn.Linear(hidden or width, 1)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.layers = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), last) if hidden else nn.Sequential(last)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return one number per row, [rows], for inputs [rows, width]."""
        return self.layers(inputs).squeeze(-1)


class SavedCritic(nn.Module):
    """A critic whose weights and optimizer are saved as bytes, so that all processes can load the same state."""

    optimizer: torch.optim.Optimizer

    def saved(self) -> bytes:
        """Return the weights and the optimizer's state as bytes, for the checkpoint."""
        file = io.BytesIO()
        torch.save({"weights": self.state_dict(), "optimizer": self.optimizer.state_dict()}, file)
        return file.getvalue()

    def load(self, content: bytes) -> None:
        """Restore the weights and the optimizer's state from the bytes that `saved` returned."""
        saved: dict[str, Any] = torch.load(io.BytesIO(content), weights_only=True)
        self.load_state_dict(saved["weights"])
        self.optimizer.load_state_dict(saved["optimizer"])


@contextmanager
def seeded(seed: int) -> Generator[None]:
    """Seed PyTorch's random numbers inside the block, and restore the global random state afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
