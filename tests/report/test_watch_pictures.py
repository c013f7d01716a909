"""docs/watch_pictures.py makes the pictures of watch.md from runs."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from conftest import write_run  # pyright: ignore

SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "watch_pictures.py"


@pytest.mark.slow
def test_one_run_and_two_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("playwright", "PIL"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    spec = importlib.util.spec_from_file_location("watch_pictures", SCRIPT)
    assert spec and spec.loader
    script: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    if script.CHROMIUM is None:
        pytest.skip("needs a Chromium: apt install chromium")
    monkeypatch.setattr(script, "IMAGES", tmp_path)
    runs = [str(write_run(tmp_path / name, steps=30, each=8)) for name in ("a", "b")]
    from PIL import Image

    for name, folders, width in (("watch", runs[:1], 1120), ("watch_widths", runs, 1618)):
        script.main(folders)
        with Image.open(tmp_path / f"{name}.png") as made:
            assert abs(made.width - width) < 3 and made.height > 700
            assert len(made.convert("RGB").getcolors(1 << 20) or []) > 50  # not an empty page
