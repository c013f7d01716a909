"""Which Chromium is used."""

import sys
from pathlib import Path

import pytest

from agentgym.browser.chromium import _shells, chromium, needed
from agentgym.errors import MissingExtra


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which no browser is installed, not even Playwright's."""
    monkeypatch.delenv("AGENTGYM_CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(sys.modules[chromium.__module__], "_own", lambda: None)
    return tmp_path


def test_the_order_of_what_is_found(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert chromium() is None
    for name in ("google-chrome", "chromium", "chromium-headless-shell"):  # each goes before those that are there
        found = program(bare / "bin" / name)
        assert chromium() == str(found)
    chromium_path = program(bare / "mine")
    monkeypatch.setenv("AGENTGYM_CHROMIUM", str(chromium_path))
    assert chromium() == str(chromium_path)


def test_none_is_one_sentence_and_what_to_do(bare: Path) -> None:
    with pytest.raises(
        MissingExtra, match=r"needs a Chromium and found none \(looked for: .*chromium-headless-shell, chromium"
    ):
        needed("rlvr/Web-v0")


@pytest.mark.parametrize("shell", ["chrome-headless-shell-linux64/chrome-headless-shell", "chrome-linux/headless_shell"])
def test_playwrights_shell_of_the_same_revision(tmp_path: Path, shell: str) -> None:
    browser = program(tmp_path / "chromium-1300" / "chrome-linux64" / "chrome")
    assert _shells(browser) == []
    program(tmp_path / "chromium_headless_shell-1299" / shell)
    assert _shells(browser) == []
    found = program(tmp_path / "chromium_headless_shell-1300" / shell)
    assert _shells(browser) == [found]
