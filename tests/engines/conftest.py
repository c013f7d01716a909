"""Models of this size are fastest on one thread, and tests run side by side; what the tests of several engines share."""

from pathlib import Path

import pytest
import tiny
import torch

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two models of one shape."""
    return tiny.folder(tmp_path_factory.mktemp("a")), tiny.folder(tmp_path_factory.mktemp("b"), seed=1)


@pytest.fixture
def quick_fleet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fleet that looks after its servers twenty times a second."""
    monkeypatch.setattr("agentgym.engines.fleet.fleet._BEAT", 0.05)
